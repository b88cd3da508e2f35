"""Reductions, softmax and norms against eager: integers exactly, floats no worse than eager."""

import pytest
import torch
import torch.nn.functional as F
from loop_harness import COMPILER, Kernels, lower
from test_loops_pointwise import FLOATS, INTS

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs clang++-19")
KERNELS = Kernels()
SHAPES = ((64, 1024), (7, 509), (3, 5, 33), (2, 3, 4, 65), (1, 1), (5, 1), (4, 100000), (3, 0))

ROWS = {
    "sum": lambda x: x.sum(-1),
    "sum_all": lambda x: x.sum(),
    "sum_keep": lambda x: x.sum(-1, keepdim=True),
    "sum_two": lambda x: x.sum((-2, -1)),
    "sum_first": lambda x: x.sum(0),
    "mean": lambda x: x.mean(-1),
    "prod": lambda x: (x * 0.01 + 1).prod(-1),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(0),
    "max": lambda x: x.max(),
    "any": lambda x: (x > 2).any(-1),
    "all": lambda x: (x > -2).all(-1),
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1, correction=0),
    "var_mean": lambda x: torch.var_mean(x, -1),
    "norm2": lambda x: torch.linalg.vector_norm(x, 2, -1),
    "norm": lambda x: torch.ops.aten.norm.ScalarOpt_dim(x, None, [-1], True),
    "norm1": lambda x: torch.linalg.vector_norm(x, 1, -1),
    "norm_inf": lambda x: torch.linalg.vector_norm(x, float("inf"), -1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax": lambda x: x.softmax(-1),
    "softmax_first": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(-1),
    "softmax_backward": lambda x: torch.ops.aten._softmax_backward_data(
        x, x.softmax(-1), -1, x.dtype
    ),
    "log_softmax_backward": lambda x: torch.ops.aten._log_softmax_backward_data(
        x, x.log_softmax(-1), -1, x.dtype
    ),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
    "center": lambda x: x - x.mean(-1, keepdim=True),
    "prologue": lambda x: (x * 2 + 1).sin().sum(-1, keepdim=True) * x,
}
WEIGHTED = {
    "layer_norm": lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
    "layer_norm_parts": lambda x, w, b: torch.native_layer_norm(x, x.shape[-1:], w, b, 1e-5),
    "rms_norm": lambda x, w, b: F.rms_norm(x, x.shape[-1:], w),
    "add_layer_norm_gelu": lambda x, w, b: F.gelu(F.layer_norm(x + x.abs(), x.shape[-1:], w, b)),
}


def make(shape, dtype):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return (x * 3).to(dtype)


def eager(function, *inputs):
    results = function(*inputs)
    return [results] if isinstance(results, torch.Tensor) else list(results)


