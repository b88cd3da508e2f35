// The callable that `fulgurite.jit` returns for a function: a vectorcall object that finds the
// entry for a call, runs it, and asks Python to compile where there is none.
#include "bindings/areas.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <structmember.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/lru_table.h"
#include "bindings/entry.h"
#include "bindings/errors.h"
#include "bindings/function_modes.h"
#include "bindings/tensor_caster.h"
#include "capture/tracer.h"
#include "pystate/callees.h"

namespace fulgurite {
namespace {

// A plan that takes longer than this lets other Python threads run meanwhile.
constexpr int64_t kReleaseAfterNanoseconds = 50'000;

constexpr const char* kHandler =
    "an argument is no tensor and has __torch_function__ (a proxy of torch.fx, say), which sees "
    "the calls of the function itself";

constexpr const char* kFailed =
    "an operator raised an error, which eager raises, or the program handles, by itself";

struct FunctionState {
  explicit FunctionState(size_t capacity) : entries(capacity) {}
  LruTable<Entry> entries;
  uint64_t hits = 0, misses = 0;
  uint64_t compared = 0;           // entries that were looked at to find those that serve
  std::vector<const char*> noted;  // reasons for which the user's code ran, of run_target()
  bool offsets = false;            // some entry depends on where its inputs lie in their storages
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

// The user's own code, because of `reason`; the same reason is noted once. For others to see, a
// compiled module calls itself as what it was made from: its attribute `inlined`.
PyObject* run_target(PyObject* self, const char* reason, PyObject* const* args, size_t flags,
                     PyObject* keyword_names) {
  FunctionObject* f = as_function(self);
  if (!*reason) return PyObject_Vectorcall(f->target, args, flags, keyword_names);
  auto& noted = f->state->noted;
  if (std::find(noted.begin(), noted.end(), reason) == noted.end()) {
    noted.push_back(reason);
    const nb::object state = nb::getattr(nb::handle(self), "state", nb::none());
    if (!state.is_none()) state.attr("note_fallback")(reason);
  }
  const nb::object inlined = nb::getattr(nb::handle(self), "inlined", nb::handle(f->target));
  return PyObject_Vectorcall(inlined.ptr(), args, flags, keyword_names);
}

std::vector<at::Tensor> run_plan(const Entry& entry, const Arguments& arguments, bool& undone) {
  std::vector<at::Tensor> inputs = entry.inputs(arguments);
  // Effects go to objects that the guards have just found: nobody is to drop them meanwhile.
  const bool has_effects = entry.state && !entry.state->effects.empty();
  const Compiled& program = entry.compiled;
  if (has_effects || program.typical_nanoseconds() < kReleaseAfterNanoseconds)
    return program.run(std::move(inputs), undone);
  nb::gil_scoped_release released;
  return program.run(std::move(inputs), undone);
}

// Nullopt where an operator fails and nothing has happened yet that eager would do again.
std::optional<std::vector<at::Tensor>> try_plan(const Entry& entry, const Arguments& arguments) {
  bool undone = false;
  try {
    return run_plan(entry, arguments, undone);
  } catch (const InternalError&) {
    throw;
  } catch (const UserError&) {
    throw;
  } catch (const std::exception&) {
    // Eager computes something else, then.
    const bool is_another = entry.is_replaced() || entry.compiled.is_another_program;
    if (!undone || is_another) throw;
    PyErr_Clear();  // of an operator that is written in Python
    return std::nullopt;
  }
}

// Warnings of operators are told when it returns: before the user's own code runs, which may raise
// an error, and tells its warnings itself. False for an error.
bool try_plan(const Entry& entry, const Arguments& arguments,
              std::optional<std::vector<at::Tensor>>& outputs) {
  const auto run = [&]() -> PyObject* {
    HANDLE_TH_ERRORS
    try {
      outputs = try_plan(entry, arguments);
    } catch (const UserError&) {
      set_python_error();
      return nullptr;
    }
    return Py_None;
    END_HANDLE_TH_ERRORS
  };
  return run() != nullptr;
}

// Eager raises an operator's error by itself: with the program's lines, after what the program does
// before it, and where the program may handle it.
PyObject* run_entry(PyObject* self, Entry& entry, const Arguments& arguments) {
  ++entry.hits;
  std::optional<std::vector<at::Tensor>> outputs;
  if (!try_plan(entry, arguments, outputs)) return nullptr;
  if (!outputs)
    return run_target(self, kFailed, arguments.given, static_cast<size_t>(arguments.positional),
                      arguments.keyword_names);
  HANDLE_TH_ERRORS
  return entry.finish(std::move(*outputs), arguments);
  END_HANDLE_TH_ERRORS
}

// While it lives, torch.compile does not look at the frames of this thread: those of ours are none
// of its business, and a capture is not to see it at work.
class WithoutDynamo {
 public:
  WithoutDynamo() : before_(set_callback(nb::none())) {}
  ~WithoutDynamo() {
    const nb::error_scope keep_error;
    set_callback(before_);
  }
  WithoutDynamo(const WithoutDynamo&) = delete;

