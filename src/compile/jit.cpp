#include "compile/jit.h"

#include <mutex>

#include "base/error.h"
#include "base/lru_table.h"
#include "capture/tracer.h"
#include "runtime/guard_key.h"

namespace fulgurite {
namespace {

struct Specialisation {
  Key key;
  Compiled compiled;
  std::vector<size_t> arguments;  // for each input that is one
  std::vector<at::Tensor> lifted;
  std::vector<TensorGuard> guards;

  bool serves(const Key& wanted) const {
    if (key != wanted) return false;
    for (size_t i = 0; i < lifted.size(); ++i)
      if (!guards[i].holds(lifted[i])) return false;
    return true;
  }

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& given) const {
    std::vector<at::Tensor> inputs;
    for (size_t i : arguments) inputs.push_back(given[i]);
    inputs.insert(inputs.end(), lifted.begin(), lifted.end());
    bool undone;
    return compiled.run(std::move(inputs), undone);
  }
};
using SpecialisationPtr = std::shared_ptr<const Specialisation>;

Key key_of(const std::vector<at::Tensor>& arguments) {
  Key key;
  c10::SmallVector<const at::TensorImpl*, 8> impls;
  append_ambient(key);
  for (const at::Tensor& tensor : arguments) {
    if (!tensor.defined()) user_error("a compiled function was given an undefined tensor");
    if (tensor.layout() != at::kStrided)
      throw Unsupported(
          fmt::format("a compiled function was given a tensor of layout {}; only "
                      "strided tensors can be captured",
                      c10::str(tensor.layout())));
    append_tensor(key, *tensor.unsafeGetTensorImpl());
    append_offset(key, *tensor.unsafeGetTensorImpl());
    impls.push_back(tensor.unsafeGetTensorImpl());
  }
  append_aliasing(key, impls);
  return key;
}

}  // namespace

struct CompiledCallable::State {
  State(Function function, CompileOptions options, size_t capacity)
      : function(std::move(function)), options(std::move(options)), table(capacity) {}

  const Function function;
  const CompileOptions options;
  mutable std::mutex mutex;  // of everything below
  LruTable<const Specialisation> table;
  SpecialisationPtr last;
  uint64_t hits = 0, misses = 0;

  SpecialisationPtr find(const Key& key) {
    const std::lock_guard lock(mutex);
    SpecialisationPtr found =
        table.find(hash(key), [&](const Specialisation& s) { return s.serves(key); });
    ++(found ? hits : misses);
    return found;
  }

  void add(SpecialisationPtr made) {
    const std::lock_guard lock(mutex);
    last = made;
    const uint64_t hashed = hash(made->key);
    table.add(hashed, std::move(made));
  }

  SpecialisationPtr specialise(Key key, const Tensors& arguments) const {
    Tracer tracer;
    Tensors traced;
    std::vector<size_t> sources;
    for (size_t i = 0; i < arguments.size(); ++i) {
      bool repeated = false;
      for (size_t k = 0; k < i; ++k) repeated |= arguments[k].is_same(arguments[i]);
      if (!repeated) sources.push_back(i);
      traced.push_back(tracer.input(arguments[i], fmt::format("x{}", i)));
    }
    Tensors results;
    {
      Tracer::Listening listening(tracer);
      results = function(traced);
    }
    Captured captured = tracer.finish(results, flat_tree(static_cast<int32_t>(results.size())));
    auto made = std::make_shared<Specialisation>();
    made->key = std::move(key);
    made->arguments = std::move(sources);
    made->lifted = std::move(captured.lifted);
    for (const at::Tensor& tensor : made->lifted) made->guards.emplace_back(tensor);
    made->compiled = compile(std::move(captured.trace), options);
    return made;
  }
};

CompiledCallable::CompiledCallable(Function function, CompileOptions options, size_t capacity)
    : state_(std::make_unique<State>(std::move(function), std::move(options), capacity)) {}
CompiledCallable::~CompiledCallable() = default;

CompiledCallable::Tensors CompiledCallable::operator()(const Tensors& arguments) {
  if (Tracer::active()) return state_->function(arguments);
  Key key = key_of(arguments);
  SpecialisationPtr entry = state_->find(key);
  if (!entry) {
    entry = state_->specialise(std::move(key), arguments);
    state_->add(entry);
  }
  return entry->run(arguments);
}

std::vector<Trace> CompiledCallable::last_traces() const {
  const std::lock_guard lock(state_->mutex);
  if (!state_->last) user_error("nothing has been compiled yet: call the function first");
  return state_->last->compiled.series;
}

uint64_t CompiledCallable::cache_hits() const {
  const std::lock_guard lock(state_->mutex);
  return state_->hits;
}

uint64_t CompiledCallable::cache_misses() const {
  const std::lock_guard lock(state_->mutex);
  return state_->misses;
}

}  // namespace fulgurite
