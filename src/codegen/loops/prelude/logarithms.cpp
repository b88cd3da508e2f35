// Logarithms.
#include "codegen/loops/prelude/families.h"

namespace fulgurite::prelude {
namespace {

constexpr PreludePiece pieces[] = {
    {"f32_log", "f32 i32", R"(
// 0.83 ulp.
INL f32v f32_log(f32v x) {
  const f32v tiny = f32(1.17549435e-38f);
  const f32v scaled = x < tiny ? x * 8388608.f : x;
  const i32v k = BITS(i32v, scaled) - 0x3F3504F3;  // of sqrt(1/2)
  const f32v e = __builtin_convertvector(k >> 23, f32v) + (x < tiny ? f32(-23.f) : f32(0.f));
  const f32v f = BITS(f32v, (k & 0x7FFFFF) + 0x3F3504F3) - 1.f;
  f32v p = FMA(f, f32(6.7450307309627532958984375e-2f), f32(-0.11795149743556976318359375f));
  p = FMA(p, f, f32(0.119580827653408050537109375f));
  p = FMA(p, f, f32(-0.1238889992237091064453125f));
  p = FMA(p, f, f32(0.1420650780200958251953125f));
  p = FMA(p, f, f32(-0.1666856110095977783203125f));
  p = FMA(p, f, f32(0.20002891123294830322265625f));
  p = FMA(p, f, f32(-0.2500000894069671630859375f));
  p = FMA(p, f, f32(0.3333329856395721435546875f));
  p = FMA(p, f, f32(-0.5f));
  const f32v r = FMA(p, f * f, e * 1.42860677e-6f) + f;
  f32v y = FMA(e, f32(0.693145751953125f), r);
  y = x == f32(INF) ? x : y;
  y = x >= f32(0.f) ? y : f32(NAN);
  return x == f32(0.f) ? f32(-INF) : y;
}
)"},
    {"f32_log1p", "f32_log", R"(
INL f32v f32_log1p(f32v x) {
  const f32v u = 1.f + x;
  const f32v y = f32_log(u) + (x - (u - 1.f)) / u;  // and what 1 + x has lost
  return x == f32(0.f) ? x : ((u == f32(INF)) | (u <= f32(0.f)) ? f32_log(u) : y);
}
)"},
};

}  // namespace

constinit const std::span<const PreludePiece> logarithms = pieces;

}  // namespace fulgurite::prelude
