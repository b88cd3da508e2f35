// A fork-join pool for kernels. The caller works itself, and waits only for chunks that a worker
// has begun: a worker that the system has taken off its core delays nobody.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace fulgurite {

// Must not throw.
using ChunkFunction = void (*)(void* context, int64_t chunk);

// Calls run(context, i) for each i in [0, chunks), at most 2^20 - 1 of them, on at most `threads`
// threads, the caller among them, and returns when all are done; what they wrote is then visible to
// the caller. Chunks are taken in order, by whoever is free. One after the other on the caller's
// thread where another thread is inside of this function, or where this is called from within a
// chunk.
//
// Threads are made when first needed, and never more than were asked for. They spin for some tens
// of microseconds after a region, then sleep. A forked child starts with none.
void run_chunks(ChunkFunction run, void* context, int64_t chunks, int threads);

// The same for a callable that takes the number of the chunk.
template <class F>
void parallel_chunks(int64_t chunks, int threads, F&& body) {
  using Body = std::remove_reference_t<F>;
  run_chunks([](void* context, int64_t chunk) { (*static_cast<Body*>(context))(chunk); },
             const_cast<void*>(static_cast<const void*>(std::addressof(body))), chunks, threads);
}

// How many threads the pool has made in this process.
int pool_threads();

}  // namespace fulgurite
