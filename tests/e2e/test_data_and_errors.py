"""Operators that look at data without depending on it, and errors: nothing runs eagerly unsaid."""

import linecache
import sys
import threading

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import fulgurite
from tests.e2e.round_trip import check as check_round_trip


def rand(*sizes):
    return torch.rand(sizes, generator=torch.Generator().manual_seed(len(sizes)))


LENGTHS = torch.tensor([8, 7])
LOOKS_AT_DATA = {
    "cov": (lambda x: torch.cov(x), rand(3, 4)),
    "cov, weights": (lambda x, w: torch.cov(x, fweights=w), rand(3, 4), torch.tensor([1, 2, 1, 3])),
    "corrcoef": (lambda x: torch.corrcoef(x), rand(3, 4)),
    "istft": (
        lambda x, w: torch.istft(torch.stft(x, 8, window=w, return_complex=True), 8, window=w),
        rand(32),
        torch.ones(8),
    ),
    "quantile": (lambda x, q: torch.quantile(x, q, dim=1), rand(3, 4), torch.tensor([0.1, 0.5])),
    "nanquantile": (lambda x, q: torch.nanquantile(x, q), rand(3, 4), torch.tensor([0.1, 0.5])),
    "gaussian_nll_loss": (lambda x, v: F.gaussian_nll_loss(x, x * 2, v), rand(3), rand(3)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 2), rand(2, 3, 8)),
    "ctc_loss": (
        lambda x, t: F.ctc_loss(x.log_softmax(2), t, LENGTHS, torch.tensor([3, 2])),
        rand(8, 2, 5),
        torch.tensor([[1, 2, 3], [4, 1, 2]]),
    ),
    "ctc_loss, lists": (
        lambda x, t: F.ctc_loss(x.log_softmax(2), t, (8, 7), (3, 2)),
        rand(8, 2, 5),
        torch.tensor([[1, 2, 3], [4, 1, 2]]),
    ),
    "lstsq": (lambda a, b: torch.linalg.lstsq(a, b), rand(2, 4, 3), rand(2, 4, 2)),
    "lstsq, vector": (lambda a, b: torch.linalg.lstsq(a, b).solution, rand(4, 3), rand(4)),
    "lstsq, gels": (lambda a, b: torch.linalg.lstsq(a, b, driver="gels"), rand(4, 3), rand(4, 2)),
    "lstsq, wide": (lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd"), rand(3, 4), rand(3, 2)),
    "one_hot": (lambda x: F.one_hot(x, 5), torch.tensor([1, 2])),
}


