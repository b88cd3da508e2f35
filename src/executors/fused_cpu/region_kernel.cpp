#include "executors/fused_cpu/region_kernel.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <unordered_map>

#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include "base/error.h"
#include "codegen/loops/lower.h"
#include "codegen/loops/print_cpu.h"
#include "codegen/pool/pool.h"
#include "executors/fused_cpu/draw_words.h"
#include "executors/fused_cpu/run_kernel.h"
#include "executors/fused_cpu/timing.h"
#include "ir/print.h"
#include "torch/kept_memory.h"

namespace fulgurite {
namespace {

// Texts of less have no loop that writes past the caches, which takes as long to compile again.
constexpr int64_t kBytesThatMayStream = int64_t{4} << 20;

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

// A text that defines the function with other parameters does not compile with this at its end.
std::string declaration_of(const std::string& symbol) {
  return fmt::format(
      "\nextern \"C\" void {}(const struct KernelArgs*, long, long);  // its caller\n", symbol);
}

at::Tensor new_tensor(const TensorType& type) {
  const int64_t bytes = numel(type) * static_cast<int64_t>(c10::elementSize(type.dtype));
  if (bytes < kBytesOfKept)
    return at::detail::empty_strided_cpu(type.sizes, type.strides, type.dtype);
  return at::detail::empty_strided_generic(type.sizes, type.strides, &keeping_allocator(),
                                           c10::DispatchKeySet(c10::DispatchKey::CPU), type.dtype);
}

// Nobody else sees the tensor or its memory, and a new one would be just so.
bool is_free(const at::Tensor& tensor) {
  return tensor.use_count() == 1 && tensor.storage().use_count() == 1 &&
         tensor.storage_offset() == 0 && tensor.storage().nbytes() == tensor.nbytes() &&
         !tensor.unsafeGetTensorImpl()->autograd_meta() &&
         !tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
         tensor.unsafeGetTensorImpl()->allow_tensor_metadata_change() &&
         tensor.is_inference() == c10::InferenceMode::is_enabled();
}

// No input is read there after it was written: each is elsewhere, or is read at the very places.
bool can_be_written(const RegionKernel& kernel, size_t output, const at::Tensor& target,
                    RegionInputs inputs) {
  if (!is_laid_out(target, kernel.outputs[output])) return false;
  if (!kernel.program.statements.checks.empty()) return false;  // it may have to be taken back
  const auto& written_over = kernel.written_over[output];
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& input = *inputs[i].tensor;
    if (!input.defined() || !input.is_alias_of(target)) continue;
    if (input.storage_offset() != target.storage_offset() ||
        std::ranges::find(written_over, static_cast<int32_t>(i)) == written_over.end())
      return false;
  }
  return true;
}

at::Tensor result(const RegionKernel& kernel, size_t output, const at::Tensor& target,
                  RegionInputs inputs) {
  if (target.defined() && can_be_written(kernel, output, target, inputs)) return target;
  const TensorType& type = kernel.outputs[output];
  for (int32_t i : kernel.written_over[output]) {
    if (!inputs[i].last || !inputs[i].tensor->defined() || !is_free(*inputs[i].tensor)) continue;
    at::Tensor taken = std::move(*inputs[i].tensor);
    if (!is_laid_out(taken, type))
      taken.unsafeGetTensorImpl()->set_sizes_and_strides(type.sizes, type.strides);
    return taken;
  }
  return new_tensor(type);
}

std::shared_ptr<RegionKernel> without_code(const Trace& trace, const Call& region) {
  std::vector<ValueId> inputs, outputs;
  for_each_value(region.args, [&](ValueId id) { inputs.push_back(id); });
  for_each_value(region.results, [&](ValueId id) { outputs.push_back(id); });
  auto made = lower_region(trace, region.body, inputs, outputs);
  if (const auto* refusal = std::get_if<Refusal>(&made))
    internal_error("{} is no loop program: {}", region.op.region, *refusal);
  auto result = std::make_shared<RegionKernel>();
  result->program = std::get<LoopProgram>(std::move(made));
  result->bytes = result->program.bytes();
  result->program.may_stream = result->bytes >= kBytesThatMayStream;
  result->symbol = symbol_of(result->program);
  result->text = print_cpu(result->program, result->symbol, default_target().vector_bytes);
  result->layout = layout_of(result->program, cache_bytes());
  for (ValueId id : inputs) result->inputs.push_back(type_of(trace, id));
  for (ValueId id : outputs) result->outputs.push_back(type_of(trace, id));
  result->written_over = written_over(result->program, result->inputs, result->outputs);
  if (!result->program.drawn.empty()) result->draws = draw_kernel();
  result->draws_in_blocks = draws_in_blocks(result->program);
  return result;
}

// What a run that fails has drawn, nobody has.
template <class F>
bool run_drawing(const RegionKernel& kernel, F&& run) {
  if (kernel.program.drawn.empty()) return run(nullptr);
  LockedGenerator generator(kernel.program.generator);
  std::optional<TwisterState> state = generator.state();
  if (!state || !run(&*state)) return false;
  generator.set_state(*state);
  return true;
}

// Of each text, in the order given. Throws what the first that failed threw.
std::vector<KernelPointer> compile_all(const std::vector<const RegionKernel*>& kernels) {
  std::vector<KernelPointer> compiled(kernels.size());
  std::vector<std::exception_ptr> failures(kernels.size());
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  parallel_chunks(static_cast<int64_t>(kernels.size()), std::max(1, cores), [&](int64_t i) {
    try {
      compiled[i] = compile_kernel(kernels[i]->text, kernels[i]->symbol);
    } catch (...) {
      failures[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return compiled;
}

}  // namespace

std::vector<RegionKernelPointer> region_kernels(const Trace& trace,
                                                std::span<const Call* const> regions) {
  std::vector<std::shared_ptr<RegionKernel>> made;
  std::vector<const RegionKernel*> distinct;
  std::unordered_map<std::string_view, size_t> number_of;  // of a text
  for (const Call* region : regions) {
    made.push_back(without_code(trace, *region));
    if (number_of.emplace(made.back()->text, distinct.size()).second)
      distinct.push_back(made.back().get());
  }
  const std::vector<KernelPointer> compiled = compile_all(distinct);
  std::vector<RegionKernelPointer> result;
  for (const auto& kernel : made) {
    kernel->kernel = compiled[number_of.at(kernel->text)];
    result.push_back(kernel->kernel ? kernel : nullptr);
  }
  return result;
}

bool run(const RegionKernel& kernel, RegionInputs inputs, RegionTargets targets,
         RegionResults& results) {
  Pointers data;
  const Kernel& code = kernel.used();
  const bool is_printed = &code == kernel.kernel.get();  // others may read what they wrote over
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& tensor = *inputs[i].tensor;
    if (!is_laid_out(tensor, kernel.inputs[i])) return false;
    data.push_back(const_cast<void*>(tensor.const_data_ptr()));
  }
  const size_t before = results.size();
  for (size_t i = 0; i < kernel.outputs.size(); ++i) {
    const at::Tensor target = targets.empty() ? at::Tensor() : targets[i];
    results.push_back(is_printed ? result(kernel, i, target, inputs)
                                 : new_tensor(kernel.outputs[i]));
    data.push_back(results.back().mutable_data_ptr());
  }
  const bool done = run_drawing(
      kernel, [&](TwisterState* state) { return run_kernel(kernel, code, data, state); });
  if (done) return true;
  results.resize(before);
  return false;
}

std::string used_text(const RegionKernel& kernel) {
  const Kernel& used = kernel.used();
  if (&used == kernel.kernel.get()) return used.text;
  return used.text.substr(0, used.text.size() - declaration_of(used.symbol).size());
}

void replace_text(const RegionKernel& kernel, const std::string& text) {
  if (text.empty()) return kernel.replaced.set(nullptr);
  const Kernel& printed = *kernel.kernel;
  KernelPointer made;
  try {
    made = compile_kernel(text + declaration_of(printed.symbol), printed.symbol, printed.target);
  } catch (const InternalError& error) {
    user_error(
        "the text that was to replace {0} cannot be used, and what was there still runs: mend it, "
        "and keep the function extern \"C\" void {0}(const KernelArgs*, long, long). {1}",
        printed.symbol, error.what());
  }
  if (!made) user_error("there is no compiler for another text: {}", missing_compiler());
  kernel.replaced.set(std::move(made));
}

double time(const RegionKernel& kernel, TensorList inputs, double seconds) {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!is_laid_out(inputs[i], kernel.inputs[i]))
      user_error("input {} is not laid out as the region has it: {}", i,
                 print_type(kernel.inputs[i]));
  std::vector<at::Tensor> results;
  Pointers data;
  for (const at::Tensor& input : inputs) data.push_back(const_cast<void*>(input.const_data_ptr()));
  for (const TensorType& type : kernel.outputs) {
    results.push_back(new_tensor(type));
    data.push_back(results.back().mutable_data_ptr());
  }
  TwisterState state;  // of its own: the generator is not to know
  return median_nanoseconds(seconds, [&] { run_kernel(kernel, kernel.used(), data, &state); });
}

}  // namespace fulgurite
