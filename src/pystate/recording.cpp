#include "pystate/recording.h"

#include "base/error.h"
#include "pystate/interpreter.h"
#include "pystate/recorder.h"

namespace fulgurite::pystate {
namespace {

constexpr int kDeepestResult = 4;

// Whether a tensor that the run made is in the object or the containers in it.
bool holds_new_tensor(const Log& log, PyObject* object, int depth = 0) {
  if (is_atomic(object)) return false;
  if (is_tensor(object)) return !log.is_old(object);
  bool container = is_mutable_container(object) || PyTuple_Check(object);
  // An object of which nothing is known could hold one.
  if (!container || depth > kDeepestResult) return !log.is_old(object) && !PyType_Check(object);
  Ref elements = PyTuple_Check(object) ? Ref::borrow(object) : contents_of(object);
  Ref iterator = Ref::steal(PyObject_GetIter(elements.get()));
  while (Ref element = Ref::steal(iterator ? PyIter_Next(iterator.get()) : nullptr))
    if (holds_new_tensor(log, element.get(), depth + 1)) return true;
  PyErr_Clear();
  return false;
}

}  // namespace

struct Recording::State {
  Recorder recorder;
  Effects::Opener open;
  bool stopped = false;
  bool complete = true;

  explicit State(Options& options)
      : recorder(std::move(options.roots), options.stand_ins, options.raised, options.error_type,
                 std::move(options.during_imports)),
        open(std::move(options.open)) {}

  void settle_caches();
};

// Results of lru_cache wrappers that the run put there. A tensor of the run is of no use outside
// of it, so a cache that got one is cleared, as its contract allows.
void Recording::State::settle_caches() {
  Log& log = recorder.log;
  for (auto& [wrapper, key] : recorder.filled_caches) {
    CachedFunction cached = cached_function(wrapper.get());
    PyObject* result = PyDict_GetItemWithError(cached.results, key.get());
    if (result && holds_new_tensor(log, cached_result(wrapper.get(), result))) {
      Ref cleared = Ref::steal(PyObject_CallMethod(wrapper.get(), "cache_clear", nullptr));
      PyErr_Clear();
    }
    log.read(Kind::Key, cached.results, key.get());
  }
}

Recording::Recording(Options options) : state_(std::make_unique<State>(options)) {
  state_->recorder.start();
}

Recording::~Recording() { stop(); }

void Recording::stop() {
  if (state_->stopped) return;
  state_->stopped = true;
  state_->complete = state_->recorder.stop();
  state_->settle_caches();
  state_->recorder.log.settle();
}

bool Recording::drew_outside() const { return state_->recorder.drew_outside; }

std::vector<Ref> Recording::written_values() const { return state_->recorder.log.written_values(); }

bool Recording::written_since(const std::vector<Ref>& then) const {
  return state_->recorder.log.written_since(then);
}

bool Recording::complete() const { return state_->complete; }

const std::vector<Impurity>& Recording::impurities() const { return state_->recorder.impurities; }

bool Recording::is_old(PyObject* object) const { return state_->recorder.log.is_old(object); }

bool Recording::undo() {
  stop();
  return pystate::undo(state_->recorder.log, state_->recorder.context.get());
}

Recording::Outcome Recording::outcome() {
  stop();
  auto facts = std::make_unique<Facts>(state_->recorder.log);
  Effects effects(state_->recorder.log, *facts, state_->open);
  return {Guards(std::move(facts)), std::move(effects)};
}

Recording::Line Recording::line_of(const Where& where) {
  if (!where.code) return {};
  const char* file = PyUnicode_AsUTF8(where.code->co_filename);
  if (!file) PyErr_Clear();
  return {file ? file : "",
          PyCode_Addr2Line(where.code, where.instruction * (int)sizeof(_Py_CODEUNIT))};
}

}  // namespace fulgurite::pystate
