// Reading and writing other than a vector at a time.
#include "codegen/loops/prelude/families.h"

namespace fulgurite::prelude {
namespace {

constexpr PreludePiece pieces[] = {
    {"sixteens", "f32", R"(
// What is done to 16 floats at a time, from lane `at` on: SIXTEEN(auto x) { ... }.
#define SIXTEEN(...) [=](int at __VA_OPT__(,) __VA_ARGS__) __attribute__((always_inline))
typedef f32v sixteen;
template <int i> INL sixteen sixteen_of(f32v x) { return x; }
template <class F, class... V> INL f32v by_sixteens(F f, V... v) { return f(0, v...); }
)",
     1},
    {"sixteens", "f32", R"(
// What is done to 16 floats at a time, from lane `at` on: SIXTEEN(auto x) { ... }.
#define SIXTEEN(...) [=](int at __VA_OPT__(,) __VA_ARGS__) __attribute__((always_inline))
typedef float sixteen __attribute__((vector_size(64)));
template <int i> INL sixteen sixteen_of(f32v x) {
  enum { at = 16 * i };
  return __builtin_shufflevector(x, x, at, at + 1, at + 2, at + 3, at + 4, at + 5, at + 6, at + 7,
                                 at + 8, at + 9, at + 10, at + 11, at + 12, at + 13, at + 14, at + 15);
}
INL f32v joined(sixteen a, sixteen b) {
  return __builtin_shufflevector(a, b,
      0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
      24, 25, 26, 27, 28, 29, 30, 31);
}
template <class F, class... V> INL f32v by_sixteens(F f, V... v) {
  return joined(f(0, sixteen_of<0>(v)...), f(16, sixteen_of<1>(v)...));
}
)",
     2},
    {"sixteens", "f32", R"(
// What is done to 16 floats at a time, from lane `at` on: SIXTEEN(auto x) { ... }.
#define SIXTEEN(...) [=](int at __VA_OPT__(,) __VA_ARGS__) __attribute__((always_inline))
typedef float sixteen __attribute__((vector_size(64)));
typedef float thirty_two __attribute__((vector_size(128)));
template <int i> INL sixteen sixteen_of(f32v x) {
  enum { at = 16 * i };
  return __builtin_shufflevector(x, x, at, at + 1, at + 2, at + 3, at + 4, at + 5, at + 6, at + 7,
                                 at + 8, at + 9, at + 10, at + 11, at + 12, at + 13, at + 14, at + 15);
}
INL thirty_two joined(sixteen a, sixteen b) {
  return __builtin_shufflevector(a, b,
      0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
      24, 25, 26, 27, 28, 29, 30, 31);
}
INL f32v joined(thirty_two a, thirty_two b) {
  return __builtin_shufflevector(a, b,
      0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
      24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44,
      45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63);
}
template <class F, class... V> INL f32v by_sixteens(F f, V... v) {
  return joined(joined(f(0, sixteen_of<0>(v)...), f(16, sixteen_of<1>(v)...)),
                joined(f(32, sixteen_of<2>(v)...), f(48, sixteen_of<3>(v)...)));
}
)",
     4},
    {"first_of_sixteen", "sixteens", R"(
INL unsigned short first_of_sixteen(long k) {
  return k >= 16 ? 0xffff : k > 0 ? (unsigned short)((1 << k) - 1) : 0;
}
)",
     1},
    {"mask", "u8", R"(
INL mask load(const bool* p) {
  return __builtin_convertvector(*(const u8u*)p != 0, mask);
}
INL void store(bool* p, mask x) { *(u8u*)p = __builtin_convertvector(x & 1, u8v); }
INL mask truth(bool x) { return mask{} - (lane)x; }
INL mask splat(const bool* p) { return truth(*p); }
)"},
    {"mask", "u8", R"(
INL mask load(const bool* p) {
  return __builtin_convertvector(load((const unsigned char*)p) != 0, mask);
}
INL void store(bool* p, mask x) {
  store((unsigned char*)p, __builtin_convertvector(x & 1, u8v));
}
INL mask truth(bool x) { return mask{} - (lane)x; }
INL mask splat(const bool* p) { return truth(*p); }
)",
     2, true},
    {"in_memory_order", "", R"(
template <class V> INL V in_memory_order(V x) { return x; }
)"},
    {"in_memory_order", "", R"(
template <class V> INL V in_memory_order(V x) { return JOINED(x); }
)",
     2, true},
    {"lane_numbers", "i64", R"(
INL i64v lane_numbers() { return __builtin_convertvector(lane_index, i64v); }
)"},
    {"lanes_below", "mask", R"(
// Lanes whose index, `first` and their number, is less.
INL mask lanes_below(long bound, long first) {
  const long k = bound <= first ? 0 : bound - first < L ? bound - first : L;
  return lane_index < (mask{} + (lane)k);
}
)"},
    {"lanes_at", "mask", R"(
// The lane whose index, `first` and its number, is this.
INL mask lanes_at(long index, long first) {
  const long k = index < first ? -1 : index - first < L ? index - first : L;
  return __builtin_convertvector(lane_index == (mask{} + (lane)k), mask);
}
)"},
    {"lanes_beyond", "mask", R"(
// Lanes whose index, `first` and their number, is more.
INL mask lanes_beyond(long bound, long first) {
  const long k = bound < first ? -1 : bound - first < L ? bound - first : L;
  return lane_index > (mask{} + (lane)k);
}
)"},
    {"scratch", "", R"(
extern "C" void* aligned_alloc(unsigned long, unsigned long);
extern "C" void free(void*);
// Room for so many floats, in whole vectors.
INL float* scratch(long n) {
  void* at = aligned_alloc(4 * L, (n / L + 1) * 4 * L);
  if (!at) __builtin_trap();
  return (float*)at;
}
)"},
    {"stage", "", R"(
// The first n elements of a row, for a vector that is not full; the others are 0.
template <class T> INL void stage(T* to, const T* from, long stride, long n) {
  for (int j = 0; j < L; j++) to[j] = T{};
  for (long j = 0; j < n; j++) to[j] = from[j * stride];
}
template <class T> INL void unstage(T* to, long stride, const T* from, long n) {
  for (long j = 0; j < n; j++) to[j * stride] = from[j];
}
)"},
    {"reversed", "", R"(
template <class T, T... i> struct Lanes {
  template <class V> INLINE static V reversed(V x) {
    return __builtin_shufflevector(x, x, (L - 1 - i)...);
  }
};
template <class V> INL V reversed(V x) { return __make_integer_seq<Lanes, int, L>::reversed(x); }
)"},
    {"strided_load", "reversed", R"(
template <class T> INL auto load(const T* p, long stride) {
  if (stride == -1) return reversed(load(p - (L - 1)));
  T row[L];
#pragma clang loop unroll(full)
  for (int j = 0; j < L; j++) row[j] = p[j * stride];
  return load(row);
}
)"},
    {"strided_store", "", R"(
template <class T, class V> INL void store(T* p, long stride, V x) {
  T row[L];
  store(row, x);
#pragma clang loop unroll(full)
  for (int j = 0; j < L; j++) p[j * stride] = row[j];
}
)"},
    {"load_part", "stage strided_load", R"(
// The first k lanes; the others are 0.
template <class T> INL auto load_part(const T* p, long stride, long k) {
  if (k == L) return load(p, stride);
  T row[L];
  stage(row, p, stride, k);
  return load(row);
}
)"},
    {"load_part", "stage strided_load first_of_sixteen", R"(
// The first k lanes; the others are 0.
template <class T> INL auto load_part(const T* p, long stride, long k) {
  if (k == L) return load(p, stride);
  T row[L];
  stage(row, p, stride, k);
  return load(row);
}
INL f32v load_part(const float* p, long stride, long k) {
  if (stride == 1) return by_sixteens(SIXTEEN() {
      return __builtin_ia32_loadups512_mask(p + at, sixteen{}, first_of_sixteen(k - at));
    });
  float row[L];
  stage(row, p, stride, k);
  return load(row);
}
)",
     1},
    {"load_part", "stage strided_load first_of_sixteen", R"(
// The first k lanes; the others are 0. Wide vectors are many instructions: of these there is one
// copy.
template <class T>
static __attribute__((noinline)) auto load_part(const T* p, long stride, long k) {
  T row[L];
  stage(row, p, stride, k);
  return load(row);
}
static __attribute__((noinline)) f32v load_part(const float* p, long stride, long k) {
  if (stride == 1) return by_sixteens(SIXTEEN() {
    return __builtin_ia32_loadups512_mask(p + at, sixteen{}, first_of_sixteen(k - at));
  });
  float row[L];
  stage(row, p, stride, k);
  return load(row);
}
)",
     4},
    {"load_part", "stage strided_load first_of_sixteen bf16", R"(
// The first k lanes; the others are 0.
template <class T> INL auto load_part(const T* p, long stride, long k) {
  if (k == L) return load(p, stride);
  T row[L];
  stage(row, p, stride, k);
  return load(row);
}
INL f32v load_part(const bf16* p, long stride, long k) {
  typedef short shorts __attribute__((vector_size(2 * L)));
  if (stride == 1) return widened(__builtin_ia32_loaddquhi512_mask((const shorts*)p, shorts{}, first_of_all(k)));
  bf16 row[L];
  stage(row, p, stride, k);
  return load(row);
}
)",
     2, true},
    {"store_part", "stage", R"(
template <class T, class V> INL void store_part(T* p, long stride, V x, long k) {
  T row[L];
  store(row, x);
  unstage(p, stride, row, k);
}
)"},
    {"store_part", "stage first_of_sixteen", R"(
template <class T, class V> INL void store_part(T* p, long stride, V x, long k) {
  T row[L];
  store(row, x);
  unstage(p, stride, row, k);
}
INL void store_part(float* p, long stride, f32v x, long k) {
  if (stride == 1) {
    by_sixteens(SIXTEEN(auto x) {
      __builtin_ia32_storeups512_mask(p + at, x, first_of_sixteen(k - at));
      return x;
    }, x);
    return;
  }
  float row[L];
  store(row, x);
  unstage(p, stride, row, k);
}
)",
     1},
    {"store_part", "stage first_of_sixteen bf16", R"(
template <class T, class V> INL void store_part(T* p, long stride, V x, long k) {
  T row[L];
  store(row, x);
  unstage(p, stride, row, k);
}
INL void store_part(bf16* p, long stride, f32v x, long k) {
  typedef short shorts __attribute__((vector_size(2 * L)));
  const u16v y = bf16_bits(x);
  if (stride == 1) {
    __builtin_ia32_storedquhi512_mask((shorts*)p, BITS(shorts, y), first_of_all(k));
    return;
  }
  bf16 row[L];
  *(u16u*)row = y;
  unstage(p, stride, row, k);
}
)",
     2, true},
    {"store_one", "", R"(
template <class T, class V> INL void store_one(T* p, V x) {
  T row[L];
  store(row, x);
  *p = row[0];
}
)"},
    {"first_lanes", "", R"(
INL mask first_lanes(long k) { return lane_index < (mask{} + (lane)k); }
)"},
    {"f32_stream", "f32", R"(
// Past the caches: whole vectors, aligned.
INL void stream(float* p, f32v x) { __builtin_nontemporal_store(x, (f32v*)p); }
)"},
    {"f32_stream", "f32", R"(
// Past the caches: whole vectors, aligned.
INL void stream(float* p, f32v x) { __builtin_nontemporal_store(JOINED(x), (f32v*)p); }
)",
     2, true},
    {"bf16_stream", "bf16", R"(
INL void stream(bf16* p, f32v x) { __builtin_nontemporal_store(bf16_bits(x), (u16v*)p); }
)"},
    {"running_sum", "", R"(
template <class T, class V> INL V running_sum(T& sum, V x) {
  T row[L];
  __builtin_memcpy(row, &x, sizeof(row));
#pragma clang loop unroll(full)
  for (int j = 0; j < L; j++) row[j] = sum += row[j];
  __builtin_memcpy(&x, row, sizeof(row));
  return x;
}
)"},
    {"running_product", "", R"(
template <class T, class V> INL V running_product(T& product, V x) {
  T row[L];
  __builtin_memcpy(row, &x, sizeof(row));
#pragma clang loop unroll(full)
  for (int j = 0; j < L; j++) row[j] = product *= row[j];
  __builtin_memcpy(&x, row, sizeof(row));
  return x;
}
)"},
};

}  // namespace

constinit const std::span<const PreludePiece> memory = pieces;

}  // namespace fulgurite::prelude
