// An operator run on real tensors during capture, to learn what its meta kernel does not tell: the
// types of results that it finds by looking at data, errors that it raises for overlapping memory.
#pragma once

#include "capture/state.h"

namespace fulgurite {

// Whether it may: an operator of torch itself, on the CPU, without effects beyond its arguments.
bool can_run_on_ones(const Tracer::State& state, const Call& call);

// The results of `call` on tensors of the types of its arguments that share memory as those do:
// full of ones, or with the data of the real integers that they stand for. `env` holds the
// arguments afterwards, by value. Throws what the operator throws.
torch::jit::Stack run_on_ones(const Tracer::State& state, const Call& call,
                              std::vector<at::Tensor>& env);

// Whether the tensor has the geometry that the value has now.
bool has_type_of(const Tracer::State& state, ValueId id, const at::Tensor& tensor);

// Throws what eager throws where a call writes to memory that it also reads in another layout, or
// where its arguments have several floating dtypes: meta kernels do not look.
void check_on_ones(const Tracer::State& state, const OpInfo& info, const Call& call);

}  // namespace fulgurite
