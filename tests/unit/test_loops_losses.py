"""Losses over classes against eager, and their gradients."""

import pytest
import torch
from loop_harness import COMPILER, Kernels, lower
from test_loops_pointwise import FLOATS
from test_loops_rows import check_rows, make

from fulgurite import _C

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs clang++-19")
KERNELS = Kernels()
aten = torch.ops.aten
NONE, MEAN, SUM = 0, 1, 2


def scores_and_targets(shape, dtype=torch.float32):
    """Every fifth target is class 1, which some programs ignore."""
    classes = shape[1] if len(shape) > 1 else shape[0]
    target = (
        torch.arange(torch.empty(shape).select(min(1, len(shape) - 1), 0).numel()) * 7 % classes
    )
    target[::5] = 1
    return make(shape, dtype), target.view(shape[:1] + shape[2:] if len(shape) > 1 else ())


def forward(x, *args):
    op = aten.nll_loss2d_forward if x.dim() == 4 else aten.nll_loss_forward
    return op(x, *args)[0]


def class_dim(x):
    return min(1, x.dim() - 1)


def log_softmax(x):
    return x.log_softmax(class_dim(x))


def backward(g, x, *args):
    op = aten.nll_loss2d_backward if x.dim() == 4 else aten.nll_loss_backward
    return op(g, x, *args)


