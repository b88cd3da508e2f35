"""Objects that a program makes and gives back: each call gives one of its own, with its tensors."""

import collections
import dataclasses
import functools
import types

import pytest
import torch

import fulgurite
from fulgurite import Unsupported


@dataclasses.dataclass
class Plain:
    y: object
    n: int = 0


@dataclasses.dataclass
class WithTotal:
    y: object

    def __post_init__(self):
        self.total = self.y.sum()


@dataclasses.dataclass(slots=True, frozen=True)
class Slotted:
    y: object


class Table(dict):
    pass


class Row(list):
    pass


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class Items(tuple):
    pass


class Slots:
    __slots__ = ("y", "z")


class Mixed(Slots):
    pass


class Holder:
    def __init__(self, y):
        self.y = y

    def double(self, z=1):
        return self.y * 2 + z


class Oops(ValueError):
    pass


def with_attributes(make):
    def f(x):
        made = make(x)
        made.extra, made.more = x + 1, [x - 1, 3]
        return made

    return f


def slots(kind):
    def f(x):
        made = kind()
        made.y = x * 2
        return made

    return f


def counter(x):
    y, calls = x * 2, [0]

    def add(z, by=x + 1, *, times=2):
        calls[0] += 1
        return z + y * calls[0] + by * times

    add.tensor = x * 5
    return add


def calls_itself(x):
    def power(n):
        return x if n == 0 else x * power(n - 1)

    return power


def without_tensors(x):
    calls, total = [], 0

    def count():
        nonlocal total
        calls.append(1)
        total += 1
        return len(calls) + total

    return x * 2, count


def two_closures(x):
    y = x * 2

    def get():
        return y

    def put(value):
        nonlocal y
        y = value

    return get, put


def error(x):
    made = Oops("a", x * 2)
    made.extra = x + 1
    return made


