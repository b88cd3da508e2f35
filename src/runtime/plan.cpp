#include "runtime/plan.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include <ATen/SavedTensorHooks.h>
#include <ATen/record_function.h>

#include "base/error.h"
#include "runtime/instruction.h"
#include "runtime/line_clock.h"
#include "torch/default_generator.h"
#include "torch/dispatch_state.h"

namespace fulgurite {

struct Plan::Program {
  Lowered lowered;
  std::string title;  // as profilers show a run
  mutable std::atomic<int64_t> nanoseconds{0};
  mutable std::atomic<uint32_t> runs{0};  // about: threads may count one run together
};

namespace {

// Two looks at the clock would be a noticeable part of a small plan.
constexpr uint32_t kTimedEvery = 16;

std::vector<at::Tensor> execute_timed(const Lowered& program, std::vector<at::Tensor> inputs,
                                      size_t& done) {
  LineClock* const clock = LineClock::current();
  if (!clock) return execute(program, std::move(inputs), done);
  clock->begin(&program, program.lines);
  std::vector<at::Tensor> outputs = execute(program, std::move(inputs), done, clock);
  clock->end();
  return outputs;
}

std::vector<at::Tensor> execute_or_undo(const Lowered& program, std::vector<at::Tensor> inputs,
                                        bool& undone) {
  std::optional<DefaultGeneratorState> before;
  if (program.draws) before.emplace();
  size_t done = 0;
  try {
    return execute_timed(program, std::move(inputs), done);
  } catch (...) {
    // Hooks of saved tensors are the caller's code, and may raise to stop the run (checkpoint()).
    undone = done < program.first_lasting && !at::SavedTensorDefaultHooks::get_hooks();
    if (undone && before) before->restore();
    throw;
  }
}

}  // namespace

Plan::Plan(const Trace& trace, const LowerOptions& options)
    : program_(std::make_unique<Program>()) {
  program_->lowered = lower(trace, options);
  program_->title = fmt::format("fulgurite.jit({}): {}", options.program, trace.name);
}
Plan::~Plan() = default;
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;

std::vector<at::Tensor> Plan::run(std::vector<at::Tensor> inputs) const {
  bool undone;
  return run(std::move(inputs), undone);
}

std::vector<at::Tensor> Plan::run(std::vector<at::Tensor> inputs, bool& undone) const {
  const size_t wanted = program_->lowered.inputs.size();
  require(inputs.size() == wanted, "a plan of {} inputs was given {}", wanted, inputs.size());
  RECORD_FUNCTION(program_->title.c_str(), c10::ArrayRef<const c10::IValue>());
  // The casts of autocast are calls of the trace.
  NoAutocast no_autocast;
  const uint32_t runs = program_->runs.load(std::memory_order_relaxed);
  program_->runs.store(runs + 1, std::memory_order_relaxed);
  if (runs % kTimedEvery) return execute_or_undo(program_->lowered, std::move(inputs), undone);
  const auto start = std::chrono::steady_clock::now();
  std::vector<at::Tensor> outputs = execute_or_undo(program_->lowered, std::move(inputs), undone);
  const auto taken = std::chrono::steady_clock::now() - start;
  program_->nanoseconds.store(std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count(),
                              std::memory_order_relaxed);
  return outputs;
}

std::vector<std::shared_ptr<const CompiledRegion>> Plan::regions() const {
  std::vector<std::shared_ptr<const CompiledRegion>> found;
  for (const Instruction& instruction : program_->lowered.instructions)
    if (instruction.region) found.push_back(instruction.region);
  return found;
}

const void* Plan::id() const { return &program_->lowered; }

int64_t Plan::typical_nanoseconds() const {
  return program_->nanoseconds.load(std::memory_order_relaxed);
}

}  // namespace fulgurite
