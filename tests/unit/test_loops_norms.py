"""Normalisation over batches, groups and instances, and gradients of norms, against eager."""

import pytest
import torch
import torch.nn.functional as F
from loop_harness import COMPILER, lower
from test_loops_pointwise import FLOATS
from test_loops_rows import check_rows, make

from fulgurite import _C

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs clang++-19")
aten = torch.ops.aten
SHAPES = (
    (4, 8, 5, 7),
    (2, 6, 33),
    (16, 12),
    (3, 4, 1, 1),
    (1, 8, 16, 16),
    (2, 8, 3, 4, 5),
    (300, 70),
)


def batch_statistics(x):
    """Mean and 1/std of each channel."""
    dims = [d for d in range(x.dim()) if d != 1]
    return x.mean(dims), (x.var(dims, correction=0) + 1e-5).rsqrt()


NORMS = {
    "eval": lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b),
    "eval_plain": lambda x, w, b, m, v: F.batch_norm(x, m, v),
    "eval_scaled": lambda x, w, b, m, v: F.batch_norm(x, m, v, w),
    "eval_residual": lambda x, w, b, m, v: F.relu(F.batch_norm(x, m, v, w, b) + x),
    "eval_statistics": lambda x, w, b, m, v: aten._native_batch_norm_legit_no_training(
        x, w, b, m, v, 0.1, 1e-5
    )[0],
    "train": lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(
        x, w, b, m, v, True, 0.1, 1e-5
    ),
    "train_residual": lambda x, w, b, m, v: F.relu(
        aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.3, 1e-3)[0] + x
    ),
    "no_statistics": lambda x, w, b, m, v: aten._native_batch_norm_legit.no_stats(
        x, w, b, True, 0.1, 1e-5
    ),
    "no_parameters": lambda x, w, b, m, v: aten._native_batch_norm_legit.no_stats(
        x, None, None, True, 0.1, 1e-5
    ),
    "batch_gradients": lambda x, w, b, m, v: aten.native_batch_norm_backward(
        x.sin(), x, w, m, v, *batch_statistics(x), True, 1e-5, [True, True, True]
    ),
    "batch_gradients_eval": lambda x, w, b, m, v: aten.native_batch_norm_backward(
        x.sin(), x, None, m, v, None, None, False, 1e-5, [True, False, True]
    )[::2],
}
GROUPS = {
    "two": (2, lambda x, w, b: F.group_norm(x, 2, w, b)),
    "all_results": (
        2,
        lambda x, w, b: aten.native_group_norm(
            x, w, b, x.shape[0], x.shape[1], x[0, 0].numel(), 2, 1e-5
        ),
    ),
    "one": (1, lambda x, w, b: F.group_norm(x, 1, w, b)),
    "one_result_each": (
        1,
        lambda x, w, b: aten.native_group_norm(
            x, w, b, x.shape[0], x.shape[1], x[0, 0].numel(), 1, 1e-5
        ),
    ),
    "each": (None, lambda x, w, b: F.group_norm(x, x.shape[1], w, b)),
    "plain": (2, lambda x, w, b: F.group_norm(x, 2)),
    "scaled": (2, lambda x, w, b: F.group_norm(x, 2, w)),
    "shifted": (2, lambda x, w, b: F.group_norm(x, 2, None, b)),
    "residual": (2, lambda x, w, b: F.silu(F.group_norm(x, 2, w, b) + x)),
}
LAYERS = {
    "argument": lambda x, g, m, r, w, b: aten.native_layer_norm_backward(
        g, x, x.shape[-1:], m, r, w, b, [True, False, False]
    )[0],
    "plain": lambda x, g, m, r, w, b: aten.native_layer_norm_backward(
        g, x, x.shape[-1:], m, r, None, None, [True, False, False]
    )[0],
    "parameters": lambda x, g, m, r, w, b: aten.native_layer_norm_backward(
        g, x, x.shape[-1:], m, r, w, b, [False, True, True]
    )[1:],
}


def check_norm(function, *inputs):
    """A mean near 0 has no more digits than the elements."""
    check_rows(function, *inputs, of_typical=1)


def statistics(shape, dtype):
    """Weight, bias, running mean and running variance."""
    w, b, m, v = make((4, shape[1]), dtype)
    return w, b, m, v.abs() + 0.1


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_batches(name, shape):
    check_norm(NORMS[name], make(shape, torch.float32), *statistics(shape, torch.float32))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_batches_of_floats(name, dtype):
    check_norm(NORMS[name], make((4, 8, 5, 7), dtype), *statistics((4, 8), dtype))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
