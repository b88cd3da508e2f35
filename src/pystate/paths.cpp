// Places in words.
#include <fmt/format.h>

#include "pystate/facts.h"
#include "pystate/interpreter.h"

namespace fulgurite::pystate {
namespace {

constexpr int kLongestPath = 40;
constexpr size_t kLongestText = 80;

std::string utf8(PyObject* string) {
  const char* text = string && PyUnicode_Check(string) ? PyUnicode_AsUTF8(string) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "?";
}

std::string type_name(PyTypeObject* type) {
  std::string_view name = type->tp_name;
  return std::string(name.substr(name.rfind('.') + 1));
}

// The name of the variable that a part of a function is.
std::string variable_name(PyObject* function, Py_ssize_t part) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  Ref names = Ref::steal(PyCode_GetFreevars(code));
  PyObject* name = names ? PyTuple_GetItem(names.get(), part - 2) : nullptr;
  PyErr_Clear();
  return utf8(name);
}

class Path {
 public:
  explicit Path(const Facts& facts) : facts_(facts) {}

  std::string object(PyObject* object) {
    const Holder* holder = facts_.holder_of(object);
    if (depth_++ > kLongestPath || !holder) return "an object";
    if (holder->root >= 0) return facts_.root_names[static_cast<size_t>(holder->root)];
    PyObject* alive = facts_.alive(*holder);
    if (alive && PyType_Check(alive)) return type_name(reinterpret_cast<PyTypeObject*>(alive));
    if (holder->parent >= 0)
      return found_at(facts_.facts[static_cast<size_t>(holder->parent)], object);
    if (alive && PyModule_Check(alive)) return type_name_of_module(alive);
    if (alive && PyFunction_Check(alive)) return function_name(alive);
    if (alive && PyCFunction_Check(alive))
      return reinterpret_cast<PyCFunctionObject*>(alive)->m_ml->ml_name;
    return "a " + type_name(holder->type);
  }

  std::string place(const Fact& fact) { return place(fact.kind, fact.container, fact.key.get()); }

  std::string place(Kind kind, PyObject* container, PyObject* key) {
    switch (kind) {
      case Kind::Key:
        return key_of(container, key);
      case Kind::Item:
        return object(container) + "[" + short_repr(key) + "]";
      case Kind::Length:
        return "len(" + object(container) + ")";
      case Kind::Present:
      case Kind::Member:
        return short_repr(key) + " in " + object(container);
      case Kind::TypeAttribute:
      case Kind::TypeEntry:
      case Kind::Slot:
        return object(container) + "." + utf8(key);
      case Kind::Specials:
        return "the special methods of " + object(container);
      case Kind::Bases:
        return "the bases of " + object(container);
      case Kind::Class:
        return "the class of " + object(container);
      case Kind::Function:
        return "the code or defaults of " + object(container);
      case Kind::Part:
        return part_of_object(container, key);
      case Kind::ContextVar:
        return "the context variable " + object(container);
      case Kind::Referent:
        return "the object behind " + object(container);
      case Kind::Buffer:
        return "the data of " + object(container);
      case Kind::Answer:
        return object(container) + (PyTuple_Check(key) ? short_repr(key) : "(...)");
      case Kind::Registrations:
        return "the registrations of abstract classes";
      case Kind::InstanceDict:
      case Kind::Contents:
      case Kind::Appended:
      case Kind::Cell:
        return object(container);
    }
    return object(container);
  }

 private:
  static std::string type_name_of_module(PyObject* module) {
    const char* name = PyModule_GetName(module);
    if (!name) PyErr_Clear();
    return name ? name : "a module";
  }

  static std::string function_name(PyObject* function) {
    return utf8(reinterpret_cast<PyFunctionObject*>(function)->func_qualname);
  }

  // Where an object was found that is in the place, or is one of the elements in it.
  std::string found_at(const Fact& fact, PyObject* object) {
    if (fact.kind != Kind::Contents) return place(fact);
    const Holder* holder = facts_.holder_of(fact.container);
    bool dict = holder && PyType_IsSubtype(holder->type, &PyDict_Type);
    for (size_t i = 0; i < fact.elements.size(); i++) {
      if (fact.elements[i].object() != object) continue;
      if (!dict) return fmt::format("{}[{}]", place(fact), i);
      PyObject* key = i % 2 ? fact.elements[i - 1].alive() : nullptr;
      if (key) return key_of(fact.container, key);
    }
    return place(fact);
  }

  // The module whose children (parameters, buffers) the dict holds, or null.
  PyObject* module_of(const Fact* parent) {
    if (!parent || parent->kind != Kind::Key || !PyUnicode_Check(parent->key.get())) return nullptr;
    std::string name = utf8(parent->key.get());
    if (name != "_modules" && name != "_parameters" && name != "_buffers") return nullptr;
    const Holder* holder = facts_.holder_of(parent->container);
    return holder && holder->slot ? facts_.facts[static_cast<size_t>(holder->parent)].container
                                  : nullptr;
  }

