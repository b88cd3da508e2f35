"""Containers and objects that a program makes and leaves in its state: what eager leaves, and tensors
in containers that are made anew in each call do not compile anew."""

import collections
import contextlib
import copy
import dataclasses
import types

import pytest
import torch

import fulgurite
from fulgurite import Unsupported

PROGRAMS = {}


def program(misses):
    """`make(o)` gives a function of tensors; what it keeps is in the object o.

    misses: how many entries eight calls make.
    """

    def add(make):
        PROGRAMS[make.__name__] = make, misses
        return make

    return add


@program(misses=2)
def states_of_layers(o):
    o.states = None

    def f(x):
        before = o.states or [(x * 0, x * 0) for _ in range(2)]
        o.states = [(a * 0.5 + x, b + a) for a, b in before]
        return sum(a + b for a, b in o.states)

    return f


@program(misses=1)
def list_made_anew(o):
    o.parts = [torch.zeros(3), torch.ones(3)]

    def f(x):
        o.parts = [part + x for part in o.parts]
        return o.parts[0] * 2

    return f


@program(misses=1)
def dict_made_anew(o):
    o.parts = {"a": torch.zeros(3), "b": torch.ones(3), "steps": (1, 2)}

    def f(x):
        o.parts = {"a": o.parts["b"] + x, "b": o.parts["a"] * 2, "steps": o.parts["steps"]}
        return o.parts["a"] * 2

    return f


@program(misses=1)
def dict_of_tuples(o):
    o.cache = {i: (torch.zeros(3), [torch.ones(3)]) for i in range(2)}

    def f(x):
        o.cache = {i: (k + x, [v[0] * 2]) for i, (k, v) in o.cache.items()}
        return sum(k + v[0] for k, v in o.cache.values())

    return f


@program(misses=1)
def rotated(o):
    o.pair = (torch.zeros(3), torch.ones(3))

    def f(x):
        first, second = o.pair
        o.pair = (second, first + x)
        return first * 1

    return f


@program(misses=4)
def window(o):
    o.last = ()

    def f(x):
        o.last = (*o.last, x * 1)[-3:]
        return sum(o.last)

    return f


@program(misses=1)
def one_of_two_is_read(o):
    o.parts = [torch.zeros(3), torch.ones(3)]

    def f(x):
        o.parts = [o.parts[1] + x, o.parts[1] * 2]
        return x * 2

    return f


@program(misses=None)
def list_changed_in_place(o):
    o.parts = [torch.zeros(3), torch.ones(3)]

    def f(x):
        o.parts.append(o.parts.pop(0) + x)
        return o.parts[0] * 2

    return f


@program(misses=None)
def list_with_two_names(o):
    o.parts = o.others = [torch.zeros(3), torch.ones(3)]

    def f(x):
        o.parts = [part + x for part in o.others]
        return o.parts[0] * 2

    return f


@program(misses=None)
def compared_by_identity(o):
    o.first = o.parts = [torch.zeros(3)]

    def f(x):
        same = o.parts is o.first
        o.parts = [o.parts[0] + x]
        return x * 2 if same else x

    return f


@program(misses=None)
def step_beside_tensors(o):
    o.state = {"h": torch.zeros(3), "step": 0}

    def f(x):
        o.state = {"h": o.state["h"] + x, "step": o.state["step"] + 1}
        return o.state["h"] * o.state["step"]

    return f


@program(misses=None)
def changed_and_replaced(o):
    """The old list is gone when its item would be set."""
    o.parts = [torch.zeros(3), torch.ones(3)]

    def f(x):
        o.parts[-1] = o.parts[0] + x
        o.parts = [x * 2, x * 3]
        return [[0, 0] for _ in range(50)], x

    return f


@program(misses=None)
def old_one_returned(o):
    o.state = (torch.zeros(3),)

    def f(x):
        old, o.state = o.state, (x * 2,)
        return old

    return f


@program(misses=None)
def parts_that_are_one(o):
    o.parts = [[torch.zeros(3)], [torch.ones(3)]]

    def f(x):
        same = o.parts[0] is o.parts[1]
        o.parts = [o.parts[0]] * 2 if not same else [[x], [x * 2]]
        return x * 2 if same else x

    return f


class Layer:
    def __init__(self, x):
        self.x, self.n = x, 0
        self.parts = [x * 2, {"a": x}]

    def __repr__(self):
        return f"Layer({vars(self)})"


class Slots:
    __slots__ = ("x", "y")

    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"Slots({self.x})"


@dataclasses.dataclass
class Record:
    x: object
    n: int = 0


@program(misses=1)
def objects_appended(o):
    o.layers = []

    def f(x):
        layer = Layer(x)
        layer.n = 3
        o.layers.append(layer)
        layer.y = x + 1
        return layer.y * 2

    return f


@program(misses=1)
def objects_of_many_classes(o):
    def f(x):
        o.slots, o.record = Slots(x * 2), Record(x + 1, 5)
        o.ordered = collections.OrderedDict(b=x, a=o.record)
        o.lists = collections.defaultdict(list)
        o.lists["z"].append(x)
        o.module = torch.nn.ReLU()
        return o.module(x)

    return f


