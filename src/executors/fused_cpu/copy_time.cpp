#include "executors/fused_cpu/copy_time.h"

#include <cstring>

#include <ATen/Parallel.h>

#include "codegen/pool/pool.h"
#include "executors/fused_cpu/timing.h"

namespace fulgurite {

double time_copy(int64_t bytes, double seconds) {
  const int64_t size = bytes / 2;
  if (size == 0) return 0;
  const std::vector<char> from(size, 1);
  std::vector<char> to(size);
  const int threads = bytes < kBytesOfOneThread ? 1 : at::get_num_threads();
  const int64_t chunks = threads == 1 ? 1 : threads * kChunksPerThread;
  const int64_t chunk = (size + chunks - 1) / chunks;
  const auto copy = [&](int64_t i) {
    const int64_t begin = std::min(i * chunk, size), end = std::min(begin + chunk, size);
    std::memcpy(to.data() + begin, from.data() + begin, end - begin);
  };
  return median_nanoseconds(seconds, [&] {
    if (threads == 1)
      copy(0);
    else
      parallel_chunks(chunks, threads, copy);
  });
}

}  // namespace fulgurite
