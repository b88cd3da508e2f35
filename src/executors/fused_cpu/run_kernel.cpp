#include "executors/fused_cpu/run_kernel.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <ATen/Parallel.h>

#include "base/error.h"
#include "codegen/pool/pool.h"
#include "executors/fused_cpu/draw_words.h"
#include "executors/fused_cpu/timing.h"

namespace fulgurite {
namespace {

struct Run {
  const RegionKernel& region;
  KernelFunction kernel;
  KernelArgs args;
  int threads = 1;
};

void run_places(const Run& run, int64_t begin, int64_t end) {
  if (run.threads == 1) return run.kernel(&run.args, begin, end);
  const int64_t chunks = run.threads * kChunksPerThread, grain = run.region.layout.grain;
  const int64_t wanted = (end - begin + chunks - 1) / chunks;
  const int64_t size = (wanted + grain - 1) / grain * grain;
  parallel_chunks((end - begin + size - 1) / size, run.threads, [&](int64_t chunk) {
    run.kernel(&run.args, begin + chunk * size, std::min(begin + (chunk + 1) * size, end));
  });
}

const Access* drawn_load(const LoopProgram& program) {
  const auto load = std::ranges::find(program.loads, program.first_drawn(), &Access::buffer);
  return load == program.loads.end() ? nullptr : &*load;
}

// So that words are in the cache when they are read.
void run_in_blocks(Run& run, Pointers pointers, TwisterState& state) {
  constexpr int64_t kOfOneThread = 1 << 12, kOfThreads = 1 << 17;  // words
  const LoopProgram& program = run.region.program;
  const int64_t places = run.region.layout.places, grain = run.region.layout.grain;
  const int64_t each = program.drawn_words() / places;
  const int64_t wanted = (run.threads == 1 ? kOfOneThread : kOfThreads) / each;
  const int64_t step = std::max(grain, wanted / grain * grain);
  std::vector<uint64_t> words(std::min(step, places) * each / 2 + 1);
  auto* const first = reinterpret_cast<uint32_t*>(words.data());
  const auto load = drawn_load(program) - program.loads.data();
  run.args.pointers = pointers.data();
  for (int64_t begin = 0; begin < places; begin += step) {
    const int64_t end = std::min(begin + step, places);
    draw(*run.region.draws, state, first, (end - begin) * each);
    // Where the first word of all would be.
    pointers[load] = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(first) -
                                             begin * each * sizeof(uint32_t));
    run_places(run, begin, end);
  }
}

}  // namespace

bool draws_in_blocks(const LoopProgram& program) {
  const Access* load = drawn_load(program);
  if (program.drawn.size() != 1 || !load || program.columns || load->by_lane) return false;
  const auto loads_of_it = [&](const Access& a) { return a.buffer == load->buffer; };
  if (std::ranges::count_if(program.loads, loads_of_it) != 1 || load->offset != 0) return false;
  int64_t stride = 1;
  for (int32_t d = program.rank() - 1; d >= 0; --d) {
    if (program.sizes[d] != 1 && load->strides[d] != stride) return false;
    stride *= program.sizes[d];
  }
  return stride == program.drawn[0].elements;
}

bool run_kernel(const RegionKernel& region, const Kernel& code, c10::ArrayRef<void*> data,
                TwisterState* state) {
  const LoopProgram& program = region.program;
  const auto inputs = data.slice(0, program.first_drawn()), outputs = data.slice(inputs.size());
  int64_t failed = 0;
  Run run{region, code.function<std::remove_pointer_t<KernelFunction>>(),
          region.layout.args(&failed)};
  for (void* to : outputs)  // what is written there has just been read
    if (std::ranges::find(inputs, to) != inputs.end()) run.args.streaming = 0;
  if (region.bytes >= kBytesOfOneThread && !at::in_parallel_region())
    run.threads = at::get_num_threads();
  Pointers all(inputs.begin(), inputs.end());
  std::vector<std::unique_ptr<uint64_t[]>> words;
  require(program.drawn.empty() || state, "a kernel draws from no generator");
  for (const DrawnWords& drawn : program.drawn) {
    const int64_t count = drawn.elements * drawn.each;
    if (!region.draws_in_blocks) {
      words.emplace_back(new uint64_t[count / 2 + 1]);
      draw(*region.draws, *state, reinterpret_cast<uint32_t*>(words.back().get()), count);
    }
    all.push_back(words.empty() ? nullptr : words.back().get());
  }
  all.append(outputs.begin(), outputs.end());
  if (region.layout.places == 0) return true;
  const Pointers pointers = pointers_of(program, all);
  if (region.draws_in_blocks) {
    run_in_blocks(run, pointers, *state);
  } else {
    run.args.pointers = pointers.data();
    run_places(run, 0, region.layout.places);
  }
  return !failed;
}

}  // namespace fulgurite