@program(misses=1)
def objects_that_share(o):
    def f(x):
        a, b = Layer(x), Layer(x * 2)
        b.x = a
        o.all, o.b = [a, b, a], b
        o.told = [o.all[0] is o.all[2], o.b is o.all[1], o.b.x is o.all[0]]
        return x * 2

    return f


@program(misses=1)
def error_through_a_context_manager(o):
    @contextlib.contextmanager
    def scope():
        try:
            yield
        finally:
            o.left = True

    def f(x):
        try:
            with scope():
                raise ValueError
        except ValueError:
            return x + 1

    return f


@program(misses=1)
def copies_of_state(o):
    o.state = {"a": torch.zeros(3), "b": [torch.ones(3)]}
    weight = torch.nn.Parameter(torch.ones(3))

    def f(x):
        o.copy = copy.deepcopy(o.state)
        o.copy["a"].add_(x)
        o.state = {"a": o.copy["a"] * 2, "b": [x * 3]}
        return o.copy["b"][0] + copy.deepcopy(weight).detach() * x

    return f


@program(misses=1)
def copies_of_arguments(o):
    def f(x):
        o.copy = copy.deepcopy({"x": x, "again": x})
        return o.copy["x"] + int(o.copy["x"] is o.copy["again"])

    return f


def run(make, wrap):
    o = types.SimpleNamespace()
    g, seen = wrap(make(o)), []
    for i in range(8):
        seen.append((repr(g(torch.arange(3.0) + i)), repr(o)))
    return g, seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    make, misses = PROGRAMS[name]
    (_, expected), (compiled, found) = run(make, lambda f: f), run(make, fulgurite.jit)
    assert expected == found
    if misses is not None:
        assert fulgurite.cache_misses(compiled) == misses


@pytest.mark.parametrize("name", [name for name, (_, misses) in PROGRAMS.items() if misses == 1])
def test_prologue_says_the_same(name):
    o = types.SimpleNamespace()
    compiled = fulgurite.jit(PROGRAMS[name][0](o))
    x = torch.ones(3)
    for _ in range(3):
        compiled(x)
        check = fulgurite.last_prologue_traces(compiled)[-1].python_callable()
        inputs = check(x)
        assert all(isinstance(t, torch.Tensor) for t in inputs)


def test_another_state_is_told():
    o = types.SimpleNamespace()
    compiled = fulgurite.jit(PROGRAMS["dict_of_tuples"][0](o))
    compiled(torch.ones(3))
    changes = [
        lambda: o.cache.pop(1),
        lambda: o.cache.update({1: (torch.zeros(3), (torch.ones(3),))}),
        lambda: o.cache.update({1: (torch.zeros(4), [torch.ones(3)])}),
        lambda: o.cache[0][1].append(torch.ones(3)),
    ]
    for change in changes:
        compiled(torch.ones(3))
        kept = copy.deepcopy(o.cache)
        check = fulgurite.last_prologue_traces(compiled)[-1].python_callable()
        change()
        with pytest.raises(AssertionError):
            check(torch.ones(3))
        o.cache = kept


def test_copies_of_state_that_begins_to_share_memory():
    o = types.SimpleNamespace(state={"a": torch.zeros(3), "b": torch.ones(3)})

    def f(x):
        made = copy.deepcopy(o.state)
        made["a"].add_(x)
        o.state = {"a": made["a"] * 1, "b": made["b"] * 1}
        return made["b"] * 2

    compiled = fulgurite.jit(f)
    for share in (False, False, True, False):
        if share:
            o.state["b"] = o.state["a"]
        kept = copy.deepcopy(o.state)
        expected = f(torch.ones(3))
        o.state = kept
        assert torch.equal(compiled(torch.ones(3)), expected)


SHARING = {
    "overlapping": lambda: (lambda t: (t[:3], t[1:]))(torch.arange(5.0)),
    "apart": lambda: (torch.ones(3), torch.zeros(3)),
    "transposed": lambda: (lambda t: (t, t.t()))(torch.arange(6.0).view(2, 3)),
    "one": lambda: (torch.ones(3),) * 2,
}


@pytest.mark.parametrize("name", SHARING)
def test_copies_share_memory_as_what_is_copied(name):
    def f(a, b):
        copies = copy.deepcopy([a, b, {"again": a}])
        copies[0].add_(1)
        return [*copies[:2], copies[2]["again"], a * 1]

    compiled = fulgurite.jit(f)
    for _ in range(2):
        expected, found = f(*SHARING[name]()), compiled(*SHARING[name]())
        assert all(map(torch.equal, expected, found)) and found[0] is found[2]


class Node:
    def __init__(self, x):
        self.x, self.me = x, self


class Finalized:
    def __del__(self):
        pass


def cyclic_list(x):
    made = [x]
    made.append(made)
    return made


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Node, "contains itself"),
        (cyclic_list, "contains itself"),
        (lambda x: lambda: x, "cannot be made again"),
        (lambda x: Finalized(), "a class with a __del__"),
    ],
)
def test_refused(make, why):
    o = types.SimpleNamespace()

    def f(x):
        o.kept = make(x)
        return x * 2

    with pytest.raises(Unsupported, match=why):
        fulgurite.jit(f)(torch.ones(2))
