// Callees of functools, torch and NumPy.
#include <fmt/format.h>

#include <vector>

#include "capture/tracer.h"
#include "pystate/attributes.h"
#include "pystate/call_handlers.h"
#include "pystate/containers.h"
#include "pystate/recorder.h"
#include "torch/default_generator.h"

namespace fulgurite::pystate::handlers {
namespace {

// The key under which a cache keeps the result of a call, as functools makes it.
Ref cache_key(const CachedFunction& cached, const Call& call) {
  size_t positional = call.positional();
  std::vector<PyObject*> parts(call.arguments.begin(), call.arguments.begin() + positional);
  bool named = positional < call.arguments.size();
  if (!cached.typed && !named && parts.size() == 1 &&
      (PyUnicode_CheckExact(parts[0]) || PyLong_CheckExact(parts[0])))
    return Ref::borrow(parts[0]);
  if (named) parts.push_back(cached.keyword_mark);
  for (size_t i = positional; i < call.arguments.size(); i++) {
    parts.push_back(PyTuple_GET_ITEM(call.keywords, static_cast<Py_ssize_t>(i - positional)));
    parts.push_back(call.arguments[i]);
  }
  if (cached.typed)
    for (PyObject* argument : call.arguments) parts.push_back((PyObject*)Py_TYPE(argument));
  Ref key = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(parts.size())));
  for (size_t i = 0; i < parts.size(); i++)
    PyTuple_SET_ITEM(key.get(), static_cast<Py_ssize_t>(i), Py_NewRef(parts[i]));
  return key;
}

// The argument given as out=, or null.
PyObject* named_output(const Call& call) {
  size_t positional = call.positional();
  for (size_t i = positional; i < call.arguments.size(); i++) {
    PyObject* name = PyTuple_GET_ITEM(call.keywords, static_cast<Py_ssize_t>(i - positional));
    if (PyUnicode_CompareWithASCIIString(name, "out") == 0) return call.arguments[i];
  }
  return nullptr;
}

// Whether an object may be, or hold, a tensor of the run.
bool may_hold_traced(Recorder& recorder, PyObject* object) {
  if (is_constant(object) || recorder.log.is_old(object)) return false;
  if (!PyTuple_CheckExact(object)) return true;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++)
    if (may_hold_traced(recorder, PyTuple_GET_ITEM(object, i))) return true;
  return false;
}

// Without Python's lock: see DefaultGeneratorState.
template <class F>
auto without_lock(F&& f) {
  PyThreadState* const state = PyEval_SaveThread();
  auto result = f();
  PyEval_RestoreThread(state);
  return result;
}

// The function of a cache runs once in any program, whoever calls it first: what it draws and what
// it does are no part of the calls that find its result. Nothing of a run that draws must be
// recorded before, as that is drawn when the run is over.
void fill_cache(Recorder& recorder, const CachedFunction& cached, const Call& call) {
  if (!cached.keeps) return;
  for (PyObject* argument : call.arguments)
    if (may_hold_traced(recorder, argument)) return;
  const DefaultGeneratorState before = without_lock([] { return DefaultGeneratorState(); });
  recorder.call_outside(call.callable, call.arguments, call.keywords);
  if (!without_lock([&] { return before.differs(); })) return;
  if (const Tracer* tracer = Tracer::active(); tracer && tracer->has_drawn())
    return recorder.impure(
        Impure::Random, fmt::format("draws random numbers, and then more in the first call of {}",
                                    describe_callable(call.callable)));
  recorder.drew_outside = true;
}

}  // namespace

