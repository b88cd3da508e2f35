// A call that has a gradient, as a function of autograd.
#pragma once

#include "ir/trace.h"
#include "torch/custom_function.h"

namespace fulgurite {

// Makes a program of some calls of a trace; an output that is kNoValue is an undefined tensor.
using MakeProgram =
    std::function<TensorProgram(const std::vector<Call>& calls, const std::vector<ValueId>& inputs,
                                const std::vector<ValueId>& outputs)>;

// `call` has a gradient: `make` is asked for each half of it.
std::shared_ptr<const CustomFunction> custom_function(const Call& call, const MakeProgram& make);

}  // namespace fulgurite
