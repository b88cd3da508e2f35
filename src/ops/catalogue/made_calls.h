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
  // The memory of a tensor without gaps, with other sizes.
  ValueId add_view(ValueId of, const Dims& sizes);
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

// Of the call that parts are made of: a number among its arguments, and whether a tensor is there.
inline int64_t constant_int(const Call& call, size_t i) { return call.args.at(i).constant.toInt(); }
inline bool has_tensor(const Call& call, size_t i) {
  return call.args.at(i).kind == Arg::Kind::Value && call.args[i].values[0] != kNoValue;
}

}  // namespace fulgurite::catalogue_families
