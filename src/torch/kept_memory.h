// Memory of large results, kept when they are freed.
//
// The C library maps a block of 32 MiB or more anew each time, and gives it back when it is freed:
// a result is then written page by page into memory that the system has to find and to clear
// first, which takes several times as long as the kernel. Here such blocks are kept for the next
// result of about the size, on huge pages where the system has them.
//
// What is kept and not in use is never more than what was in use at once (so that a process is no
// larger than twice its results), nor than an eighth of the memory that the process may use (of the
// machine, or of its control group); a block that nobody wanted for ten seconds goes back to the
// system with the next large result that is made or freed. A system that is short of memory takes
// what is kept at any time (MADV_FREE).
#pragma once

#include <cstdint>

#include <c10/core/Allocator.h>

namespace fulgurite {

constexpr int64_t kBytesOfKept = int64_t{32} << 20;  // the least

struct KeptMemory {
  int64_t in_use = 0, kept = 0;    // bytes
  int64_t peak = 0;                // the most that was in use at once
  int64_t bound = 0;               // bytes that may be kept now
  int64_t mapped = 0, reused = 0;  // how often a block came from the system, or had been kept
};
KeptMemory kept_memory();

// Gives all that is not in use back to the system; returns how many bytes that were.
int64_t release_kept_memory();

// Of blocks of at least kBytesOfKept. For any thread; survives a fork.
c10::Allocator& keeping_allocator();

// While one lives, what torch allocates in its thread for the CPU comes from there, if it is as
// large. The first one puts an allocator before torch's, which does nothing else.
class KeepsLargeResults {
 public:
  KeepsLargeResults();
  ~KeepsLargeResults();
  KeepsLargeResults(const KeepsLargeResults&) = delete;
  KeepsLargeResults& operator=(const KeepsLargeResults&) = delete;

 private:
  const bool before_;
};

}  // namespace fulgurite
