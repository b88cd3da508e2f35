"""`fulgurite.jit` as its users meet it: calls, containers, modules, options, errors."""

import collections
import copy
import dataclasses
import functools
import gc
import pickle
import threading
import weakref

import pytest
import torch

import fulgurite


def same(a, b):
    """Equal in structure and types; floats to their last places."""
    if isinstance(b, torch.Tensor):
        if type(a) is not type(b) or (a.dtype, a.stride()) != (b.dtype, b.stride()):
            return False
        return a.shape == b.shape and torch.allclose(a, b, rtol=1e-6, atol=1e-7)
    if isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in b)
    if isinstance(b, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def check(fn, *args, **kwargs):
    """jit(fn) gives eager's result, on the first call and on the second."""
    compiled = fulgurite.jit(fn)
    expected = fn(*args, **kwargs)
    for _ in range(2):
        assert same(compiled(*args, **kwargs), expected)
    assert fulgurite.cache_hits(compiled) == 1
    assert fulgurite.cache_misses(compiled) == 1
    return compiled


def test_a_function_and_its_traces():
    compiled = check(lambda a, b: a + b, torch.ones(2, 2), torch.ones(2, 2))
    first = fulgurite.last_traces(compiled)[0]
    assert "torch.add(a, b)" in str(first)
    assert [s.name for s in first.bound_symbols] == ["aten::add.Tensor"]


def test_the_last_trace_is_what_runs():
    def program(a, b):
        c = a + b
        d = a + b
        e = a * a  # noqa: F841
        return c, d * b

    compiled = check(program, torch.ones(2, 2), torch.ones(2, 2))
    (fusion,) = fulgurite.last_traces(compiled)[-1].bound_symbols
    assert [s.name for s in fusion.subsymbols] == ["aten::add.Tensor", "aten::mul.Tensor"]
    series = fulgurite.last_traces(compiled)
    assert series["Delete Last Used"].text() == series[-1].text()
    with pytest.raises(KeyError, match="Dead Code"):
        series["No Such Pass"]


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Batch:
    data: torch.Tensor
    scale: float
    extra: list


def test_containers_of_arguments():
    x = torch.arange(6.0).reshape(2, 3)
    check(lambda d: d["a"] + d["b"][0], {"a": x, "b": [x * 2]})
    check(lambda p: p.x - p.y, Point(x, x + 1))
    check(lambda b: b.data * b.scale + b.extra[0], Batch(x, 3.0, [x]))
    check(lambda *xs, k=2, **rest: sum(xs) * k + rest["z"], x, x, k=3, z=x)
    check(lambda x, n=2, s="a": x * n if s == "a" else x, x)
    check(lambda o: o["a"] + 1, collections.OrderedDict(a=x))


def test_containers_of_results():
    x = torch.arange(6.0).reshape(2, 3)
    check(lambda x: {"a": x + 1, "b": [x, (x * 2, 3, "s", None)]}, x)
    compiled = fulgurite.jit(lambda x: Point(x + 1, 7))
    assert type(compiled(x)) is Point
    assert type(compiled(x)) is Point
    made = fulgurite.jit(lambda x: Batch(x + 1, 2.0, [x]))
    first, second = made(x), made(x)
    assert torch.equal(first.data, x + 1)
    assert first is not second
    assert first.extra is not second.extra
    assert second.extra[0] is x


def test_results_that_are_or_alias_arguments():
    compiled = fulgurite.jit(lambda x: (x, x[0], x.t(), x + 0))
    for _ in range(2):
        x = torch.arange(6.0).reshape(2, 3)
        same, row, transposed, fresh = compiled(x)
        assert same is x
        x.add_(1)
        assert torch.equal(row, x[0])
        assert torch.equal(transposed, x.t())
        assert not torch.equal(fresh, x)


def test_equal_results_do_not_alias():
    a, b = fulgurite.jit(lambda x: (x + 1, x + 1))(torch.ones(3))
    a.zero_()
    assert b.sum() == 6


def test_arguments_written_in_place():
    def program(x, y):
        x.mul_(2)
        y[0] = x[0]
        return x + y

    compiled = fulgurite.jit(program)
    for _ in range(2):
        x, y = torch.ones(2, 3), torch.zeros(2, 3)
        ex, ey = x.clone(), y.clone()
        expected = program(ex, ey)
        assert torch.equal(compiled(x, y), expected)
        assert torch.equal(x, ex)
        assert torch.equal(y, ey)


def test_python_values_are_part_of_the_key():
    compiled = fulgurite.jit(lambda x, n: x * n)
    x = torch.ones(2)
    assert compiled(x, 2)[0] == 2
    assert compiled(x, 3)[0] == 3
    assert compiled(x, 2.5)[0] == 2.5
    assert compiled(x, True)[0] == 1
    assert fulgurite.cache_misses(compiled) == 4
    zero = fulgurite.jit(lambda x, n: x / n)
    assert zero(x, 0.0)[0] == float("inf")
    assert zero(x, -0.0)[0] == float("-inf")


def test_tensor_types_are_part_of_the_key():
    compiled = fulgurite.jit(lambda x: x.is_contiguous() and x * 2)
    assert compiled(torch.ones(2, 3)) is not False
    assert compiled(torch.ones(3, 2).t()) is False
    assert compiled(torch.ones(2, 3, dtype=torch.int32)).dtype == torch.int32
    assert "strides" in fulgurite.last_recompile_reason(compiled) or "int32" in (
        fulgurite.last_recompile_reason(compiled)
    )


def test_aliasing_arguments():
    def program(x, y):
        x.add_(1)
        return y * 2

    compiled = fulgurite.jit(program)
    a, b = torch.ones(3), torch.ones(3)
    assert compiled(a, b)[0] == 2
    assert compiled(a, a)[0] == 6
    base = torch.ones(4)
    assert torch.equal(compiled(base[:3], base[1:]), torch.tensor([4.0, 4.0, 2.0]))
    assert torch.equal(compiled(base[:2], base[2:]), torch.tensor([4.0, 2.0]))


def test_grad_mode_and_gradients():
    def program(x, w):
        return torch.tanh(x @ w).sum()

    x, w = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True)
    compiled = fulgurite.jit(program)
    (expected,) = torch.autograd.grad(program(x, w), w)
    for _ in range(2):
        (actual,) = torch.autograd.grad(compiled(x, w), w)
        torch.testing.assert_close(actual, expected)
    with torch.no_grad():
        assert not compiled(x, w).requires_grad
    assert compiled(x, w).requires_grad


