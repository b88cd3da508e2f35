// Reading and writing other than a vector at a time.
#include "codegen/loops/prelude/families.h"

namespace fulgurite::prelude {
namespace {

constexpr PreludePiece pieces[] = {
    {"mask", "u8", R"(
INL mask load(const bool* p) {
  return __builtin_convertvector(*(const u8u*)p != 0, mask);
}
INL void store(bool* p, mask x) { *(u8u*)p = __builtin_convertvector(x & 1, u8v); }
INL mask truth(bool x) { return mask{} - (lane)x; }
INL mask splat(const bool* p) { return truth(*p); }
)"},
    {"lane_numbers", "i64", R"(
INL i64v lane_numbers() { return __builtin_convertvector(lane_index, i64v); }
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
    {"strided_load", "", R"(
template <class T> INL auto load(const T* p, long stride) {
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
    {"load_part", "stage strided_load f32", R"(
// The first k lanes; the others are 0.
template <class T> INL auto load_part(const T* p, long stride, long k) {
  if (k == L) return load(p, stride);
  T row[L];
  stage(row, p, stride, k);
  return load(row);
}
INL f32v load_part(const float* p, long stride, long k) {
  if (stride == 1) return __builtin_ia32_loadups512_mask(p, f32v{}, (unsigned short)((1u << k) - 1));
  float row[L];
  stage(row, p, stride, k);
  return load(row);
}
)",
     true},
    {"store_part", "stage", R"(
template <class T, class V> INL void store_part(T* p, long stride, V x, long k) {
  T row[L];
  store(row, x);
  unstage(p, stride, row, k);
}
)"},
    {"store_part", "stage f32", R"(
template <class T, class V> INL void store_part(T* p, long stride, V x, long k) {
  T row[L];
  store(row, x);
  unstage(p, stride, row, k);
}
INL void store_part(float* p, long stride, f32v x, long k) {
  if (stride == 1) return __builtin_ia32_storeups512_mask(p, x, (unsigned short)((1u << k) - 1));
  float row[L];
  store(row, x);
  unstage(p, stride, row, k);
}
)",
     true},
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
    {"gather", "i64", R"(
// Lanes from `active` on read nothing.
template <class T> INL auto gather(const T* p, long stride, i64v offset, long active) {
  T row[L] = {};
  for (long j = 0; j < active; j++) row[j] = p[j * stride + offset[j]];
  return load(row);
}
)"},
    {"guarded_gather", "i64", R"(
template <class T> INL auto gather(const T* p, long stride, i64v offset, mask guard, long active) {
  T row[L] = {};
  for (long j = 0; j < active; j++)
    if (guard[j]) row[j] = p[j * stride + offset[j]];
  return load(row);
}
)"},
};

}  // namespace

constinit const std::span<const PreludePiece> memory = pieces;

}  // namespace fulgurite::prelude
