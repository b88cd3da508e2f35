// Sine and cosine.
#include "codegen/loops/prelude/families.h"

namespace fulgurite::prelude {
namespace {

constexpr PreludePiece pieces[] = {
    {"f32_sin_cos", "f32 f64 i64 i32", R"(
// sin(x + quarter pi / 2), in f64: 0.51 ulp. Beyond a million, libm lane by lane.
INL f32v f32_sin_cos(f32v x, long quarter) {
  const f64v wide = __builtin_convertvector(x, f64v);
  const f64v n = FMA(wide, f64(0.63661977236758134308), f64(6755399441055744.)) - 6755399441055744.;
  const f64v r = FMA(n, f64(-6.123233995736766e-17), FMA(n, f64(-1.5707963267948966), wide));
  const f64v s = r * r;
  f64v p = FMA(s, f64(1. / 362880), f64(-1. / 5040));
  p = FMA(p, s, f64(1. / 120));
  p = FMA(p, s, f64(-1. / 6));
  const f64v sine = FMA(p * s, r, r);
  f64v q = FMA(s, f64(-1. / 3628800), f64(1. / 40320));
  q = FMA(q, s, f64(-1. / 720));
  q = FMA(q, s, f64(1. / 24));
  q = FMA(q, s, f64(-0.5));
  const f64v cosine = FMA(q, s, f64(1.));
  const i64v k = __builtin_convertvector(n, i64v) + quarter;
  const f64v y = (k & 1) != 0 ? cosine : sine;
  return __builtin_convertvector((k & 2) != 0 ? -y : y, f32v);
}
INL bool f32_any_beyond(f32v x, float limit) {
  const i32v large = ((x > f32(limit)) | (x < f32(-limit))) & 1;
  return __builtin_reduce_or(large) != 0;
}
)"},
    {"f32_sin", "f32_sin_cos", R"(
INL f32v f32_sin(f32v x) {
  f32v y = f32_sin_cos(x, 0);
  if (__builtin_expect(f32_any_beyond(x, 1e6f), 0))
    for (int j = 0; j < L; j++) y[j] = __builtin_sinf(x[j]);
  return x == f32(0.f) ? x : y;
}
)"},
    {"f32_cos", "f32_sin_cos", R"(
INL f32v f32_cos(f32v x) {
  f32v y = f32_sin_cos(x, 1);
  if (__builtin_expect(f32_any_beyond(x, 1e6f), 0))
    for (int j = 0; j < L; j++) y[j] = __builtin_cosf(x[j]);
  return y;
}
)"},
};

}  // namespace

constinit const std::span<const PreludePiece> trigonometry = pieces;

}  // namespace fulgurite::prelude
