#include "pystate/interpreter.h"

#if PY_VERSION_HEX < 0x030b0000 || PY_VERSION_HEX >= 0x030c0000
#error "the recorder of Python state knows the interpreter of CPython 3.11 only"
#endif

#define Py_BUILD_CORE
#include <internal/pycore_code.h>
#include <internal/pycore_context.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include <opcode.h>
#include <structmember.h>

namespace fulgurite::pystate {

const Frame* innermost_frame(PyThreadState* thread) noexcept {
  return thread->cframe->current_frame;
}

const Frame* caller_of(const Frame* frame) noexcept { return frame->previous; }

PyCodeObject* code_of(const Frame* frame) noexcept { return frame->f_code; }

int instruction_of(const Frame* frame) noexcept { return _PyInterpreterFrame_LASTI(frame); }

PyObject* first_parameter(const Frame* frame) noexcept {
  PyObject* value = frame->localsplus[0];
  return value && PyCell_Check(value) ? PyCell_GET(value) : value;
}

Frame* frame_of(PyFrameObject* object) { return object->f_frame; }

PyObject** stack_end(Frame* frame) { return frame->localsplus + frame->stacktop; }

PyObject** locals_of(Frame* frame) { return frame->localsplus; }

PyObject* globals_of(Frame* frame) { return frame->f_globals; }

PyObject* builtins_of(Frame* frame) { return frame->f_builtins; }

PyObject* mapping_of(Frame* frame) { return frame->f_locals; }

PyFunctionObject* function_of(const Frame* frame) { return frame->f_func; }

PyObject* generator_of(Frame* frame) {
  if (frame->owner != FRAME_OWNED_BY_GENERATOR) return nullptr;
  return reinterpret_cast<PyObject*>(_PyFrame_GetGenerator(frame));
}

bool entered_from_c(Frame* frame) { return frame->is_entry; }

bool resumes(Frame* frame) {
  int opcode = _Py_OPCODE(*frame->prev_instr);
  return opcode == RESUME && _Py_OPARG(*frame->prev_instr) != 0;
}

void set_opcode_events(PyFrameObject* object, bool on) { object->f_trace_opcodes = on; }

PyFrameObject* object_of(const Frame* frame) { return frame->frame_obj; }

bool has_opcode_events(PyFrameObject* object) { return object->f_trace_opcodes; }

void set_line_events(PyFrameObject* object, bool on) { object->f_trace_lines = on; }

TraceFunction trace_function() {
  PyThreadState* thread = PyThreadState_Get();
  return {thread->c_tracefunc, thread->c_traceobj};
}

Ref plain_instructions(PyCodeObject* code) { return Ref::steal(PyCode_GetCode(code)); }

int cache_units(int opcode) {
  switch (opcode) {
    case BINARY_SUBSCR:
      return INLINE_CACHE_ENTRIES_BINARY_SUBSCR;
    case STORE_SUBSCR:
      return INLINE_CACHE_ENTRIES_STORE_SUBSCR;
    case UNPACK_SEQUENCE:
      return INLINE_CACHE_ENTRIES_UNPACK_SEQUENCE;
    case STORE_ATTR:
      return INLINE_CACHE_ENTRIES_STORE_ATTR;
    case LOAD_ATTR:
      return INLINE_CACHE_ENTRIES_LOAD_ATTR;
    case COMPARE_OP:
      return INLINE_CACHE_ENTRIES_COMPARE_OP;
    case LOAD_GLOBAL:
      return INLINE_CACHE_ENTRIES_LOAD_GLOBAL;
    case BINARY_OP:
      return INLINE_CACHE_ENTRIES_BINARY_OP;
    case LOAD_METHOD:
      return INLINE_CACHE_ENTRIES_LOAD_METHOD;
    case PRECALL:
      return INLINE_CACHE_ENTRIES_PRECALL;
    case CALL:
      return INLINE_CACHE_ENTRIES_CALL;
    default:
      return 0;
  }
}

void* data_of_code(PyCodeObject* code, CodeData make, void (*destroy)(void*)) {
  static const Py_ssize_t index = _PyEval_RequestCodeExtraIndex(destroy);
  auto* object = reinterpret_cast<PyObject*>(code);
  void* data = nullptr;
  if (_PyCode_GetExtra(object, index, &data) == 0 && data) return data;
  data = make(code);
  if (_PyCode_SetExtra(object, index, data) < 0) PyErr_Clear();
  return data;
}

uint64_t dict_version(PyObject* dict) {
  return reinterpret_cast<PyDictObject*>(dict)->ma_version_tag;
}

unsigned type_version(PyTypeObject* type) { return type->tp_version_tag; }

PyObject* type_lookup(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }

PyObject** instance_dict_slot(PyObject* object) {
  PyObject** slot = _PyObject_GetDictPtr(object);
  if (!slot || *slot || PyType_Check(object)) return slot;
  Ref made = Ref::steal(PyObject_GenericGetDict(object, nullptr));
  if (!made) PyErr_Clear();
  return slot;
}

namespace {

struct OrderedDictLayout {  // _odictobject of Objects/odictobject.c
  PyDictObject dict;
  void *first, *last, *fast_nodes;
  Py_ssize_t fast_nodes_size;
  void* resize_sentinel;
  size_t state;
  PyObject *instance_dict, *weak_references;
};

// Whether the layout above is this interpreter's: the state changes exactly with the order.
bool ordered_dict_layout_holds() {
  if (PyODict_Type.tp_basicsize != sizeof(OrderedDictLayout)) return false;
  Ref dict = Ref::steal(PyODict_New());
  auto state = [&] { return reinterpret_cast<OrderedDictLayout*>(dict.get())->state; };
  auto move = [&] {
    Ref done = Ref::steal(PyObject_CallMethod(dict.get(), "move_to_end", "i", 1));
    PyErr_Clear();
  };
  bool holds = true;
  size_t before = state();
  for (int key : {1, 2}) {
    Ref number = Ref::steal(PyLong_FromLong(key));
    holds = holds && PyODict_SetItem(dict.get(), number.get(), Py_None) == 0 && state() > before;
    before = state();
  }
  move();
  return holds && state() > before && state() < before + 8;
}

}  // namespace

bool ordered_dict_state(PyObject* dict, uint64_t& state) {
  static const bool known = ordered_dict_layout_holds();
  if (known) state = reinterpret_cast<OrderedDictLayout*>(dict)->state;
  return known;
}

PyObject** variable_at(Kind kind, PyObject* container, PyObject* key) {
  if (kind == Kind::Class) return reinterpret_cast<PyObject**>(&container->ob_type);
  if (kind == Kind::Cell) return &reinterpret_cast<PyCellObject*>(container)->ob_ref;
  if (kind != Kind::Slot) return nullptr;
  auto named = [&](const char* name) { return PyUnicode_CompareWithASCIIString(key, name) == 0; };
  PyObject* descriptor = type_lookup(Py_TYPE(container), key);
  if (descriptor && Py_TYPE(descriptor) == &PyMemberDescr_Type) {
    PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
    // Of the two kinds of object members, this one has nothing in place of None.
    if (member->type != T_OBJECT_EX) return nullptr;
    return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(container) + member->offset);
  }
  if (PyFunction_Check(container)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(container);
    if (named("__name__")) return &function->func_name;
    if (named("__qualname__")) return &function->func_qualname;
  }
  if (PyType_Check(container) && Py_TYPE(container)->tp_flags & Py_TPFLAGS_TYPE_SUBCLASS &&
      reinterpret_cast<PyTypeObject*>(container)->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    auto* type = reinterpret_cast<PyHeapTypeObject*>(container);
    if (named("__name__")) return &type->ht_name;
    if (named("__qualname__")) return &type->ht_qualname;
  }
  return nullptr;
}

