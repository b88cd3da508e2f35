// The text that bench/kernel_compiler.py compiles: gelu(a * b + c), by tanh, of a kernel's usual
// size.
typedef float Vector __attribute__((vector_size(64)));
typedef int IntVector __attribute__((vector_size(64)));
typedef Vector UnalignedVector __attribute__((aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))

INLINE Vector load(const float* p) { return *(const UnalignedVector*)p; }
INLINE void store(float* p, Vector v) { *(UnalignedVector*)p = v; }
INLINE Vector load_first(const float* p, long n) {
  Vector v = {};
  __builtin_memcpy(&v, p, n * sizeof(float));
  return v;
}
INLINE void store_first(float* p, Vector v, long n) { __builtin_memcpy(p, &v, n * sizeof(float)); }

INLINE Vector exponential(Vector x) {
  const Vector high = Vector{} + 88.37f, low = Vector{} - 87.33f;
  x = x > high ? high : x;
  x = x < low ? low : x;
  const Vector shifted = x * 1.44269504f + 12582912.f;
  const Vector n = shifted - 12582912.f;
  Vector r = x - n * 0.693145751953125f;
  r = r - n * 1.42860677e-6f;
  Vector p = r * 8.312451653182506561279296875e-3f + 4.18902337551116943359375e-2f;
  p = p * r + 0.16667115688323974609375f;
  p = p * r + 0.499992311000823974609375f;
  p = p * (r * r) + r;
  p = p + 1.f;
  return (Vector)((IntVector)p + ((IntVector)shifted << 23));
}

INLINE Vector sigmoid(Vector x) {
  const Vector low = Vector{} - 87.3f;
  const Vector y = x < low ? low : x;
  const Vector r = 1.f / (1.f + exponential(-y));
  return x == x ? r : x;
}

INLINE Vector gelu_tanh(Vector x) {
  return x * sigmoid(x * (1.5957691216f + 0.0713548163f * x * x));
}

INLINE Vector element(Vector a, Vector b, Vector c) {
  const Vector product = a * b;
  const Vector sum = product + c;
  return gelu_tanh(sum);
}

extern "C" void gelu_kernel(float* const* pointers, long first, long end) {
  const float* __restrict a = pointers[0];
  const float* __restrict b = pointers[1];
  const float* __restrict c = pointers[2];
  float* __restrict out = pointers[3];
  long i = first;
  for (; i + 16 <= end; i += 16) store(out + i, element(load(a + i), load(b + i), load(c + i)));
  const long left = end - i;
  if (left > 0)
    store_first(out + i,
                element(load_first(a + i, left), load_first(b + i, left), load_first(c + i, left)),
                left);
}