def leaves(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def same(name, a, b):
    # LAPACK's least squares differ in the last bit with where their memory lies.
    close = torch.allclose(a, b, rtol=1e-5, atol=1e-6) if "lstsq" in name else False
    return a.dtype == b.dtype and (close or torch.equal(a, b))


@pytest.mark.parametrize("name", LOOKS_AT_DATA)
def test_operators_that_look_at_data_are_captured(name):
    function, *inputs = LOOKS_AT_DATA[name]
    compiled = fulgurite.jit(function, verify=True)
    for _ in range(2):
        with torch.no_grad():
            for a, b in zip(leaves(compiled(*inputs)), leaves(function(*inputs)), strict=True):
                assert same(name, a, b)
                assert a.stride() == b.stride()
    assert fulgurite.cache_hits(compiled) == 1
    assert not fulgurite.compile_data(compiled).fallbacks


# A constant that an operator makes within itself is an input of the trace, which its text, run
# again, makes once more.
_WITH_CONSTANTS = pytest.param("ctc_loss, lists", marks=pytest.mark.xfail(strict=True))


@pytest.mark.parametrize("name", [*(n for n in LOOKS_AT_DATA if "lists" not in n), _WITH_CONSTANTS])
def test_the_text_of_operators_that_look_at_data(name):
    function, *inputs = LOOKS_AT_DATA[name]
    with torch.no_grad():
        check_round_trip(function, *inputs)


def test_a_file_that_is_read_for_its_line_is_no_doing_of_the_program():
    linecache.clearcache()
    compiled = fulgurite.jit(lambda x: torch.cov(x))
    assert torch.equal(compiled(rand(3, 4)), torch.cov(rand(3, 4)))


@pytest.mark.parametrize("name", [n for n in LOOKS_AT_DATA if n != "one_hot"])
def test_operators_that_look_at_data_are_differentiated(name):
    function, *inputs = LOOKS_AT_DATA[name]
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    compiled = fulgurite.jit(function, verify=True)
    gradients = []
    for f in (function, compiled, compiled):
        results = [r for r in leaves(f(*inputs)) if r.requires_grad]
        total = sum(r.square().sum() for r in results)
        wanted = [x for x in inputs if x.requires_grad]
        gradients.append(torch.autograd.grad(total, wanted, allow_unused=True))
    for wanted, *found in zip(*gradients, strict=True):
        assert all(f is wanted is None or same(name, f, wanted) for f in found)
    assert not fulgurite.compile_data(compiled).fallbacks


def test_their_errors_are_eagers():
    quantile = fulgurite.jit(lambda x, q: torch.quantile(x, q))
    x = rand(4)
    quantile(x, torch.tensor(0.5))
    with pytest.raises(RuntimeError, match="range"):
        quantile(x, torch.tensor(1.5))
    loss = fulgurite.jit(lambda x, v: F.gaussian_nll_loss(x, x * 2, v))
    loss(x, torch.ones(4))
    with pytest.raises(ValueError, match="var has negative"):
        loss(x, -torch.ones(4))
    assert fulgurite.cache_misses(loss) == 1


def test_what_depends_on_data_is_refused():
    for function, inputs in [
        (lambda a, b: torch.linalg.lstsq(a, b, driver="gelsd"), [rand(4, 3), rand(4, 2)]),
        (lambda x, start: x.narrow(0, start, 1), [rand(3), torch.tensor(1)]),
        (lambda x: F.one_hot(x), [torch.tensor([1, 2])]),
        (lambda x: torch.autograd.grad(torch.cov(x).sum(), x), [rand(3, 4).requires_grad_()]),
    ]:
        with pytest.raises(fulgurite.Unsupported, match=r"test_data_and_errors.py"):
            fulgurite.jit(function)(*inputs)


OVERLAPS = {
    "take": lambda x: torch.take(x, torch.tensor([0, 1]), out=x[0, :2]),
    "index_select": lambda x: torch.index_select(x, 0, torch.tensor([0, 1]), out=x[:2]),
    "kthvalue": lambda x: torch.kthvalue(x, 1, 0, out=(x[0], torch.empty(4, dtype=torch.long))),
    "add": lambda x: torch.add(x[:2], 1, out=x[1:]),
    "in place": lambda x: x[1:].mul_(x[:2]),
    "expanded": lambda x: x[:1].expand(3, 4).add_(1),
    "gather": lambda x: torch.gather(x, 0, torch.zeros(3, 4, dtype=torch.long), out=x),
    "cat": lambda x: torch.cat([x[:1], x[1:2]], out=x[:2]),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_memory_that_overlaps(name):
    function = OVERLAPS[name]

    def outcome(f):
        x = rand(3, 4)
        try:
            f(x)
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return x.tolist()

    assert outcome(fulgurite.jit(function)) == outcome(function)


MIXED = {
    "mm": lambda a: a @ a.t().double(),
    "bmm": lambda a: torch.bmm(a[None], a.t()[None].double()),
    "linear": lambda a: F.linear(a, a.double()),
    "conv": lambda a: F.conv1d(a[None], a[None].double()),
    "layer_norm": lambda a: F.layer_norm(a, (4,), a[0].double()),
    "scatter": lambda a: a.scatter(0, torch.zeros(3, 4, dtype=torch.long), a.double()),
    "lerp": lambda a: torch.lerp(a, a, a.double()),
    "attention": lambda a: F.scaled_dot_product_attention(a, a.double(), a),
    "dot": lambda a: a[0] @ a[0].double(),
}


@pytest.mark.parametrize("name", MIXED)
def test_dtypes_that_do_not_mix_are_an_error_that_can_be_caught(name):
    def caught(a):
        try:
            return MIXED[name](a)
        except RuntimeError:
            return a * 2

    a = rand(3, 4)
    with pytest.raises(RuntimeError) as eager:
        MIXED[name](a)
    with pytest.raises(RuntimeError) as ours:
        fulgurite.jit(MIXED[name])(a)
    assert str(ours.value) == str(eager.value)
    compiled = fulgurite.jit(caught)
    assert torch.equal(compiled(a), a * 2)
    assert not fulgurite.compile_data(compiled).fallbacks


def fails_under_capture(x):
    return x.new([2.0]) * x  # asks for the backend of a tensor by its keys


def test_a_capture_that_is_at_fault_is_told():
    with pytest.raises(fulgurite.Unsupported, match="DispatchKey") as error:
        fulgurite.jit(fails_under_capture)(torch.ones(2))
    assert "test_data_and_errors.py" in str(error.value)
    assert "x.new([2.0])" in str(error.value)
    lenient = fulgurite.jit(fails_under_capture, fallback="eager")
    for _ in range(2):
        assert torch.equal(lenient(torch.ones(2)), torch.full((2,), 2.0))
    assert len(fulgurite.compile_data(lenient).fallbacks) == 1
    assert fulgurite.cache_hits(lenient) == 1


def test_an_error_that_eager_does_not_have_is_no_branch():
    # No kernel tells the types of its results.
    def program(x):
        try:
            return without_fake(x)
        except (RuntimeError, NotImplementedError):
            return x

    with pytest.raises(fulgurite.Unsupported, match="without_fake"):
        fulgurite.jit(program)(rand(4, 4))


@torch.library.custom_op("fulgurite_e2e::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


def test_operators_without_a_meta_kernel():
    for function in (lambda x: torch.geqrf(x), lambda x: torch.histogram(x, 3)):
        compiled = fulgurite.jit(function, verify=True)
        for _ in range(2):
            assert all(map(torch.equal, compiled(rand(4, 4)), function(rand(4, 4))))
        assert fulgurite.cache_hits(compiled) == 1


def test_arguments_of_other_kinds():
    for tensor in (torch.eye(3).to_sparse(), torch.eye(3).to_sparse_csr()):
        with pytest.raises(fulgurite.Unsupported, match="layout"):
            fulgurite.jit(lambda x: x.to_dense())(tensor)
        lenient = fulgurite.jit(lambda x: x.to_dense(), fallback="eager")
        assert torch.equal(lenient(tensor), torch.eye(3))
        assert "layout" in fulgurite.compile_data(lenient).fallbacks[0]


def test_an_operator_that_fails_halfway():
    def program(x):
        first, second = x.clone(), x.clone()
        try:
            torch._foreach_add_([first, second], [x, torch.ones(7)])
        except RuntimeError:
            pass
        return first, second

    eager = program(torch.ones(2))
    assert eager[0].tolist() != eager[1].tolist()
    with pytest.raises(fulgurite.Unsupported, match="wrote to some"):
        fulgurite.jit(program)(torch.ones(2))
    lenient = fulgurite.jit(program, fallback="eager")
    assert all(map(torch.equal, lenient(torch.ones(2)), eager))

    def uncaught(x):
        torch._foreach_add_([x.clone(), x.clone()], [x, torch.ones(7)])

    with pytest.raises(RuntimeError, match="size") as error:
        fulgurite.jit(uncaught)(torch.ones(2))
    assert not isinstance(error.value, fulgurite.Unsupported)


def test_grad_mode_that_is_switched_on_inside():
    def program(x, y):
        with torch.enable_grad():
            z = x.exp() * y
        return z * 2, z

    x = rand(3).requires_grad_()
    compiled = fulgurite.jit(program, verify=True)
    for f in (program, compiled, compiled):
        with torch.no_grad():
            doubled, z = f(x, rand(3))
        assert not doubled.requires_grad
        torch.testing.assert_close(torch.autograd.grad(z.sum(), x)[0], x.exp() * rand(3))
    assert not fulgurite.compile_data(compiled).fallbacks


def thread_state():
    return (
        str(torch._C._dispatch_tls_local_include_set()),
        str(torch._C._dispatch_tls_local_exclude_set()),
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_autocast_cache_enabled(),
        sys.gettrace(),
    )


class Passing(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("mode", [FakeTensorMode, Passing])
def test_modes_of_others(mode):
    before = thread_state()
    compiled = fulgurite.jit(lambda x: x * 2)
    with mode():
        x = torch.ones(2)
        # The mode sees what the function does, as in eager.
        assert type(compiled(x)) is type(x * 2)
    assert fulgurite.cache_misses(compiled) == 0

    entered = mode()

    def inside(x):
        with entered:
            return x * 2

    with pytest.raises(fulgurite.Unsupported):
        fulgurite.jit(inside)(torch.ones(2))
    assert thread_state() == before
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_an_exception_leaves_the_thread_clean():
    class Halt(BaseException):
        pass

    def halts(x, kind):
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad():
            y = Straight.apply(x @ x)
            raise kind("stop") if y.dim() else None

    class Straight(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            return grad

    before = thread_state()
    for kind in (ValueError, KeyboardInterrupt, Halt):
        with pytest.raises(kind):
            fulgurite.jit(lambda x, kind=kind: halts(x, kind))(rand(3, 3).requires_grad_())
        assert thread_state() == before
    x = rand(3).requires_grad_()
    assert torch.equal(fulgurite.jit(lambda x: x * 2)(x), x * 2)
    assert fulgurite.jit(lambda x: x * 2)(x).requires_grad


def test_two_threads_capture_at_once():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    results = {}

    def work(name):
        x = torch.full((2,), float(name), requires_grad=True)
        for _ in range(5):
            compiled = fulgurite.jit(lambda x: sum(Doubled.apply(x) + name for _ in range(20)))
            results[name] = (compiled(x), *torch.autograd.grad(compiled(x).sum(), x))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # they take turns in the middle of captures
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    for name in (1, 2):
        result, grad = results[name]
        assert result.tolist() == [60.0 * name] * 2
        assert grad.tolist() == [60.0, 60.0]