bool is_bound_slot(PyObject* object) { return Py_TYPE(object) == &_PyMethodWrapper_Type; }

BoundSlot bound_slot(PyObject* object) {
  struct Layout {  // wrapperobject of Objects/descrobject.c
    PyObject header;
    PyWrapperDescrObject* descriptor;
    PyObject* self;
  };
  auto* bound = reinterpret_cast<Layout*>(object);
  return {bound->descriptor, bound->self};
}

PyObject* mapping_behind(PyObject* proxy) {
  struct Layout {  // mappingproxyobject of Objects/descrobject.c
    PyObject header;
    PyObject* mapping;
  };
  return reinterpret_cast<Layout*>(proxy)->mapping;
}

SuperParts super_parts(PyObject* object) {
  struct Layout {  // superobject of Objects/typeobject.c
    PyObject header;
    PyTypeObject* type;
    PyObject* object;
    PyTypeObject* start;
  };
  auto* parts = reinterpret_cast<Layout*>(object);
  return {parts->type, parts->object, parts->start};
}

namespace {

struct CacheLink {  // lru_list_elem of Modules/_functoolsmodule.c
  PyObject header;
  void* links[2];
  Py_hash_t hash;
  PyObject* key;
  PyObject* result;
};

struct CacheLayout {  // lru_cache_object of the same, as far as it is read
  CacheLink root;
  void* wrapper;
  int typed;
  PyObject* results;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t most;
  Py_ssize_t misses;
  PyObject* keyword_mark;
};

// Whether the layout above is this interpreter's, from a wrapper that was called once.
bool cache_layout_holds() {
  Ref scope = Ref::steal(PyDict_New());
  Ref ran = Ref::steal(
      PyRun_String("import functools\n"
                   "wrapper = functools.lru_cache(maxsize=7, typed=True)(lambda value: value)\n"
                   "wrapper(35)\n",
                   Py_file_input, scope.get(), scope.get()));
  PyObject* wrapper = ran ? PyDict_GetItemString(scope.get(), "wrapper") : nullptr;
  if (!wrapper) {
    PyErr_Clear();
    return false;
  }
  auto* cache = reinterpret_cast<CacheLayout*>(wrapper);
  struct Found {
    CacheLayout* cache;
    int seen;
  } found{cache, 0};
  auto visit = [](PyObject* object, void* data) {
    auto* found = static_cast<Found*>(data);
    CacheLayout* cache = found->cache;
    found->seen +=
        object == cache->results || object == cache->function || object == cache->keyword_mark;
    return 0;
  };
  Py_TYPE(wrapper)->tp_traverse(wrapper, visit, &found);
  return found.seen == 3 && cache->typed == 1 && cache->most == 7 && cache->misses == 1 &&
         PyDict_CheckExact(cache->results) && PyDict_GET_SIZE(cache->results) == 1;
}

}  // namespace

