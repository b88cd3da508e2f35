"""One call, or a few, of every operator with a pointwise rule; the parameters are tensors."""

import torch

aten = torch.ops.aten

SAMPLES = {
    "add.Tensor": [lambda x, y: aten.add.Tensor(x, y), lambda x, y: aten.add.Tensor(x, y, alpha=3)],
    "add.Scalar": [lambda x: aten.add.Scalar(x, 2), lambda x: aten.add.Scalar(x, 0.3, 2)],
    "sub.Tensor": [lambda x, y: aten.sub.Tensor(x, y), lambda x, y: aten.sub.Tensor(x, y, alpha=3)],
    "sub.Scalar": [lambda x: aten.sub.Scalar(x, 2), lambda x: aten.sub.Scalar(x, 0.3, 2)],
    "rsub.Tensor": [lambda x, y: aten.rsub.Tensor(x, y, alpha=2)],
    "rsub.Scalar": [lambda x: aten.rsub.Scalar(x, 2), lambda x: aten.rsub.Scalar(x, 0.5, 3)],
    "mul.Tensor": [lambda x, y: aten.mul.Tensor(x, y), lambda x: x * 0.3, lambda x: x * 3],
    "mul.Scalar": [lambda x: aten.mul.Scalar(x, 0.3)],
    "div.Tensor": [lambda x, y: aten.div.Tensor(x, y), lambda x: x / 3],
    "div.Scalar": [lambda x: aten.div.Scalar(x, 3)],
    "div.Tensor_mode": [
        lambda x, y: aten.div.Tensor_mode(x, y, rounding_mode="floor"),
        lambda x, y: aten.div.Tensor_mode(x, y, rounding_mode="trunc"),
        lambda x, y: aten.div.Tensor_mode(x, y, rounding_mode=None),
        lambda x: torch.div(x, 3, rounding_mode="floor"),
        lambda x: torch.div(x, -3, rounding_mode="trunc"),
    ],
    "div.Scalar_mode": [lambda x: aten.div.Scalar_mode(x, 3, rounding_mode="floor")],
    "floor_divide": [lambda x, y: aten.floor_divide(x, y), lambda x: x // 3, lambda x: x // -7],
    "floor_divide.Scalar": [lambda x: aten.floor_divide.Scalar(x, 3)],
    "remainder.Tensor": [lambda x, y: aten.remainder.Tensor(x, y)],
    "remainder.Scalar": [lambda x: aten.remainder.Scalar(x, 3), lambda x: x % -7],
    "remainder.Scalar_Tensor": [lambda x: aten.remainder.Scalar_Tensor(7, x)],
    "fmod.Tensor": [lambda x, y: aten.fmod.Tensor(x, y)],
    "fmod.Scalar": [lambda x: aten.fmod.Scalar(x, 3), lambda x: aten.fmod.Scalar(x, -7)],
    "neg": [aten.neg],
    "abs": [aten.abs],
    "sgn": [aten.sgn],
    "sign": [aten.sign],
    "signbit": [aten.signbit],
    "copysign.Tensor": [lambda x, y: aten.copysign.Tensor(x, y)],
    "copysign.Scalar": [lambda x: aten.copysign.Scalar(x, -1.5)],
    "maximum": [lambda x, y: aten.maximum(x, y)],
    "minimum": [lambda x, y: aten.minimum(x, y)],
    "fmax": [lambda x, y: aten.fmax(x, y)],
    "fmin": [lambda x, y: aten.fmin(x, y)],
    "clamp": [
        lambda x: aten.clamp(x, -1, 2),
        lambda x: aten.clamp(x, -0.3, 0.7),
        lambda x: aten.clamp(x, None, 0.7),
        lambda x: aten.clamp(x, 2, 1),
    ],
    "clamp.Tensor": [
        lambda x, y, z: aten.clamp.Tensor(x, y, z),
        lambda x, y: aten.clamp.Tensor(x, None, y),
    ],
    "clamp_min": [lambda x: aten.clamp_min(x, 0), lambda x: aten.clamp_min(x, -0.3)],
    "clamp_min.Tensor": [lambda x, y: aten.clamp_min.Tensor(x, y)],
    "clamp_max": [lambda x: aten.clamp_max(x, 0), lambda x: aten.clamp_max(x, 0.3)],
    "clamp_max.Tensor": [lambda x, y: aten.clamp_max.Tensor(x, y)],
    "addcmul": [lambda x, y, z: aten.addcmul(x, y, z, value=2)],
    "addcdiv": [lambda x, y, z: aten.addcdiv(x, y, z, value=2)],
    "lerp.Scalar": [
        lambda x, y: aten.lerp.Scalar(x, y, 0.3),
        lambda x, y: aten.lerp.Scalar(x, y, 0.8),
    ],
    "lerp.Tensor": [lambda x, y, z: aten.lerp.Tensor(x, y, z)],
    "pow.Tensor_Tensor": [lambda x, y: aten.pow.Tensor_Tensor(x, y)],
    "pow.Tensor_Scalar": [
        *(lambda x, e=e: aten.pow.Tensor_Scalar(x, e) for e in (0, 0.5, 1, 2, 3, 5, 1.7)),
        *(lambda x, e=e: aten.pow.Tensor_Scalar(x, e) for e in (-0.5, -1, -2, -3.5)),
    ],
    "pow.Scalar": [lambda x: aten.pow.Scalar(2, x), lambda x: aten.pow.Scalar(1.5, x)],
    "heaviside": [lambda x, y: aten.heaviside(x, y)],
    "hypot": [lambda x, y: aten.hypot(x, y)],
    "atan2": [lambda x, y: aten.atan2(x, y)],
    "nextafter": [lambda x, y: aten.nextafter(x, y)],
    "logaddexp": [lambda x, y: aten.logaddexp(x, y)],
    "xlogy.Tensor": [lambda x, y: aten.xlogy.Tensor(x, y)],
    "xlogy.Scalar_Self": [lambda x: aten.xlogy.Scalar_Self(2, x)],
    "xlogy.Scalar_Other": [lambda x: aten.xlogy.Scalar_Other(x, 0.3)],
    "special_xlog1py": [lambda x, y: aten.special_xlog1py(x, y)],
    "special_xlog1py.self_scalar": [lambda x: aten.special_xlog1py.self_scalar(2, x)],
    "special_xlog1py.other_scalar": [lambda x: aten.special_xlog1py.other_scalar(x, 0.3)],
    "isnan": [aten.isnan],
    "isinf": [aten.isinf],
    "isposinf": [aten.isposinf],
    "isneginf": [aten.isneginf],
    "logical_not": [aten.logical_not],
    "logical_and": [lambda x, y: aten.logical_and(x, y)],
    "logical_or": [lambda x, y: aten.logical_or(x, y)],
    "logical_xor": [lambda x, y: aten.logical_xor(x, y)],
    "bitwise_not": [aten.bitwise_not],
    "where.self": [lambda x, y, c: aten.where.self(c.to(torch.bool), x, y)],
    "masked_fill.Scalar": [lambda x, c: aten.masked_fill.Scalar(x, c.to(torch.bool), 3)],
    "masked_fill.Tensor": [lambda x, c, zero_dim: aten.masked_fill.Tensor(x, c.to(torch.bool), zero_dim)],
    "relu": [aten.relu],
    "hardtanh": [lambda x: aten.hardtanh(x), lambda x: aten.hardtanh(x, -0.3, 2)],
    "hardtanh_backward": [lambda g, x: aten.hardtanh_backward(g, x, -0.3, 2)],
    "logit": [lambda x: aten.logit(x), lambda x: aten.logit(x, 0.1)],
    "logit_backward": [lambda g, x: aten.logit_backward(g, x), lambda g, x: aten.logit_backward(g, x, 0.1)],
    "hardswish": [aten.hardswish],
    "hardswish_backward": [lambda g, x: aten.hardswish_backward(g, x)],
    "log_sigmoid_forward": [lambda x: aten.log_sigmoid_forward(x)[0]],
    "log_sigmoid_backward": [
        lambda g, x, b: aten.log_sigmoid_backward(g, x, b)
    ],
    "mse_loss": [lambda x, t: aten.mse_loss(x, t, 0)],
    "smooth_l1_loss": [lambda x, t: aten.smooth_l1_loss(x, t, 0, 0.7)],
    "huber_loss": [lambda x, t: aten.huber_loss(x, t, 0, 1.5)],
    "soft_margin_loss": [lambda x, t: aten.soft_margin_loss(x, t, 0)],
    "binary_cross_entropy_with_logits": [
        lambda x, t: aten.binary_cross_entropy_with_logits(x, t, None, None, 0),
        lambda x, t, w: aten.binary_cross_entropy_with_logits(x, t, w, x, 0),
    ],
    "mish": [aten.mish],
    "mish_backward": [lambda g, x: aten.mish_backward(g, x)],
    "_prelu_kernel": [lambda x, w: aten._prelu_kernel(x, w)],
    "_prelu_kernel_backward": [lambda g, x, w: aten._prelu_kernel_backward(g, x, w)],
    "nan_to_num": [aten.nan_to_num, lambda x: aten.nan_to_num(x, 1.5, 3.0, -4.0)],
    "gelu": [lambda x: aten.gelu(x), lambda x: aten.gelu(x, approximate="tanh")],
    "gelu_backward": [
        lambda g, x: aten.gelu_backward(g, x),
        lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
    ],
    "silu": [aten.silu],
    "silu_backward": [lambda g, x: aten.silu_backward(g, x)],
    "elu": [aten.elu, lambda x: aten.elu(x, 1.3, 1.1, 0.7)],
    "elu_backward": [
        lambda g, x: aten.elu_backward(g, 1.3, 1.1, 0.7, False, x),
        lambda g, x: aten.elu_backward(g, 1.3, 1.1, 0.7, True, x),
    ],
    "softplus": [aten.softplus, lambda x: aten.softplus(x, 2, 10)],
    "softplus_backward": [lambda g, x: aten.softplus_backward(g, x, 2, 10)],
    "leaky_relu": [aten.leaky_relu, lambda x: aten.leaky_relu(x, 0.3)],
    "leaky_relu_backward": [lambda g, x: aten.leaky_relu_backward(g, x, 0.3, False)],
    "hardsigmoid": [aten.hardsigmoid],
    "hardsigmoid_backward": [lambda g, x: aten.hardsigmoid_backward(g, x)],
    "softshrink": [aten.softshrink, lambda x: aten.softshrink(x, 0.3)],
    "softshrink_backward": [lambda g, x: aten.softshrink_backward(g, x, 0.3)],
    "hardshrink": [lambda x: aten.hardshrink(x, 0.3)],
    "hardshrink_backward": [lambda g, x: aten.hardshrink_backward(g, x, 0.3)],
    "threshold": [lambda x: aten.threshold(x, 0.3, 7)],
    "threshold_backward": [lambda g, x: aten.threshold_backward(g, x, 0), lambda g, x: aten.threshold_backward(g, x, 0.3)],
    "sigmoid_backward": [lambda g, y: aten.sigmoid_backward(g, y)],
    "tanh_backward": [lambda g, y: aten.tanh_backward(g, y)],
    "native_dropout_backward": [
        lambda g, m: aten.native_dropout_backward(g, m.to(torch.bool), 1.25)
    ],
    "round.decimals": [
        lambda x: aten.round.decimals(x, decimals=2),
        lambda x: aten.round.decimals(x, decimals=-1),
    ],
    "_to_copy": [
        *(lambda x, d=d: aten._to_copy(x, dtype=d)
          for d in (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
                    torch.float16, torch.bfloat16, torch.float32, torch.float64))
    ],
    "clone": [aten.clone],
    "full_like": [lambda x: aten.full_like(x, 3), lambda x: aten.full_like(x, 1)],
    "zeros_like": [lambda x: x + aten.zeros_like(x)],
    "ones_like": [lambda x: x * aten.ones_like(x)],
}  # fmt: skip

for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _op = getattr(aten, _name)
    SAMPLES[_name + ".Tensor"] = [lambda x, y, op=_op: op.Tensor(x, y)]
    SAMPLES[_name + ".Scalar"] = [
        lambda x, op=_op: op.Scalar(x, 1),
        lambda x, op=_op: op.Scalar(x, 0.3),
    ]
for _name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    _op = getattr(aten, _name)
    SAMPLES[_name + ".Tensor"] = [lambda x, y, op=_op: op.Tensor(x, y)]
    SAMPLES[_name + ".Scalar"] = [lambda x, op=_op: op.Scalar(x, 5)]
    SAMPLES[_name + ".Scalar_Tensor"] = [lambda x, op=_op: op.Scalar_Tensor(5, x)]
for _name in ("bitwise_left_shift", "bitwise_right_shift"):
    _op = getattr(aten, _name)
    SAMPLES[_name + ".Tensor"] = [lambda x, y, op=_op: op.Tensor(x, y)]
    SAMPLES[_name + ".Tensor_Scalar"] = [lambda x, op=_op: op.Tensor_Scalar(x, 3)]
    SAMPLES[_name + ".Scalar_Tensor"] = [lambda x, op=_op: op.Scalar_Tensor(5, x)]
for _name in ("__lshift__", "__rshift__"):
    _op = getattr(aten, _name)
    SAMPLES[_name + ".Tensor"] = [lambda x, y, op=_op: op.Tensor(x, y)]
    SAMPLES[_name + ".Scalar"] = [lambda x, op=_op: op.Scalar(x, 3)]
for _name in (
    "acos acosh asin asinh atan atanh cos cosh erf erfc exp exp2 expm1 log log10 log1p log2 sin "
    "sinh sqrt tan tanh sigmoid reciprocal rsqrt sinc special_entr ceil floor round trunc frac"
).split():
    SAMPLES[_name] = [getattr(aten, _name)]

# By the tests of norms and of losses: of channels, and of probabilities alone.
ELSEWHERE = {
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit.no_stats",
    "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit_functional",
    "binary_cross_entropy",
}