def test_no_grad_regions_and_detach():
    def program(x):
        with torch.no_grad():
            y = x * 2
        return x * y + x.detach()

    x = torch.randn(3, requires_grad=True)
    (expected,) = torch.autograd.grad(program(x).sum(), x)
    (actual,) = torch.autograd.grad(fulgurite.jit(program)(x).sum(), x)
    assert torch.equal(actual, expected)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(self.fc(x)))


def test_a_module_is_a_module():
    torch.manual_seed(0)
    net = Net()
    compiled = fulgurite.jit(net)
    assert isinstance(compiled, Net)
    assert isinstance(compiled, torch.nn.Module)
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert [n for n, _ in compiled.named_modules()] == [n for n, _ in net.named_modules()]
    assert compiled.fc is net.fc
    compiled.eval()
    assert not net.training
    x = torch.randn(3, 4)
    assert torch.equal(compiled(x), net(x))
    compiled.train()
    torch.manual_seed(1)
    expected = copy.deepcopy(net)(x)
    torch.manual_seed(1)
    torch.testing.assert_close(compiled(x), expected)
    assert net.norm.num_batches_tracked == 1
    compiled.double()
    assert compiled(x.double()).dtype == torch.float64


def test_a_module_is_copied_and_pickled():
    compiled = fulgurite.jit(Net().eval())
    x = torch.randn(3, 4)
    expected = compiled(x)
    for other in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert torch.equal(other(x), expected)
        other.fc.weight.data.zero_()
        assert torch.equal(compiled(x), expected)
        assert fulgurite.cache_misses(other) >= 1


