"""Where ATen rounds what is in between, or does not, in fusions as in eager."""

import pytest
import torch
import torch.nn.functional as F

import fulgurite

NARROW = [torch.float16, torch.bfloat16]


def as_eager(program, *inputs):
    compiled = fulgurite.jit(program)
    with torch.no_grad():
        expected, found = program(*inputs), compiled(*inputs)
    assert found.dtype == expected.dtype and found.stride() == expected.stride()
    assert torch.equal(found.nan_to_num(0.5), expected.nan_to_num(0.5))
    assert torch.equal(found.isnan(), expected.isnan())
    return compiled


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("dim", [0, 1, (0, 1)])
def test_a_mean_in_a_narrow_dtype_is_one_of_f32(dtype, dim):
    x = torch.tensor([70000.0, -70000.0] * 2).view(2, 2)
    as_eager(lambda x: torch.mean(x, dim, dtype=dtype), x)
    torch.manual_seed(0)
    wide = torch.randint(-1000, 1000, (64, 16)) * 64
    as_eager(lambda x: torch.mean(x, dim, dtype=dtype), wide)


@pytest.mark.parametrize("dtype", NARROW)
def test_bounds_of_logit_are_rounded(dtype):
    x = torch.tensor([0.0, 1.0, 0.5, -1.0, 2.0] * 20).to(dtype)
    as_eager(lambda x: torch.logit(x, 1e-3) * 1, x)


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.7])
def test_thresholds_are_not_rounded(dtype, threshold):
    x = torch.tensor([threshold] * 100).to(dtype)
    as_eager(lambda x: F.threshold(x * 1, threshold, -5.0), x)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_loss_of_two_dtypes_is_atens(dtype):
    torch.manual_seed(0)
    x, y = torch.randn(48, 64), torch.rand(48, 64)
    program = lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none")
    as_eager(program, x.to(dtype), y)
    as_eager(program, x, y.to(dtype))


def test_products_of_half_overflow_as_in_eager():
    x = torch.tensor([[300.0], [300.0], [1e-3], [1e-3]]).half()
    as_eager(lambda x: (x * 1).prod(0), x)


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_bools_are_not_padded_with_themselves(mode):
    compiled = fulgurite.jit(lambda x: F.pad(x, (1, 1), mode=mode))
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        compiled(torch.ones(3, 5, dtype=torch.bool))


def test_strides_of_rows_with_gaps():
    part = torch.randn(1, 36)[:, :33]
    as_eager(lambda x: F.prelu(x, torch.tensor([0.25])), part)
    loss = lambda x: F.soft_margin_loss(x, torch.ones(1, 33), reduction="none")
    assert fulgurite.jit(loss)(part).stride() == loss(part).stride()