def check_rows(function, *inputs, of_typical=0.25):
    """of_typical: in units of the last place of a typical element, an error that is no error."""
    program = lower(function, inputs)
    expected = eager(function, *inputs)
    exact = eager(function, *[x.double() if x.is_floating_point() else x for x in inputs])
    got = KERNELS.run(program, list(inputs))
    for g, e, x in zip(got, expected, exact, strict=True):
        assert g.dtype == e.dtype and g.shape == e.shape and g.stride() == e.stride()
        if not g.dtype.is_floating_point:
            assert torch.equal(g, e)
            continue
        g, e, x, dtype = g.double(), e.double(), x.double(), g.dtype
        assert torch.equal(g.isnan(), e.isnan())
        same = (g == e) | g.isnan()
        eps = torch.finfo(dtype).eps
        scale = (
            x[~same].abs().clamp(min=x.abs().nan_to_num(0, 0, 0).mean().item() if x.numel() else 0)
        )
        error, theirs = (g - x).abs()[~same], (e - x).abs()
        typical = inputs[0].double().abs().nan_to_num(0, 0, 0).mean() if inputs[0].numel() else 0
        if dtype == torch.float64:  # of which there is nothing more exact
            assert (error <= (scale + typical) * 1e-12).all()
            continue
        allowed = (
            scale * eps * 2
            + typical * eps * of_typical
            + 3 * (theirs.nan_to_num(0).max() if error.numel() else 0)
        )
        assert (error <= allowed).all(), (error.max(), theirs.max())


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name, shape):
    x = make(shape, torch.float32)
    if shape[-1] == 0 and name in ("layer_norm", "sum_all", "sum_two"):
        pytest.skip("rows without elements stay with ATen")
    try:
        ROWS[name](x)
    except (RuntimeError, IndexError):
        pytest.skip("eager refuses it")
    check_rows(ROWS[name], x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_floats(name, dtype):
    if name == "prod" and dtype in (torch.float16, torch.bfloat16):
        pytest.skip("each step is rounded: left to ATen")
    check_rows(ROWS[name], make((7, 509), dtype))


@pytest.mark.parametrize("dtype", (torch.bool, *INTS), ids=str)
@pytest.mark.parametrize(
    "name", ["sum", "sum_all", "sum_first", "amax", "amin", "max", "any", "all"]
)
def test_rows_of_integers(name, dtype):
    check_rows(ROWS[name], make((7, 509), torch.float32).to(torch.int8).to(dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", WEIGHTED)
def test_weighted(name, shape):
    if shape[-1] == 0:
        pytest.skip("rows without elements stay with ATen")
    x, w, b = (
        make(shape, torch.float32),
        make(shape[-1:], torch.float32),
        make(shape[-1:], torch.float32),
    )
    check_rows(WEIGHTED[name], x, w, b)


LAYOUTS = {
    "transposed": lambda x: x.t(),
    "sliced": lambda x: x[1::2, 3:-2:3],
    "expanded": lambda x: x[:1].expand(9, -1),
    "permuted": lambda x: x.reshape(8, 8, -1).permute(2, 0, 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "name", ["sum", "sum_first", "sum_two", "softmax", "layer_norm", "amax", "prologue"]
)
def test_layouts(name, layout):
    check_rows(ROWS[name], LAYOUTS[layout](make((64, 96), torch.float32)))


@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "logsumexp", "amax", "amin", "sum", "layer_norm", "max"]
)
def test_special_values(name):
    x = make((8, 70), torch.float32)
    inf = float("inf")
    x[0, 3], x[1, 5], x[2, 9], x[3, :], x[4, 1:], x[5, 69] = (
        float("nan"),
        inf,
        -inf,
        -inf,
        -inf,
        float("nan"),
    )
    check_rows(ROWS[name], x)


@pytest.mark.parametrize("name", ["layer_norm", "var", "std"])
def test_far_from_zero(name):
    check_rows(ROWS[name], make((16, 1024), torch.float32) + 100)


@pytest.mark.parametrize(
    "function",
    [lambda x: x.sum(), lambda x: x.sum((0, 1)), lambda x: x.sum(-1), lambda x: x.mean((0, 2))],
    ids=["all", "columns", "rows", "outer"],
)
@pytest.mark.parametrize("shape", [(1000, 400, 3), (40, 1, 100_000), (2000, 40, 16)], ids=str)
def test_sums_of_many_equal_addends(function, shape):
    """Errors of one sign would add up: the sums are of few addends each."""
    x = torch.full((*shape[:-1], shape[-1] + 1), 0.1)[..., :-1]
    (got,) = KERNELS.run(lower(function, [x]), [x])
    exact = function(x.double())
    assert ((got.double() - exact).abs() <= exact * 5e-7).all()


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
@pytest.mark.parametrize("streaming", (False, True), ids=("cached", "streaming"))
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm", "center", "sum_first"])
def test_rows_are_the_same_in_any_chunks(name, streaming, dtype):
    x = make((71, 1040), dtype)
    program = lower(ROWS[name], [x])
    expected = KERNELS.run(program, [x])
    kernel = KERNELS.addresses[KERNELS.add(program)]
    for chunk in (1, 5, 700):
        got = program.allocate()
        program.run_in(kernel, [x], got, chunk, cache_bytes=0 if streaming else 1 << 62)
        assert all(torch.equal(g, e) for g, e in zip(got, expected, strict=True))