def test_traces_name_parameters_by_their_path():
    compiled = fulgurite.jit(Net().eval())
    compiled(torch.randn(3, 4))
    text = fulgurite.last_traces(compiled)[0].text()
    assert "p_fc_weight" in text
    assert "fc.weight" in text


def test_methods_partials_and_callables():
    class Scaler:
        def __init__(self, by):
            self.by = by

        @fulgurite.jit
        def scale(self, x):
            return x * self.by

        def __call__(self, x):
            return x + self.by

    x = torch.ones(3)
    two, three = Scaler(2), Scaler(3)
    assert two.scale(x)[0] == 2
    assert three.scale(x)[0] == 3
    assert two.scale(x)[0] == 2
    check(two, x)
    check(functools.partial(torch.mul, x), 3)
    check(two.__call__, x)

    @fulgurite.jit(fallback="eager")
    def decorated(x):
        """Adds one."""
        return x + 1

    assert decorated.__name__ == "decorated"
    assert decorated.__doc__ == "Adds one."
    assert decorated(x)[0] == 2


def test_randomness_is_eagers():
    def program(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(3) + torch.randn_like(x)

    compiled = fulgurite.jit(program)
    x = torch.ones(3)
    for _ in range(2):
        torch.manual_seed(5)
        expected = program(x), program(x)
        torch.manual_seed(5)
        assert torch.equal(compiled(x), expected[0])
        assert torch.equal(compiled(x), expected[1])


def test_no_caching():
    compiled = fulgurite.jit(lambda x: x + 1, cache="no caching")
    for _ in range(3):
        compiled(torch.ones(2))
    assert fulgurite.cache_misses(compiled) == 3


def test_nested_and_recursive_functions():
    inner = fulgurite.jit(lambda x: x * 2)
    check(lambda x: inner(x) + 1, torch.ones(3))

    @fulgurite.jit
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * x

    assert power(torch.full((2,), 3.0), 3)[0] == 81


def test_threads_share_a_function():
    compiled = fulgurite.jit(lambda x, n: torch.relu(x) * n)
    failures = []

    def work(seed):
        for i in range(20):
            x = torch.full((2 + i % 3,), float(seed))
            if not torch.equal(compiled(x, i % 4), torch.relu(x) * (i % 4)):
                failures.append((seed, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_another_thread_runs_eagerly_during_a_capture():
    seen = []

    def other():
        x = torch.ones(2)
        seen.append((x.tolist(), torch.compiler.is_compiling(), repr(x)))

    def program(x):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x + 1

    fulgurite.jit(program, fallback="eager")(torch.ones(1))
    assert seen[0] == ([1.0, 1.0], False, "tensor([1., 1.])")


def test_what_is_dropped_is_freed():
    net = Net()
    compiled = fulgurite.jit(net)
    compiled(torch.randn(3, 4))
    weight = weakref.ref(net.fc.weight)
    del net, compiled
    assert weight() is None or gc.collect() >= 0
    assert weight() is None


def test_optimizer_step():
    def train(compile_step):
        torch.manual_seed(0)
        net = torch.nn.Linear(3, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        step = fulgurite.jit(optimizer.step) if compile_step else optimizer.step
        for _ in range(4):
            optimizer.zero_grad()
            net(torch.ones(2, 3)).square().sum().backward()
            step()
        return net.weight.detach()

    assert torch.equal(train(True), train(False))


FACTOR = 2.0


def test_python_state_is_guarded():
    global FACTOR

    class Config:
        scale = 3.0

    config, sizes, table = Config(), [1.0, 2.0], {"k": 4.0}

    @fulgurite.jit
    def program(x):
        return x * FACTOR + config.scale + sum(sizes) + table["k"] + len(sizes)

    def eager(x):
        return x * FACTOR + config.scale + sum(sizes) + table["k"] + len(sizes)

    x = torch.ones(2)
    assert torch.equal(program(x), eager(x))
    places = [place for _, place, _, _ in fulgurite.compile_data(program).guards]
    assert any("FACTOR" in place for place in places)
    FACTOR = 5.0
    assert torch.equal(program(x), eager(x))
    assert "FACTOR" in fulgurite.last_recompile_reason(program)
    config.scale = 7.0
    assert torch.equal(program(x), eager(x))
    sizes.append(9.0)
    assert torch.equal(program(x), eager(x))
    table["k"] = -1.0
    assert torch.equal(program(x), eager(x))
    hits = fulgurite.cache_hits(program)
    assert torch.equal(program(x), eager(x))
    assert fulgurite.cache_hits(program) == hits + 1


def test_changes_to_python_state_are_made_on_every_call():
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.seen, self.last = 0, [], None

        def forward(self, x):
            self.calls += 1
            self.seen.append(x.shape[0])
            self.last = x * 2
            return x + 1

    eager, module = Counter(), Counter()
    compiled = fulgurite.jit(module)
    for n in (2, 2, 3, 2):
        x = torch.full((n,), float(n))
        assert torch.equal(compiled(x), eager(x))
        assert (module.calls, module.seen) == (eager.calls, eager.seen)
        assert torch.equal(module.last, eager.last)


def test_hooks_parameters_and_modes_changed_after_compiling():
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))
    compiled = fulgurite.jit(net)
    x = torch.randn(2, 3)

    def same_as_eager():
        torch.manual_seed(3)
        expected = net(x)
        torch.manual_seed(3)
        return torch.equal(compiled(x), expected)

    assert same_as_eager()
    net.eval()
    assert same_as_eager()
    handle = net[0].register_forward_hook(lambda module, args, result: result * 10)
    assert same_as_eager()
    handle.remove()
    assert same_as_eager()
    net[0].weight = torch.nn.Parameter(torch.ones(3, 3))
    assert same_as_eager()
    net[0].weight.data.mul_(2)
    assert same_as_eager()
    net[0].weight.requires_grad_(False)
    assert same_as_eager()
    net[1] = torch.nn.ReLU()
    assert same_as_eager()


def test_a_container_among_the_arguments_is_not_changed_behind_the_callers_back():
    def put(d, x):
        d["y"] = x + 1
        return x * 2

    def append(items, x):
        items.append(1)
        return x * 2

    for program, make in ((put, dict), (append, list)):
        compiled = fulgurite.jit(program)
        for _ in range(3):
            mine, eagers = make(), make()
            compiled(mine, torch.ones(2)), program(eagers, torch.ones(2))
            assert same(mine, eagers)


def test_an_argument_that_contains_itself():
    items = [torch.ones(2)]
    items.append(items)
    with pytest.raises(fulgurite.Unsupported, match="contains itself"):
        fulgurite.jit(lambda items: items[0] * 2)(items)
    lenient = fulgurite.jit(lambda items: items[0] * 2, fallback="eager")
    assert lenient(items).sum() == 4


def test_a_default_device_is_obeyed():
    compiled = fulgurite.jit(lambda x: torch.zeros(3))
    x = torch.ones(1)
    assert compiled(x).device.type == "cpu"
    with torch.device("meta"):
        assert compiled(x).device.type == "meta"
    assert compiled(x).device.type == "cpu"


def test_a_lazy_module_is_compiled_from_its_second_call_on():
    module = torch.nn.Sequential(
        torch.nn.LazyLinear(4), torch.nn.LazyBatchNorm1d(), torch.nn.ReLU()
    )
    compiled = fulgurite.jit(module)
    x = torch.randn(3, 5)
    first = compiled(x)
    assert type(module[0]) is torch.nn.Linear and first.shape == (3, 4)
    with pytest.raises(fulgurite.UserError, match="lazy module"):
        fulgurite.last_traces(compiled)
    with torch.no_grad():
        module.eval()
        torch.testing.assert_close(compiled(x), module(x))
    assert fulgurite.last_traces(compiled)
    (reason,) = fulgurite.compile_data(compiled).fallbacks
    assert "lazy" in reason
