#include "pystate/opcodes.h"

#include <fmt/format.h>
#include <opcode.h>

#include <array>
#include <vector>

#include "pystate/attributes.h"
#include "pystate/callees.h"
#include "pystate/calls.h"
#include "pystate/containers.h"
#include "pystate/import_opcodes.h"
#include "pystate/packages.h"
#include "pystate/recorder.h"

namespace fulgurite::pystate {
namespace {

using Handler = void (*)(Recorder&, const Instruction&);

// --- Variables

void load_global(Recorder& r, const Instruction& at) {
  PyObject* name = at.name(at.argument >> 1);
  PyObject *globals = globals_of(at.frame), *builtins = builtins_of(at.frame);
  r.log.read(Kind::Key, globals, name);
  if (!PyDict_GetItemWithError(globals, name)) r.log.read(Kind::Key, builtins, name);
}

// In the body of a class, of a module, or in code that exec() runs.
void load_name(Recorder& r, const Instruction& at) {
  PyObject* name = at.name(at.argument);
  PyObject *names = mapping_of(at.frame), *globals = globals_of(at.frame);
  if (names && names != globals) {
    if (!PyDict_Check(names)) return read_item(r, names, name);
    r.log.read(Kind::Key, names, name);
    if (PyDict_GetItemWithError(names, name)) return;
  }
  r.log.read(Kind::Key, globals, name);
  if (!PyDict_GetItemWithError(globals, name)) r.log.read(Kind::Key, builtins_of(at.frame), name);
}

void store_name(Recorder& r, const Instruction& at) {
  if (PyObject* names = mapping_of(at.frame)) write_item(r, names, at.name(at.argument));
}

void store_global(Recorder& r, const Instruction& at) {
  r.log.write(Kind::Key, globals_of(at.frame), at.name(at.argument));
}

void remove_name(Recorder& r, const Instruction& at) {
  if (PyObject* names = mapping_of(at.frame)) delete_item(r, names, at.name(at.argument));
}

void remove_global(Recorder& r, const Instruction& at) {
  remove_key(r, globals_of(at.frame), at.name(at.argument));
}

PyObject* cell(const Instruction& at) {
  PyObject* found = locals_of(at.frame)[at.argument];
  return found && PyCell_Check(found) ? found : nullptr;
}

// Cells of this run's own functions are new.
void load_cell(Recorder& r, const Instruction& at) {
  PyObject* found = cell(at);
  if (found && r.log.is_old(found)) r.log.read(Kind::Cell, found);
}

void store_cell(Recorder& r, const Instruction& at) {
  PyObject* found = cell(at);
  if (found && r.log.is_old(found)) r.log.write(Kind::Cell, found);
}

void load_build_class(Recorder& r, const Instruction& at) {
  static PyObject* const name = interned("__build_class__");
  r.log.read(Kind::Key, builtins_of(at.frame), name);
}

// --- Attributes and items

void load_attribute(Recorder& r, const Instruction& at) {
  read_attribute(r, at.top(), at.name(at.argument));
}

void store_attribute(Recorder& r, const Instruction& at) {
  write_attribute(r, at.top(), at.name(at.argument));
}

void remove_attribute(Recorder& r, const Instruction& at) {
  write_attribute(r, at.top(), at.name(at.argument), Change::Remove);
}

void load_item(Recorder& r, const Instruction& at) {
  read_item(r, at.top(1), at.top());
  if (PyList_CheckExact(at.top(1)) && PySlice_Check(at.top())) r.expect_fresh(at);
}

void store_item(Recorder& r, const Instruction& at) { write_item(r, at.top(1), at.top()); }
void remove_item(Recorder& r, const Instruction& at) { delete_item(r, at.top(1), at.top()); }

// --- Operators

void test_membership(Recorder& r, const Instruction& at) {
  read_membership(r, at.top(), at.top(1));
}

void compare(Recorder& r, const Instruction& at) {
  for (PyObject* operand : {at.top(1), at.top()}) {
    if (is_atomic(operand)) continue;
    if (is_tensor(operand)) continue;
    read_deeply(r, operand, Callables::Skip);
  }
}

// Which of its own objects the program was given may be another answer in the next call.
void compare_identity(Recorder& r, const Instruction& at) {
  PyObject *left = at.top(1), *right = at.top();
  if (is_atomic(left) || is_atomic(right) || is_of_deepcopy(at.code)) return;
  for (PyObject* operand : {left, right}) r.identify(operand);
  const auto is_argument = [&](PyObject* object) {
    const Known* known = r.log.known(object);
    return r.identify(object) || (known && known->age == Age::Argument);
  };
  const bool tensors = is_tensor(left) && is_tensor(right);
  const bool containers = is_mutable_container(left) && is_mutable_container(right);
  if ((tensors || containers) && is_argument(left) != is_argument(right) &&
      r.log.is_old(is_argument(left) ? right : left))
    r.impure(Impure::Identity,
             "asks with `is` whether an argument is an object that it has from elsewhere");
}

bool is_builtin_sequence(PyObject* object) {
  return is_mutable_container(object) || PyTuple_Check(object);
}

void binary(Recorder& r, const Instruction& at) {
  PyObject *left = at.top(1), *right = at.top();
  bool in_place = at.argument >= NB_INPLACE_ADD;
  bool formats = at.argument == NB_REMAINDER && (PyUnicode_Check(left) || PyBytes_Check(left));
  if (formats) return read_deeply(r, right);
  for (PyObject* operand : {left, right}) {
    if (is_atomic(operand)) continue;
    read_specials(r, operand);
    if (operand == left && in_place && is_mutable_container(left)) continue;
    read_operand(r, operand);
  }
  if (in_place && at.argument == NB_INPLACE_ADD && PyList_Check(left)) {
    if (Py_TYPE(right)->tp_iternext) advance(r, right);
    return r.log.append(left);
  }
  if (in_place) return write_contents(r, left);
  bool makes_new =
      is_builtin_sequence(left) || is_builtin_sequence(right) || is_array(left) || is_array(right);
  if (makes_new) r.expect_fresh(at);
}

void unary(Recorder& r, const Instruction& at) { read_specials(r, at.top()); }
void truth(Recorder& r, const Instruction& at) { read_truth(r, at.top()); }

void format_value(Recorder& r, const Instruction& at) {
  bool has_format = (at.argument & FVS_MASK) == FVS_HAVE_SPEC;
  read_deeply(r, at.top(has_format ? 1 : 0), Callables::Skip);
}

// --- Iteration

void get_iterator(Recorder& r, const Instruction& at) {
  read_iterable(r, at.top());
  if (!Py_TYPE(at.top())->tp_iternext) r.expect_fresh(at);
}

void next_item(Recorder& r, const Instruction& at) { advance(r, at.top()); }
void send(Recorder& r, const Instruction& at) { advance(r, at.top(1)); }

void take_all(Recorder& r, const Instruction& at) {
  read_iterable(r, at.top());
  if (Py_TYPE(at.top())->tp_iternext) advance(r, at.top());
}

void use_specials(Recorder& r, const Instruction& at) { read_specials(r, at.top()); }

// An error that nobody has seen before was made by the run, if by C code.
void handle_error(Recorder& r, const Instruction& at) {
  if (PyExceptionInstance_Check(at.top()) && !r.log.known(at.top())) r.log.add_fresh(at.top());
}

// --- Patterns

void match_keys(Recorder& r, const Instruction& at) {
  PyObject *subject = at.top(1), *keys = at.top();
  if (!PyDict_Check(subject) || !PyTuple_Check(keys)) return read_specials(r, subject);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); i++)
    read_key(r, subject, PyTuple_GET_ITEM(keys, i));
}