 private:
  static nb::object set_callback(const nb::object& callback) {
    static PyObject* set =
        nb::object(nb::module_::import_("torch._C._dynamo.eval_frame").attr("set_eval_frame"))
            .release()
            .ptr();
    return nb::steal(PyObject_CallOneArg(set, callback.ptr()));
  }

  nb::object before_;
};

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
  const WithoutDynamo without_dynamo;
  return PyObject_CallFunctionObjArgs(as_function(self)->on_miss, self, key.ptr(), declined.ptr(),
                                      all.ptr(), keywords.ptr(), nullptr);
}

std::shared_ptr<Entry> find(FunctionState& state, const Arguments& arguments) {
  return state.entries.find(hash(arguments.key), [&](const Entry& entry) {
    ++state.compared;
    return entry.key.matches(arguments) && entry.holds(arguments);
  });
}

PyObject* call_checked(PyObject* self, PyObject* const* args, Py_ssize_t positional,
                       PyObject* keyword_names) {
  FunctionState& state = *as_function(self)->state;
  Arguments arguments;
  read_arguments(arguments, args, positional, keyword_names, state.offsets);
  if (arguments.handler)
    return run_target(self, kHandler, args, static_cast<size_t>(positional), keyword_names);
  if (arguments.declined.empty())
    if (auto entry = find(state, arguments)) {
      ++state.hits;
      if (!entry->eager) return run_entry(self, *entry, arguments);
      return PyObject_Vectorcall(as_function(self)->target, args, positional, keyword_names);
    }
  ++state.misses;
  return ask_python(self, arguments, args, positional, keyword_names);
}

PyObject* call(PyObject* self, PyObject* const* args, size_t flags, PyObject* keyword_names) {
  return with_python_errors([&] {
    if (const char* reason = transformer_of_calls())
      return run_target(self, reason, args, flags, keyword_names);
    return call_checked(self, args, PyVectorcall_NARGS(flags), keyword_names);
  });
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

// As the target does: a function in a class is bound to the instance, a partial is not.
PyObject* bind_to(PyObject* self, PyObject* instance, PyObject* type) {
  PyObject* target = as_function(self)->target;
  descrgetfunc get = Py_TYPE(target)->tp_descr_get;
  if (!get || !instance || instance == Py_None) return Py_NewRef(self);
  const nb::object bound = nb::steal(get(target, instance, type));
  if (!bound.is_valid()) return nullptr;
  const bool to_instance = PyMethod_Check(bound.ptr()) &&
                           PyMethod_GET_FUNCTION(bound.ptr()) == target &&
                           PyMethod_GET_SELF(bound.ptr()) == instance;
  return to_instance ? PyMethod_New(self, instance) : Py_NewRef(self);
}

PyObject* represent(PyObject* self) {
  return PyUnicode_FromFormat("<fulgurite.jit of %R>", as_function(self)->target);
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
                        {Py_tp_repr, reinterpret_cast<void*>(represent)},
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

nb::object run_now(nb::handle function, std::shared_ptr<Entry> entry, nb::tuple args,
                   nb::dict keywords) {
  GivenCall call(args, keywords, checked(function)->state->offsets);
  if (!entry->holds(call.arguments)) {
    std::string changed = entry->changed();
    if (changed.empty() && !entry->keeps_containers_apart(call.arguments))
      changed =
          "a container among its arguments is also found elsewhere, in the state that it reads or "
          "changes; give it a copy";
    if (changed.empty()) changed = "how its tensors share memory, or a decision on their data";
    throw Unsupported("what the function depends on is not the same after its capture: " + changed);
  }
  nb::object result = nb::steal(run_entry(function.ptr(), *entry, call.arguments));
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

std::shared_ptr<ReplacedTensors> replaced_tensors(nb::handle function) {
  auto found = std::make_shared<ReplacedTensors>();
  checked(function)->state->entries.for_each([&](const std::shared_ptr<Entry>& entry) {
    // What the last check found may be gone by now.
    if (!entry->state || entry->state->guards.check()) return;
    if (const auto place = entry->state->guards.replaced_tensor()) found->places.push_back(*place);
  });
  return found;
}

}  // namespace

void bind_function(nb::module_& m) {
  g_type = PyType_FromSpec(&kSpec);
  if (!g_type) throw nb::python_error();
  bind_entry(m);
  m.attr("Function") = nb::borrow(g_type);
  // Called during a capture it runs the user's function, which is watched.
  pystate::allow_instances(reinterpret_cast<PyTypeObject*>(g_type));

  nb::class_<CallKey>(m, "CallKey");
  m.def("inputs_of", &inputs_of, nb::arg("entry"), nb::arg("args"), nb::arg("keywords"),
        "The tensors that an entry's traces take when it serves a call.");
  m.def("replaced_tensors", &replaced_tensors, nb::arg("function"),
        "Where tensors were replaced, so that entries did not serve the last call.");
  m.def("add_entry", [](nb::handle function, std::shared_ptr<Entry> entry) {
    const uint64_t hashed = hash(entry->key.key);
    auto& entries = checked(function)->state->entries;
    entries.drop_if([](const Entry& old) { return old.expired(); });
    entries.add(hashed, std::move(entry));
  });
  m.def("run_entry", &run_now, "Runs an entry on the arguments it was made for.");
  m.def("call_key", [](nb::handle function, nb::tuple args, nb::dict keywords) {
    return CallKey(GivenCall(args, keywords, checked(function)->state->offsets).arguments);
  });
  m.def(
      "watch_sharing",
      [](nb::handle function, Entry& entry, nb::tuple args, nb::dict keywords) {
        const GivenCall call(args, keywords, checked(function)->state->offsets);
        entry.watch_sharing(call.arguments);
      },
      "Makes an entry serve calls alone whose tensors share memory as those of this call do.");
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
  m.def(
      "show_method",
      [](const std::string& name, nb::handle function) {
        // Into the dict alone: the slots, and with them the calls, stay as they are.
        auto* type = reinterpret_cast<PyTypeObject*>(g_type);
        if (PyDict_SetItemString(type->tp_dict, name.c_str(), function.ptr()) < 0)
          throw nb::python_error();
        PyType_Modified(type);
      },
      "What those who read Python code see as a special method of a Function.");
  m.def("compared_entries", [](nb::handle f) { return checked(f)->state->compared; });
  m.def("cache_hits", [](nb::handle f) { return checked(f)->state->hits; });
  m.def("cache_misses", [](nb::handle f) { return checked(f)->state->misses; });
}

}  // namespace fulgurite
