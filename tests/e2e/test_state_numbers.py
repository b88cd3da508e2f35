"""Counters, running sums and schedules in the state of a program: numbers that it only computes with
do not compile anew, and are left as eager leaves them."""

import types

import pytest
import torch

import fulgurite

PROGRAMS = {}


def program(misses, **change):
    """`make()` gives an object and a function of it and a tensor that is a whole number of ones.

    misses: how many entries ten calls make. change: attributes to set before the fourth call.
    """

    def add(make):
        PROGRAMS[make.__name__] = make, misses, change
        return make

    return add


def _holder(**values):
    return types.SimpleNamespace(**values)


@program(misses=1)
def counted():
    def f(o, x):
        o.n += 1
        return x * 2

    return _holder(n=0), f


@program(misses=1)
def written_out():
    def f(o, x):
        o.n = o.n + 1
        o.left = 100 - o.left
        o.index = (o.index + 1) % 4
        return x * 2

    return _holder(n=0, left=3, index=0), f


@program(misses=1)
def running_sums():
    def f(o, x):
        loss = (x * x).sum()
        o.total += loss.item()
        o.mean = 0.5 * o.mean + 0.25 * loss.item()
        o.losses.append(loss.item())
        o.last = {"loss": loss.item(), "double": 2 * loss.item()}
        return loss

    return _holder(total=0.0, mean=0.0, losses=[], last=None), f


@program(misses=1)
def in_other_places():
    n = 0
    counts, items = {"calls": 0}, [1, 2.5]

    def f(o, x):
        nonlocal n
        n += 1
        counts["calls"] += x.shape[0]
        items[0] += 3
        items[-1] *= 2
        o.seen = f.seen
        return x * 2

    f.seen = lambda: (n, counts, items)
    return _holder(seen=None), f


@program(misses=1)
def in_slots():
    class Slots:
        __slots__ = ("n",)

        def __init__(self):
            self.n = 0

    def f(o, x):
        o.n += 1
        return x * 2

    return Slots(), f


@program(misses=1)
def in_a_module():
    module = torch.nn.Module()
    module.n = 0

    def f(o, x):
        o.n += 1
        o.n += 1
        return x * 2

    return module, f


@program(misses=2)
def every_third_call():
    def f(o, x):
        o.n += 1
        return x * 3 if o.n % 3 == 0 else x

    return _holder(n=0), f


@program(misses=3)
def schedule():
    def f(o, x):
        o.n += 1
        if not o.n > 2:
            return x
        return x * 2 if 5 > o.n else x * 3

    return _holder(n=0), f


@program(misses=1)
def until_it_is_full():
    def f(o, x):
        while o.n % 4 != 3:
            o.n += 1
        o.n = (o.n + 1) % 4
        return x if o.n else x * 2

    return _holder(n=0), f


@program(misses=2, a=9, b=2)
def two_numbers_that_meet():
    """Each is compared with the other: one of them has to be known."""

    def f(o, x):
        o.n += 1
        return x * 2 if o.a < o.b else x

    o = _holder(n=0, a=1, b=10)
    return o, f


@program(misses=10)
def doubled():
    def f(o, x):
        o.n = o.n + o.n
        return x * 2

    return _holder(n=1), f


@program(misses=10)
def used_elsewhere():
    def f(o, x):
        o.n += 1
        return x * o.n

    return _holder(n=0), f


@program(misses=10)
def seen_with_all_attributes():
    def f(o, x):
        o.n += 1
        return x * dict(vars(o))["n"]

    return _holder(n=0), f


@program(misses=10)
def seen_before():
    def f(o, x):
        before = dict(vars(o))
        o.n += 1
        return x * before["n"]

    return _holder(n=0), f


@program(misses=10)
def set_by_name():
    def f(o, x):
        o.n += 1
        setattr(o, "n", getattr(o, "n") + 1)  # noqa: B009, B010
        return x * 2

    return _holder(n=0), f


@program(misses=1)
def overwritten():
    def f(o, x):
        o.n += 1
        o.n = 5
        o.n += 2
        return x * o.n

    return _holder(n=0), f


@program(misses=1)
def left_by_an_error():
    def f(o, x):
        try:
            o.n += int("none")
        except ValueError:
            o.errors += 1
        return x * 2

    return _holder(n=0, errors=0), f


@program(misses=2, n=0.5)
def other_type():
    def f(o, x):
        o.n += 1
        return x * 2

    return _holder(n=0), f


class Watching:
    def __init__(self):
        vars(self).update(n=0, big=0)

    def __setattr__(self, name, value):
        if value > 3:
            vars(self)["big"] = value
        vars(self)[name] = value


