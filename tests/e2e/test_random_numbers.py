"""Random numbers that are drawn in loops: eager's bits, and eager's generator afterwards."""

import pytest
import torch
import torch.nn.functional as F

import fulgurite
from tests.e2e.python_process import run_code

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
SIZES = [1, 5, 312, 623, 624, 625, 4099, 70_001]


@pytest.fixture(autouse=True)
def keep_generator():
    with torch.random.fork_rng(devices=[]):
        yield


def same(a, b):
    if isinstance(a, torch.Tensor):
        nan = a.isnan() & b.isnan()
        return a.dtype == b.dtype and a.stride() == b.stride() and bool(((a == b) | nan).all())
    return len(a) == len(b) and all(map(same, a, b))


def drawn(function, args, before, generator=None):
    """Results, the generator's state, and what is drawn next, after `before` words."""
    torch.manual_seed(7)
    if generator is not None:
        generator.manual_seed(11)
    torch.empty(before, dtype=torch.int32).random_()
    with torch.no_grad():
        results = function(*(x.clone() for x in args))
    states = [torch.get_rng_state()] + ([] if generator is None else [generator.get_state()])
    return results, states, torch.rand(3)


def check(function, *args, before=(0, 1, 623), fused=True, generator=None):
    compiled = fulgurite.jit(function)
    for words in before:
        expected = drawn(function, args, words, generator)
        found = drawn(compiled, args, words, generator)
        assert same(expected[0], found[0])
        assert all(map(torch.equal, expected[1], found[1])), "the generator's state"
        assert torch.equal(expected[2], found[2])
    trace = fulgurite.last_traces(compiled)[-1]
    names = [name for _, f in fulgurite.examine.get_fusions(trace) for name in f.operators]
    assert (
        bool(
            {"dropout", "native_dropout", "bernoulli", "rand", "rand_like", "randint", "uniform"}
            & {name.removeprefix("aten::").partition(".")[0] for name in names}
        )
        == fused
    )
    return compiled


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_operators(dtype, size):
    x = torch.randn(size).to(dtype)
    check(lambda x: F.dropout(x, 0.1) + x, x)
    check(lambda x: [t * 2 for t in torch.native_dropout(x, 0.3, True)], x)
    check(lambda x: torch.bernoulli(x.abs().clamp(max=1)) * x, x)
    check(lambda x: torch.empty_like(x).bernoulli_(0.4) * x, x)
    check(lambda x: torch.rand_like(x) * x + 1, x)
    check(lambda x: torch.rand(x.shape, dtype=x.dtype) * x + 1, x)
    check(lambda x: torch.empty_like(x).uniform_(-0.3, 1.1) * x, x)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES)
def test_integers(dtype, size):
    x = torch.ones(size, dtype=dtype)
    check(lambda x: torch.randint(1000, x.shape, dtype=dtype) + x, x)
    check(lambda x: torch.randint(-7, 1 << 24, x.shape, dtype=dtype) * 3 + x, x)
    check(lambda x: torch.randint(5, 6, x.shape, dtype=dtype) - x, x)


@pytest.mark.parametrize("low, high", [(0, 1 << 28), (-(1 << 40), 3), (1 << 30, (1 << 30) + 9)])
def test_integers_of_other_ranges(low, high):
    check(lambda x: torch.randint(low, high, x.shape) + x, torch.ones(300), fused=False)
    check(
        lambda x: torch.randint(0, 200, x.shape, dtype=torch.uint8) + x,
        torch.ones(300),
        fused=False,
    )


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.25, 1 / 3, 0.999, 1.0])
def test_probabilities(p):
    x = torch.randn(2000)
    x[::7] = torch.tensor(float("inf"))
    x[::11] = -0.0
    check(lambda x: F.dropout(x, p) + 1, x, fused=0 < p < 1)
    check(lambda x: torch.native_dropout(x, p, True)[0] + 1, x)
    check(lambda x: torch.empty_like(x).bernoulli_(p) + 1, x)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64])
def test_bernoulli_of_integers(dtype):
    check(lambda x: torch.bernoulli(x, 0.5) + 1, torch.zeros(1000, dtype=dtype))


def test_several_in_order():
    def function(x):
        a = F.dropout(x, 0.1)
        b = torch.rand_like(x)
        c = torch.rand(x.shape, dtype=torch.float64)
        d = torch.bernoulli(b)
        return F.dropout(a * b + c * d, 0.5), a

    check(function, torch.randn(999))


def test_between_those_of_aten():
    def function(x):
        a = F.dropout(x, 0.1) + 1
        b = torch.randn(50)
        c = torch.rand_like(x) * 2
        i = torch.randint(0, 1000, (7,))
        p = torch.randperm(9)
        return a, b, F.dropout(c + a, 0.3), i, p, torch.rand(3) + 1

    check(function, torch.randn(500))


def test_a_draw_between_two_of_one_chain():
    """The second uses the first; what lies between is drawn by ATen."""

    def function(x):
        a = F.dropout(x, 0.1) * 2
        b = torch.randn(x.shape)
        return F.dropout(a + 1, 0.2), b

    check(function, torch.randn(700))


def test_what_nobody_uses_is_drawn_all_the_same():
    def function(x):
        torch.rand_like(x)
        y = F.dropout(x, 0.5)
        (torch.rand_like(x) * y)[:3]
        return torch.rand_like(x) + x

    check(function, torch.randn(321))


def test_a_part_is_used():
    def function(x):
        return F.dropout(x, 0.5)[3:50] * 2, torch.rand(40, 30).t()[5] + 1

    check(function, torch.randn(321), fused=True)


