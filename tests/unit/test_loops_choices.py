"""Where extrema are, and running sums and products, against eager: the same bits."""

import pytest
import torch
from loop_harness import COMPILER, lower
from test_loops_elements import DTYPES, check_all, make

from fulgurite import _C

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs clang++-19")
SHAPES = ((64, 100), (7, 509), (3, 5, 33), (1, 1), (5, 1), (4, 10000), ())

CHOICES = {
    "argmax": lambda x: x.argmax(-1),
    "argmax_all": lambda x: x.argmax(),
    "argmax_first": lambda x: x.argmax(0),
    "argmax_keep": lambda x: x.argmax(-1, keepdim=True),
    "argmin": lambda x: x.argmin(-1),
    "argmin_all": lambda x: x.argmin(),
    "max": lambda x: x.max(-1),
    "max_first": lambda x: x.max(0),
    "min": lambda x: x.min(-1),
    "min_keep": lambda x: x.min(0, keepdim=True),
}
RUNNING = {
    "cumsum": lambda x: x.cumsum(-1),
    "cumsum_first": lambda x: x.cumsum(0),
    "cumsum_of_int": lambda x: x.cumsum(-1, dtype=torch.int64),
    "cumprod": lambda x: x.cumprod(-1),
    "cumprod_first": lambda x: x.cumprod(0),
    "positions": lambda x: (x > 0).long().cumsum(-1) * (x > 0) - 1,
}


def possible(function, x):
    try:
        function(x)
    except (RuntimeError, IndexError, NotImplementedError):
        return False
    return True


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", CHOICES)
def test_choices(name, shape):
    """Numbers of few values: most are there several times."""
    inputs = [make(dtype, shape) for dtype in DTYPES if dtype != torch.bool or "arg" not in name]
    check_all([(CHOICES[name], [x]) for x in inputs if possible(CHOICES[name], x)])


@pytest.mark.parametrize("name", CHOICES)
def test_zeros_and_layouts(name):
    x = make(torch.float32, (20, 40)).clamp(-0.0, 0.0)
    x = torch.where(torch.arange(40) % 3 == 0, x, -x)
    layouts = (x, x.t(), x[:, ::2], x[:1].expand(5, 40), x.view(5, 4, 40).transpose(0, 1))
    check_all([(CHOICES[name], [x]) for x in layouts])


def test_what_is_computed_is_rounded():
    """Numbers that differ in f32 and are equal in memory."""
    x = 1 + torch.arange(300, dtype=torch.float32) / 3000
    check_all([(lambda x: (x * 1.001).max(-1), [x.to(torch.bfloat16)])])


@pytest.mark.parametrize("shape", [s for s in SHAPES if s != ()], ids=str)
@pytest.mark.parametrize("name", RUNNING)
def test_running(name, shape):
    def inputs():
        for dtype in DTYPES:
            x = make(dtype, shape)
            if dtype.is_floating_point:
                x = x.nan_to_num(1, 2, -2)
                x = x / 16 + 1 if "prod" in name else x
            yield x

    cases = [(RUNNING[name], [x]) for x in inputs() if x.dtype != torch.bool or name == "positions"]
    check_all([c for c in cases if possible(c[0], c[1][0])])


def test_running_layouts():
    x = make(torch.float32, (20, 40)).nan_to_num(1, 2, -2)
    layouts = (x, x.t(), x[:, ::2], x[:1].expand(5, 40), x.view(5, 4, 40).transpose(0, 1))
    check_all([(f, [x]) for x in layouts for f in (RUNNING["cumsum"], RUNNING["cumsum_first"])])


def test_running_special_values():
    check_all([(RUNNING["cumsum"], [make(torch.float32, (3, 40))])])


REFUSED = (
    (lambda x: x.cumsum(-1).sum(-1), "running sums"),
    (lambda x: x.cumsum(-1, dtype=torch.bool), "bools"),
    (lambda x: torch.ones(50)[x.argmax(-1, keepdim=True)] + x, "(reductions|reduction|shapes)"),
)


@pytest.mark.parametrize("function, reason", REFUSED)
def test_refused(function, reason):
    with pytest.raises(_C.Unsupported, match=reason):
        lower(function, [make(torch.float32, (5, 40))])