@program(misses=10)
def setter_that_looks():
    def f(o, x):
        o.n += 1
        return x * 2

    return Watching(), f


class Doubling:
    def __init__(self):
        self._n = 0

    n = property(lambda self: self._n, lambda self, n: setattr(self, "_n", 2 * n))


@program(misses=10)
def through_a_property():
    def f(o, x):
        o.n += 1
        return x * 2

    return Doubling(), f


@program(misses=10)
def updated_while_it_is_updated():
    def inner(o):
        o.n += 10
        return 1

    def f(o, x):
        o.n += inner(o)
        return x * 2

    return _holder(n=0), f


@program(misses=10)
def updated_while_it_is_asked():
    def inner(o):
        o.n += 1
        return 2

    def f(o, x):
        return x * 2 if o.n < inner(o) else x

    return _holder(n=0), f


class SetOnly:
    def __set__(self, owner, n):
        vars(owner).update(n=n, big=n > 2)


class WithSetOnly:
    n = SetOnly()

    def __init__(self):
        vars(self).update(n=0, big=False)


@program(misses=10)
def setter_without_a_getter():
    def f(o, x):
        o.n += 1
        return x + 1 if o.big else x

    return WithSetOnly(), f


@program(misses=10)
def owner_replaced_meanwhile():
    owner, other = _holder(n=0), _holder(n=0)

    def replace():
        nonlocal owner, other
        owner, other = other, owner
        return 0

    def f(o, x):
        owner.n = owner.n + replace()
        owner.n = owner.n + 1
        o.told = (owner.n, other.n)
        return x

    return _holder(told=None), f


@program(misses=None)
def load_jumped_over():
    def f(o, x):
        for c in (0, 1, 0):
            if (c and o.n) > 1 - c:
                x = x + 1
        o.n += 1
        return x

    return _holder(n=0), f


@program(misses=None)
def item_from_the_end():
    items = [1, 2.5]

    def f(o, x):
        items[-1] = items[0] + 1
        items.append(len(items))
        items[-1] += 1
        o.told = list(items)
        return x * 2

    return _holder(told=None), f


@program(misses=None)
def two_indexes_of_one_item():
    items = [1, 2]

    def f(o, x):
        items[1] += 1
        items[-1] *= 2
        items[1] += 1
        o.told = list(items)
        items[-1] += 2
        return x * 2 if items[1] > 40 else x

    return _holder(told=None), f


def picture(o, f):
    names = getattr(type(o), "__slots__", None) or vars(o)
    values = {name: getattr(o, name) for name in names if not name.startswith("_") or name == "_n"}
    return repr(values if "seen" not in values else f.seen())


def run(make, wrap, change):
    o, f = make()
    g, outcomes = wrap(lambda x: f(o, x)), []
    for i in range(10):
        if i == 3:
            for name, value in change.items():
                setattr(o, name, value)
        outcomes.append((g(torch.ones(4) * (i % 3)).tolist(), picture(o, f)))
    return g, outcomes


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    make, misses, change = PROGRAMS[name]
    _, eager = run(make, lambda f: f, change)
    compiled, ours = run(make, fulgurite.jit, change)
    assert ours == eager
    if misses is not None:
        assert fulgurite.cache_misses(compiled) == misses


def test_many_questions_about_one_number():
    o = _holder(n=0)

    def f(x):
        for _ in range(40):
            if o.n > 100:
                x = x + 1
            o.n += 1
        return x

    compiled = fulgurite.jit(f)
    assert [compiled(torch.zeros(())).item() for _ in range(4)] == [0, 0, 19, 40]


def test_prologue_and_epilogue():
    o, f = PROGRAMS["every_third_call"][0]()
    compiled = fulgurite.jit(lambda x: f(o, x))
    x = torch.ones(2)
    compiled(x)
    prologue = fulgurite.last_prologue_traces(compiled)[-1]
    epilogue = fulgurite.last_epilogue_traces(compiled)[-1]
    assert "not (((key(f_o, 'n') + 1) % 3) == 0)" in prologue.text().replace("o_dict", "f_o")
    check, repeat = prologue.python_callable(), epilogue.python_callable()
    check(x)
    repeat(x)
    assert o.n == 2
    with pytest.raises(AssertionError):
        check(x)
    o.n = 3.0
    with pytest.raises(AssertionError):
        check(x)


def test_reason():
    o, f = PROGRAMS["every_third_call"][0]()
    compiled = fulgurite.jit(lambda x: f(o, x))
    for _ in range(3):
        compiled(torch.ones(2))
    assert "((o.n + 1) % 3) == 0 was False, is now True" in fulgurite.last_recompile_reason(
        compiled
    )
