"""Lists, dicts and the like among the arguments that a program changes or gives back."""

import collections
import dataclasses

import pytest
import torch

import fulgurite


@dataclasses.dataclass
class Config:
    k: int
    items: list


def appends(x, given):
    given.append(x * 2)
    return x + len(given)


def appends_constant(x, given):
    given.append(7)
    return x * 2


def replaces(x, given):
    given[0] = given[0] + x
    return given[0] * 2


def clears(x, given):
    kept = given.pop()
    given.clear()
    given.extend([x, kept])
    return kept * 2


def sorts(x, given):
    given.sort()
    given.reverse()
    return x * given[0]


def gives_back(x, given):
    given.append(x)
    return given


def gives_back_inside(x, given):
    return {"a": [given, given], "x": x + 1}


def sets_key(x, given):
    given["y"] = x * 2
    given["n"] = len(given)
    given.pop("gone", None)
    return given["x"] + given["y"]


def moves_key(x, given):
    given["x"] = given.pop("x")
    return x * 2


def returns_dict(x, given):
    given.update(z=x)
    return given


def nested(x, given):
    given["list"].append(x + 1)
    given["list"][0]["deep"] = x
    return x * len(given["list"])


def stores_one_in_another(x, given):
    given["copy"] = given["list"]
    given["list"].append(x)
    return x + len(given["copy"])


class Table(dict):
    pass


class Row(list):
    pass


class Slotted(list):
    __slots__ = ("extra", "more")


class Pair(collections.namedtuple("Pair", "a b")):
    pass


def with_extra(make):
    """Such a container with attributes beside its items."""

    def made(x):
        container = make(x)
        container.extra, container.more = x + 5, [x - 1, len(x)]
        return container

    return made


def uses_extra(x, given):
    return x * given.extra + given.more[0] * given.more[1]


def changes_extra(x, given):
    given.more.append(x * given.extra)
    given.extra = given.extra + 1
    given.new = len(given.more)
    return given.extra * given.new


def sets_attribute(x, given):
    given.k += 1
    given.items.append(x * given.k)
    given.new = 5
    return x * given.k


def pushes(x, given):
    given.appendleft(x)
    given.rotate(1)
    return given[0] * 2


def empties_and_fails(x, given):
    given.append(x)
    raise ValueError("after the change")


CASES = [
    (appends, lambda x: [x]),
    (appends, lambda x: []),
    (appends_constant, lambda x: [1, 2]),
    (appends_constant, lambda x: [x]),
    (replaces, lambda x: [x, x + 1]),
    (clears, lambda x: [1, "a", x + 3]),
    (sorts, lambda x: [3, 5, 4]),
    (gives_back, lambda x: [x + 1]),
    (gives_back, lambda x: []),
    (gives_back_inside, lambda x: [1]),
    (gives_back_inside, lambda x: [x]),
    (sets_key, lambda x: {"x": x, "gone": 1}),
    (moves_key, lambda x: {"x": 1, "y": 2}),
    (returns_dict, lambda x: {"a": 1}),
    (returns_dict, lambda x: collections.OrderedDict(a=x)),
    (nested, lambda x: {"list": [{}, x]}),
    (stores_one_in_another, lambda x: {"list": [x]}),
    (sets_attribute, lambda x: Config(1, [x])),
    (sets_attribute, lambda x: Config(1, [])),
    (pushes, lambda x: collections.deque([x + 1])),
    *((f, with_extra(make)) for f in (uses_extra, changes_extra, gives_back_inside) for make in (
        lambda x: Table(a=x),
        lambda x: Table(a=1),
        lambda x: Row([x]),
        lambda x: Row(),
        lambda x: collections.OrderedDict(a=x),
        lambda x: Config(1, [x]),
    )),
    (uses_extra, with_extra(lambda x: Slotted([x]))),
]  # fmt: skip


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if dataclasses.is_dataclass(a):
        return same(vars(a), vars(b))
    if not same_attributes(a, b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple, collections.deque)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return a == b


def same_attributes(a, b):
    kept = getattr(a, "__dict__", None)
    return not kept or same(kept, vars(b))


def where(given, result):
    """Where in a result the argument itself is."""
    if result is given:
        return "here"
    if isinstance(result, (dict, list)):
        parts = result.values() if isinstance(result, dict) else result
        return [where(given, part) for part in parts]
    return None


@pytest.mark.parametrize("f, make", CASES)
def test_as_eager(f, make):
    compiled = fulgurite.jit(f)
    for number in range(4):
        x = torch.arange(3.0) + number
        mine, eagers = make(x), make(x)
        result, expected = compiled(x, mine), f(x, eagers)
        assert same(result, expected) and same(mine, eagers)
        assert where(mine, result) == where(eagers, expected)
    assert fulgurite.cache_misses(compiled) == 1


@pytest.mark.parametrize("make", [Table, Row, lambda: Config(1, [])])
def test_attributes_are_compared(make):
    compiled = fulgurite.jit(lambda x, given: x * getattr(given, "scale", 9))
    for scale in (1, 2, None, 1):
        given = make()
        if scale is not None:
            given.scale = scale
        assert compiled(torch.ones(2), given).tolist() == [float(scale or 9)] * 2
    assert fulgurite.cache_misses(compiled) == 3


