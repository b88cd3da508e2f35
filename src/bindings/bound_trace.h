// The parts of a trace as Python sees them: views that keep the trace alive.
#pragma once

#include <memory>

#include <nanobind/nanobind.h>

#include "ir/trace.h"

namespace fulgurite {

namespace nb = nanobind;

using TracePtr = std::shared_ptr<const Trace>;

struct BoundValue {
  TracePtr trace;
  ValueId id;
  const TensorType& type() const { return type_of(*trace, id); }
};

struct BoundCall {
  TracePtr trace;
  const Call* call;
};

// An argument or result as Python's own: a BoundValue, a list of them and None, a constant.
nb::object argument_in_python(const TracePtr& trace, const Arg& arg);

// A constant of a call as Python's own; None for a generator, which has no such form.
nb::object constant_in_python(const c10::IValue& value);

}  // namespace fulgurite
