// Traces made by hand, for tests.
#pragma once

#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "ir/print.h"
#include "ir/trace.h"
#include "ops/facts.h"

namespace fulgurite {

inline TensorType f32(std::initializer_list<int64_t> sizes) {
  TensorType type;
  type.sizes = Dims(sizes);
  type.strides.resize(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0; step *= type.sizes[i]) type.strides[i] = step;
  type.nbytes = 4 * step;
  return type;
}

inline TensorType strided(TensorType type, std::initializer_list<int64_t> strides) {
  type.strides = Dims(strides);
  return type;
}

inline Arg literal(c10::IValue value) { return Arg::literal(std::move(value)); }
inline Arg none() { return Arg(); }

// A Python number where the schema has a Tensor.
inline Arg wrapped(const at::Scalar& number) {
  at::Tensor tensor =
      at::scalar_tensor(number, number.isFloatingPoint() ? at::kDouble : number.type());
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return literal(tensor);
}

inline ValueId add_input(Trace& trace, const std::string& name, TensorType type) {
  ValueId id = add_value(trace, std::move(type));
  trace.values[id].name = name;
  trace.inputs.push_back({id, InputKind::Argument, ""});
  return id;
}

inline Call make_call(c10::OperatorHandle op, std::vector<Arg> args, std::vector<Arg> results) {
  Call call;
  call.op = std::move(op);
  call.args = std::move(args);
  call.results = std::move(results);
  return call;
}

// A call with one new result.
inline ValueId add_call(Trace& trace, std::vector<Call>& calls, const char* name,
                        const char* overload, std::vector<Arg> args, TensorType type) {
  ValueId id = add_value(trace, std::move(type));
  calls.push_back(make_call(find_op(name, overload), std::move(args), {Arg::of(id)}));
  return id;
}

inline ValueId add_call(Trace& trace, const char* name, const char* overload, std::vector<Arg> args,
                        TensorType type) {
  return add_call(trace, trace.calls, name, overload, std::move(args), std::move(type));
}

inline Call region_call(std::string name, const std::vector<ValueId>& args,
                        const std::vector<ValueId>& results, std::vector<Call> body) {
  Call call;
  call.op = Op::named(std::move(name));
  for (ValueId id : args) call.args.push_back(Arg::of(id));
  for (ValueId id : results) call.results.push_back(Arg::of(id));
  call.body = std::move(body);
  return call;
}

inline void set_outputs(Trace& trace, std::vector<ValueId> outputs) {
  trace.output_tree = flat_tree(static_cast<int32_t>(outputs.size()));
  trace.outputs = std::move(outputs);
}

}  // namespace fulgurite