@pytest.mark.parametrize("name", ["eval", "eval_residual", "train", "no_statistics"])
def test_parameters_of_more_digits(name, dtype):
    check_norm(NORMS[name], make((4, 8, 5, 7), dtype), *statistics((4, 8), torch.float32))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=str)
def test_layers_with_parameters_of_more_digits(dtype):
    w, b = make((2, 33), torch.float32)
    check_norm(lambda x, w, b: F.layer_norm(x, (33,), w, b), make((5, 33), dtype), w, b)


LAYOUTS = {
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(4, 8, 5, 7), (2, 70, 16, 16)], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_layouts_of_batches(name, shape, layout):
    x = LAYOUTS[layout](make(shape, torch.float32))
    check_norm(NORMS[name], x, *statistics(shape, torch.float32))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_one_norm_after_another(layout):
    x = LAYOUTS[layout](make((4, 8, 5, 7), torch.float32))[:, :, :3]

    def twice(x):
        for _ in range(2):
            x = aten._native_batch_norm_legit.no_stats(x.exp(), None, None, True, 0.1, 1e-5)[0]
        return x

    check_norm(twice, x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", GROUPS)
def test_groups(name, shape):
    groups, function = GROUPS[name]
    w, b, _, _ = statistics(shape, torch.float32)
    check_norm(function, make(shape, torch.float32), w, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["two", "all_results", "plain", "residual"])
def test_groups_of_floats(name, dtype):
    w, b, _, _ = statistics((4, 8), dtype)
    check_norm(GROUPS[name][1], make((4, 8, 5, 7), dtype), w, b)


@pytest.mark.parametrize("name", ["two", "residual", "all_results"])
def test_groups_in_channels_last(name):
    x = make((4, 8, 5, 7), torch.float32).contiguous(memory_format=torch.channels_last)
    w, b, _, _ = statistics((4, 8), torch.float32)
    check_norm(GROUPS[name][1], x, w, b)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_instances(shape):
    if len(shape) < 3 or shape[-1] == 1:
        pytest.skip("no instances")
    w, b, _, _ = statistics(shape, torch.float32)
    x = make(shape, torch.float32)
    check_norm(lambda x, w, b: F.relu(F.instance_norm(x)) + x, x, w, b)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(64, 33), (3, 5, 130)], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_layers(name, shape, dtype):
    x, g = make(shape, dtype), make(shape, torch.float64).cos().to(dtype)
    w, b = make((2, shape[-1]), dtype)
    _, mean, rstd = torch.native_layer_norm(x, shape[-1:], w, b, 1e-5)
    check_norm(LAYERS[name], x, g, mean, rstd, w, b)


@pytest.mark.parametrize("name", ["eval", "eval_residual", "train", "no_statistics"])
def test_special_values(name):
    x = make((4, 8, 5, 7), torch.float32)
    inf = float("inf")
    x[0, 0, 0, 0], x[1, 1, 2, 3], x[2, 2, 4, 6], x[0, 3, 4, 0] = float("nan"), inf, -inf, inf
    x[3, 3, 4, 0], x[:, 4] = -inf, -0.0
    w, b, m, v = statistics((4, 8), torch.float32)
    b[4] = m[4] = 0
    check_norm(NORMS[name], x, w, b, m, v)


def test_variance_of_nothing():
    """ATen gives 0 for 1/std where the variance and eps are 0."""
    x = torch.ones(4, 3, 5)
    check_norm(lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 0.0), x)


@pytest.mark.parametrize("name", ["train", "no_statistics"])
def test_far_from_zero(name):
    x = make((16, 8, 32, 32), torch.float32) + 100
    check_norm(NORMS[name], x, *statistics((16, 8), torch.float32))


def test_what_has_no_loops():
    x, w = torch.randn(4, 6, 5), torch.ones(6)
    for function in (
        lambda x, w: aten.native_group_norm(x[:0], w, None, 0, 6, 5, 2, 1e-5)[0],
        lambda x, w: aten.native_batch_norm(x, w, None, None, None, True, 0.1, 1e-5)[0].sum(0),
        lambda x, w: aten.native_layer_norm_backward(
            x[0], x[0], [5], x[0, :, :1], x[0, :, :1], w[:5], w[:5], [True, True, True]
        )[:2],
    ):
        with pytest.raises(_C.Unsupported):
            lower(function, [x, w])