def parts(value):
    """All that is to be the same, tensors and numbers in lists."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    found = [type(value).__name__]
    if isinstance(value, dict):
        found += [(str(key), parts(child)) for key, child in value.items()]
    elif isinstance(value, (tuple, list, collections.deque)):
        found += map(parts, value)
    elif isinstance(value, (set, frozenset)):
        found += sorted(map(str, map(parts, value)))
    elif isinstance(value, BaseException):
        found.append(parts(value.args))
    if isinstance(value, Slots):
        found.append([parts(getattr(value, name, None)) for name in ("y", "z")])
    if isinstance(value, Slotted):
        found.append(parts(value.y))
    if not isinstance(value, (types.FunctionType, types.MethodType)):
        found += [(name, parts(child)) for name, child in getattr(value, "__dict__", {}).items()]
    return found


def call(function):
    return [parts(function(torch.ones(3))), parts(function(torch.ones(3)))]


CASES = {
    "dataclass": (lambda x: Plain(x * 2, 5), parts),
    "dataclass made after": (lambda x: WithTotal(x * 2), parts),
    "dataclass within": (lambda x: [WithTotal(x * 2), {"k": Plain(x)}], parts),
    "dataclass, slots": (lambda x: Slotted(x * 2), parts),
    "dataclass, attributes": (with_attributes(lambda x: Plain(x * 2)), parts),
    "dict, attributes": (with_attributes(lambda x: Table(a=x * 2)), parts),
    "list, attributes": (with_attributes(lambda x: Row([x * 2])), parts),
    "named tuple, attributes": (with_attributes(lambda x: Pair(x * 2, 1)), parts),
    "tuple, attributes": (with_attributes(lambda x: Items([x * 2, 1])), parts),
    "ordered dict, attributes": (
        with_attributes(lambda x: collections.OrderedDict(b=x, a=x * 2)),
        parts,
    ),
    "default dict": (
        lambda x: collections.defaultdict(lambda: x * 3, a=x),
        lambda made: [parts(made), parts(made["new"])],
    ),
    "deque": (lambda x: collections.deque([x, 1], maxlen=3), lambda made: [made.maxlen, *made][0]),
    "slots": (slots(Slots), parts),
    "slots and more": (with_attributes(slots(Mixed)), parts),
    "namespace": (lambda x: types.SimpleNamespace(loss=x.sum(), of=types.SimpleNamespace(y=x)), parts),
    "partial": (lambda x: functools.partial(torch.add, x * 2, alpha=3), call),
    "closure": (lambda x: lambda z: z + x * 2, call),
    "closure in a dict": (lambda x: {"f": lambda z: z + x}, lambda made: call(made["f"])),
    "closure of a closure": (lambda x: (lambda y: lambda z: z + y)(x * 2), call),
    "closure with state": (counter, lambda made: [call(made), made.tensor.tolist(), made.__name__]),
    "closure that calls itself": (calls_itself, lambda made: made(3).tolist()),
    "closure without tensors": (
        without_tensors,
        lambda made: [made[0].tolist(), made[1](), made[1]()],
    ),
    "closures that share": (
        two_closures,
        lambda made: [made[0]().tolist(), made[1](7), made[0]()],
    ),
    "bound method": (lambda x: Holder(x).double, lambda made: made(5).tolist()),
    "method of a tensor": (lambda x: (x * 2).add, call),
    "special method of a list": (lambda x: [x].__len__, lambda made: made()),
    "method of a list": (lambda x: [x * 2].copy, lambda made: parts(made())),
    "error": (error, parts),
    "set": (lambda x: {1, "a", (2, None)}, parts),
    "frozen set": (lambda x: frozenset({1, "a"}), parts),
    "set of tensors": (lambda x: {x * 2}, parts),
    "frozen set of tensors": (lambda x: frozenset({x * 2}), parts),
    "slice": (lambda x: slice(x.sum(), 2), lambda made: [made.start.tolist(), made.stop]),
    "number": (lambda x: Plain(types.SimpleNamespace(mean=x.mean().item())), parts),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_eager(name):
    f, look = CASES[name]
    compiled = fulgurite.jit(f)
    made = []
    for number in range(3):
        x = torch.arange(3.0) + number
        made.append(compiled(x))
        assert type(made[-1]) is type(f(x))
        assert look(made[-1]) == look(f(x))
    assert fulgurite.cache_misses(compiled) == 1
    assert made[1] is not made[2] or isinstance(made[1], frozenset)


def test_one_object_twice():
    def f(x):
        table = Table(a=x)
        table.twice = [table["a"], (made := Holder(x * 2))]
        return table, table, made

    compiled = fulgurite.jit(f)
    for _ in range(2):
        first, second, made = compiled(torch.ones(2))
        assert first is second and first.twice[1] is made and first.twice[0] is first["a"]


def test_what_was_there_before_is_given_back_itself():
    table, items = {}, Row([1])

    def f(x):
        table["y"], items.last = x * 2, x
        return table, items, lambda: table

    compiled = fulgurite.jit(f)
    for number in range(2):
        first, second, closure = compiled(torch.ones(2) + number)
        assert first is table and second is items and closure() is table
        assert first["y"].tolist() == [2 + 2 * number] * 2
        assert items.last.tolist() == [1 + number] * 2


def test_variables_of_other_functions_stay_theirs():
    table, calls = [], 0

    def f(x):
        def add(value):
            nonlocal calls
            calls += 1
            table.append(value)
            return x + calls

        return add

    compiled = fulgurite.jit(f)
    for number in range(3):
        assert compiled(torch.ones(2) * number)(number).tolist() == [number + number + 1] * 2
    assert table == [0, 1, 2] and calls == 3


def contains_itself(x):
    made = [x]
    made.append(made)
    return made


def contains_itself_in_an_attribute(x):
    made = Table(a=x)
    made.parent = made
    return made


def call_each_other(x):
    def f(n):
        return x if n == 0 else g(n - 1)

    def g(n):
        return f(n)

    return f


def raised(x):
    try:
        raise ValueError(x * 2)
    except ValueError as caught:
        return caught


REFUSED = {
    "list in itself": (contains_itself, "returns a list that contains itself"),
    "attribute of itself": (contains_itself_in_an_attribute, "returns a Table that contains"),
    "closures in each other": (call_each_other, "that contains itself"),
    "class": (lambda x: type("Made", (), {"v": x * 2}), "returns a type that it made"),
    "object of such a class": (
        lambda x: type("Made", (), {"v": x * 2})(),
        "returns a Made that it",
    ),
    "method of such a class": (lambda x: type("M", (), {"v": lambda s: x})().v, "that it made"),
    "raised error": (raised, "returns a ValueError that it made"),
    "generator": (lambda x: (row * 2 for row in x), "returns a generator"),
    "key": (lambda x: {x * 2: 1}, "with a tensor in its keys"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    f, why = REFUSED[name]
    with pytest.raises(Unsupported, match=why):
        fulgurite.jit(f)(torch.ones(2))


def test_code_without_tensors_is_given_back():
    def f(x):
        def count(n):
            return n and 1 + count(n - 1)

        class Local:
            pass

        return x * 2, count, Local, torch.add, len

    compiled = fulgurite.jit(f)
    for _ in range(2):
        _, count, local, add, length = compiled(torch.ones(2))
        assert count(3) == 3 and add is torch.add and length is len
        assert local.__name__ == "Local"


KEPT_AND_RETURNED = {
    "itself": lambda x: (made := [x * 2], made),
    "a part of the result": lambda x: (made := [x * 2], {"a": made, "b": (made, x)}),
    "the result is a part": lambda x: ({"inner": (made := [x * 2, 3])}, made),
    "a tuple": lambda x: (made := (x * 2, [x]), made),
    "a dict": lambda x: (made := {"x": x * 2}, made),
    "twice": lambda x: ([made := [x], made], made),
}


def places_of(kept, result):
    """The containers in both, as the places where each is met for the first time."""
    seen = {}

    def walk(value):
        if isinstance(value, list | tuple | dict):
            first = seen.setdefault(id(value), len(seen))
            parts = value.values() if isinstance(value, dict) else value
            return [first, *map(walk, parts)]
        return value.tolist() if isinstance(value, torch.Tensor) else value

    return walk([kept, result])


@pytest.mark.parametrize("name", KEPT_AND_RETURNED)
def test_what_is_kept_and_returned_is_one_object(name):
    module = torch.nn.Module()

    def f(x):
        module.kept, result = KEPT_AND_RETURNED[name](x)
        return result

    compiled = fulgurite.jit(f)
    for i in range(3):
        x = torch.full((2,), float(i))
        expected = places_of(*KEPT_AND_RETURNED[name](x))
        result = compiled(x)
        assert places_of(module.kept, result) == expected
    epilogue = fulgurite.last_epilogue_traces(compiled)[-1].python_callable()
    zeros = [torch.zeros(2)] * len(fulgurite.last_traces(compiled)[-1].outputs)
    expected = places_of(*KEPT_AND_RETURNED[name](torch.zeros(2)))
    result = epilogue(*zeros)
    assert places_of(module.kept, result) == expected
