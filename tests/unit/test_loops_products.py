"""Products of one row or one vector with a matrix, as loops: no worse than eager's."""

import pytest
import torch
import torch.nn.functional as F
from loop_harness import COMPILER, lower
from test_loops_rows import check_rows, make

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs clang++-19")

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SIZES = ((1, 1), (3, 5), (33, 65), (70, 4100), (4100, 70), (768, 2304), (129, 1), (1, 129))
PRODUCTS = {
    "linear": lambda x, w, b: F.linear(x, w.t(), b),
    "linear_of_batch": lambda x, w, b: F.linear(x[None], w.t(), b),
    "linear_without_bias": lambda x, w, b: F.linear(x, w.t()),
    "mm": lambda x, w, b: x @ w,
    "addmm": lambda x, w, b: torch.addmm(b, x, w),
    "addmm_scaled": lambda x, w, b: torch.addmm(b, x, w, beta=0.5, alpha=2),
    "addmm_of_rows": lambda x, w, b: torch.addmm(b[None], x, w),
    "mv": lambda x, w, b: torch.mv(w.t(), x[0]),
    "addmv": lambda x, w, b: torch.addmv(b, w.t(), x[0], beta=3, alpha=0.5),
    "bmm": lambda x, w, b: torch.bmm(torch.stack([x, -x]), torch.stack([w, w + 1])),
    "with_prologue": lambda x, w, b: F.linear(x.relu() * 2, w.t()),
    "with_epilogue": lambda x, w, b: F.gelu(F.linear(x, w.t(), b)) + b,
    "gated": lambda x, w, b: F.silu(x @ w) * (x @ (w * 0.5)),
}


def arguments(inner, outer, dtype, by_columns):
    x, w, b = make((1, inner), dtype), make((inner, outer), dtype), make((outer,), dtype)
    return x, w if by_columns else w.t().contiguous().t(), b


@pytest.mark.parametrize("by_columns", (False, True), ids=("rows", "columns"))
@pytest.mark.parametrize("inner, outer", SIZES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, inner, outer, by_columns):
    x, w, b = arguments(inner, outer, torch.float32, by_columns)
    check_rows(PRODUCTS[name], x, w, b, of_typical=inner**0.5)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("by_columns", (False, True), ids=("rows", "columns"))
@pytest.mark.parametrize("name", ("linear", "addmm_scaled", "mv", "bmm", "with_epilogue"))
def test_products_of_floats(name, dtype, by_columns):
    x, w, b = arguments(130, 70, dtype, by_columns)
    check_rows(PRODUCTS[name], x, w, b, of_typical=130**0.5)


def test_what_is_scaled_by_zero_is_not_read():
    x, w, b = arguments(33, 65, torch.float32, False)
    check_rows(lambda x, w, b: torch.addmm(b, x, w, beta=0), x, w, b * float("nan"), of_typical=6)


@pytest.mark.parametrize(
    "function, reason",
    [
        (lambda x, w: torch.cat([x, x]) @ w, "has no loop form|several rows"),
        (lambda x, w: x.long() @ w.long(), "products of integers"),
        (lambda x, w: (x @ w) @ w, "at other places"),
        (lambda x, w: x @ w + (x @ w).roll(1, -1), "at other places"),
    ],
)
def test_what_is_no_loop(function, reason):
    with pytest.raises(Exception, match=reason):
        lower(function, (make((1, 64), torch.float32), make((64, 64), torch.float32)))