def test_equal_draws_are_two():
    check(
        lambda x: (F.dropout(x, 0.5) - F.dropout(x, 0.5), torch.rand(9) - torch.rand(9)),
        torch.randn(100),
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(30, 20).t(),
        lambda: torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last),
        lambda: torch.randn(30, 40)[:, ::2],
        lambda: torch.randn(20, 1).expand(20, 30),
        lambda: torch.randn(5, 1, 7),
        lambda: torch.randn(()),
        lambda: torch.randn(0, 4),
    ],
)
def test_layouts(make):
    for function in (
        lambda x: F.dropout(x, 0.3) + 1,
        lambda x: torch.native_dropout(x, 0.3, True)[0] + 1,
        lambda x: torch.bernoulli(x.sigmoid()) + 1,
        lambda x: torch.rand_like(x) + 1,
        lambda x: torch.empty_like(x).bernoulli_(0.3) + x,
        lambda x: torch.empty_like(x).uniform_(2, 3) + x,
        lambda x: x.clone().uniform_(2, 3) + x,
    ):
        compiled = fulgurite.jit(function)
        for x in (make(),) * 2:
            torch.manual_seed(3)
            with torch.no_grad():
                expected, state = function(x), torch.get_rng_state()
                torch.manual_seed(3)
                assert same(expected, compiled(x))
            assert torch.equal(state, torch.get_rng_state())


def test_rows():
    """A reduction of what was drawn, and numbers drawn of a reduction."""

    def function(x):
        return torch.softmax(F.dropout(x, 0.3), -1), F.dropout(torch.softmax(x, -1), 0.1)

    def close(x):
        torch.manual_seed(1)
        with torch.no_grad():
            return [*function(x), torch.get_rng_state()], *both(x)

    compiled = fulgurite.jit(function)

    def both(x):
        torch.manual_seed(1)
        yield [*compiled(x), torch.get_rng_state()]

    for shape in ((64, 48), (7, 1000), (300, 3)):
        expected, found = close(torch.randn(shape))
        torch.testing.assert_close(found, expected)


def test_generators():
    generator = torch.Generator()

    def function(x):
        a = torch.empty_like(x).bernoulli_(0.5, generator=generator)
        b = F.dropout(x, 0.5)
        c = torch.rand(x.shape, generator=generator)
        return a * x + c, b + c, torch.empty_like(x).uniform_(generator=generator) + 1

    check(function, torch.randn(1000), generator=generator)


def test_threads():
    def function(x):
        return torch.tanh(F.dropout(x, 0.1)) + x, torch.rand_like(x) * x

    x = torch.randn(1 << 18)
    compiled = fulgurite.jit(function)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(drawn(compiled, (x,), 5))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        assert same(found[0][0], other[0]) and torch.equal(found[0][1][0], other[1][0])


def test_a_probability_beyond_one_raises():
    compiled = fulgurite.jit(lambda p: torch.bernoulli(p) * 2)
    compiled(torch.full((100,), 0.5))
    for bad in (1.5, -0.5, float("nan")):
        p = torch.full((100,), 0.5)
        p[50] = bad
        with pytest.raises(RuntimeError, match="p >= 0|p_in|bernoulli"):
            compiled(p)


def test_the_state_of_a_new_generator():
    """Before the first word of all, and after a state was set."""

    def function(x):
        return F.dropout(x, 0.5) + 1

    check(function, torch.randn(10), before=(0, 624, 1248))
    state = torch.get_rng_state()
    torch.rand(100)
    torch.set_rng_state(state)
    x, compiled = torch.randn(1300), fulgurite.jit(function)
    torch.set_rng_state(state)
    expected = function(x)
    torch.set_rng_state(state)
    assert torch.equal(expected, compiled(x))


def test_modules_in_training():
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Dropout(0.5)
    )
    x = torch.randn(8, 16)
    for under in (torch.no_grad, torch.enable_grad):
        compiled = fulgurite.jit(model)
        with under():
            torch.manual_seed(0)
            expected = model(x)
            state = torch.get_rng_state()
            torch.manual_seed(0)
            assert torch.equal(expected, compiled(x))
            assert torch.equal(state, torch.get_rng_state())


def test_what_is_left_to_aten():
    x = torch.randn(100)
    for function in (
        lambda x: F.rrelu(x, training=True) + 1,
        lambda x: torch.randn_like(x) + 1,
        lambda x: F.alpha_dropout(x, 0.5, training=True) + 1,
        lambda x: torch.empty_like(x).exponential_() + 1,
    ):
        check(function, x, fused=False)


def test_the_fusion_at_fault_draws_for_itself():
    def function(x):
        return F.dropout(x, 0.5) + 1

    compiled = fulgurite.jit(function, store_fusion_inputs=True)
    x = torch.randn(1000)
    compiled(x)
    assert "no fusion differs" in str(fulgurite.examine.bisect(compiled, x))
    fusion = fulgurite.last_traces(compiled)[-1].python_ctx()["fusion0"]
    state = torch.get_rng_state()
    assert fusion.last_used.time() > 0
    assert torch.equal(state, torch.get_rng_state())


ON_A_LESSER_PROCESSOR = """
import torch, fulgurite
def function(x):
    return torch.empty_like(x).uniform_(-0.3, 1.1) * 1.0
x = torch.empty(1000)
compiled = fulgurite.jit(function)
torch.manual_seed(3)
expected = function(x)
torch.manual_seed(3)
assert torch.equal(expected, compiled(x))
reasons = [d.refusal for d in fulgurite.compile_data(compiled).fusion_decisions]
assert any("draws other numbers" in reason for reason in reasons), reasons
"""


def test_where_aten_draws_other_numbers():
    """Without fused multiply-adds it rounds another way."""
    done = run_code(ON_A_LESSER_PROCESSOR, ATEN_CPU_CAPABILITY="default")
    assert done.returncode == 0, done.stderr
