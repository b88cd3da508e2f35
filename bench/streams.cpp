// What memory gives: the streams that bench/kernels.py holds kernels against. Each is called so
// many `times` over n floats, a multiple of 64, and keeps nothing else in the caches.
typedef float Vector __attribute__((vector_size(64)));
typedef Vector UnalignedVector __attribute__((aligned(4), may_alias));

static inline Vector load(const float* p) { return *(const UnalignedVector*)p; }
static inline void store(float* p, Vector v) { *(UnalignedVector*)p = v; }
static inline void stream(float* p, Vector v) { __builtin_nontemporal_store(v, (Vector*)p); }

#define EACH for (int u = 0; u < 64; u += 16)
#define STREAM(name, value, put)                                                       \
  extern "C" void name(const float* x, const float* z, float* y, long n, long times) { \
    for (; times; --times)                                                             \
      for (long i = 0; i < n; i += 64) {                                               \
        Vector v[4];                                                                   \
        EACH v[u / 16] = value;                                                        \
        EACH put(y + i + u, v[u / 16]);                                                \
      }                                                                                \
  }
STREAM(copy, load(x + i + u), store)
STREAM(copy_streaming, load(x + i + u), stream)
STREAM(triad, load(x + i + u) + load(z + i + u), store)
STREAM(triad_streaming, load(x + i + u) + load(z + i + u), stream)

extern "C" void read(const float* x, const float*, float* y, long n, long times) {
  Vector sum[4] = {};
  for (; times; --times)
    for (long i = 0; i < n; i += 64) EACH sum[u / 16] += load(x + i + u);
  store(y, (sum[0] + sum[1]) + (sum[2] + sum[3]));
}
