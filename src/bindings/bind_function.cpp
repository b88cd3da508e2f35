// The callable that `fulgurite.jit` returns for a function: a vectorcall object that finds the
// entry for a call, runs it, and asks Python to compile where there is none.
#include "bindings/areas.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <structmember.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "base/error.h"
#include "base/lru_table.h"
#include "bindings/entry.h"
#include "bindings/errors.h"
#include "bindings/tensor_caster.h"
#include "capture/tracer.h"
#include "pystate/callees.h"

namespace fulgurite {
namespace {

// A plan that takes longer than this lets other Python threads run meanwhile.
constexpr int64_t kReleaseAfterNanoseconds = 50'000;

struct FunctionState {
  explicit FunctionState(size_t capacity) : entries(capacity) {}
  LruTable<Entry> entries;
  uint64_t hits = 0, misses = 0;
  bool offsets = false;  // some entry depends on where its inputs lie in their storages
};

struct FunctionObject {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* target;   // the user's callable
  PyObject* on_miss;  // on_miss(function, key or None, declined, args, kwargs) -> the result
  PyObject* dict;
  PyObject* weak_references;
  FunctionState* state;
};

PyObject* g_type = nullptr;  // the type Function

FunctionObject* as_function(PyObject* object) { return reinterpret_cast<FunctionObject*>(object); }

// Where somebody else already transforms the calls of this thread (another capture, functorch, a
// dispatch mode, a function mode such as a default device), the user's own code runs and is seen by
// them.
bool is_transformed() {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet kTransforms{DispatchKey::FuncTorchDynamicLayerFrontMode,
                                            DispatchKey::FuncTorchDynamicLayerBackMode,
                                            DispatchKey::Functionalize,
                                            DispatchKey::PreDispatch,
                                            DispatchKey::Python,
                                            DispatchKey::PythonTLSSnapshot};
  return Tracer::active() || c10::impl::TorchDispatchModeTLS::any_modes_set() ||
         at::impl::PythonTorchFunctionTLS::stack_len() > 0 ||
         c10::impl::tls_local_dispatch_key_set().included_.has_any(kTransforms);
}

std::vector<at::Tensor> run_plan(const Entry& entry, const Arguments& arguments) {
  std::vector<at::Tensor> inputs = entry.inputs(arguments);
  if (entry.compiled.plan->typical_nanoseconds() < kReleaseAfterNanoseconds)
    return entry.compiled.plan->run(std::move(inputs));
  nb::gil_scoped_release released;
  return entry.compiled.plan->run(std::move(inputs));
}

PyObject* run_entry(Entry& entry, const Arguments& arguments) {
  HANDLE_TH_ERRORS
  ++entry.hits;
  return entry.finish(run_plan(entry, arguments));
  END_HANDLE_TH_ERRORS
}

PyObject* ask_python(PyObject* self, const Arguments& arguments, PyObject* const* args,
                     Py_ssize_t positional, PyObject* keyword_names) {
  nb::object key = nb::none();
  if (arguments.declined.empty())
    key = nb::cast(new CallKey(arguments), nb::rv_policy::take_ownership);
  nb::object all = nb::steal(PyTuple_New(positional));
  for (Py_ssize_t i = 0; i < positional; ++i) PyTuple_SET_ITEM(all.ptr(), i, Py_NewRef(args[i]));
  nb::dict keywords;
  const Py_ssize_t n = keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0;
  for (Py_ssize_t i = 0; i < n; ++i)
    keywords[nb::handle(PyTuple_GET_ITEM(keyword_names, i))] = nb::handle(args[positional + i]);
  nb::str declined(arguments.declined.c_str());
  return PyObject_CallFunctionObjArgs(as_function(self)->on_miss, self, key.ptr(), declined.ptr(),
                                      all.ptr(), keywords.ptr(), nullptr);
}

std::shared_ptr<Entry> find(FunctionState& state, const Arguments& arguments) {
  return state.entries.find(hash(arguments.key), [&](const Entry& entry) {
    return entry.key.matches(arguments) && entry.holds();
  });
}

PyObject* call_checked(PyObject* self, PyObject* const* args, Py_ssize_t positional,
                       PyObject* keyword_names) {
  FunctionState& state = *as_function(self)->state;
  Arguments arguments;
  read_arguments(arguments, args, positional, keyword_names, state.offsets);
  if (arguments.declined.empty())
    if (auto entry = find(state, arguments)) {
      ++state.hits;
      if (!entry->eager) return run_entry(*entry, arguments);
      return PyObject_Vectorcall(as_function(self)->target, args, positional, keyword_names);
    }
  ++state.misses;
  return ask_python(self, arguments, args, positional, keyword_names);
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* keyword_names) {
  if (is_transformed())
    return PyObject_Vectorcall(as_function(self)->target, args, flags, keyword_names);
  return with_python_errors(
      [&] { return call_checked(self, args, PyVectorcall_NARGS(flags), keyword_names); });
}

int visit_entry(const Entry& entry, visitproc visit, void* arg) {
  Py_VISIT(entry.record.ptr());
  for (const nb::object& object : entry.key.pins) Py_VISIT(object.ptr());
  if (entry.state)
    if (int stop = entry.state->visit(visit, arg)) return stop;
  return fulgurite::visit(entry.output, visit, arg);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  FunctionObject* f = as_function(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(f->target);
  Py_VISIT(f->on_miss);
  Py_VISIT(f->dict);
  if (!f->state) return 0;
  int stop = 0;
  f->state->entries.for_each([&](const std::shared_ptr<Entry>& entry) {
    if (!stop) stop = visit_entry(*entry, visit, arg);
  });
  return stop;
}

int clear(PyObject* self) {
  FunctionObject* f = as_function(self);
  Py_CLEAR(f->target);
  Py_CLEAR(f->on_miss);
  Py_CLEAR(f->dict);
  if (f->state) f->state->entries.clear();
  return 0;
}

void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (as_function(self)->weak_references) PyObject_ClearWeakRefs(self);
  clear(self);
  delete as_function(self)->state;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* create(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *target, *on_miss;
  Py_ssize_t capacity;
  if (!PyArg_ParseTuple(args, "OOn", &target, &on_miss, &capacity)) return nullptr;
  PyObject* self = type->tp_alloc(type, 0);
  if (!self) return nullptr;
  FunctionObject* f = as_function(self);
  f->vectorcall = call;
  f->target = Py_NewRef(target);
  f->on_miss = Py_NewRef(on_miss);
  f->state = new FunctionState(static_cast<size_t>(capacity));
  return self;
}

// As a function does: an attribute of a class that holds one is bound to the instance.
PyObject* bind_to(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, instance);
}

PyMemberDef kMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(FunctionObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FunctionObject, weak_references), READONLY,
     nullptr},
    {"target", T_OBJECT, offsetof(FunctionObject, target), READONLY, "the user's callable"},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef kProperties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot kSlots[] = {{Py_tp_new, reinterpret_cast<void*>(create)},
                        {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                        {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                        {Py_tp_clear, reinterpret_cast<void*>(clear)},
                        {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                        {Py_tp_descr_get, reinterpret_cast<void*>(bind_to)},
                        {Py_tp_members, kMembers},
                        {Py_tp_getset, kProperties},
                        {0, nullptr}};

PyType_Spec kSpec = {
    "fulgurite._C.Function", sizeof(FunctionObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_BASETYPE,
    kSlots};

FunctionObject* checked(nb::handle function) {
  if (!PyObject_TypeCheck(function.ptr(), reinterpret_cast<PyTypeObject*>(g_type)))
    user_error("expected a function that fulgurite.jit returned, got a {}",
               Py_TYPE(function.ptr())->tp_name);
  return as_function(function.ptr());
}

// The arguments of a call given as a tuple and a dict; `names` keeps the keywords alive.
struct GivenCall {
  c10::SmallVector<PyObject*, 8> all;
  nb::object names;
  Arguments arguments;

  GivenCall(nb::tuple args, nb::dict keywords, bool offsets) {
    for (nb::handle arg : args) all.push_back(arg.ptr());
    nb::list keys;
    for (auto [key, value] : keywords) {
      keys.append(key);
      all.push_back(value.ptr());
    }
    names = nb::tuple(keys);
    read_arguments(arguments, all.data(), static_cast<Py_ssize_t>(nb::len(args)), names.ptr(),
                   offsets);
  }
};

InputSource read_source(nb::handle description) {
  static constexpr const char* kNames[] = {"argument", "lifted", "gradient"};
  const auto kind = nb::cast<std::string>(description[0]);
  for (uint8_t i = 0; i < 3; ++i)
    if (kind == kNames[i])
      return {static_cast<InputSource::Kind>(i), nb::cast<int32_t>(description[1])};
  internal_error("no input source of kind {}", kind);
}

std::shared_ptr<Entry> make_entry(const CallKey& key, std::shared_ptr<Compiled> compiled,
                                  nb::list sources, std::vector<at::Tensor> lifted,
                                  const std::vector<at::Tensor>& reads,
                                  std::shared_ptr<StateRecord> state, nb::handle output,
                                  nb::object record) {
  auto entry = std::make_shared<Entry>(key);
  entry->lifted = std::move(lifted);
  entry->state = std::move(state);
  entry->record = std::move(record);
  for (const at::Tensor& tensor : reads) entry->reads.emplace_back(tensor);
  if (compiled) entry->compiled = *compiled;
  entry->eager = compiled == nullptr;
  for (const at::Tensor& tensor : entry->lifted) entry->lifted_guards.emplace_back(tensor);
  for (nb::handle description : sources) {
    const InputSource source = read_source(description);
    entry->sources.push_back(source);
    if (source.kind == InputSource::Kind::Gradient)
      entry->gradient_guards.emplace_back(source.index, entry->lifted[source.index].grad());
  }
  if (!output.is_none()) entry->output = read_template(output);
  return entry;
}

nb::object run_now(nb::handle function, std::shared_ptr<Entry> entry, nb::tuple args,
                   nb::dict keywords) {
  if (!entry->holds())
    throw Unsupported("what the function depends on is not the same after its capture: " +
                      entry->changed());
  GivenCall call(args, keywords, checked(function)->state->offsets);
  nb::object result = nb::steal(run_entry(*entry, call.arguments));
  if (!result.is_valid()) throw nb::python_error();
  return result;
}

std::shared_ptr<Entry> entry_for(nb::handle function, nb::tuple args, nb::dict keywords) {
  FunctionState& state = *checked(function)->state;
  const GivenCall call(args, keywords, state.offsets);
  return call.arguments.declined.empty() ? find(state, call.arguments) : nullptr;
}

std::vector<at::Tensor> inputs_of(const Entry& entry, nb::tuple args, nb::dict keywords) {
  const GivenCall call(args, keywords, false);
  return entry.inputs(call.arguments);
}

}  // namespace

void bind_function(nb::module_& m) {
  g_type = PyType_FromSpec(&kSpec);
  if (!g_type) throw nb::python_error();
  m.attr("Function") = nb::borrow(g_type);
  // Called during a capture it runs the user's function, which is watched.
  pystate::allow_instances(reinterpret_cast<PyTypeObject*>(g_type));

  nb::class_<CallKey>(m, "CallKey");
  nb::class_<Entry>(m, "Entry")
      .def_ro("record", &Entry::record)
      .def_ro("hits", &Entry::hits)
      .def_ro("eager", &Entry::eager)
      .def("inputs", &inputs_of, "The tensors that its traces take when it serves a call.")
      .def("changed", &Entry::changed, "What no longer holds of the tensors that it lifted; ''.");
  m.def("make_entry", &make_entry, nb::arg("key"), nb::arg("compiled").none(), nb::arg("sources"),
        nb::arg("lifted"), nb::arg("reads"), nb::arg("state").none(), nb::arg("output").none(),
        nb::arg("record"));
  m.def("add_entry", [](nb::handle function, std::shared_ptr<Entry> entry) {
    const uint64_t hashed = hash(entry->key.key);
    checked(function)->state->entries.add(hashed, std::move(entry));
  });
  m.def("run_entry", &run_now, "Runs an entry on the arguments it was made for.");
  m.def("call_key", [](nb::handle function, nb::tuple args, nb::dict keywords) {
    return CallKey(GivenCall(args, keywords, checked(function)->state->offsets).arguments);
  });
  m.def("entry_for", &entry_for, "The entry that would serve a call, or None; nothing is run.");
  m.def("depend_on_offsets", [](nb::handle function) { checked(function)->state->offsets = true; });
  m.def("depends_on_offsets", [](nb::handle f) { return checked(f)->state->offsets; });
  m.def(
      "entries",
      [](nb::handle function) {
        std::vector<std::shared_ptr<Entry>> all;
        checked(function)->state->entries.for_each(
            [&](const auto& entry) { all.push_back(entry); });
        return all;
      },
      "The entries of a function, the most recently used first.");
  m.def("clear_entries", [](nb::handle f) { checked(f)->state->entries.clear(); });
  m.def("cache_hits", [](nb::handle f) { return checked(f)->state->hits; });
  m.def("cache_misses", [](nb::handle f) { return checked(f)->state->misses; });
}

}  // namespace fulgurite