void match_class(Recorder& r, const Instruction& at) {
  static PyObject* const positional = interned("__match_args__");
  PyObject *subject = at.top(2), *type = at.top(1), *names = at.top();
  if (!PyType_Check(type) || !PyTuple_Check(names)) return;
  read_specials(r, type);
  read_specials(r, subject);
  read_bases(r, Py_TYPE(subject));
  read_attribute(r, type, positional);
  auto read_all = [&](PyObject* tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
      if (PyUnicode_CheckExact(PyTuple_GET_ITEM(tuple, i)))
        read_attribute(r, subject, r.log.canonical_key(PyTuple_GET_ITEM(tuple, i)));
  };
  PyObject* arguments = type_lookup(reinterpret_cast<PyTypeObject*>(type), positional);
  if (arguments && PyTuple_Check(arguments)) read_all(arguments);
  read_all(names);
}

void get_length(Recorder& r, const Instruction& at) { read_length(r, at.top()); }

// --- Calls and new objects

// A context manager written in C is entered and left without a call that could be seen.
void enter_context(Recorder& r, const Instruction& at) {
  static PyObject* const names[] = {interned("__enter__"), interned("__exit__")};
  PyObject* manager = at.top();
  read_specials(r, manager);
  for (PyObject* name : names) {
    PyObject* method = type_lookup(Py_TYPE(manager), name);
    if (!method || PyFunction_Check(method)) continue;
    if (PyInstanceMethod_Check(method)) method = PyInstanceMethod_GET_FUNCTION(method);
    bool in_c = PyCFunction_Check(method) || Py_TYPE(method) == &PyMethodDescr_Type ||
                Py_TYPE(method) == &PyWrapperDescr_Type;
    if (in_c) observe_call(r, at, method, {&manager, 1}, nullptr);
  }
}

