// An executor and a pass of one's own in a C++ program.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "compile/jit.h"
#include "executors/aten/aten.h"
#include "executors/fused_cpu/fused_cpu.h"
#include "executors/operators/operators.h"
#include "ir/print.h"

using fulgurite::Call;
using fulgurite::Trace;

// Runs softmax over the last dimension in one sweep that keeps a running maximum.
at::Tensor online_softmax(const at::Tensor& x) {
  const at::Tensor rows = x.contiguous(), result = at::empty_like(rows);
  const int64_t width = x.size(-1), count = x.numel() / width;
  for (int64_t row = 0; row < count; ++row) {
    const float* from = rows.const_data_ptr<float>() + row * width;
    float* to = result.mutable_data_ptr<float>() + row * width;
    float largest = from[0], sum = 0;
    for (int64_t i = 0; i < width; ++i) {
      const float next = std::max(largest, from[i]);
      sum = sum * std::exp(largest - next) + std::exp(from[i] - next);
      largest = next;
    }
    for (int64_t i = 0; i < width; ++i) to[i] = std::exp(from[i] - largest) / sum;
  }
  return result;
}

fulgurite::Executor softmax_executor() {
  fulgurite::OperatorRules rules;
  rules.claims = [](const Trace& trace, const Call& call) -> fulgurite::Refusal {
    if (call.op.name() != "aten::softmax.int") return "it is no softmax";
    const auto& type = type_of(trace, call.args[0].values[0]);
    const int64_t dim = call.args[1].constant.toInt(), last = type.sizes.size() - 1;
    if (type.dtype != at::kFloat || !is_contiguous(type)) return "it is not in rows of float32";
    if (dim != -1 && dim != last) return "it is not over the last dimension";
    return "";
  };
  rules.lower = [](const Trace&, const Call&) -> fulgurite::CallFunction {
    return [](const std::vector<at::Tensor>& tensors) {
      return std::vector<at::Tensor>{online_softmax(tensors[0])};
    };
  };
  return operator_executor("online", std::move(rules));
}

int main() {
  at::manual_seed(0);
  auto program = [](const at::Tensor& x) { return at::softmax(x * 2, -1) + 1; };

  size_t seen = 0;
  fulgurite::CompileOptions options;
  options.executors = {softmax_executor(), fulgurite::fused_cpu_executor(),
                       fulgurite::aten_executor()};
  options.extra.push_back(
      {"count calls", "Dead Code Elimination", /*before=*/true, [&](const Trace& trace) {
         seen = trace.calls.size();
         return trace;
       }});
  auto compiled = fulgurite::jit(program, options);
  const at::Tensor x = at::randn({3, 5});
  const at::Tensor result = compiled(x);

  std::cout << fulgurite::print(compiled.last_traces().back()) << '\n';
  const bool same = at::allclose(result, program(x)) && seen == 3;
  std::cout << "as eager: " << std::boolalpha << same << '\n';
  return same ? 0 : 1;
}
