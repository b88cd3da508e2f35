// Calls that stand for another one, under construction.
#pragma once

#include <vector>

#include "ir/trace.h"

namespace fulgurite::catalogue_families {

class MadeCalls {
 public:
  MadeCalls(Trace& trace, const Call& whole) : trace_(trace), whole_(whole) {}

  // The value of the only result, a tensor of its own without gaps; `as` where it is one already.
  ValueId add(const char* op, const char* overload, std::vector<Arg> args, c10::ScalarType dtype,
              const Dims& sizes, ValueId as = kNoValue);
  // A call whose results are these.
  void add(const c10::OperatorHandle& op, std::vector<Arg> args, std::vector<ValueId> results);
  // Of a tensor without gaps.
  ValueId new_value(c10::ScalarType dtype, const Dims& sizes);

  const TensorType& type(ValueId id) const { return type_of(trace_, id); }
  std::vector<Call> take() && { return std::move(calls_); }

 private:
  Trace& trace_;
  const Call& whole_;
  std::vector<Call> calls_;
};

// A number that is no tensor, for the sake of a signature such as mul.Tensor.
Arg number_as_tensor(double value);
inline Arg literal(c10::IValue value) { return Arg::literal(std::move(value)); }
inline Arg literal(c10::ScalarType dtype) { return Arg::literal(static_cast<int64_t>(dtype)); }

}  // namespace fulgurite::catalogue_families
