// The error function.
#include "codegen/loops/prelude/families.h"

namespace fulgurite::prelude {
namespace {

constexpr PreludePiece pieces[] = {
    {"f32_erf", "f32_exp_normal f32_abs f32_with_sign", R"(
// 1.58 ulp.
INL f32v f32_erf(f32v x) {
  const f32v a = f32_abs(x), s = x * x;
  f32v p = FMA(s, f32(8.21174471639096736907958984375e-5f), f32(-8.1050978042185306549072265625e-4f));
  p = FMA(p, s, f32(5.19771873950958251953125e-3f));
  p = FMA(p, s, f32(-2.68580652773380279541015625e-2f));
  p = FMA(p, s, f32(0.112836711108684539794921875f));
  p = FMA(p, s, f32(-0.3761263191699981689453125f));
  p = FMA(p, s, f32(0.128379166126251220703125f));
  const f32v small = FMA(p, x, x);
  const f32v t = a > f32(3.95f) ? f32(3.95f) : a;
  f32v q = FMA(t, f32(9.6771009339136071503162384033203125e-7f), f32(-3.305054633528925478458404541015625e-5f));
  q = FMA(q, t, f32(4.89318626932799816131591796875e-4f));
  q = FMA(q, t, f32(-4.26744855940341949462890625e-3f));
  q = FMA(q, t, f32(2.5059022009372711181640625e-2f));
  q = FMA(q, t, f32(-0.107752434909343719482421875f));
  q = FMA(q, t, f32(-0.6342189311981201171875f));
  q = FMA(q, t, f32(-0.12888281047344207763671875f));
  const f32v big = 1.f - f32_exp_normal(FMA(q, t, -t));
  const f32v y = a < f32(0.92f) ? small : f32_with_sign(big, x);
  return x == x ? y : x;
}
)"},
    {"f32_erf", "f32_exp2_fraction f32_scale f32_abs f32_with_sign", R"(
// 1.58 ulp.
INL f32v f32_erf(f32v x) {
  const f32v a = f32_abs(x), s = x * x;
  f32v p = FMA(s, f32(8.21174471639096736907958984375e-5f), f32(-8.1050978042185306549072265625e-4f));
  p = FMA(p, s, f32(5.19771873950958251953125e-3f));
  p = FMA(p, s, f32(-2.68580652773380279541015625e-2f));
  p = FMA(p, s, f32(0.112836711108684539794921875f));
  p = FMA(p, s, f32(-0.3761263191699981689453125f));
  p = FMA(p, s, f32(0.128379166126251220703125f));
  const f32v small = FMA(p, x, x);
  const f32v t = f32(3.95f) < a ? f32(3.95f) : a;  // NaN stays
  f32v q = FMA(t, f32(9.6771009339136071503162384033203125e-7f), f32(-3.305054633528925478458404541015625e-5f));
  q = FMA(q, t, f32(4.89318626932799816131591796875e-4f));
  q = FMA(q, t, f32(-4.26744855940341949462890625e-3f));
  q = FMA(q, t, f32(2.5059022009372711181640625e-2f));
  q = FMA(q, t, f32(-0.107752434909343719482421875f));
  q = FMA(q, t, f32(-0.6342189311981201171875f));
  q = FMA(q, t, f32(-0.12888281047344207763671875f));
  const f32v z = FMA(q, t, -t), n = FMA(z, f32(1.44269504f), f32(12582912.f)) - 12582912.f;
  const f32v big = 1.f - f32_scale(f32_exp2_fraction(FMA(z, f32(1.44269504f), -n)), n);
  return f32_with_sign(f32_abs(a < f32(0.92f) ? small : big), x);
}
)",
     1},
};

}  // namespace

constinit const std::span<const PreludePiece> error_functions = pieces;

}  // namespace fulgurite::prelude
