// The executed form of a trace: a flat list of instructions over numbered slots.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "ir/trace.h"

namespace fulgurite {

class Plan {
 public:
  // `trace` is the last of a series: every call is placed, every value freed after its last use.
  explicit Plan(const Trace& trace);
  ~Plan();
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;

  // One tensor per Trace::inputs; one per Trace::outputs comes back. May be called from several
  // threads at once. The thread's grad mode is the caller's to set where the trace's is Grad.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const;

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

}  // namespace fulgurite
