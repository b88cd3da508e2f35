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
INL i64v lane_numbers() {
  i64v x;
  for (int j = 0; j < L; j++) x[j] = j;
  return x;
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
