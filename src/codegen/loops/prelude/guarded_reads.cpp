// Reading under a guard, and where each lane says.
#include "codegen/loops/prelude/families.h"

namespace fulgurite::prelude {
namespace {

constexpr PreludePiece pieces[] = {
    {"load_where", "load_some", R"(
// Where the guard holds; the other lanes are 0. Most guards are the same for all of a vector.
template <class T> INL auto load_where(const T* p, long stride, mask guard) {
  if (__builtin_reduce_and(guard)) {
    if (stride == 1) return load(p);
    return load(p, stride);
  }
  return __builtin_reduce_or(guard) ? load_some(p, stride, guard) : decltype(load(p)){};
}
)"},
    {"load_some", "strided_load", R"(
template <class T>
static __attribute__((noinline)) auto load_some(const T* p, long stride, mask guard) {
  T row[L] = {};
  for (long j = 0; j < L; j++)
    if (guard[j]) row[j] = p[j * stride];
  return load(row);
}
)"},
    {"load_some", "strided_load in_memory_order", R"(
template <class T>
static __attribute__((noinline)) auto load_some(const T* p, long stride, mask guard) {
  guard = in_memory_order(guard);
  typedef int ints __attribute__((vector_size(64)));
  typedef short shorts __attribute__((vector_size(32)));
  T row[L] = {};
  for (long at = 0; at < L; at += 16) {
    ints part;
    __builtin_memcpy(&part, (const int*)&guard + at, sizeof(part));
    const unsigned short lanes = __builtin_ia32_cvtd2mask512(part);
    if (!lanes) continue;  // no lane of a page that is not there: the machine takes long over it
    if (stride == 1 && sizeof(T) == 4) {
      const ints x = __builtin_ia32_loaddqusi512_mask((const int*)p + at, ints{}, lanes);
      __builtin_memcpy(row + at, &x, sizeof(x));
    } else if (stride == 1 && sizeof(T) == 2) {
      const shorts x = __builtin_ia32_loaddquhi256_mask((const shorts*)(p + at), shorts{}, lanes);
      __builtin_memcpy(row + at, &x, sizeof(x));
    } else {
      for (long j = 0; j < 16; j++)
        if (part[j]) row[at + j] = p[(at + j) * stride];
    }
  }
  return load(row);
}
)",
     1},
    {"gather", "i64", R"(
// Lanes from `active` on read nothing.
template <class T> INL auto gather(const T* p, long stride, i64v offset, long active) {
  T row[L] = {};
  for (long j = 0; j < active; j++) row[j] = p[j * stride + offset[j]];
  return load(row);
}
)"},
    {"gather", "gather_bits first_lanes", R"(
// Lanes from `active` on read nothing.
template <class T> INL auto gather(const T* p, long stride, i64v offset, long active) {
  return gather_bits(p, stride, offset, first_lanes(active));
}
)",
     1},
    {"guarded_gather", "gather_bits first_lanes", R"(
template <class T> INL auto gather(const T* p, long stride, i64v offset, mask guard, long active) {
  return gather_bits(p, stride, offset, guard & first_lanes(active));
}
)",
     1},
    {"gather_bits", "i64 lane_numbers", R"(
template <class T> INL auto gather_bits(const T* p, long stride, i64v offset, mask guard) {
  typedef int ints __attribute__((vector_size(32)));
  typedef long longs __attribute__((vector_size(64)));
  const i64v at = offset + lane_numbers() * stride;
  T row[L] = {};
  for (int i = 0; i < L; i += 8) {
    longs place;
    ints wanted;
    __builtin_memcpy(&place, (const long*)&at + i, sizeof(place));
    __builtin_memcpy(&wanted, (const int*)&guard + i, sizeof(wanted));
    const unsigned char lanes = __builtin_ia32_cvtd2mask256(wanted);
    if (sizeof(T) == 4) {
      const ints x = __builtin_ia32_gatherdiv16si(ints{}, p, place, lanes, 4);
      __builtin_memcpy(row + i, &x, sizeof(x));
    } else if (sizeof(T) == 8) {
      const longs x = __builtin_ia32_gatherdiv8di(longs{}, p, place, lanes, 8);
      __builtin_memcpy(row + i, &x, sizeof(x));
    } else {
      for (int j = 0; j < 8; j++)
        if (wanted[j]) row[i + j] = p[place[j]];
    }
  }
  return load(row);
}
)",
     1},
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

constinit const std::span<const PreludePiece> guarded_reads = pieces;

}  // namespace fulgurite::prelude
