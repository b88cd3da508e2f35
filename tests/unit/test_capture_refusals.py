"""What a Python program cannot do under capture, and errors that are the program's own."""

import threading

import pytest
import torch
import torch.nn.functional as F
from capture_harness import capture, check
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from fulgurite import _C


def refusal(program, *inputs):
    with pytest.raises(_C.Unsupported) as error:
        capture(program, inputs or [torch.randn(2, 3)])
    return str(error.value)


def keys():
    return str(torch._C._dispatch_tls_local_include_set()), str(
        torch._C._dispatch_tls_local_exclude_set()
    )


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * x.sum().long().item(),
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * int(x.sum()),
        lambda x: x.nonzero(),
        lambda x: x[x > 0],
        lambda x: x.unique(),
        lambda x: x if (x == x).all() else -x,
        lambda x: x.masked_select(x > 0),
        lambda x: [e for e in x.sum(0) if e],
        lambda x: F.one_hot(x.long()),
        lambda x: torch.repeat_interleave(x, x[0].long().abs(), 1),
    ],
)
def test_data_is_refused(program):
    assert "needs the data" in refusal(program)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x * x.tolist()[0][0],
        lambda x: x * float(x.numpy().sum()),
        lambda x: x * float(x.data_ptr() != 0),
        lambda x: x * float(x.untyped_storage().data_ptr() != 0),
        lambda x: torch.from_dlpack(x),
    ],
)
def test_memory_is_not_reached(program):
    with pytest.raises(RuntimeError):
        capture(program, [torch.randn(2, 3)])


def test_a_swallowed_refusal_is_told_at_the_end():
    def program(x):
        try:
            return x * x.sum().long().item()
        except RuntimeError:
            return x

    assert "aten::item" in refusal(program)


@pytest.mark.parametrize("mode", [FakeTensorMode, TorchDispatchMode])
def test_a_mode_around_or_inside(mode):
    before = keys()
    tracer = _C.Tracer()
    with mode(), pytest.raises(_C.UserError, match="TorchDispatchMode"), tracer:
        pass

    def program(x):
        with mode():
            return x * 2

    assert "TorchDispatchMode" in refusal(program)
    assert keys() == before
    assert torch.ones(2).add(1).tolist() == [2, 2]


def test_make_fx_and_torch_func_around():
    before = keys()

    def traced(x):
        with _C.Tracer():
            return x * 2

    with pytest.raises(_C.UserError, match="cannot capture"):
        make_fx(traced)(torch.randn(2))
    with pytest.raises(_C.UserError, match=r"torch\.func"):
        torch.vmap(traced)(torch.randn(2, 2))
    with pytest.raises(_C.UserError, match=r"torch\.func"):
        torch.func.grad(traced)(torch.randn(()))
    assert keys() == before


def test_a_capture_inside_of_a_capture():
    def program(x):
        with _C.Tracer():
            return x * 2

    with pytest.raises(_C.UserError, match="already"):
        capture(program, [torch.randn(2)])