void make(Recorder& r, const Instruction& at) { r.expect_fresh(at); }

// The names of the arguments that are given by name, from the instruction KW_NAMES before.
PyObject* keyword_names(const Instruction& at) {
  int before = at.next - 1 - cache_units(CALL) - 1 - cache_units(PRECALL) - 1;
  const CodeReview& code = review_of(at.code);
  if (before < 0 || code.bytes[2 * before] != KW_NAMES) return nullptr;
  int index = code.bytes[2 * before + 1];
  for (int shift = 8, i = before - 1; i >= 0 && code.bytes[2 * i] == EXTENDED_ARG; i--, shift += 8)
    index |= code.bytes[2 * i + 1] << shift;
  PyObject* names = PyTuple_GET_ITEM(at.code->co_consts, index);
  return PyTuple_Check(names) ? names : nullptr;
}

void call(Recorder& r, const Instruction& at) {
  auto count = static_cast<size_t>(at.argument);
  PyObject** arguments = at.end - count;
  PyObject* method = arguments[-2];
  if (!method) return observe_call(r, at, arguments[-1], {arguments, count}, keyword_names(at));
  observe_call(r, at, method, {arguments - 1, count + 1}, keyword_names(at));
}

// The elements of an iterable, where taking them runs no code of the program; a tensor gives new
// tensors, of which there is nothing to note.
Ref elements_of(PyObject* iterable) {
  if (is_tensor(iterable)) return Ref::steal(PyTuple_New(0));
  bool plain = PyList_CheckExact(iterable) || PyAnySet_CheckExact(iterable) ||
               PyDict_CheckExact(iterable) || PyDictViewSet_Check(iterable) ||
               PyDictValues_Check(iterable) || Py_TYPE(iterable) == deque_type() ||
               PyRange_Check(iterable);
  return plain ? Ref::steal(PySequence_Tuple(iterable)) : Ref::borrow(iterable);
}

void call_spread(Recorder& r, const Instruction& at) {
  bool named = at.argument & 1;
  PyObject* keywords = named ? at.top() : nullptr;
  PyObject* positional = at.top(named ? 1 : 0);
  PyObject* callable = at.top(named ? 2 : 1);
  read_contents(r, positional);
  if (Py_TYPE(positional)->tp_iternext) advance(r, positional);
  Ref elements = elements_of(positional);
  if (!elements) return PyErr_Clear();
  positional = elements.get();
  if (!PyTuple_Check(positional) || (keywords && !PyDict_Check(keywords))) {
    // Another iterable, or a mapping of another kind: read by C code, one item after the other.
    read_deeply(r, positional);
    if (keywords) read_deeply(r, keywords);
    return observe_call_of_unknown(r, at, callable);
  }
  std::vector<PyObject*> all;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(positional); i++)
    all.push_back(PyTuple_GET_ITEM(positional, i));
  Ref names;
  if (keywords) {
    read_contents(r, keywords);
    PyObject *key, *value;
    names = Ref::steal(PyTuple_New(PyDict_GET_SIZE(keywords)));
    Py_ssize_t next = 0;
    for (Py_ssize_t i = 0; PyDict_Next(keywords, &i, &key, &value);) {
      all.push_back(value);
      PyTuple_SET_ITEM(names.get(), next++, Py_NewRef(key));
    }
  }
  observe_call(r, at, callable, all, names.get());
}

