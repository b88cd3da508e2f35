// The state of torch's default generator on the CPU.
#pragma once

#include <memory>

namespace at {
struct CPUGeneratorImpl;
}

namespace fulgurite {

// As it was when this was made. All of it takes the generator's mutex, which torch's own
// Generator.get_state() holds while it makes a Python object: a thread that holds Python's lock
// and waits for the mutex may wait for ever.
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
