// The executed form of a trace: a flat list of instructions over numbered slots.
#pragma once

#include <memory>
#include <vector>

#include <ATen/ATen.h>

#include "ir/trace.h"
#include "runtime/instruction.h"

namespace fulgurite {

class Plan {
 public:
  // `trace` is the last of a series: every call is placed and says what it frees. Without
  // executors the calls of a region run one by one.
  explicit Plan(const Trace& trace, const LowerOptions& options = {});
  ~Plan();
  Plan(Plan&&) noexcept;
  Plan& operator=(Plan&&) noexcept;

  // One tensor per Trace::inputs; one per Trace::outputs comes back. May be called from several
  // threads at once, with or without Python's lock. A trace in grad mode runs under the thread's
  // own autograd; any other runs below it, except where a view or a write can be seen outside.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs) const;
  // The same. Where it throws, `undone` says whether all is as it was before the run.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, bool& undone) const;

  // Those that have code, in order.
  std::vector<std::shared_ptr<const CompiledRegion>> regions() const;

  // What a LineClock knows it by.
  const void* id() const;

  // How long a run takes, in nanoseconds: one of the latest that were timed; 0 before the first.
  int64_t typical_nanoseconds() const;

 private:
  struct Program;
  std::unique_ptr<Program> program_;
};

}  // namespace fulgurite