class Tagged(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_other_kinds_of_tensors():
    fake = FakeTensorMode().from_tensor(torch.ones(3))
    tagged = torch.ones(3).as_subclass(Tagged)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for tensor, text in [
        (fake, "subclass"),
        (tagged, "subclass"),
        (torch.eye(3).to_sparse(), "layout Sparse"),
        (torch.eye(3).to_sparse_csr(), "layout SparseCsr"),
        (nested, "nested"),
        (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "quantized"),
        (torch.ones(3).to_mkldnn(), "layout Mkldnn"),
    ]:
        assert text in refusal(lambda x, t=tensor: t.clone())
        with pytest.raises(_C.Unsupported, match=text):
            _C.Tracer().input(tensor)


def test_a_result_of_another_kind():
    def program(x):
        return torch.sparse_coo_tensor(torch.tensor([[0]]), x[0, :1], (3,))

    assert "layout Sparse" in refusal(program)
    assert "_to_sparse" in refusal(lambda x: x.to_sparse())


@torch.library.custom_op("fulgurite_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2)


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("fulgurite_tests::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@torch.library.custom_op("fulgurite_tests::accumulate_", mutates_args=("x",))
def accumulate_(x: torch.Tensor, y: torch.Tensor) -> None:
    x.add_(y)


@accumulate_.register_fake
def _(x, y):
    pass


def test_custom_operators():
    captured = check(lambda: lambda x: doubled(x) + 1, [lambda: torch.randn(3)])
    assert "fulgurite_tests.doubled" in captured.trace.text()

    def program(x):
        y = x * 1
        accumulate_(y, x)
        return y

    check(lambda: program, [lambda: torch.randn(3)])


def test_a_custom_operator_without_a_fake_kernel():
    with pytest.raises(Exception, match="register_fake"):
        capture(without_fake, [torch.randn(3)])


def test_a_tensor_that_outlives_its_capture():
    kept = []
    capture(lambda x: kept.append(x * 2) or x, [torch.randn(3)])
    for use in (lambda t: t + 1, lambda t: t.item(), lambda t: t.sum().backward(), torch.clone):
        with pytest.raises(_C.Unsupported, match="has ended"):
            use(kept[0])
    assert kept[0].shape == (3,)
    with pytest.raises(_C.Unsupported, match="another capture"):
        capture(lambda x: x + kept[0], [torch.randn(3)])


def test_a_tensor_on_another_thread():
    errors = []

    def program(x):
        def work():
            try:
                x + 1
            except _C.Unsupported as error:
                errors.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return x

    capture(program, [torch.randn(3)])
    assert "another thread" in errors[0]


def test_two_threads_at_once():
    results = {}
    barrier = threading.Barrier(2)
    linear = torch.nn.Linear(3, 3)

    def program(x):
        barrier.wait()
        for _ in range(20):
            x = linear(x).relu()
        return x

    def work(name):
        x = torch.ones(2, 3)
        captured, _, _ = capture(program, [x])
        results[name] = captured.trace.replay([x, *captured.lifted])[0]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    x = torch.ones(2, 3)
    for _ in range(20):
        x = linear(x).relu()
    assert torch.equal(results[0], x)
    assert torch.equal(results[1], x)


WRONG = {
    "matmul": lambda x: x @ x,
    "broadcast": lambda x: x + torch.ones(5),
    "in place": lambda x: x.add_(torch.ones(4, 2, 3)),
    "integer in place": lambda x: torch.ones(2, dtype=torch.long).div_(x[:, 0]),
    "index": lambda x: x[7],
    "dimension": lambda x: x.sum(5),
    "view": lambda x: x.t().view(6),
    "reshape": lambda x: x.reshape(7),
    "cat": lambda x: torch.cat([x, torch.ones(3, 2)]),
    "stack": lambda x: torch.stack([x, torch.ones(3, 2)]),
    "leaf": lambda x: torch.ones(2, 3, requires_grad=True).add_(x),
    "conv": lambda x: F.conv2d(torch.ones(1, 3, 4, 4) * x[0, 0], torch.ones(2, 4, 3, 3)),
    "embedding": lambda x: F.embedding(x, torch.ones(3, 3)),
    "loss": lambda x: F.cross_entropy(x, torch.zeros(3, dtype=torch.long)),
    "norm": lambda x: F.layer_norm(x, (4,)),
    "backward": lambda x: torch.autograd.grad(x.sum(), x),
    "twice": lambda x: [
        torch.autograd.grad(y, [z])
        for z in [x.detach().requires_grad_()]
        for y in [(z * z).sum()] * 2
    ],
    "chunk": lambda x: x.chunk(0),
    "permute": lambda x: x.permute(0, 0),
    "gather": lambda x: x.gather(1, torch.zeros(2, dtype=torch.float)),
    "out": lambda x: torch.add(x, x, out=torch.empty(2, 3, dtype=torch.long)),
    "version": lambda x: [
        torch.autograd.grad(y.sum(), z)
        for z in [x.detach().requires_grad_()]
        for w in [z * 1]
        for y in [w * w]
        for _ in [w.add_(1)]
    ],
    "argument": lambda x: torch.softmax(x, dim="a"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_those_of_eager(name):
    program = WRONG[name]
    with pytest.raises(Exception) as eager:  # noqa: PT011
        program(torch.randn(2, 3))
    before = keys()
    with pytest.raises(Exception) as captured:  # noqa: PT011
        capture(program, [torch.randn(2, 3)])
    assert captured.type is eager.type
    assert not issubclass(captured.type, _C.UserError)
    assert keys() == before


def test_an_error_of_the_program_may_be_caught():
    def make():
        def program(x):
            try:
                return x @ x
            except RuntimeError:
                return x * 2

        return program

    check(make, [lambda: torch.randn(2, 3)])


def test_data_of_real_tensors():
    def make():
        scale, flag = torch.tensor(2.0), torch.tensor(True)
        return lambda x: x * scale.item() if flag else x

    check(make, [lambda: torch.randn(2, 3)])
    mask = torch.tensor([True, False])
    # What is computed from a real tensor is traced.
    assert "is_nonzero" in refusal(lambda x: x if mask.all() else -x)


def test_set_data_of_a_real_tensor():
    linear = torch.nn.Linear(3, 3)
    before = linear.weight.detach().clone()

    def program(x):
        y = linear(x)
        linear.weight.data = y.t() @ y
        return linear(x)

    assert ".data" in refusal(program)
    assert torch.equal(linear.weight, before)
    assert linear(torch.ones(3)).shape == (3,)


def test_storages():
    def program(x):
        return torch.empty(0).set_(x.untyped_storage())

    assert "storage" in refusal(program)


def test_a_training_step_leaves_everything_as_it_was():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    before = [(p.detach().clone(), p._version) for p in model.parameters()]

    def program(x):
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.randn(4, 3)
    captured, _, tracer = capture(program, [x])
    for parameter, (value, version) in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, value)
        assert parameter.grad is None
        assert parameter._version == version
    assert len(tracer.grads) == 2
    twin = torch.nn.Linear(3, 2)
    twin.load_state_dict(model.state_dict())
    twin(x).square().sum().backward()
    torch.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9).step()
    with torch.no_grad():
        captured.trace.replay([x, *captured.lifted])
    for parameter, wanted in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(parameter, wanted)