CachedFunction cached_function(PyObject* wrapper) {
  static const bool known = cache_layout_holds();
  if (!known) return {};
  auto* cache = reinterpret_cast<CacheLayout*>(wrapper);
  return {cache->results, cache->function, cache->keyword_mark, cache->typed != 0,
          cache->most != 0};
}

PyObject* cached_result(PyObject* wrapper, PyObject* entry) {
  // A cache without a limit keeps results, one with a limit links to them.
  bool limited = reinterpret_cast<CacheLayout*>(wrapper)->most >= 0;
  return limited ? reinterpret_cast<CacheLink*>(entry)->result : entry;
}

Ref context_state() {
  Ref copy = Ref::steal(PyContext_CopyCurrent());
  if (!copy) PyErr_Clear();
  return copy;
}

void restore_context_state(PyObject* state) {
  PyThreadState* thread = PyThreadState_Get();
  auto* current = reinterpret_cast<PyContext*>(thread->context);
  auto* wanted = reinterpret_cast<PyContext*>(state);
  if (!current || !wanted) return;
  auto* replaced = reinterpret_cast<PyObject*>(current->ctx_vars);
  Py_INCREF(wanted->ctx_vars);
  current->ctx_vars = wanted->ctx_vars;
  thread->context_ver++;  // what variables remember of this context is stale
  Py_DECREF(replaced);
}

}  // namespace fulgurite::pystate
