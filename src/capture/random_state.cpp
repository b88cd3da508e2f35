// The state of a generator as operators: torch reads and sets it without any. They are random, so
// that every pass keeps them and their order among the draws. None stands for the CPU's default
// generator.
#include <ATen/CPUGeneratorImpl.h>
#include <torch/library.h>

namespace fulgurite {
namespace {

using MaybeGenerator = std::optional<at::Generator>;

at::Generator chosen(const MaybeGenerator& generator) {
  return generator && generator->defined() ? *generator : at::detail::getDefaultCPUGenerator();
}

at::Tensor get_rng_state(const MaybeGenerator& generator) {
  at::Generator source = chosen(generator);
  std::lock_guard lock(source.mutex());
  return source.get_state();
}

void set_rng_state(const at::Tensor& state, const MaybeGenerator& generator) {
  at::Generator target = chosen(generator);
  std::lock_guard lock(target.mutex());
  target.set_state(state);
}

void manual_seed(int64_t seed, const MaybeGenerator& generator) {
  at::Generator target = chosen(generator);
  std::lock_guard lock(target.mutex());
  target.set_current_seed(static_cast<uint64_t>(seed));
}

at::Tensor get_rng_state_meta(const MaybeGenerator&) {
  static const int64_t bytes = get_rng_state(std::nullopt).numel();
  return at::empty({bytes}, at::TensorOptions().dtype(at::kByte).device(at::kMeta));
}
void set_rng_state_meta(const at::Tensor&, const MaybeGenerator&) {}
void manual_seed_meta(int64_t, const MaybeGenerator&) {}

const std::vector<at::Tag> kTags{at::Tag::nondeterministic_seeded};

}  // namespace

TORCH_LIBRARY(fulgurite, m) {
  m.def("get_rng_state(Generator? generator=None) -> Tensor", kTags);
  m.def("set_rng_state(Tensor state, Generator? generator=None) -> ()", kTags);
  m.def("manual_seed(int seed, Generator? generator=None) -> ()", kTags);
}
TORCH_LIBRARY_IMPL(fulgurite, CompositeExplicitAutograd, m) {
  m.impl("get_rng_state", &get_rng_state);
  m.impl("set_rng_state", &set_rng_state);
  m.impl("manual_seed", &manual_seed);
}
TORCH_LIBRARY_IMPL(fulgurite, Meta, m) {
  m.impl("get_rng_state", &get_rng_state_meta);
  m.impl("set_rng_state", &set_rng_state_meta);
  m.impl("manual_seed", &manual_seed_meta);
}

}  // namespace fulgurite
