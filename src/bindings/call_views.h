// What Python asks of single calls of a trace.
#pragma once

#include <memory>

#include "bindings/bound_trace.h"

namespace fulgurite {

// torch.ops.aten.add.Tensor; None for a region.
nb::object operator_of(const BoundCall& bound);

nb::dict arguments_by_name(const BoundCall& bound);

nb::list written_values(const BoundCall& bound);

// Runs the operator. UserError for a region, and for another number of arguments.
nb::object call_again(const BoundCall& bound, nb::args args);

// The calls as a trace with these inputs and outputs, and numbers of its own, verified: UserError
// for one that uses anything else.
std::shared_ptr<Trace> part_of(TracePtr trace, nb::iterable calls, nb::iterable inputs,
                               nb::iterable outputs);

}  // namespace fulgurite
