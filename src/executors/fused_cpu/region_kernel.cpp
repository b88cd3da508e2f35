#include "executors/fused_cpu/region_kernel.h"

#include <unistd.h>

#include <ATen/EmptyTensor.h>

#include "base/error.h"
#include "codegen/loops/lower.h"
#include "codegen/loops/print_cpu.h"

namespace fulgurite {
namespace {

// Of the last level of cache; what a kernel moves beyond three quarters of it would push out what
// others keep there.
int64_t cache_bytes() {
  static const int64_t bytes = [] {
    const long found = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return found > 0 ? found / 4 * 3 : int64_t{24} << 20;
  }();
  return bytes;
}

// The operators in it, so that a profile can be read; equal programs have equal names.
std::string symbol_of(const LoopProgram& program) {
  constexpr size_t kMostOperators = 4;
  std::string name = "fused";
  for (size_t i = 0; i < std::min(program.operators.size(), kMostOperators); ++i) {
    const std::string& op = program.operators[i];  // "aten::add.Tensor"
    const size_t begin = op.find("::") == op.npos ? 0 : op.find("::") + 2;
    name += '_' + op.substr(begin, op.find('.', begin) - begin);
  }
  for (char& c : name)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

bool is_laid_out(const at::Tensor& tensor, const TensorType& type) {
  return tensor.scalar_type() == type.dtype && tensor.device().is_cpu() &&
         tensor.sizes() == c10::IntArrayRef(type.sizes) &&
         tensor.strides() == c10::IntArrayRef(type.strides) && tensor.is_conj() == type.conj &&
         tensor.is_neg() == type.neg;
}

}  // namespace

std::shared_ptr<const RegionKernel> region_kernel(const Trace& trace, const Call& region) {
  std::vector<ValueId> inputs, outputs;
  for_each_value(region.args, [&](ValueId id) { inputs.push_back(id); });
  for_each_value(region.results, [&](ValueId id) { outputs.push_back(id); });
  auto made = lower_region(trace, region.body, inputs, outputs);
  if (const auto* refusal = std::get_if<Refusal>(&made))
    internal_error("{} is no loop program: {}", region.op.region, *refusal);
  auto result = std::make_shared<RegionKernel>();
  result->program = std::get<LoopProgram>(std::move(made));
  const std::string symbol = symbol_of(result->program);
  const CpuTarget& target = default_target();
  result->kernel =
      compile_kernel(print_cpu(result->program, symbol, target.vector_bytes), symbol, target);
  if (!result->kernel) return nullptr;
  for (ValueId id : inputs) result->inputs.push_back(type_of(trace, id));
  for (ValueId id : outputs) result->outputs.push_back(type_of(trace, id));
  return result;
}

bool run(const RegionKernel& kernel, c10::ArrayRef<at::Tensor> inputs,
         std::vector<at::Tensor>& results) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_laid_out(inputs[i], kernel.inputs[i])) return false;
  c10::SmallVector<void*, 12> data;
  for (const at::Tensor& input : inputs) data.push_back(const_cast<void*>(input.const_data_ptr()));
  results.reserve(kernel.outputs.size());
  for (const TensorType& type : kernel.outputs) {
    results.push_back(at::detail::empty_strided_cpu(type.sizes, type.strides, type.dtype));
    data.push_back(results.back().mutable_data_ptr());
  }
  run(bind(kernel.program, data, cache_bytes()),
      kernel.kernel->function<std::remove_pointer_t<KernelFunction>>());
  return true;
}

}  // namespace fulgurite
