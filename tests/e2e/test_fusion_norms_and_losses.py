"""Norms and losses under jit: what is fused, running statistics, and classes out of bounds."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fulgurite


class Block(nn.Module):
    """A residual block."""

    def __init__(self, norm):
        super().__init__()
        self.first, self.second = (nn.Conv2d(16, 16, 3, padding=1, bias=False) for _ in range(2))
        self.norms = nn.ModuleList([norm(), norm()])

    def forward(self, x):
        y = F.relu(self.norms[0](self.first(x)))
        return F.relu(self.norms[1](self.second(y)) + x)


def batch_norm():
    norm = nn.BatchNorm2d(16)
    with torch.no_grad():
        for t, low in ((norm.weight, 0.5), (norm.running_mean, -1), (norm.running_var, 0.5)):
            t.uniform_(low, 1.5)
    return norm


NORMS = {
    "batch": batch_norm,
    "batch_without_statistics": lambda: nn.BatchNorm2d(16, track_running_stats=False),
    "group": lambda: nn.GroupNorm(4, 16),
    "instance": lambda: nn.InstanceNorm2d(16),
}


def run_by_aten(compiled):
    calls = [b for b in fulgurite.last_traces(compiled)[-1].bound_symbols if "fusion" not in str(b)]
    return " ".join(str(call) for call in calls)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", NORMS)
@torch.no_grad()
def test_residual_block(name, training):
    torch.manual_seed(0)
    block = Block(NORMS[name]).train(training)
    expected_block = copy.deepcopy(block)
    compiled = fulgurite.jit(block, executors=["fused_cpu", "aten"])
    for _ in range(3):
        x = torch.randn(4, 16, 24, 24)
        torch.testing.assert_close(compiled(x), expected_block(x), rtol=1e-4, atol=1e-4)
        for got, expected in zip(block.buffers(), expected_block.buffers(), strict=True):
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    rest = run_by_aten(compiled)
    assert "_norm(" not in rest and "relu" not in rest and rest.count("conv2d") == 2


def losses():
    x, t = torch.randn(33, 10), torch.arange(33) % 10
    images, pixels = torch.randn(2, 5, 8, 9), torch.arange(144).view(2, 8, 9) % 5
    weight, weights = torch.rand(10), torch.rand(5)
    for reduction in ("mean", "sum", "none"):
        for ignored in (-100, 3):
            for smoothing in (0.0, 0.1):
                given = {
                    "reduction": reduction,
                    "ignore_index": ignored,
                    "label_smoothing": smoothing,
                }
                yield F.cross_entropy, (x, t), given
                yield F.cross_entropy, (x, t, weight), given
                yield F.cross_entropy, (images, pixels), given
                yield F.cross_entropy, (images, pixels, weights), given
                yield F.cross_entropy, (images.flatten(2), pixels.flatten(1), weights), given
            given = {"reduction": reduction, "ignore_index": ignored}
            yield F.nll_loss, (x.log_softmax(1), t, weight), given
            yield F.nll_loss, (images, pixels), given
        yield F.cross_entropy, (x, x.softmax(1)), {"reduction": reduction, "label_smoothing": 0.1}
        yield F.cross_entropy, (images, images.softmax(1), weights), {"reduction": reduction}
        yield F.cross_entropy, (x[0], t[0]), {"reduction": reduction}
        yield F.cross_entropy, (x.t().contiguous().t(), t), {"label_smoothing": 0.2}


@torch.no_grad()
def test_losses():
    torch.manual_seed(0)
    for function, args, given in losses():
        compiled = fulgurite.jit(function, executors=["fused_cpu", "aten"])
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
            args = [a.to(dtype) if a.is_floating_point() else a for a in args]
            got, expected = compiled(*args, **given), function(*args, **given)
            assert got.dtype == expected.dtype and got.stride() == expected.stride()
            torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


@torch.no_grad()
def test_cross_entropy_writes_no_log_softmax():
    x, t = torch.randn(64, 1000), torch.arange(64)
    compiled = fulgurite.jit(F.cross_entropy, executors=["fused_cpu", "aten"])
    compiled(x, t)
    fusions = dict(fulgurite.examine.get_fusions(fulgurite.last_traces(compiled)[-1]))
    assert len(fusions) == 2 and run_by_aten(compiled).count("aten.") == 0
    assert fusions["fusion0"].last_used.bytes() < 1.1 * x.nbytes


@pytest.mark.parametrize("everything_ignored", [False, True])
@torch.no_grad()
def test_nothing_to_take_the_mean_of(everything_ignored):
    x, t = torch.randn(4, 5), torch.zeros(4, dtype=torch.int64)
    if not everything_ignored:
        x, t = x[:0], t[:0]
    for reduction in ("mean", "sum", "none"):
        given = {"ignore_index": 0, "reduction": reduction}
        got = fulgurite.jit(F.cross_entropy)(x, t, **given)
        torch.testing.assert_close(got, F.cross_entropy(x, t, **given), equal_nan=True)


@pytest.mark.parametrize("wrong", [-1, 10, 2**40])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.filterwarnings("ignore:.*runs call by call")
@torch.no_grad()
def test_classes_out_of_bounds(wrong, smoothing, reduction):
    x, t = torch.randn(33, 10), torch.arange(33) % 10
    given = {"label_smoothing": smoothing, "reduction": reduction}
    compiled = fulgurite.jit(F.cross_entropy, executors=["fused_cpu", "aten"])
    compiled(x, t, **given)
    t[7] = wrong
    with pytest.raises(IndexError) as expected:
        F.cross_entropy(x, t, **given)
    with pytest.raises(IndexError) as got:
        compiled(x, t, **given)
    assert str(got.value) == str(expected.value)


@torch.no_grad()
def test_layer_norm_gradients_are_two_fusions():
    x, g = torch.randn(64, 256), torch.randn(64, 256)
    w, b = torch.randn(2, 256)
    _, mean, rstd = torch.native_layer_norm(x, [256], w, b, 1e-5)

    def gradients(g, x, mean, rstd, w, b):
        mask = [True, True, True]
        return torch.ops.aten.native_layer_norm_backward(g, x, [256], mean, rstd, w, b, mask)

    compiled = fulgurite.jit(gradients, executors=["fused_cpu", "aten"])
    args = (g, x, mean, rstd, w, b)
    torch.testing.assert_close(compiled(*args), gradients(*args), rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*runs call by call")
@torch.no_grad()
def test_classes_out_of_bounds_where_only_the_weights_are_used():
    x, t = torch.randn(33, 10), torch.arange(33) % 10

    def weights(x, t):
        return torch.ops.aten.nll_loss_forward(x, t, None, 2, -100)[1] * 2

    compiled = fulgurite.jit(weights, executors=["fused_cpu", "aten"])
    assert compiled(x, t) == 66
    t[7] = 10
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(x, t)


def test_an_expanded_statistic_stays_in_its_region():
    """As in the gradient of rms_norm."""

    def program(x, grad):
        s = (x * grad).sum(1, keepdim=True) * -0.5
        return s.expand(x.shape) / x.shape[1] * x + grad

    x, grad = torch.randn(64, 256), torch.randn(64, 256)
    compiled = fulgurite.jit(program)
    torch.testing.assert_close(compiled(x, grad), program(x, grad))
    (_, fusion), *others = fulgurite.examine.get_fusions(fulgurite.last_traces(compiled)[-1])
    assert not others
    assert repr(fusion).endswith("(mul, sum, mul, expand, div, mul, add)")


@pytest.mark.parametrize("rows", [(1,), (4,)])
@torch.no_grad()
def test_the_variance_of_rows_that_begin_with_other_values(rows):
    """The sum of squares is taken around a value of the row that is about its mean."""
    x = 1000 + torch.randn(*rows, 16244 // rows[0], generator=torch.Generator().manual_seed(1))
    x[:, :64] -= 1000
    for variance in (lambda x: x.var(1), lambda x: x.t().contiguous().var(0)):
        torch.testing.assert_close(
            fulgurite.jit(variance)(x), variance(x.double()).float(), rtol=3e-6, atol=0
        )


def _batch_norm_layouts(shape):
    yield torch.randn(shape)
    yield torch.randn(shape).contiguous(memory_format=torch.channels_last)
    yield torch.randn(shape[::-1]).permute(3, 2, 1, 0)
    yield torch.randn(shape[0], shape[2], shape[3], shape[1]).permute(0, 3, 1, 2)
    yield torch.randn(*shape[:3], 2 * shape[3])[..., ::2]


@pytest.mark.parametrize("shape", [(1, 1, 1, 2), (2, 1, 3, 1), (1, 3, 1, 2), (3, 2, 1, 1)])
@pytest.mark.parametrize("with_update", [False, True])
@torch.no_grad()
def test_batch_norm_of_one_channel_or_one_place_is_laid_out_as_eagers(shape, with_update):
    """Such tensors are of several memory formats at once."""
    c = shape[1]
    weight, bias, mean, var = torch.rand(4, c).unbind()

    def normalised(x, weight):
        if with_update:
            op = torch.ops.aten._batch_norm_with_update_functional.default
            return op(x, weight, bias, mean, var, 0.1, 1e-5)[0]
        return torch.nn.functional.batch_norm(x, mean, var, weight, bias)

    for x in _batch_norm_layouts(shape):
        for w in (weight, torch.rand(2 * c)[::2]):
            made, eager = fulgurite.jit(normalised)(x, w), normalised(x, w)
            assert made.stride() == eager.stride(), x.stride()
            torch.testing.assert_close(made, eager, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mask", [(1, 1, 1), (1, 0, 0), (0, 1, 1), (0, 0, 1)])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_gradients_of_group_norm(mask, weighted):
    n, c, groups = 3, 6, 2
    if not weighted and any(mask[1:]):
        return
    x, grad = torch.randn(2, n, c, 5, 7).unbind()
    weight = torch.rand(c) if weighted else None
    _, mean, rstd = torch.ops.aten.native_group_norm(x, weight, None, n, c, 35, groups, 1e-5)

    def gradients(grad, x, mean, rstd, weight):
        op = torch.ops.aten.native_group_norm_backward.default
        asked = [bool(m) for m in mask]
        made = op(grad, x, mean, rstd, weight, n, c, 35, groups, asked)
        return [g for g in made if g is not None]

    compiled = fulgurite.jit(gradients, executors=["fused_cpu", "aten"])
    torch.testing.assert_close(
        compiled(grad, x, mean, rstd, weight),
        gradients(grad, x, mean, rstd, weight),
        rtol=1e-4,
        atol=1e-4,
    )
    assert "native_group_norm_backward" not in fulgurite.last_traces(compiled)[-1].text()