  std::string key_of(PyObject* dict, PyObject* key) {
    const Holder* holder = facts_.holder_of(dict);
    const Fact* parent = holder && holder->parent >= 0
                             ? &facts_.facts[static_cast<size_t>(holder->parent)]
                             : nullptr;
    bool named = PyUnicode_Check(key);
    if (parent && parent->kind == Kind::InstanceDict && named)
      return object(parent->container) + "." + utf8(key);
    if (PyObject* module = named ? module_of(parent) : nullptr) {
      std::string name = utf8(key);
      bool number = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
      return object(module) + (number ? "[" + name + "]" : "." + name);
    }
    // A part of a function: its globals, or the builtins.
    if (parent && parent->kind == Kind::Part && named && holder->slot == nullptr &&
        PyLong_AsLong(parent->key.get()) < 2)
      return utf8(key);
    return object(dict) + "[" + short_repr(key) + "]";
  }

  std::string part_of_object(PyObject* container, PyObject* key) {
    const Holder* holder = facts_.holder_of(container);
    PyObject* alive = holder ? facts_.alive(*holder) : nullptr;
    Py_ssize_t part = PyLong_AsSsize_t(key);
    if (!alive || !PyFunction_Check(alive)) return object(container);
    if (part < 2) return "the globals of " + object(container);
    return variable_name(alive, part);
  }

  const Facts& facts_;
  int depth_ = 0;
};

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::Key:
      return "key";
    case Kind::Contents:
      return "contents";
    case Kind::Length:
      return "length";
    case Kind::Present:
      return "presence";
    case Kind::Member:
      return "member";
    case Kind::Item:
      return "item";
    case Kind::TypeAttribute:
      return "class attribute";
    case Kind::TypeEntry:
      return "class entry";
    case Kind::Specials:
      return "special methods";
    case Kind::Bases:
      return "bases";
    case Kind::Class:
      return "class";
    case Kind::InstanceDict:
      return "instance dict";
    case Kind::Part:
      return "part";
    case Kind::Function:
      return "function";
    case Kind::Cell:
      return "variable";
    case Kind::Slot:
      return "slot";
    case Kind::ContextVar:
      return "context variable";
    case Kind::Referent:
      return "referent";
    case Kind::Buffer:
      return "buffer";
    case Kind::Answer:
      return "answer";
    case Kind::Registrations:
      return "registrations";
    case Kind::Appended:
      return "appended";
  }
  return "?";
}

std::string short_repr(PyObject* value) {
  if (!value) return "absent";
  if (PyType_Check(value)) return "class " + type_name(reinterpret_cast<PyTypeObject*>(value));
  if (!is_constant(value)) return "a " + type_name(Py_TYPE(value));
  Ref text = Ref::steal(PyObject_Repr(value));
  std::string result = utf8(text.get());
  PyErr_Clear();
  if (result.size() > kLongestText) result = result.substr(0, kLongestText) + "...";
  return result;
}

std::string Facts::path_of(PyObject* object) const { return Path(*this).object(object); }

std::string Facts::path_of(const Fact& fact) const { return Path(*this).place(fact); }

std::string Facts::place_of(Kind kind, PyObject* container, PyObject* key) const {
  return Path(*this).place(kind, container, key);
}

std::string Facts::explain(const Fact& fact) const {
  std::string place = path_of(fact);
  switch (fact.kind) {
    case Kind::Contents:
    case Kind::Specials:
    case Kind::Bases:
    case Kind::Function:
    case Kind::Buffer:
    case Kind::Registrations:
    case Kind::InstanceDict:
      return place + " changed";
    default:
      break;
  }
  Ref now = value_at(fact.kind, fact.container, fact.key.get());
  for (const Question& question : fact.questions)
    if (now && is_plain_number(now.get()) && !has_same_answer(question, now.get()))
      return fmt::format("{} was {}, is now {}", text_of(question, place),
                         question.answer ? "True" : "False", question.answer ? "False" : "True");
  PyObject* before = fact.value.object() ? fact.value.alive() : nullptr;
  bool was_absent = !fact.value.object();
  std::string then = was_absent ? "absent" : before ? short_repr(before) : "another object";
  std::string after = short_repr(now.get());
  if (then == after) return place + " was replaced";
  return fmt::format("{} was {}, is now {}", place, then, after);
}

GuardDescription Facts::describe(const Fact& fact) const {
  GuardDescription result{name_of(fact.kind), path_of(fact), "", 0};
  if (auto* code = reinterpret_cast<PyCodeObject*>(fact.code.get())) {
    result.file = utf8(code->co_filename);
    result.line = PyCode_Addr2Line(code, fact.instruction * static_cast<int>(sizeof(_Py_CODEUNIT)));
  }
  return result;
}

}  // namespace fulgurite::pystate
