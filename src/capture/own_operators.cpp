// What torch does without operators. The state of a generator: random, so that every pass keeps
// reads and writes and their order among the draws; None stands for the CPU's default generator.
// Checks that torch makes in Python.
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

// What a function of torch written in Python checks before it raises a ValueError.
void check_false(const at::Tensor& failed, c10::string_view message) {
  TORCH_CHECK_VALUE(!failed.is_nonzero(), message);
}
void check_false_meta(const at::Tensor&, c10::string_view) {}

const std::vector<at::Tag> kTags{at::Tag::nondeterministic_seeded};

}  // namespace

TORCH_LIBRARY(fulgurite, m) {
  m.def("get_rng_state(Generator? generator=None) -> Tensor", kTags);
  m.def("set_rng_state(Tensor state, Generator? generator=None) -> ()", kTags);
  m.def("manual_seed(int seed, Generator? generator=None) -> ()", kTags);
  m.def("check_false(Tensor failed, str message) -> ()");
}
TORCH_LIBRARY_IMPL(fulgurite, CompositeExplicitAutograd, m) {
  m.impl("get_rng_state", &get_rng_state);
  m.impl("set_rng_state", &set_rng_state);
  m.impl("manual_seed", &manual_seed);
  m.impl("check_false", &check_false);
}
TORCH_LIBRARY_IMPL(fulgurite, Meta, m) {
  m.impl("get_rng_state", &get_rng_state_meta);
  m.impl("set_rng_state", &set_rng_state_meta);
  m.impl("manual_seed", &manual_seed_meta);
  m.impl("check_false", &check_false_meta);
}

}  // namespace fulgurite
