// The gradient of a trace as calls of one more: the joint trace.
#pragma once

#include <unordered_set>
#include <vector>

#include "ir/trace.h"
#include "torch/autocast_state.h"

namespace fulgurite {

// Takes the inputs of the trace that it was made from and then the gradients of some outputs;
// returns the outputs and then the gradients of some inputs. Nothing in it requires grad but
// inputs, and all of it runs in no-grad mode.
struct Joint {
  Trace trace;
  std::vector<size_t> differentiated;  // by gradient that comes in: of which output
  std::vector<size_t> gradient_of;     // by gradient that goes out: of which input
  // Inputs to which a layer writes its running statistics, and nothing else writes: autograd does
  // not know of that.
  std::vector<size_t> statistics;
  // What is made by calls of the formulas of autograd and of custom backwards; `again`: of the
  // latter, which may compute again what the forward pass has computed, to keep less (checkpoints).
  std::unordered_set<ValueId> late, again;
  // By output: all of its graph is in that of the outputs for which gradients come in.
  std::vector<bool> within;
};

// Whether a call of an operator writes to an argument as its schema says, which autograd sees, and
// not as a layer does to its running statistics.
bool declares_write(const Call& call, int argument);

// Whether each output of a trace can be differentiated: it has a history, and is no input, nor an
// output before it.
std::vector<bool> differentiable_outputs(const Trace& trace);

// The joint trace for gradients that come in for the outputs with `given`. It is made by running
// the trace, and torch's autograd engine under `autocast`, on tensors that record. An input from
// which none of these outputs comes has no gradient. Throws Unsupported, with the reason, for a
// trace whose gradient cannot be given so: its outputs share memory, it writes to what has a
// history, changes geometries in place, or draws from a generator of its own.
Joint differentiate(const Trace& trace, const std::vector<bool>& given,
                    const AutocastState& autocast = {});

}  // namespace fulgurite
