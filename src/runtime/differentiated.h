// A program with results that are differentiated: its forward plan, and its backward one as a node
// of torch's autograd graph.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "passes/split.h"
#include "runtime/plan.h"

namespace fulgurite {

// Gradients that came in as the backward plan is not made for.
struct OtherGradients {
  std::vector<bool> given;     // by output
  AutocastState autocast;      // that the backward pass ran under
  bool creates_graph = false;  // they are differentiated themselves
  // No backward plan can serve such calls.
  bool by_calls_alone = false;
};

// Where the backward plan is of no use (gradients come in for other outputs, under another
// autocast, or are to be differentiated themselves), the calls of the captured trace run again
// under torch's autograd, on the same inputs and with the same random numbers, and that graph gives
// the gradients.
class Differentiated : public std::enable_shared_from_this<Differentiated> {
 public:
  // `captured`: the trace that `joint` was made from. `forward` and `backward`: plans of `halves`
  // after all passes. `autocast`: that `joint` was made for.
  // `finish`: of Finished::finish, or null; `written`: inputs that it writes to.
  Differentiated(Trace captured, const Joint& joint, const Halves& halves, Plan forward,
                 Plan backward, std::unique_ptr<const Plan> finish, std::vector<size_t> written,
                 const AutocastState& autocast = {});

  // As Plan::run, for the results that the program has. They have a history, and versions of
  // what is saved are checked, as those of eager.
  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, bool& undone) const;

  // The last ones that came in, if there were such.
  std::optional<OtherGradients> others() const;

  const Plan& forward() const { return forward_; }
  const Plan& backward() const { return backward_; }

 private:
  class Node;

  // Where a value that is saved comes from.
  struct Source {
    enum class Kind : uint8_t {
      Input,
      Statistics,  // an input of whose writes autograd does not know
      Copy,        // of an input that is written afterwards
      Output,
      Made,  // a result of the forward plan that is no output
    };
    Kind kind;
    size_t index;
  };

  std::vector<at::Tensor> run_core(const std::vector<at::Tensor>& inputs, bool& undone) const;
  Source source_of(ValueId id, const Joint& joint, const Halves& halves) const;
  const Plan& call_by_call() const;
  std::vector<at::Tensor> copies_of_written(const std::vector<at::Tensor>& inputs) const;
  void note_others(OtherGradients others) const;
  std::vector<bool> outputs_of(const std::vector<at::Tensor>& gradients) const;

  const Trace captured_;
  const Plan forward_, backward_;
  const std::unique_ptr<const Plan> finish_;
  const AutocastState autocast_;
  std::vector<bool> given_;             // by output: a gradient comes in
  std::vector<TensorType> incoming_;    // of these, as the backward plan takes them
  std::vector<size_t> with_history_;    // outputs
  std::vector<bool> within_;            // see Joint
  std::vector<size_t> leaves_;          // inputs that require grad
  std::vector<size_t> gradient_place_;  // by result of the backward plan: in `leaves_`
  std::vector<size_t> written_;         // inputs; those by `finish_` first
  size_t written_by_finish_ = 0;
  std::vector<Source> saved_;
  bool draws_ = false;
  mutable std::once_flag once_;
  mutable std::unique_ptr<const Plan> call_by_call_;
  mutable std::atomic<bool> has_others_{false};
  mutable std::mutex mutex_;  // of the one below
  mutable OtherGradients others_;
};

}  // namespace fulgurite