def test_default_factories_are_compared():
    compiled = fulgurite.jit(lambda x, given: x + given["new"])
    for start in (1, 2):
        given = collections.defaultdict({1: lambda: 1, 2: lambda: 2}[start])
        assert compiled(torch.ones(2), given).tolist() == [1.0 + start] * 2
        assert given["new"] == start


def test_an_item_is_no_attribute():
    compiled = fulgurite.jit(lambda x, given: x * (2 if hasattr(given, "k") else 3))
    with_attribute = Table()
    with_attribute.k = 1
    assert compiled(torch.ones(1), Table(k=1)).item() == 3
    assert compiled(torch.ones(1), with_attribute).item() == 2


def test_attributes_of_a_tuple_are_told_apart():
    compiled = fulgurite.jit(lambda x, given: x * getattr(given, "extra", 1) + given.a)
    for extra in (None, 3, 5, None):
        given = Pair(torch.ones(2), 1)
        if extra is not None:
            given.extra = extra
        assert compiled(torch.ones(2), given).tolist() == [1.0 + (extra or 1)] * 2
    assert fulgurite.cache_misses(compiled) == 3


def test_a_module_that_is_a_dataclass_is_itself():
    @dataclasses.dataclass(eq=False)
    class Scale(torch.nn.Module):
        k: int

        def __post_init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(2))

    given = Scale(3)
    compiled = fulgurite.jit(lambda x, given: (x * given.weight * given.k, given))
    for _ in range(2):
        result, same_one = compiled(torch.ones(2), given)
        assert same_one is given and result.tolist() == [3.0, 3.0]
        result.sum().backward()
    assert given.weight.grad.tolist() == [6.0, 6.0]


def test_keyword_and_several():
    def f(x, *lists, table):
        lists[1].append(table["k"])
        table["k"] = lists[0]
        return x * 2

    compiled = fulgurite.jit(f)
    for number in range(3):
        x = torch.ones(2) * number
        a, b, table = [x], [], {"k": number * 0}
        compiled(x, a, b, table=table)
        assert b == [0] and table["k"] is a


def test_one_list_twice_is_not_two_lists():
    def f(x, a, b):
        a.append(x)
        return x * len(b)

    compiled = fulgurite.jit(f)
    for twice in (True, False, True, False):
        a, b = [], []
        expected = f(torch.ones(2), a, a if twice else b)
        c, d = [], []
        assert torch.equal(compiled(torch.ones(2), c, c if twice else d), expected)
        assert (len(c), len(d)) == (len(a), len(b))


def test_an_argument_that_is_kept():
    holder = []

    def f(x, given):
        holder.append(given)
        return x * 2

    compiled = fulgurite.jit(f)
    for _ in range(2):
        given = [1]
        compiled(torch.ones(2), given)
        assert holder[-1] is given


def test_an_error_leaves_what_eager_leaves():
    given = []
    with pytest.raises(ValueError, match="after the change"):
        fulgurite.jit(empties_and_fails)(torch.ones(2), given)
    assert len(given) == 1


def test_a_list_on_the_way_to_a_model():
    """The usual accumulation of hidden states in a list that the caller gives."""
    layers = [torch.nn.Linear(3, 3) for _ in range(3)]

    def f(x, hidden):
        for layer in layers:
            x = layer(x)
            hidden.append(x)
        return x

    compiled = fulgurite.jit(f)
    with torch.no_grad():
        for _ in range(2):
            mine, eagers = [], []
            x = torch.rand(2, 3)
            assert torch.equal(compiled(x, mine), f(x, eagers)) and same(mine, eagers)
            assert len(mine) == 3


@pytest.mark.parametrize(
    "make",
    [
        lambda: slice(0, 2),
        lambda: slice(None, -1, 2),
        lambda: range(1, 3),
        lambda: torch.device("cpu"),
    ],
)
def test_compared_by_value(make):
    compiled = fulgurite.jit(
        lambda x, given: (
            x[given] * 2 if isinstance(given, slice) else x.to(x.device) + len(str(given))
        )
    )
    x = torch.arange(4.0)
    for _ in range(3):
        compiled(x, make())
    assert fulgurite.cache_misses(compiled) == 1
    assert torch.equal(compiled(x, slice(1, 2)), x[1:2] * 2)


def test_bounds_that_are_tensors():
    def f(x, given):
        return x[given] * 2

    compiled = fulgurite.jit(f, fallback="eager")
    for stop in (2, 3):
        given = slice(torch.tensor(0), torch.tensor(stop))
        assert torch.equal(compiled(torch.arange(4.0), given), f(torch.arange(4.0), given))


NESTED = [
    lambda t: ((t, t * 2), (t + 1, t)),
    lambda t: ([(t, t * 2)], (t + 1, [t, (t,)])),
    lambda t: {"layers": ((t, (t, t)),), "n": (1, (2, "a"))},
]


def tensors_in(given):
    if isinstance(given, torch.Tensor):
        return [given]
    if isinstance(given, dict):
        given = list(given.values())
    return (
        [t for item in given for t in tensors_in(item)] if isinstance(given, list | tuple) else []
    )


@pytest.mark.parametrize("make", NESTED)
def test_tuples_in_tuples(make):
    """As the keys and values that a model returns for its next step."""
    compiled = fulgurite.jit(lambda given: sum(tensors_in(given)))
    for i in range(3):
        given = make(torch.full((2,), float(i)))
        assert torch.equal(compiled(given), sum(tensors_in(given)))
    assert fulgurite.cache_misses(compiled) == 1