LOSSES = {
    "plain": lambda x, t, w: forward(x, t, None, NONE, -100),
    "weighted": lambda x, t, w: forward(x, t, w, NONE, -100),
    "ignored": lambda x, t, w: forward(x, t, w, NONE, 1),
    "of_log_softmax": lambda x, t, w: forward(log_softmax(x), t, w, NONE, 1),
    "beside_log_softmax": lambda x, t, w: (
        log_softmax(x),
        forward(log_softmax(x), t, None, NONE, 1),
    ),
}
GRADIENTS = {
    "none": lambda g, x, t, w: backward(x.select(class_dim(x), 0), x, t, w, NONE, 1, g),
    "sum": lambda g, x, t, w: backward(g, x, t, None, SUM, -100, g),
    "mean": lambda g, x, t, w: backward(g, x, t, w, MEAN, 1, g + 3),
    "of_log_softmax": lambda g, x, t, w: aten._log_softmax_backward_data(
        backward(g, x, t, w, MEAN, 1, g + 3), x, class_dim(x), x.dtype
    ),
}
SHAPES = ((33, 10), (5, 1000), (1, 3), (2, 7, 4, 5), (9,))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_one_by_one(name, shape):
    x, t = scores_and_targets(shape)
    check_rows(LOSSES[name], x, t, make((shape[min(1, len(shape) - 1)],), torch.float32))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_floats(name, dtype):
    x, t = scores_and_targets((33, 10), dtype)
    check_rows(LOSSES[name], x, t, make((10,), dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name, shape):
    x, t = scores_and_targets(shape)
    w = make((shape[min(1, len(shape) - 1)],), torch.float32)
    check_rows(GRADIENTS[name], torch.tensor(0.7), x, t, w)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_floats(name, dtype):
    x, t = scores_and_targets((33, 10), dtype)
    check_rows(GRADIENTS[name], torch.tensor(0.7, dtype=dtype), x, t, make((10,), dtype))


@pytest.mark.parametrize("name", ["plain", "of_log_softmax"])
def test_special_scores(name):
    x, t = scores_and_targets((33, 10))
    inf = float("inf")
    x[0, 0], x[3, 4], x[5], x[7, t[7]], x[8, t[8]] = float("nan"), inf, -inf, -inf, -0.0
    check_rows(LOSSES[name], x, t, make((10,), torch.float32))


@pytest.mark.parametrize("wrong", [-1, 10, -100, 2**40])
@pytest.mark.parametrize("name", ["weighted", "of_log_softmax", "beside_log_softmax"])
def test_classes_out_of_bounds_fail(name, wrong):
    x, t = scores_and_targets((33, 10))
    t[17] = wrong
    inputs = [x, t, make((10,), torch.float32)]
    function = LOSSES[name]
    if name == "weighted" and wrong == -100:  # ignored
        return check_rows(function, *inputs)
    with pytest.raises(IndexError):
        function(*inputs)
    assert KERNELS.fails(lower(function, inputs), inputs)


PAIRS = {
    "mse": lambda x, t, w, r: aten.mse_loss(x, t, r),
    "smooth_l1": lambda x, t, w, r: aten.smooth_l1_loss(x, t, r, 0.5),
    "smooth_l1_sharp": lambda x, t, w, r: aten.smooth_l1_loss(x, t, r, 1e-3),
    "huber": lambda x, t, w, r: aten.huber_loss(x, t, r, 1.5),
    "soft_margin": lambda x, t, w, r: aten.soft_margin_loss(x, t.sign(), r),
    "bce": lambda x, t, w, r: aten.binary_cross_entropy(x.sigmoid(), t.sigmoid(), None, r),
    "bce_weighted": lambda x, t, w, r: aten.binary_cross_entropy(x.sigmoid(), t.sigmoid(), w, r),
    "bce_logits": lambda x, t, w, r: aten.binary_cross_entropy_with_logits(
        x, t.sigmoid(), None, None, r
    ),
    "bce_logits_weighted": lambda x, t, w, r: aten.binary_cross_entropy_with_logits(
        x, t.sigmoid(), w, w[0], r
    ),
}
PAIR_GRADIENTS = {
    "mse": lambda g, x, t, w, r: aten.mse_loss_backward(g, x, t, r),
    "smooth_l1": lambda g, x, t, w, r: aten.smooth_l1_loss_backward(g, x, t, r, 0.5),
    "huber": lambda g, x, t, w, r: aten.huber_loss_backward(g, x, t, r, 1.5),
    "bce": lambda g, x, t, w, r: aten.binary_cross_entropy_backward(
        g, x.sigmoid(), t.sigmoid(), w, r
    ),
}


def pair(shape, dtype):
    x, w = make(shape, dtype), make(shape, dtype)
    return x, x.flip(0).cos() * 2, w


@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
@pytest.mark.parametrize("shape", [(33, 70), (5,), (3, 4, 130)], ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name, shape, reduction):
    check_rows(lambda x, t, w: PAIRS[name](x, t, w, reduction), *pair(shape, torch.float32))


@pytest.mark.parametrize("reduction", [NONE, MEAN])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_floats(name, dtype, reduction):
    check_rows(lambda x, t, w: PAIRS[name](x, t, w, reduction), *pair((33, 70), dtype))


@pytest.mark.parametrize("reduction", [NONE, MEAN, SUM])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", PAIR_GRADIENTS)
def test_gradients_of_pairs(name, dtype, reduction):
    x, t, w = pair((33, 70), dtype)
    g = x.sin() if reduction == NONE else torch.tensor(3.0, dtype=dtype)
    check_rows(lambda g, x, t, w: PAIR_GRADIENTS[name](g, x, t, w, reduction), g, x, t, w)


@pytest.mark.parametrize("reduction", [NONE, MEAN])
@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan")])
def test_no_probability_fails(wrong, reduction):
    x = torch.rand(33, 10)
    x[3, 4] = wrong
    inputs = [x, x.flip(0)]
    function = lambda x, t: aten.binary_cross_entropy(x, t, None, reduction)
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        function(*inputs)
    assert KERNELS.fails(lower(function, inputs), inputs)


def test_a_target_of_other_sizes():
    """What is reduced has the input's places; those of a larger target it has not."""
    x, t = make((1, 70), torch.float32), make((33, 70), torch.float32)
    check_rows(lambda x, t: aten.mse_loss(t, x, MEAN), x, t)
    check_rows(lambda x, t: aten.mse_loss(x, t, NONE), x, t)
    with pytest.raises(_C.Unsupported, match="no places"):
        lower(lambda x, t: aten.mse_loss(x, t, MEAN), [x, t])


def test_what_has_no_loops():
    x, t = scores_and_targets((33, 10))
    for function, reason in (
        (lambda x, t: forward(x, t, None, SUM, -100), "a sum over the batch"),
        (lambda x, t: aten.nll_loss_forward(x, t, None, NONE, -100)[1], "the sum of the weights"),
        (lambda x, t: forward(x, t.to(torch.uint8), None, NONE, -100), "no int64"),
        (lambda x, t: forward(x.cumsum(1), t, None, NONE, -100), "other places"),
    ):
        with pytest.raises(_C.Unsupported, match=reason):
            lower(function, [x, t])
