// f16 and bf16 in memory, f32 in registers.
#include "codegen/loops/prelude/families.h"

namespace fulgurite::prelude {
namespace {

constexpr PreludePiece pieces[] = {
    {"bf16_rounded", "f32 u32 u16", R"(
// To the nearest, even on ties; NaN is 0x7fc0.
INL u16v bf16_rounded(f32v x) {
  const u32v u = BITS(u32v, x), r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const u32v nan = u32v{} + 0x7fc0u;
  return __builtin_convertvector(x == x ? r : nan, u16v);
}
)"},
    {"bf16_round_of_narrow", "f32 u32", R"(
// Of what is NaN as bfloat16 numbers are: without bits that a carry goes on from.
INL f32v bf16_round_of_narrow(f32v x) {
  const u32v u = BITS(u32v, x), last = u32v{} + 0x10000u, below = u + 0x7fffu;
  return BITS(f32v, ((u & last) == last ? below + 1u : below) & 0xffff0000u);
}
)"},
    {"bf16_round", "f32 u32", R"(
INL f32v bf16_round(f32v x) {
  const u32v u = BITS(u32v, x), last = u32v{} + 0x10000u, nan = u32v{} + 0x7fc00000u;
  const u32v below = u + 0x7fffu, r = (u & last) == last ? below + 1u : below;
  return BITS(f32v, x == x ? r & 0xffff0000u : nan);
}
)"},
    {"bf16_bits", "bf16_rounded", R"(
INL u16v bf16_bits(f32v x) { return bf16_rounded(x); }
)"},
    {"bf16_bits", "bf16_rounded sixteens in_memory_order", R"(
#ifdef __AVX512BF16__
INL unsigned short denormal(sixteen x) {
  return __builtin_ia32_fpclassps512_mask(x, 0x20, (unsigned short)-1);
}
// The instruction takes denormal numbers for 0, which are to be kept.
INL u16v bf16_bits(f32v x) {
  const sixteen low = sixteen_of<0>(x), high = sixteen_of<1>(x);
  u16v y = BITS(u16v, __builtin_ia32_cvtne2ps2bf16_512(high, low));
  if (__builtin_expect(denormal(low) | denormal(high), 0)) y = bf16_rounded(x);
  return in_memory_order(y);
}
#else
INL u16v bf16_bits(f32v x) { return in_memory_order(bf16_rounded(x)); }
#endif
)",
     2},
    {"bf16_bits", "bf16_rounded", R"(
INL u16v bf16_bits(f32v x) { return bf16_rounded(x); }
)",
     4},
    {"bf16", "f32 u32 u16 bf16_bits", R"(
struct bf16 { unsigned short bits; };
template <class V> INL f32v widened(V x) {
  typedef unsigned pairs __attribute__((vector_size(64)));
  const pairs both = BITS(pairs, x);
  return joined(BITS(sixteen, both << 16), BITS(sixteen, both & 0xffff0000u));
}
INL unsigned first_of_all(long k) { return k >= L ? ~0u : k > 0 ? (1u << k) - 1 : 0; }
INL f32v load(const bf16* p) { return widened(*(const u16u*)p); }
INL void store(bf16* p, f32v x) { *(u16u*)p = bf16_bits(x); }
INL f32v splat(const bf16* p) { return f32(BITS(float, (unsigned)p->bits << 16)); }
)",
     2, true},
    {"bf16", "f32 u32 u16 bf16_bits", R"(
struct bf16 { unsigned short bits; };
typedef unsigned short bf16u __attribute__((vector_size(2 * L), aligned(2), may_alias));
INL f32v load(const bf16* p) {
  return BITS(f32v, __builtin_convertvector(*(const bf16u*)p, u32v) << 16);
}
INL void store(bf16* p, f32v x) { *(bf16u*)p = bf16_bits(x); }
INL f32v splat(const bf16* p) { return f32(BITS(float, (unsigned)p->bits << 16)); }
)"},
    {"f16", "f32", R"(
typedef _Float16 f16;
typedef f16 f16v __attribute__((vector_size(2 * L)));
typedef f16v f16u __attribute__((aligned(2), may_alias));
INL f32v load(const f16* p) { return __builtin_convertvector(*(const f16u*)p, f32v); }
INL void store(f16* p, f32v x) { *(f16u*)p = __builtin_convertvector(x, f16v); }
INL f32v f16_round(f32v x) { return __builtin_convertvector(__builtin_convertvector(x, f16v), f32v); }
INL f32v splat(const f16* p) { return f32((float)*p); }
)"},
};

}  // namespace

constinit const std::span<const PreludePiece> narrow_floats = pieces;

}  // namespace fulgurite::prelude
