#include "torch/default_generator.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace fulgurite {

DefaultGeneratorState::DefaultGeneratorState() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  saved_ = at::check_generator<at::CPUGeneratorImpl>(generator)->clone();
}

DefaultGeneratorState::~DefaultGeneratorState() = default;

void DefaultGeneratorState::restore() const {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  auto* now = at::check_generator<at::CPUGeneratorImpl>(generator);
  now->set_engine(saved_->engine());
  now->set_next_float_normal_sample(saved_->next_float_normal_sample());
  now->set_next_double_normal_sample(saved_->next_double_normal_sample());
}

bool DefaultGeneratorState::differs() const {
  const DefaultGeneratorState now;
  const auto same = [](const at::mt19937_data_pod& a, const at::mt19937_data_pod& b) {
    return a.seed_ == b.seed_ && a.left_ == b.left_ && a.seeded_ == b.seeded_ &&
           a.next_ == b.next_ && a.state_ == b.state_;
  };
  return !same(saved_->engine().data(), now.saved_->engine().data()) ||
         saved_->next_float_normal_sample() != now.saved_->next_float_normal_sample() ||
         saved_->next_double_normal_sample() != now.saved_->next_double_normal_sample();
}

}  // namespace fulgurite
