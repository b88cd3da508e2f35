#include "executors/fused_cpu/region_kernel.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>

#include "base/error.h"
#include "codegen/loops/lower.h"
#include "codegen/loops/print_cpu.h"
#include "codegen/pool/pool.h"
#include "ir/print.h"

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

// Less than this is done sooner than another thread has begun.
constexpr int64_t kBytesOfOneThread = int64_t{1} << 17;
constexpr int64_t kChunksPerThread = 4;

void run_on_threads(const RegionKernel& region, const std::vector<void*>& pointers) {
  const BoundLoops& loops = region.layout;
  const KernelFunction kernel = region.kernel->function<std::remove_pointer_t<KernelFunction>>();
  if (loops.places == 0) return;
  KernelArgs args = loops.args();
  args.pointers = pointers.data();
  const int threads = at::in_parallel_region() ? 1 : at::get_num_threads();
  if (threads == 1 || region.bytes < kBytesOfOneThread) return kernel(&args, 0, loops.places);
  const int64_t wanted =
      (loops.places + threads * kChunksPerThread - 1) / (threads * kChunksPerThread);
  const int64_t size = (wanted + loops.grain - 1) / loops.grain * loops.grain;
  parallel_chunks((loops.places + size - 1) / size, threads, [&](int64_t chunk) {
    kernel(&args, chunk * size, std::min((chunk + 1) * size, loops.places));
  });
}

// With new tensors for the results.
std::vector<void*> pointers(const RegionKernel& kernel, TensorList inputs,
                            std::vector<at::Tensor>& results) {
  c10::SmallVector<void*, 12> data;
  for (const at::Tensor& input : inputs) data.push_back(const_cast<void*>(input.const_data_ptr()));
  results.reserve(kernel.outputs.size());
  for (const TensorType& type : kernel.outputs) {
    results.push_back(at::detail::empty_strided_cpu(type.sizes, type.strides, type.dtype));
    data.push_back(results.back().mutable_data_ptr());
  }
  return pointers_of(kernel.program, data);
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
  result->layout = layout_of(result->program, cache_bytes());
  result->bytes = result->program.bytes();
  for (ValueId id : inputs) result->inputs.push_back(type_of(trace, id));
  for (ValueId id : outputs) result->outputs.push_back(type_of(trace, id));
  return result;
}

bool run(const RegionKernel& kernel, TensorList inputs, std::vector<at::Tensor>& results) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_laid_out(inputs[i], kernel.inputs[i])) return false;
  run_on_threads(kernel, pointers(kernel, inputs, results));
  return true;
}

double time(const RegionKernel& kernel, TensorList inputs, double seconds) {
  using Clock = std::chrono::steady_clock;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_laid_out(inputs[i], kernel.inputs[i]))
      user_error("input {} is not laid out as the region has it: {}", i,
                 print_type(kernel.inputs[i]));
  std::vector<at::Tensor> results;
  const std::vector<void*> bound = pointers(kernel, inputs, results);
  run_on_threads(kernel, bound);
  std::vector<double> taken;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    const auto start = Clock::now();
    run_on_threads(kernel, bound);
    taken.push_back(std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  } while (Clock::now() < end);
  std::nth_element(taken.begin(), taken.begin() + taken.size() / 2, taken.end());
  return taken[taken.size() / 2];
}

}  // namespace fulgurite
