"""The memory of a trace as predicted, listed, and measured; never more than eager's."""

import gc

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fulgurite
from bench.models import Block
from bench.programs import MLP, gpt2, llama
from fulgurite import examine

KB = 1024


class Residual(nn.Module):
    def __init__(self, width, stride=1):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.last = nn.BatchNorm2d(width)

    def forward(self, x):
        inner = F.relu(self.norm(self.first(x)))
        return F.relu(x + self.last(self.second(inner)))


def resnet():
    return nn.Sequential(
        nn.Conv2d(3, 32, 7, 2, 3, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        Residual(32),
        Residual(32),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


def language(workload):
    inputs = workload.inputs()
    return workload.module, lambda f: f(**inputs).logits


def workload(name):
    """A module, and a function that calls it or what it was compiled to."""
    torch.manual_seed(0)
    if name in ("gpt2", "llama"):
        pytest.importorskip("transformers")
        return language(gpt2(layers=4) if name == "gpt2" else llama())
    x = {
        "block": torch.randn(2, 64, 384),
        "mlp": torch.randn(64, 256),
        "resnet": torch.randn(2, 3, 64, 64),
    }[name]
    module = {"block": Block, "mlp": MLP, "resnet": resnet}[name]()
    return module.eval(), lambda f: f(x)


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of torch's own take scratch memory that no measurement in this one sees."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def executed(compiled):
    return fulgurite.last_traces(compiled)[-1]


def needed(memory):
    """Beyond what the caller holds."""
    return memory.peak - memory.held


def check(program, *args, tolerance=0.0):
    """Compares prediction, measurement and eager; returns the compiled function's memory."""
    compiled = fulgurite.jit(program)
    with torch.no_grad():
        program(*args)
        compiled(*args)
        eager = examine.measure_memory(program, *args)
        ours = examine.measure_memory(compiled, *args)
    memory = executed(compiled).memory()
    assert abs(needed(memory) - ours.peak) <= tolerance * ours.peak
    assert ours.peak <= eager.peak
    assert memory.live - memory.held == ours.result == eager.result
    return memory


@pytest.mark.parametrize("name", ["gpt2", "llama", "block", "mlp", "resnet"])
def test_forward(name):
    module, call = workload(name)
    compiled = fulgurite.jit(module)
    with torch.no_grad():
        call(module), call(compiled)
        eager = examine.measure_memory(call, module)
        ours = examine.measure_memory(call, compiled)
    predicted = needed(executed(compiled).memory())
    assert predicted == pytest.approx(ours.peak, rel=0.05)
    assert ours.peak <= eager.peak


@pytest.mark.parametrize("name", ["gpt2", "llama", "block", "mlp", "resnet"])
def test_training_step(name):
    module, call = workload(name)
    module.train(name == "resnet")
    compiled = fulgurite.jit(module)

    def step(f):
        for p in module.parameters():
            p.grad = None
        call(f).sum().backward()

    step(module), step(compiled)
    gc.collect()
    eager = examine.measure_memory(step, module)
    ours = examine.measure_memory(step, compiled)
    forward = executed(compiled).memory()
    backward = fulgurite.last_backward_traces(compiled)[-1].memory()
    predicted = max(needed(forward), needed(backward))
    assert predicted == pytest.approx(ours.peak, rel=0.05)
    assert ours.peak <= eager.peak * 1.01


def strided(x):
    return torch.empty_strided((4, 100), (200, 2)).copy_(x[:4, :100]).exp()


PROGRAMS = {
    "a chain": lambda x: x.exp().sin().cos(),
    "products": lambda x: (x @ x.t()) @ x,
    "views keep memory": lambda x: (x @ x.t())[:2].t() @ x[:2],
    "results that share memory": lambda x: (lambda y: (y, y[0], y.t()))(x @ x.t()),
    "an unused result": lambda x: x.max(dim=0)[0] @ x,
    "lists": lambda x: torch.stack([p.cumsum(0) for p in x.split(8)]),
    "in place": lambda x: (x @ x.t()).add_(1).mul_(2).cumsum(0),
    "an output of an input": lambda x: (x, x[1:], x @ x.t()),
    "joined": lambda x: torch.cat([x.cumsum(0), x.cumsum(1)]),
    "gathered": lambda x: x.gather(0, x.argsort(0)),
    "drawn": lambda x: x @ torch.randn(64, 64),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.view(1, 4, 16, 64)] * 3),
    "nothing": lambda x: x,
    "empty": lambda x: x[:0] @ x.t(),
    "expanded": lambda x: (x @ x.t()).expand(3, 64, 64) @ x,
    "numbers": lambda x: x.cumsum(0) * float(x.shape[0]),
    "double": lambda x: x.double() @ x.double().t(),
    "conditional": lambda x: torch.where(x > 0, x @ x, x),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    check(PROGRAMS[name], torch.randn(64, 64), tolerance=0.02)


CONVOLUTIONS = {
    "small channels": ((2, 3, 64, 64), (32, 3, 7, 7), {"stride": 2, "padding": 3}),
    "3 by 3": ((2, 32, 16, 16), (32, 32, 3, 3), {"padding": 1}),
    "odd channels": ((2, 20, 16, 16), (24, 20, 3, 3), {"padding": 1}),
    "strided": ((2, 32, 16, 16), (64, 32, 3, 3), {"padding": 1, "stride": 2}),
    "1 by 1": ((2, 32, 16, 16), (64, 32, 1, 1), {}),
    "depthwise, odd": ((2, 24, 32, 32), (24, 1, 3, 3), {"padding": 1, "groups": 24}),
    "groups": ((2, 32, 16, 16), (32, 8, 3, 3), {"padding": 1, "groups": 4}),
    "many to few": ((2, 32, 32, 32), (4, 32, 3, 3), {"padding": 1}),
    "depthwise": ((2, 32, 16, 16), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
    "dilated": ((2, 32, 16, 16), (32, 32, 3, 3), {"padding": 1, "dilation": 2}),
    "one dimension": ((2, 32, 160), (32, 32, 3), {"padding": 1}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_copies_of_convolutions_are_estimated(name):
    if not torch.cpu._is_avx512_supported():
        pytest.skip("oneDNN has blocks of other sizes here")
    x, weight, options = CONVOLUTIONS[name]
    convolution = F.conv1d if len(x) == 3 else F.conv2d
    program = lambda x, w: convolution(x, w, None, **options)  # noqa: E731
    check(program, torch.randn(x), torch.randn(weight), tolerance=0.05)


def test_columns_of_atens_own_convolution():
    program = lambda x, w: F.conv2d(x, w, None, padding=1)  # noqa: E731
    x, weight = torch.randn(2, 8, 16, 16).double(), torch.randn(8, 8, 3, 3).double()
    check(program, x, weight)


def test_the_listing():
    compiled = fulgurite.jit(lambda a, b: torch.mm(a, b).sort()[0].t() @ b.t())
    with torch.no_grad():
        compiled(torch.randn(256, 64), torch.randn(64, 256))
    assert str(executed(compiled).memory()).splitlines() == [
        "allocated    freed     live",
        "                    128 KiB  the inputs",
        "  256 KiB           384 KiB  t2 = torch.mm(a, b)",
        "  768 KiB  768 KiB  384 KiB  t3, t4 = torch.sort(t2)  # peak 1.125 MiB",
        "                    384 KiB  t5 = torch.t(t3)",
        "                    384 KiB  t6 = torch.t(b)",
        "   64 KiB  256 KiB  192 KiB  t7 = torch.matmul(t5, t6)",
    ]


def test_what_is_written_over_is_said():
    compiled = fulgurite.jit(lambda a: (a @ a).sin() * 2)
    with torch.no_grad():
        compiled(torch.randn(64, 64))
    memory = executed(compiled).memory()
    product, fused = memory.lines
    assert (product.allocated, fused.allocated) == (16 * KB, 0)
    assert fused.reused == ((fused.text.split(" ")[0], product.text.split(" ")[0]),)
    assert " over " in str(memory)
    assert memory.peak == 32 * KB and memory.peak_line is product


def test_shared_and_held_inputs_count_once():
    compiled = fulgurite.jit(lambda a, b: a @ b.t())
    base = torch.randn(64, 64)
    with torch.no_grad():
        compiled(base, base[:32])
    memory = executed(compiled).memory()
    assert memory.inputs == memory.held == base.nbytes
    assert memory.peak == base.nbytes + 64 * 32 * 4


def test_gaps_count():
    x = torch.randn(4, 100)
    compiled = fulgurite.jit(strided)
    with torch.no_grad():
        compiled(x)
        ours = examine.measure_memory(compiled, x)
    assert needed(executed(compiled).memory()) == ours.peak


def test_memory_grows_in_place():
    def grow(x):
        y = x.cumsum(0)
        y.resize_(200, 64)
        y.fill_(1)
        return y.cumsum(1)

    check(grow, torch.randn(64, 64), tolerance=0.01)


def test_alloc_memory_is_as_thunder_has_it():
    compiled = fulgurite.jit(lambda a: (a @ a).cumsum(0))
    with torch.no_grad():
        compiled(torch.randn(64, 64))
    trace = executed(compiled)
    peak, changes = examine.get_alloc_memory(trace)
    assert peak == 48 * KB == trace.memory().peak
    first, second = (line.made[0][0] for line in trace.memory().lines)
    assert list(changes.items()) == [
        ("argument a", 16 * KB),
        (f"aten::matmul {first}", 16 * KB),
        (f"fusion0 {second}", 16 * KB),
        (f"del {first}", -16 * KB),
    ]


def test_only_executed_traces_have_a_memory():
    compiled = fulgurite.jit(lambda a: a @ a)
    compiled(torch.randn(4, 4))
    with pytest.raises(fulgurite.UserError, match="as executed"):
        fulgurite.last_traces(compiled)[0].memory()
    with pytest.raises(fulgurite.UserError, match="expected a trace"):
        examine.get_alloc_memory(compiled)


def test_call_by_call_under_autograd_is_said():
    compiled = fulgurite.jit(lambda a: (a @ a).sum(), executors=["aten"])
    compiled(torch.randn(4, 4, requires_grad=True))
    trace = executed(compiled)
    assert bool(trace.memory().note) == (trace.grad_mode == "enable_grad")


def test_a_backward_pass_frees_what_it_needs_no_more():
    """Products of one size one after the other: each gradient takes the place of what it used."""
    weights = [torch.randn(64, 64, requires_grad=True) for _ in range(8)]

    def chain(x):
        for w in weights:
            x = torch.tanh(x @ w)
        return x

    compiled = fulgurite.jit(chain)
    x = torch.randn(64, 64)

    def step(f):
        for w in weights:
            w.grad = None
        f(x).sum().backward()

    step(chain), step(compiled)
    eager = examine.measure_memory(step, chain)
    ours = examine.measure_memory(step, compiled)
    assert ours.peak <= eager.peak
    backward = fulgurite.last_backward_traces(compiled)[-1].memory()
    assert backward.live < backward.peak
    assert needed(backward) == pytest.approx(ours.peak, rel=0.05)


def test_gradients_of_a_weight_used_again_do_not_wait_for_each_other():
    weight = (torch.randn(512, 1024) * 0.02).requires_grad_()  # 2 MiB
    back = torch.randn(1024, 512) * 0.02

    def steps(x):
        for _ in range(8):
            x = torch.tanh(x @ weight) @ back
        return x

    compiled = fulgurite.jit(steps)
    x = torch.randn(4, 512)

    def step(f):
        weight.grad = None
        f(x).sum().backward()
        return weight.grad

    torch.testing.assert_close(step(compiled), step(steps), rtol=1e-4, atol=1e-4)
    eager = examine.measure_memory(step, steps)
    ours = examine.measure_memory(step, compiled)
    assert ours.peak <= eager.peak * 1.02


def test_a_graph_that_is_retained_can_be_gone_through_again():
    module = MLP()
    compiled = fulgurite.jit(module)
    result = compiled(torch.randn(8, 256)).sum()
    parameters = list(module.parameters())
    first = torch.autograd.grad(result, parameters, retain_graph=True)
    second = torch.autograd.grad(result, parameters, retain_graph=True)
    third = torch.autograd.grad(result, parameters)
    for a, b, c in zip(first, second, third, strict=True):
        assert torch.equal(a, b) and torch.equal(a, c)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(result, parameters)


def test_measured_memory_is_that_of_the_call_alone():
    kept = []

    def make(count):
        kept.clear()  # what an earlier call made
        kept.append(torch.empty(count))
        torch.empty(3 * count)

    assert (examine.measure_memory(make, 1000).peak) == 16000
    again = examine.measure_memory(make, count=1000)
    assert (again.peak, again.result) == (16000, 4000)
    assert str(again) == "at most 15.62 KiB, 3.906 KiB at the end"
    with pytest.raises(ZeroDivisionError):
        examine.measure_memory(lambda: 1 / 0)
    with pytest.raises(fulgurite.UserError, match="profiler"):
        examine.measure_memory(lambda: examine.measure_memory(make, 1))
    with (
        torch.profiler.profile(),
        pytest.raises(fulgurite.UserError, match="profiler"),
    ):
        examine.measure_memory(make, 1)


def test_thunders_place_of_the_function():
    from fulgurite.examine.memory_calculation import get_alloc_memory  # noqa: PLC0415

    assert get_alloc_memory is examine.get_alloc_memory


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def test_what_asks_for_profilers_can_be_measured():
    """torch looks at the state of a profiler where there may be none."""
    x = torch.randn(64, 64, requires_grad=True)

    def program(x):
        with torch.profiler.record_function("here"):
            return Doubled.apply(x @ x).sum()

    assert examine.measure_memory(program, x).peak >= 32 * KB
    assert examine.measure_memory(lambda: program(x).backward()).result == 16 * KB
    check(lambda x: Doubled.apply(x @ x) + 1, x.detach())

    def profiled():
        with torch.profiler.profile(profile_memory=True) as profile:
            torch.empty(1000)
        return profile

    with pytest.raises(RuntimeError, match="already enabled"):
        examine.measure_memory(profiled)
    assert profiled().events()