// A hit hides what the function read when it ran, but eager hits as well: the result is what the
// cache holds, and that is what is guarded. Where the function has to run as a part of the program,
// what it reads is noted too, and the entry that it makes is guarded at the end (see Recording).
void calls_cached(Recorder& recorder, const Call& call) {
  CachedFunction cached = cached_function(call.callable);
  if (!cached.results)
    return recorder.impure(Impure::Unreviewed, "calls a function with a cache of unknown layout");
  for (PyObject* argument : call.arguments) read_deeply(recorder, argument, Callables::Skip);
  recorder.log.add_old(call.callable, kUnknown);
  recorder.log.read_parts(call.callable);
  Ref made = cache_key(cached, call);
  PyObject* key = recorder.log.canonical_key(made.get());
  if (!key) return (void)recorder.log.read(Kind::Contents, cached.results);
  const auto found = [&] { return PyDict_GetItemWithError(cached.results, key) != nullptr; };
  if (!found()) fill_cache(recorder, cached, call);
  bool hit = found();
  for (const Recorder::FilledCache& filled : recorder.filled_caches)
    if (filled.wrapper.get() == call.callable && filled.key.get() == key) return;
  if (hit) return (void)recorder.log.read(Kind::Key, cached.results, key);
  recorder.filled_caches.push_back({Ref::borrow(call.callable), Ref::borrow(key)});
}

void calls_target(Recorder& recorder, const Call& call) {
  static PyObject* const target = interned("target");
  read_slot(recorder, call.callable, target);
}

void dispatches(Recorder& recorder, const Call& call) {
  if (call.self && !is_tensor(call.self)) read_deeply(recorder, call.self, Callables::Skip);
  for (PyObject* argument : call.arguments) read_deeply(recorder, argument, Callables::Skip);
}

void calls_script(Recorder& recorder, const Call& call) {
  dispatches(recorder, call);
  recorder.run_scripts_plainly(call.callable);
}

void asks(Recorder& recorder, const Call& call) {
  Ref arguments = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(call.arguments.size())));
  for (size_t i = 0; i < call.arguments.size(); i++)
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), Py_NewRef(call.arguments[i]));
  PyObject* key = call.keywords ? nullptr : recorder.log.canonical_key(arguments.get());
  if (!key || !is_constant(key)) return dispatches(recorder, call);
  recorder.log.read(Kind::Answer, call.callable, key);
}

void reads_tensor_data(Recorder& recorder, const Call& call) {
  PyObject* tensor = call.self ? call.self : call.arguments.empty() ? nullptr : call.arguments[0];
  if (tensor && recorder.log.is_old(tensor))
    recorder.impure(Impure::TensorData,
                    fmt::format("reads the data of a tensor that is not an argument, with {}",
                                describe_callable(call.callable)));
}

void changes_tensor_state(Recorder& recorder, const Call& call) {
  PyObject* tensor = call.self ? call.self : call.arguments.empty() ? nullptr : call.arguments[0];
  if (tensor && recorder.log.is_old(tensor))
    recorder.impure(Impure::TensorState,
                    fmt::format("changes a tensor that is not an argument, with {}",
                                describe_callable(call.callable)));
}

void computes_on_arrays(Recorder& recorder, const Call& call) {
  bool views = call.self && is_array(call.self);  // the result may share memory with an array
  for (PyObject* argument : call.arguments) {
    read_deeply(recorder, argument);
    views = views || is_array(argument);
  }
  PyObject* output = named_output(call);
  if (output && is_array(output)) write_contents(recorder, output);
  if (!views) recorder.expect_fresh(call.at);
}

void array_method(Recorder& recorder, const Call& call) {
  std::string name = describe_callable(call.callable);
  for (const char* mutator : {".sort(", ".fill(", ".put(", ".resize(", ".partition(", ".itemset(",
                              ".setflags(", ".setfield(", ".byteswap(", ".__setitem__(",
                              ".__delitem__(", ".__setstate__(", ".__i", ".dump", ".tofile("})
    if (name.find(mutator) != name.npos && name.find(".__in") == name.npos)
      write_contents(recorder, call.self);
  read_deeply(recorder, call.self);
  computes_on_arrays(recorder, call);
}

}  // namespace fulgurite::pystate::handlers
