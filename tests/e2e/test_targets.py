"""What can be compiled: modules as modules, callables of every kind, arguments and results."""

import collections
import copy
import dataclasses
import functools
import inspect
import io
import pickle
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.utils import _pytree

import fulgurite
from tests.e2e.test_jit import check, same


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(torch.relu(self.fc(x)))


class Net(nn.Module):
    """A docstring."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(4, 2)
        self.register_buffer("shift", torch.zeros(2))

    def forward(self, x):
        return self.head(self.blocks(x)) + self.shift

    def predict(self, x):
        return self(x).argmax(-1)


X = torch.rand(5, 4)


def close(a, b):
    """Of modules, whose parts are fused: but for rounding."""
    return torch.allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.fixture
def pair():
    torch.manual_seed(0)
    net = Net().eval()
    return fulgurite.jit(net), net


class TestModules:
    def test_structure(self, pair):
        compiled, net = pair
        assert repr(compiled) == repr(net)
        assert compiled.__doc__ == "A docstring."
        assert type(compiled).__name__ == "Net"
        for walk in ("named_modules", "named_parameters", "named_buffers", "named_children"):
            mine, eagers = dict(getattr(compiled, walk)()), dict(getattr(net, walk)())
            assert list(mine) == list(eagers)
            mine.pop("", None), eagers.pop("", None)
            assert all(mine[name] is eagers[name] for name in mine)
        assert compiled.get_submodule("blocks.0.fc") is net.blocks[0].fc
        assert compiled.get_parameter("head.weight") is net.head.weight
        assert inspect.signature(compiled.forward) == inspect.signature(net.forward)

    def test_state_dict(self, pair):
        compiled, net = pair
        assert list(compiled.state_dict()) == list(net.state_dict())
        other = Net().eval()
        compiled(X)
        compiled.load_state_dict(other.state_dict())
        assert close(compiled(X), other(X))
        compiled.load_state_dict(net.state_dict(), assign=True)
        assert close(compiled(X), net(X))
        buffer = io.BytesIO()
        torch.save(compiled.state_dict(), buffer)
        buffer.seek(0)
        assert list(torch.load(buffer)) == list(net.state_dict())

    def test_modes_dtypes_and_devices(self, pair):
        compiled, net = pair
        compiled(X)
        assert compiled.train() is compiled
        assert net.training
        before = net.blocks[0].norm.running_mean.clone()
        compiled(X)
        assert not torch.equal(before, net.blocks[0].norm.running_mean)
        assert compiled.eval() is compiled
        assert compiled.double() is compiled
        assert close(compiled(X.double()), net(X.double()))
        compiled.to(torch.bfloat16)
        assert compiled(X.bfloat16()).dtype == torch.bfloat16
        assert compiled.to("meta")(X.bfloat16().to("meta")).device.type == "meta"

    def test_hooks(self, pair):
        compiled, net = pair
        compiled(X)
        calls = []
        handles = [
            compiled.register_forward_pre_hook(lambda m, args: calls.append("pre")),
            compiled.register_forward_hook(lambda m, args, result: result * 2),
            compiled.blocks[0].register_forward_hook(lambda m, args, result: result + 1),
        ]
        expected = net(X)
        calls.clear()
        actual = fulgurite.jit(net, fallback="eager")(X)
        assert close(actual, expected)
        assert calls == ["pre"]
        for handle in handles:
            handle.remove()
        assert close(compiled(X), net(X))

    def test_hooks_on_a_jitted_module_get_it(self, pair):
        compiled, net = pair
        compiled.register_forward_hook(lambda module, args, result: result * module.factor)
        compiled.factor = 3.0
        assert close(compiled(X), net(X))

    def test_attributes(self, pair):
        compiled, net = pair
        compiled.extra = 3
        assert net.extra == 3
        del compiled.extra
        assert not hasattr(net, "extra")
        net.head, net.shift = nn.Linear(4, 3), torch.ones(3)
        assert compiled.head is net.head
        assert compiled(X).shape == (5, 3)
        compiled.head.weight = nn.Parameter(torch.zeros(3, 4))
        assert close(compiled(X), net(X))
        with pytest.raises(AttributeError, match="no_such"):
            compiled.no_such  # noqa: B018
        compiled.register_buffer("more", torch.ones(1))
        assert "more" in net.state_dict()

    def test_methods_call_the_compiled_module(self, pair):
        compiled, net = pair
        assert close(compiled.predict(X), net.predict(X))
        assert fulgurite.cache_misses(compiled) == 1
        assert close(compiled.forward(X), net(X))

    def test_copies(self, pair):
        compiled, net = pair
        expected = compiled(X)
        shallow = copy.copy(compiled)
        shallow.factor = 1
        assert not hasattr(net, "factor")
        assert shallow.head is net.head
        buffer = io.BytesIO()
        torch.save(compiled, buffer)
        buffer.seek(0)
        for other in (
            shallow,
            copy.deepcopy(compiled),
            pickle.loads(pickle.dumps(compiled)),
            torch.load(buffer, weights_only=False),
            copy.deepcopy(nn.ModuleList([compiled]))[0],
        ):
            assert isinstance(other, Net)
            assert close(other(X), expected)
            assert fulgurite.cache_misses(other) == 1
            if other is not shallow:
                other.head.weight.data.zero_()
                assert close(compiled(X), expected)

    def test_a_compiled_module_in_a_module(self):
        net = Net().eval()
        expected, keys = net(X), list(net.state_dict())
        net.blocks[1] = fulgurite.jit(net.blocks[1])
        assert close(net(X), expected)
        assert fulgurite.cache_misses(net.blocks[1]) == 1
        assert list(net.state_dict()) == keys
        outer = fulgurite.jit(net)
        for _ in range(2):
            assert close(outer(X), expected)
        assert fulgurite.cache_hits(outer) == 1
        assert fulgurite.cache_misses(net.blocks[1]) == 1
        net.train().double().eval()
        assert outer(X.double()).dtype == torch.float64

    def test_compiled_again(self, pair):
        compiled, net = pair
        again = fulgurite.jit(compiled, fallback="eager")
        assert close(again(X), net(X))
        assert fulgurite.cache_misses(compiled) == 0
        assert type(again) is type(compiled)

    def test_a_metaclass_and_a_call_of_its_own(self):
        class Meta(type):
            pass

        class Odd(nn.Module, metaclass=Meta):
            def __call__(self, x, *, times=1):
                return super().__call__(x) * times

            def forward(self, x):
                return x + 1

        compiled = fulgurite.jit(Odd())
        for _ in range(2):
            assert torch.equal(compiled(X, times=3), (X + 1) * 3)

    @pytest.mark.parametrize(
        "make",
        [
            lambda module: module[:1],
            lambda module: module + nn.Sequential(nn.ReLU()),
            lambda module: module * 2,
            lambda module: module.__class__(nn.Tanh()),
            lambda module: type(module)(collections.OrderedDict(a=nn.Tanh())),
            lambda module: module.filled_with(nn.Tanh()),
        ],
    )
    def test_what_it_makes_of_its_class_is_plain(self, make):
        class Row(nn.Sequential):
            @classmethod
            def filled_with(cls, module):
                return cls(module, module)

        plain = Row(nn.Linear(4, 4), nn.ReLU())
        compiled = fulgurite.jit(plain)
        made = make(compiled)
        assert type(made) is type(make(plain))
        assert close(made(X), make(plain)(X))
        torch.testing.assert_close(fulgurite.jit(made)(X), made(X))
        assert inspect.signature(type(compiled)) == inspect.signature(Row)

    def test_no_class_is_derived_from_that_of_a_compiled_module(self):
        with pytest.raises(fulgurite.UserError, match="derive it from Net itself"):

            class Other(type(fulgurite.jit(Net()))):
                pass

        with pytest.raises(fulgurite.UserError, match="before jit"):
            relu = nn.ReLU()
            nn.utils.parametrize.register_parametrization(
                fulgurite.jit(nn.Linear(2, 2)), "weight", relu
            )

    def test_training_is_eagers(self):
        def train(wrap):
            torch.manual_seed(0)
            net = Net()
            compiled = wrap(net)
            optimizer = torch.optim.SGD(compiled.parameters(), lr=0.1, momentum=0.9)
            for _ in range(3):
                optimizer.zero_grad()
                compiled(X).square().sum().backward()
                optimizer.step()
            return net.state_dict()

        mine, eagers = train(fulgurite.jit), train(lambda net: net)
        assert all(torch.allclose(mine[name], eagers[name], atol=1e-4) for name in eagers)


@fulgurite.jit
def decorated(x):
    return x + 1


@fulgurite.jit(fallback="eager", entries=4)
def with_options(x, *, by=1):
    return x + by


class Scaler:
    by = 3.0

    def __init__(self, by=2.0):
        self.by = by

    @fulgurite.jit
    def method(self, x):
        return x * self.by

    @fulgurite.jit
    @staticmethod
    def static_inside(x):
        return x * 5

    @staticmethod
    @fulgurite.jit
    def static_outside(x):
        return x * 5

    @classmethod
    @fulgurite.jit
    def class_outside(cls, x):
        return x * cls.by

    @fulgurite.jit
    @classmethod
    def class_inside(cls, x):
        return x * cls.by

    part = fulgurite.jit(functools.partial(torch.mul, torch.full((4,), 2.0)))

    def plain(self, x):
        return x * self.by

    def __call__(self, x):
        return x - self.by


class TestCallables:
    def test_decorators(self):
        for _ in range(2):
            assert torch.equal(decorated(X), X + 1)
            assert torch.equal(with_options(X, by=2), X + 2)
        assert decorated.__name__ == "decorated"
        assert decorated.__module__ == __name__
        assert str(inspect.signature(with_options)) == "(x, *, by=1)"
        assert "decorated" in repr(decorated)

    def test_methods_of_every_kind(self):
        scaler = Scaler()
        for _ in range(2):
            assert torch.equal(scaler.method(X), X * 2)
            assert torch.equal(Scaler(7.0).method(X), X * 7)
            assert torch.equal(Scaler.method(scaler, X), X * 2)
            for static in (scaler.static_inside, Scaler.static_inside, scaler.static_outside):
                assert torch.equal(static(X), X * 5)
            for of_class in (scaler.class_inside, Scaler.class_inside, scaler.class_outside):
                assert torch.equal(of_class(X), X * 3)
            assert torch.equal(scaler.part(X), X * 2)

    def test_bound_methods_and_partials(self):
        scaler = Scaler()
        check(scaler.plain, X)
        check(scaler, X)
        check(scaler.__call__, X)
        check(functools.partial(scaler.plain, x=X))
        check(functools.partial(functools.partial(torch.add, X), alpha=2), X)
        check(torch.mul, X, X)
        check(X.add, 1)
        check(operator_of_nothing := (lambda: torch.ones(2)))
        assert operator_of_nothing().sum() == 2
        net = Net().eval()
        check(net.predict, X)
        check(net.forward, X)
        compiled = fulgurite.jit(net)
        check(compiled.predict, X)
        check(torch.no_grad()(net.forward), X)
        check(functools.wraps(scaler.plain)(lambda x: scaler.plain(x) + 1), X)

    def test_the_state_of_a_bound_object_is_guarded(self):
        scaler = Scaler()
        compiled = fulgurite.jit(scaler.plain)
        assert torch.equal(compiled(X), X * 2)
        scaler.by = 4.0
        assert torch.equal(compiled(X), X * 4)
        called = fulgurite.jit(scaler)
        assert torch.equal(called(X), X - 4)
        scaler.by = 5.0
        assert torch.equal(called(X), X - 5)

    def test_functions_are_pickled_by_name(self):
        assert pickle.loads(pickle.dumps(decorated)) is decorated
        assert copy.deepcopy(decorated) is decorated
        part = pickle.loads(pickle.dumps(fulgurite.jit(functools.partial(torch.mul, X))))
        assert torch.equal(part(X), X * X)

    def test_a_function_that_returns_a_generators_items(self):
        @functools.wraps(generate)
        def listed(x):
            return list(generate(x))

        check(listed, X)

    def test_classes_and_generators_are_refused(self):
        for bad in (Scaler, generate, functools.partial(generate, X)):
            with pytest.raises(fulgurite.UserError):
                fulgurite.jit(bad)


def generate(x):
    yield x + 1
    yield x * 2


class Pair(NamedTuple):
    first: torch.Tensor
    second: object = None


@dataclasses.dataclass
class Record:
    data: torch.Tensor
    name: str = "r"
    more: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Frozen:
    data: torch.Tensor


class Registered:
    def __init__(self, items, note):
        self.items, self.note = items, note

    def __eq__(self, other):
        return type(other) is Registered and self.note == other.note

    __hash__ = None


_pytree.register_pytree_node(
    Registered,
    lambda r: (list(r.items), r.note),
    lambda items, note: Registered(list(items), note),
)


class TestArguments:
    def test_signatures(self):
        def everything(a, /, b, *rest, c, d=2.0, **others):
            return a + b * c + d + sum(rest) + sum(others.values())

        check(everything, X, 2, c=3)
        check(everything, X, X, X, 1, c=X, d=1.5, e=X, f=2)
        check(lambda a, /, b=None: a if b is None else a + b, X)
        check(lambda *, x: x + 1, x=X)
        compiled = fulgurite.jit(lambda x, y: x - y)
        assert torch.equal(compiled(y=X, x=X * 3), X * 3 - X)
        assert torch.equal(compiled(x=X * 3, y=X), X * 3 - X)
        assert torch.equal(compiled(X * 3, y=X), X * 3 - X)
        assert fulgurite.cache_misses(compiled) == 3
        with pytest.raises(TypeError, match="multiple values"):
            compiled(X, X, x=X)
        with pytest.raises(TypeError, match="missing"):
            compiled(X)

    def test_containers(self):
        check(lambda p: p.first + p.second, Pair(X, 2))
        check(lambda r: r.data * len(r.name) + r.more["k"][0], Record(X, "ab", {"k": [X]}))
        check(lambda f: f.data + 1, Frozen(X))
        check(lambda r: r.items[0] + len(r.note), Registered([X], "abc"))
        check(lambda d: d["a"] + 1, collections.OrderedDict(a=X))
        check(lambda d: d["a"] + 1, collections.defaultdict(list, a=X))
        check(lambda t: t[0][0]["k"][1] * 2, ([{"k": (1, X)}],))
        check(lambda s: X + len(s), frozenset([1, 2]))
        check(lambda x, f: f(x), X, torch.sin)
        check(lambda x, d: x.to(d), X, torch.float64)

    def test_a_value_in_a_container_counts(self):
        compiled = fulgurite.jit(lambda r: r.data * len(r.name))
        assert torch.equal(compiled(Record(X, "ab")), X * 2)
        assert torch.equal(compiled(Record(X, "abc")), X * 3)
        assert torch.equal(compiled(Record(X, "ab")), X * 2)
        assert fulgurite.cache_hits(compiled) == 1
        note = fulgurite.jit(lambda r: r.items[0] + len(r.note))
        assert torch.equal(note(Registered([X], "a")), X + 1)
        assert torch.equal(note(Registered([X], "ab")), X + 2)


class TestResults:
    def test_containers(self):
        check(lambda x: Pair(x + 1, Pair(x, None)), X)
        check(lambda x: [x, (x + 1, {"k": x * 2, 3: None})], X)
        check(lambda x: collections.OrderedDict(b=x, a=x + 1), X)
        check(lambda x: x.max(0), X)
        check(lambda x: torch.linalg.qr(x), X)
        check(lambda x: (x.shape, x.dtype, x.device, x.dim(), 1.5, "s", None, ...), X)
        check(lambda x: [], X)
        check(lambda x: None, X)
        check(lambda: 3)
        made = fulgurite.jit(lambda x: Record(x + 1, "n", {"k": [x]}))
        for _ in range(2):
            record = made(X)
            assert type(record) is Record
            assert torch.equal(record.data, X + 1)
            assert record.more["k"][0] is X
        frozen = fulgurite.jit(lambda x: Frozen(x + 1))
        assert torch.equal(frozen(X).data, frozen(X).data)
        made = fulgurite.jit(lambda x: Registered([x * 2], "abc"))
        for _ in range(2):
            assert torch.equal(made(X).items[0], X * 2)
        made = fulgurite.jit(lambda x: collections.defaultdict(int, a=x * 2))
        for _ in range(2):
            assert made(X)["b"] == 0

    def test_model_outputs(self):
        output = pytest.importorskip("transformers.modeling_outputs").BaseModelOutput
        made = fulgurite.jit(lambda x: output(last_hidden_state=x + 1, hidden_states=(x,)))
        for _ in range(2):
            result = made(X)
            assert type(result) is output
            assert torch.equal(result.last_hidden_state, X + 1)
            assert result["hidden_states"][0] is X
            assert list(result) == ["last_hidden_state", "hidden_states"]
        check(lambda o: o.last_hidden_state * 2, output(last_hidden_state=X))

    def test_what_is_shared_stays_shared(self):
        def program(x):
            items = [x + 1]
            return items, {"again": items}, x, x

        compiled = fulgurite.jit(program)
        for _ in range(2):
            items, again, a, b = compiled(X)
            assert again["again"] is items
            assert a is X
            assert b is X
        first, second = compiled(X)[0], compiled(X)[0]
        assert first is not second

    @pytest.mark.parametrize("grad", [False, True])
    @pytest.mark.parametrize(
        "program",
        [
            lambda x: x[1:],
            lambda x: x.t(),
            lambda x: (x[1], x[2:]),
            lambda x: (x * 2)[1:],
            lambda x: (x * 2)[1:, 1:].t(),
            lambda x: [y := x * 2, y[1], y.view(-1)[3:]],
            lambda x: x.clone()[2:].mul_(2),
            lambda x: x.clone()[2:].add_(1)[1:],
            lambda x: (x + 0).t().mul_(2),
            lambda x: x.split(2),
            lambda x: (x * 2).unbind(0)[3],
            lambda x: x.expand(2, *x.shape),
            lambda x: x.detach()[1:],
            lambda x: torch.zeros(6, 4)[1:].copy_(x),
            lambda x: torch.zeros(8).narrow(0, 2, 4).copy_(x[0]),
            lambda x: x.new_zeros(3, 4)[1].fill_(2.0),
        ],
    )
    def test_views_lie_as_eagers_do(self, program, grad):
        compiled = fulgurite.jit(program)

        def leaves(result):
            return list(result) if isinstance(result, (tuple, list)) else [result]

        for _ in range(2):
            x, y = X.clone(), X.clone()
            with torch.set_grad_enabled(grad):
                actual, expected = leaves(compiled(x)), leaves(program(y))
            for a, e in zip(actual, expected, strict=True):
                assert same(a, e)
                assert a.storage_offset() == e.storage_offset()
                assert a.untyped_storage().nbytes() == e.untyped_storage().nbytes()
            shared = [[a.data_ptr() - b.data_ptr() for a in some if a.untyped_storage().data_ptr()
                       == b.untyped_storage().data_ptr()] for some in (actual, expected)
                      for b in some]  # fmt: skip
            assert shared[: len(shared) // 2] == shared[len(shared) // 2 :]
            for tensor in (x, *actual, y, *expected):
                if 0 not in tensor.stride():
                    tensor.data.add_(1)
            assert same(actual, expected)
            assert same(x, y)
