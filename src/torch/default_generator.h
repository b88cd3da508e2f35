// The state of torch's default generator on the CPU.
#pragma once

#include <memory>

namespace at {
struct CPUGeneratorImpl;
}

namespace fulgurite {

// As it was when this was made.
class DefaultGeneratorState {
 public:
  DefaultGeneratorState();
  ~DefaultGeneratorState();
  void restore() const;
  bool differs() const;  // from the state now

 private:
  std::shared_ptr<at::CPUGeneratorImpl> saved_;
};

}  // namespace fulgurite
