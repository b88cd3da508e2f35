// What ATen says of a call when it is asked, and that nobody notices that it was.
#include "ops/kernel_errors.h"

#include <torch/types.h>

#include "capture/tracer.h"
#include "executors/fused_cpu/fused_cpu.h"

#include "trace_builder.h"

#include <doctest/doctest.h>  // last: torch has a CHECK of its own

using namespace fulgurite;

namespace {

TensorType of_dtype(at::ScalarType dtype, std::initializer_list<int64_t> sizes) {
  TensorType type = f32(sizes);
  type.dtype = dtype;
  return type;
}

// Of a call on one tensor of two dimensions.
std::string error_of(const char* name, const char* overload, at::ScalarType dtype,
                     std::vector<Arg> more = {}) {
  Trace trace;
  const TensorType type = of_dtype(dtype, {2, 3});
  more.insert(more.begin(), Arg::of(add_input(trace, "x", type)));
  add_call(trace, name, overload, std::move(more), type);
  return error_of_kernels(trace, trace.calls[0]);
}

}  // namespace

TEST_CASE("kernel errors: by dtype and by number") {
  CHECK(error_of("aten::gelu", "", at::kFloat, {literal("none")}) == "");
  CHECK(error_of("aten::gelu", "", at::kInt, {literal("none")}) ==
        "\"GeluKernelImpl\" not implemented for 'Int'");
  CHECK(error_of("aten::pow", "Tensor_Scalar", at::kInt, {literal(at::Scalar(3))}) == "");
  CHECK(error_of("aten::pow", "Tensor_Scalar", at::kInt, {literal(at::Scalar(int64_t{1} << 40))}) !=
        "");
  CHECK(error_of("aten::floor_divide", "", at::kInt, {wrapped(2)}) == "");
  CHECK(error_of("aten::floor_divide", "", at::kInt, {wrapped(0)}) == "ZeroDivisionError");
  CHECK(error_of("aten::floor_divide", "", at::kFloat, {wrapped(0)}) == "");
}

TEST_CASE("kernel errors: that depend on integers") {
  const auto raises = [](at::ScalarType dtype, const char* name, const char* overload) {
    Trace trace;
    const TensorType type = of_dtype(dtype, {2, 3});
    const Arg x = Arg::of(add_input(trace, "x", type)), y = Arg::of(add_input(trace, "y", type));
    add_call(trace, name, overload, {x, y}, type);
    CHECK(error_of_kernels(trace, trace.calls[0]) == "");
    return may_raise(trace, trace.calls[0]);
  };
  CHECK(raises(at::kInt, "aten::floor_divide", ""));
  CHECK(raises(at::kLong, "aten::remainder", "Tensor"));
  CHECK(!raises(at::kFloat, "aten::floor_divide", ""));
  CHECK(!raises(at::kInt, "aten::mul", "Tensor"));
}

TEST_CASE("kernel errors: sizes that a call names are shrunk") {
  const auto norm = [](at::ScalarType dtype) {
    Trace trace;
    const TensorType type = of_dtype(dtype, {5, 2, 3});
    const ValueId x = add_input(trace, "x", type);
    std::vector<Arg> results;
    for (int i = 0; i < 3; ++i) results.push_back(Arg::of(add_value(trace, type)));
    const Arg shape = literal(std::vector<int64_t>{2, 3});
    trace.calls.push_back(make_call(find_op("aten::native_layer_norm"),
                                    {Arg::of(x), shape, none(), none(), literal(1e-5)}, results));
    return error_of_kernels(trace, trace.calls[0]);
  };
  CHECK(norm(at::kFloat) == "");
  CHECK(norm(at::kInt) == "\"LayerNormKernelImpl\" not implemented for 'Int'");
}

TEST_CASE("kernel errors: a composite raises what its body does") {
  Trace trace;
  const TensorType type = of_dtype(at::kBool, {2});
  const ValueId x = add_input(trace, "x", type);
  Call frame = make_call(find_op("aten::absolute"), {Arg::of(x)}, {});
  const ValueId result = add_call(trace, frame.body, "aten::abs", "", {Arg::of(x)}, type);
  frame.results.push_back(Arg::of(result));
  CHECK(error_of_kernels(trace, frame) == "\"abs_cpu\" not implemented for 'Bool'");
}

TEST_CASE("kernel errors: not asked of what draws, nor of what is elsewhere") {
  Trace trace;
  TensorType type = of_dtype(at::kInt, {2});
  type.device = at::Device(at::kMeta);
  add_call(trace, "aten::gelu", "", {Arg::of(add_input(trace, "x", type)), literal("none")}, type);
  CHECK(error_of_kernels(trace, trace.calls[0]) == "");
}

TEST_CASE("kernel errors: within capture nothing is recorded") {
  Tracer tracer;
  const at::Tensor traced = tracer.input(at::ones({2}), "x");
  {
    Tracer::Listening listening(tracer);
    CHECK(error_of("aten::silu", "", at::kLong) == "\"silu_cpu\" not implemented for 'Long'");
    CHECK(error_of("aten::silu", "", at::kDouble) == "");
  }
  const Captured captured = tracer.finish({traced}, flat_tree(1));
  CHECK(captured.trace.calls.empty());
}

TEST_CASE("kernel errors: the executor says them") {
  Trace trace;
  const TensorType type = of_dtype(at::kInt, {2});
  add_call(trace, "aten::silu", "", {Arg::of(add_input(trace, "x", type))}, type);
  trace.calls[0].mode = GradMode::NoGrad;
  const Refusal refusal = fused_cpu_executor().claims(trace, trace.calls[0]);
  const bool without_compiler = refusal.find("silu_cpu") == std::string::npos;
  CHECK((refusal == "ATen raises: \"silu_cpu\" not implemented for 'Int'" || without_compiler));
}
