#include "pystate/callees.h"

#include <c10/util/flat_hash_map.h>

#include <string>
#include <string_view>

#include "pystate/call_handlers.h"
#include "pystate/callee_rows.h"
#include "pystate/interpreter.h"
#include "pystate/ref.h"
#include "pystate/values.h"

namespace fulgurite::pystate {
namespace {

Ref import_owner(std::string_view path) {
  Ref module = Ref::steal(PyImport_ImportModule(std::string(path).c_str()));
  if (module) return module;
  PyErr_Clear();
  size_t dot = path.rfind('.');
  if (dot == path.npos) return Ref();
  Ref outer = import_owner(path.substr(0, dot));
  Ref owner = Ref::steal(
      outer ? PyObject_GetAttrString(outer.get(), std::string(path.substr(dot + 1)).c_str())
            : nullptr);
  PyErr_Clear();
  return owner;
}

// What tells a callee from all others: the C function behind all the objects that call it.
const void* identity_of(PyObject* callable) {
  if (PyCFunction_Check(callable)) return reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  PyTypeObject* type = Py_TYPE(callable);
  if (type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type)
    return reinterpret_cast<PyMethodDescrObject*>(callable)->d_method;
  if (type == &PyStaticMethod_Type) {
    PyObject* inner = part_of(callable, 0);
    return inner ? identity_of(inner) : nullptr;
  }
  if (is_bound_slot(callable)) return bound_slot(callable).descriptor;
  if (type == &PyWrapperDescr_Type || PyType_Check(callable)) return callable;
  return nullptr;
}

class Table {
 public:
  Table() {
    for (const CalleeRow& row : builtin_callees()) add(row);
    for (const CalleeRow& row : library_callees()) add(row);
    for (const CalleeRow& row : callable_types()) add_instances(row);
  }

  const Callee* find(PyObject* callable) const {
    auto found = callees_.find(identity_of(callable));
    return found == callees_.end() ? nullptr : &found->second;
  }
  const Callee* find_instances(PyTypeObject* type) const {
    auto found = instances_.find(type);
    return found == instances_.end() ? nullptr : &found->second;
  }
  void allow(PyObject* callable) {
    Py_INCREF(callable);  // for good, so that its address stays its own
    if (const void* identity = identity_of(callable))
      callees_[identity] = {handlers::nothing, Handed::Reads};
  }
  void allow_instances(PyTypeObject* type) {
    Py_INCREF(type);
    instances_[type] = {handlers::calls_target, Handed::Reads};
  }

 private:
  template <class F>
  static void for_each_name(std::string_view names, F&& f) {
    while (!names.empty()) {
      size_t end = std::min(names.find(' '), names.size());
      f(std::string(names.substr(0, end)));
      names.remove_prefix(std::min(end + 1, names.size()));
    }
  }

  void put(PyObject* callable, const CalleeRow& row) {
    const void* identity = identity_of(callable);
    if (!identity) return;
    if (!row.handler) return (void)callees_.erase(identity);
    callees_[identity] = {row.handler, row.handed};
    Py_INCREF(callable);  // for good, so that its address stays its own
  }

  // All members whose names begin with `prefix`.
  void add_all(PyObject* owner, std::string_view prefix, const CalleeRow& row) {
    if (PyType_Check(owner)) {
      PyObject *name, *value;
      PyObject* members = reinterpret_cast<PyTypeObject*>(owner)->tp_dict;
      for (Py_ssize_t at = 0; PyDict_Next(members, &at, &name, &value);)
        if (begins_with(name, prefix)) put(value, row);
      return;
    }
    Ref names = Ref::steal(PyObject_Dir(owner));
    for (Py_ssize_t i = 0; names && i < PyList_GET_SIZE(names.get()); i++) {
      if (!begins_with(PyList_GET_ITEM(names.get(), i), prefix)) continue;
      Ref member = Ref::steal(PyObject_GetAttr(owner, PyList_GET_ITEM(names.get(), i)));
      PyErr_Clear();
      if (!member) continue;
      bool type = PyType_Check(member.get());  // a module may show types that are not its own
      if (PyCFunction_Check(member.get()) || (type && is_own(owner, member.get())))
        put(member.get(), row);
    }
  }

  static bool begins_with(PyObject* name, std::string_view prefix) {
    return std::string_view(PyUnicode_AsUTF8(name)).substr(0, prefix.size()) == prefix;
  }

  static bool is_own(PyObject* module, PyObject* type) {
    Ref own = Ref::steal(PyObject_GetAttrString(module, "__name__"));
    Ref made = Ref::steal(PyObject_GetAttrString(type, "__module__"));
    PyErr_Clear();
    return own && made && PyObject_RichCompareBool(own.get(), made.get(), Py_EQ) == 1;
  }

  void add(const CalleeRow& row) {
    Ref owner = import_owner(row.owner);
    if (!owner) return;
    for_each_name(row.names, [&](const std::string& name) {
      if (name.back() == '*')
        return add_all(owner.get(), std::string_view(name).substr(0, name.size() - 1), row);
      PyObject* own =
          PyType_Check(owner.get())
              ? PyDict_GetItemString(((PyTypeObject*)owner.get())->tp_dict, name.c_str())
              : nullptr;
      Ref member =
          own ? Ref::borrow(own) : Ref::steal(PyObject_GetAttrString(owner.get(), name.c_str()));
      PyErr_Clear();
      if (member) put(member.get(), row);
    });
  }

  void add_instances(const CalleeRow& row) {
    Ref owner = import_owner(row.owner);
    if (!owner) return;
    for_each_name(row.names, [&](const std::string& name) {
      Ref type = Ref::steal(PyObject_GetAttrString(owner.get(), name.c_str()));
      PyErr_Clear();
      if (type && PyType_Check(type.get()))
        instances_[(PyTypeObject*)type.release()] = {row.handler, row.handed};
    });
  }

  ska::flat_hash_map<const void*, Callee> callees_;
  ska::flat_hash_map<PyTypeObject*, Callee> instances_;
};

Table& table() {
  static Table& only = *new Table;  // never freed: it refers to Python objects
  return only;
}

}  // namespace

const Callee* find_callee(PyObject* callable) { return table().find(callable); }
const Callee* find_instance_callee(PyTypeObject* type) { return table().find_instances(type); }
void allow_callable(PyObject* callable) { table().allow(callable); }
void allow_instances(PyTypeObject* type) { table().allow_instances(type); }

}  // namespace fulgurite::pystate
