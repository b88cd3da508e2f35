// exp and what is built on it. Polynomials by Sollya's fpminimax, errors in ulp over all floats.
#include "codegen/loops/prelude/families.h"

namespace fulgurite::prelude {
namespace {

constexpr PreludePiece pieces[] = {
    {"f32_exp_parts", "f32 i32", R"(
// exp(x) = 2^n (1 + q); |x| < 2^22.
struct exp_parts { f32v n, q; };
INL exp_parts f32_exp_parts(f32v x) {
  const f32v n = FMA(x, f32(1.44269504f), f32(12582912.f)) - 12582912.f;
  const f32v r = FMA(n, f32(-1.42860677e-6f), FMA(n, f32(-0.693145751953125f), x));
  f32v p = FMA(r, f32(1.37825054116547107696533203125e-3f), f32(8.3686746656894683837890625e-3f));
  p = FMA(p, r, f32(4.16689626872539520263671875e-2f));
  p = FMA(p, r, f32(0.16666521131992340087890625f));
  p = FMA(p, r, f32(0.4999999105930328369140625f));
  return {n, FMA(p, r * r, r)};
}
)"},
    {"f32_scale", "f32 i32", R"(
// p * 2^n for whole n in [-252, 254], in two steps so that denormal results are right.
INL f32v f32_scale(f32v p, f32v n) {
  const i32v k = __builtin_convertvector(n, i32v), half = k >> 1;
  return p * BITS(f32v, (half + 127) << 23) * BITS(f32v, (k - half + 127) << 23);
}
)"},
    {"f32_scale", "sixteens", R"(
// p * 2^n, also where that is infinite or 0.
INL f32v f32_scale(f32v p, f32v n) {
  return by_sixteens(SIXTEEN(auto p, auto n) {
    return __builtin_ia32_scalefps512_mask(p, n, sixteen{}, (unsigned short)-1, 4);
  }, p, n);
}
)",
     1},
    {"f32_exp", "f32_exp_parts f32_scale f32_clamp", R"(
// 1.01 ulp.
INL f32v f32_exp(f32v x) {
  const exp_parts e = f32_exp_parts(f32_clamp(x, -104.f, 89.f));
  return f32_scale(e.q + 1.f, e.n);
}
)"},
    {"f32_clamp", "f32", R"(
INL f32v f32_clamp(f32v x, float low, float high) {  // NaN stays
  x = x > f32(high) ? f32(high) : x;
  return x < f32(low) ? f32(low) : x;
}
)"},
    {"f32_exp2", "f32_exp_parts f32_scale f32_clamp", R"(
INL f32v f32_exp2(f32v x) {
  x = f32_clamp(x, -151.f, 129.f);
  const f32v n = (x + 12582912.f) - 12582912.f;
  const exp_parts e = f32_exp_parts((x - n) * 0.693147182464599609375f);
  return f32_scale(e.q + 1.f, e.n + n);
}
)"},
    {"f32_expm1", "f32_exp_parts f32_scale f32_clamp", R"(
INL f32v f32_expm1(f32v x) {
  const exp_parts e = f32_exp_parts(f32_clamp(x, -104.f, 89.f));
  const f32v half = f32_scale(f32(0.5f), e.n);  // of 2^n: 2^128 is too large
  const f32v y = FMA(half, e.q, half - 0.5f) * 2.f;
  return e.n == f32(0.f) ? (x == f32(0.f) ? x : e.q) : (x > f32(88.7228394f) ? f32(INF) : y);
}
)"},
    {"f32_exp_normal", "f32_exp_parts f32_clamp i32", R"(
// exp(x), x kept where the result is no denormal: those are slow.
INL f32v f32_exp_normal(f32v x) {
  const exp_parts e = f32_exp_parts(f32_clamp(x, -87.33f, 88.37f));
  return BITS(f32v, BITS(i32v, e.q + 1.f) + (__builtin_convertvector(e.n, i32v) << 23));
}
)"},
    {"f32_exp_negative", "f32_exp2_near", R"(
// exp(x) for x <= 0, to 1e-7 near 0; 0 where the result is no normal number; NaN stays.
INL f32v f32_exp_negative(f32v x) {
  const f32v y = f32_exp2_near((x < f32(-87.33f) ? f32(-87.33f) : x) * 1.44269504f);
  return x < f32(-87.33f) ? f32(0.f) : y;
}
)"},
    {"f32_exp_negative", "f32_exp2_fraction sixteens", R"(
// exp(x) for x <= 0, to 1e-7 near 0; 0 where the result is no normal number; NaN stays. One constant
// for log2(e): x is a difference, rounded by as much already.
INL f32v f32_exp_negative(f32v x) {
  const f32v n = FMA(x, f32(1.44269504f), f32(12582912.f)) - 12582912.f;
  const f32v p = f32_exp2_fraction(FMA(x, f32(1.44269504f), -n));
  return by_sixteens(SIXTEEN(auto x, auto p, auto n) {
    const unsigned short normal =
        __builtin_ia32_cmpps512_mask(x, sixteen{} - 87.33f, 0x15, (unsigned short)-1, 4);
    return __builtin_ia32_scalefps512_mask(p, n, sixteen{}, normal, 4);
  }, x, p, n);
}
)",
     1},
    {"f64_exp_negative", "f64_exp", R"(
INL f64v f64_exp_negative(f64v x) { return f64_exp(x); }
)"},
    {"f32_sigmoid", "f32_exp", R"(
INL f32v f32_sigmoid(f32v x) { return 1.f / (1.f + f32_exp(-x)); }
)"},
    {"f32_silu", "f32_exp", R"(
INL f32v f32_silu(f32v x) { return x / (1.f + f32_exp(-x)); }
)"},
    {"f32_silu", "f32_exp_parts f32_scale f32_clamp_magnitude", R"(
// The denominator overflows before a clamped x matters.
INL f32v f32_silu(f32v x) {
  const exp_parts e = f32_exp_parts(-f32_clamp_magnitude(x, 126.f));
  return x / (1.f + f32_scale(e.q + 1.f, e.n));
}
)",
     1},
    {"f32_exp2_fraction", "f32", R"(
// 2^f for |f| <= 1/2, to 9e-8 of the result.
INL f32v f32_exp2_fraction(f32v f) {
  f32v p = FMA(f32(0.0013264714507386088f), f, f32(0.009671513922512531f));
  p = FMA(p, f, f32(0.05550733953714371f));
  p = FMA(p, f, f32(0.24022242426872253f));
  p = FMA(p, f, f32(0.6931470036506653f));
  return FMA(p, f, f32(1.f));
}
)"},
    {"f32_exp2_near", "f32_exp2_fraction i32", R"(
// 2^t for |t| <= 126.
INL f32v f32_exp2_near(f32v t) {
  const f32v m = t + 12582912.f, p = f32_exp2_fraction(t - (m - 12582912.f));
  return BITS(f32v, BITS(i32v, p) + (BITS(i32v, m) << 23));
}
)"},
    {"f32_clamp_magnitude", "f32_clamp", R"(
INL f32v f32_clamp_magnitude(f32v x, float limit) { return f32_clamp(x, -limit, limit); }
)"},
    {"f32_clamp_magnitude", "sixteens", R"(
// The smaller magnitude with the sign of x; the limit for NaN.
INL f32v f32_clamp_magnitude(f32v x, float limit) {
  return by_sixteens(SIXTEEN(auto x, auto limit) {
    return __builtin_ia32_rangeps512_mask(x, limit, 2, x, (unsigned short)-1, 4);
  }, x, f32(limit));
}
)",
     1},
    {"f32_gelu_tanh", "f32_exp2_near f32_clamp_magnitude", R"(
// x / (1 + 2^t); the numerator is bounded below, so that large negative numbers give nearly 0.
// 2.8e-7 absolute; NaN for -inf, as 0 * inf gives.
INL f32v f32_gelu_tanh(f32v x) {
  const f32v c = f32_clamp_magnitude(x, 10.f);
  const f32v u = FMA(c * c, f32(-0.10294324f), f32(-2.3022082f));
  const f32v top = x < f32(-10.f) ? f32(-10.f) : x;
  const f32v y = top / (f32_exp2_near(c * u) + 1.f);
  return x == f32(-INF) ? f32(NAN) : y;
}
)"},
    {"f32_gelu_tanh", "f32_exp2_fraction f32_scale f32_clamp_magnitude", R"(
// x / (1 + 2^t), which overflows before a clamped x matters. 2.8e-7 absolute; NaN for -inf, as
// 0 * inf gives.
INL f32v f32_gelu_tanh(f32v x) {
  const f32v c = f32_clamp_magnitude(x, 14.f);
  const f32v t = c * FMA(c * c, f32(-0.10294324f), f32(-2.3022082f));
  const f32v n = (t + 12582912.f) - 12582912.f;
  return x / (f32_scale(f32_exp2_fraction(t - n), n) + 1.f);
}
)",
     1},
    {"f32_tanh", "f32_exp_normal f32_abs f32_with_sign", R"(
// 1.53 ulp.
INL f32v f32_tanh(f32v x) {
  const f32v a = f32_abs(x), s = x * x;
  f32v p = FMA(s, f32(2.04313197173178195953369140625e-3f), f32(-8.06368887424468994140625e-3f));
  p = FMA(p, s, f32(2.16523110866546630859375e-2f));
  p = FMA(p, s, f32(-5.3937323391437530517578125e-2f));
  p = FMA(p, s, f32(0.133331239223480224609375f));
  p = FMA(p, s, f32(-0.3333332836627960205078125f));
  const f32v small = FMA(p * s, x, x);
  const f32v c = a > f32(9.1f) ? f32(9.1f) : a;
  const f32v big = 1.f - 2.f / (f32_exp_normal(c + c) + 1.f);
  const f32v y = f32_with_sign(a < f32(0.65f) ? f32_abs(small) : big, x);
  return x == x ? y : x;
}
)"},
    {"f32_tanh", "f32_exp2_fraction f32_scale f32_abs f32_with_sign", R"(
// 1.6 ulp.
INL f32v f32_tanh(f32v x) {
  const f32v a = f32_abs(x), s = x * x;
  f32v p = FMA(s, f32(2.04313197173178195953369140625e-3f), f32(-8.06368887424468994140625e-3f));
  p = FMA(p, s, f32(2.16523110866546630859375e-2f));
  p = FMA(p, s, f32(-5.3937323391437530517578125e-2f));
  p = FMA(p, s, f32(0.133331239223480224609375f));
  p = FMA(p, s, f32(-0.3333332836627960205078125f));
  const f32v small = FMA(p * s, x, x);
  const f32v c = f32(9.1f) < a ? f32(9.1f) : a;  // NaN stays
  const f32v n = FMA(c, f32(2.88539008f), f32(12582912.f)) - 12582912.f;
  const f32v e = f32_scale(f32_exp2_fraction(FMA(c, f32(2.88539008f), -n)), n);
  return f32_with_sign(f32_abs(a < f32(0.65f) ? small : 1.f - 2.f / (e + 1.f)), x);
}
)",
     1},
    {"f32_abs", "f32 i32", R"(
INL f32v f32_abs(f32v x) { return BITS(f32v, BITS(i32v, x) & 0x7FFFFFFF); }
)"},
    {"f32_with_sign", "f32 i32", R"(
INL f32v f32_with_sign(f32v magnitude, f32v sign) {  // of a magnitude that is not negative
  return BITS(f32v, BITS(i32v, magnitude) | (BITS(i32v, sign) & (int)0x80000000));
}
)"},
    {"f64_sigmoid", "f64_exp", R"(
INL f64v f64_sigmoid(f64v x) { return 1. / (1. + f64_exp(-x)); }
)"},
    {"f64_silu", "f64_exp", R"(
INL f64v f64_silu(f64v x) { return x / (1. + f64_exp(-x)); }
)"},
    {"f64_gelu_tanh", "f64_tanh", R"(
INL f64v f64_gelu_tanh(f64v x) {
  const f64v inner = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1. + f64_tanh(inner));
}
)"},
};

}  // namespace

constinit const std::span<const PreludePiece> exponentials = pieces;

}  // namespace fulgurite::prelude
