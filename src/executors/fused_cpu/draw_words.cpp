#include "executors/fused_cpu/draw_words.h"

namespace fulgurite {
namespace {

// Matsumoto and Nishimura, "Mersenne Twister", 1998. As one sequence of words
//   w[k + 624] = w[k + 397] ^ f(w[k], w[k + 1]),
// so that a word depends on none of the 226 before it, and whole vectors are made at once.
constexpr const char* kText = R"(
typedef unsigned word;
typedef word words __attribute__((vector_size(64)));
typedef word words_at __attribute__((vector_size(64), aligned(4), may_alias));
#define INL static inline __attribute__((always_inline))
enum { N = 624, M = 397, L = 16 };

INL words load(const word* p) { return *(const words_at*)p; }
INL void store(word* p, words x) { *(words_at*)p = x; }

INL words tempered(words y) {
  y ^= y >> 11;
  y ^= (y << 7) & 0x9d2c5680u;
  y ^= (y << 15) & 0xefc60000u;
  return y ^ (y >> 18);
}

static void next_block(word* state) {
  word w[2 * N];
  for (int k = 0; k < N; k += L) store(w + k, load(state + k));
  for (int k = 0; k < N; k += L) {
    const words a = load(w + k), b = load(w + k + 1);
    const words y = (a & 0x80000000u) | (b & 0x7fffffffu);
    store(w + k + N, load(w + k + M) ^ (y >> 1) ^ (-(b & 1u) & 0x9908b0dfu));
  }
  for (int k = 0; k < N; k += L) store(state + k, load(w + k + N));
}

extern "C" void draw_words(word* state, long* used, word* out, long count) {
  long at = *used;
  while (count > 0) {
    if (at == N) {
      next_block(state);
      at = 0;
    }
    const long all = N - at < count ? N - at : count;
    long i = 0;
    for (; i + L <= all; i += L) store(out + i, tempered(load(state + at + i)));
    if (i < all) {
      word rest[L] = {};
      for (long k = i; k < all; ++k) rest[k - i] = state[at + k];
      store(rest, tempered(load(rest)));
      for (long k = i; k < all; ++k) out[k] = rest[k - i];
    }
    at += all;
    out += all;
    count -= all;
  }
  *used = at;
}
)";

}  // namespace

KernelPointer draw_kernel() { return compile_kernel(kText, "draw_words"); }

}  // namespace fulgurite