constexpr std::array<Handler, 256> kHandlers = [] {
  std::array<Handler, 256> table{};
  table[LOAD_GLOBAL] = load_global;
  table[LOAD_NAME] = load_name;
  table[STORE_NAME] = store_name;
  table[DELETE_NAME] = remove_name;
  table[STORE_GLOBAL] = store_global;
  table[DELETE_GLOBAL] = remove_global;
  table[LOAD_DEREF] = table[LOAD_CLASSDEREF] = load_cell;
  table[STORE_DEREF] = table[DELETE_DEREF] = store_cell;
  table[LOAD_BUILD_CLASS] = load_build_class;
  table[LOAD_ATTR] = table[LOAD_METHOD] = load_attribute;
  table[IMPORT_FROM] = import_from;
  table[IMPORT_STAR] = import_all;
  table[STORE_ATTR] = store_attribute;
  table[DELETE_ATTR] = remove_attribute;
  table[BINARY_SUBSCR] = load_item;
  table[STORE_SUBSCR] = store_item;
  table[DELETE_SUBSCR] = remove_item;
  table[IMPORT_NAME] = import_name;
  table[CONTAINS_OP] = test_membership;
  table[COMPARE_OP] = compare;
  table[IS_OP] = compare_identity;
  table[BINARY_OP] = binary;
  table[UNARY_NEGATIVE] = table[UNARY_POSITIVE] = table[UNARY_INVERT] = unary;
  table[UNARY_NOT] = table[JUMP_IF_FALSE_OR_POP] = table[JUMP_IF_TRUE_OR_POP] = truth;
  table[POP_JUMP_FORWARD_IF_FALSE] = table[POP_JUMP_FORWARD_IF_TRUE] = truth;
  table[POP_JUMP_BACKWARD_IF_FALSE] = table[POP_JUMP_BACKWARD_IF_TRUE] = truth;
  table[FORMAT_VALUE] = format_value;
  table[GET_ITER] = table[GET_YIELD_FROM_ITER] = get_iterator;
  table[FOR_ITER] = next_item;
  table[SEND] = send;
  table[PUSH_EXC_INFO] = handle_error;
  table[UNPACK_SEQUENCE] = table[UNPACK_EX] = table[LIST_EXTEND] = take_all;
  table[SET_UPDATE] = table[DICT_UPDATE] = table[DICT_MERGE] = take_all;
  table[BEFORE_WITH] = enter_context;
  table[BEFORE_ASYNC_WITH] = use_specials;
  table[GET_AWAITABLE] = table[GET_AITER] = table[GET_ANEXT] = use_specials;
  table[MATCH_MAPPING] = table[MATCH_SEQUENCE] = use_specials;
  table[MATCH_KEYS] = match_keys;
  table[MATCH_CLASS] = match_class;
  table[GET_LEN] = get_length;
  table[BUILD_LIST] = table[BUILD_MAP] = table[BUILD_SET] = table[BUILD_CONST_KEY_MAP] = make;
  table[MAKE_FUNCTION] = make;
  table[CALL] = call;
  table[CALL_FUNCTION_EX] = call_spread;
  return table;
}();

}  // namespace

Decoded decode(const CodeReview& code, int index) {
  int opcode = code.bytes[2 * index], argument = code.bytes[2 * index + 1];
  while (opcode == EXTENDED_ARG && index + 1 < code.count) {
    index++;
    opcode = code.bytes[2 * index];
    argument = argument << 8 | code.bytes[2 * index + 1];
  }
  return {opcode, argument, index + 1 + cache_units(opcode)};
}

bool is_subscription(const Decoded& instruction) { return instruction.opcode == BINARY_SUBSCR; }

void observe(Recorder& recorder, const Instruction& at) {
  if (Handler handler = kHandlers[static_cast<size_t>(at.opcode)]) handler(recorder, at);
}

}  // namespace fulgurite::pystate
