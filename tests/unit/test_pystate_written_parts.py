"""What follows from the parts of a container after some of them were written: where the guards of a
record hold, the program does and gives what the record says, whatever the container held before."""

import collections
import types

import pytest

from fulgurite import _C

DICTS = [{}, {"a": 1}, {"a": 5}, {"b": 2}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"c": 3, "b": 2}]
SETS = [set(), {"a"}, {"b"}, {"a", "b"}, {"c", "b"}]
LISTS = [[], [1], [2], [1, 2], [2, 1], [1, 1, 2]]


def stores(d):
    d["a"] = 1


def length_after_store(d):
    d["a"] = 1
    return len(d)


def length_before_and_after(d):
    before = len(d)
    d["a"] = 1
    return before, len(d)


def length_between_stores(d):
    d["a"] = 1
    n = len(d)
    d["b"] = 2
    return n, len(d)


def truth_after_store(d):
    d["a"] = 1
    return 2 if d else 3


def store_and_remove(d):
    d["a"] = 1
    n = len(d)
    del d["a"]
    return n, len(d)


def pop_and_length(d):
    d.pop("a", None)
    return len(d), bool(d)


def remove(d):
    try:
        del d["a"]
    except KeyError:
        return "absent"
    return "removed"


def membership(d):
    d["a"] = 1
    return "a" in d, "b" in d


def order(d):
    d["a"] = 7
    return list(d), list(d.keys()), next(iter(d))


def items(d):
    d["a"] = 7
    return list(d.items()), list(d.values()), list(reversed(d))


def removed_and_put_back(d):
    d.pop("a", None)
    d["a"] = 3
    return list(d.items())


def last(d):
    d["a"] = 7
    return d.popitem()


def equality(d):
    d["a"] = 1
    return d == {"a": 1}


def cleared(d):
    d.clear()
    return len(d), bool(d), list(d)


def cleared_and_filled(d):
    d.clear()
    d["z"] = 1
    return len(d), list(d.items())


def filled_and_cleared(d):
    d["z"] = 1
    n = len(d)
    d.clear()
    return n


def updated(d):
    d.update(a=1, b=2)
    return len(d)


def set_default(d):
    d.setdefault("a", 4)
    return len(d), d["a"]


def copied(d):
    d["a"] = 1
    return dict(d), {**d}, sorted(d)


DICT_PROGRAMS = [
    stores, length_after_store, length_before_and_after, length_between_stores, truth_after_store,
    store_and_remove, pop_and_length, remove, membership, order, items, removed_and_put_back, last,
    equality, cleared, cleared_and_filled, filled_and_cleared, updated, set_default, copied,
]  # fmt: skip


def added(s):
    s.add("a")
    return len(s), bool(s), "a" in s, "b" in s


def added_and_discarded(s):
    s.add("a")
    n = len(s)
    s.discard("a")
    return n, len(s), sorted(s)


def emptied(s):
    s.clear()
    s.add("q")
    return len(s), s == {"q"}


def joined(s):
    s |= {"a"}
    return len(s), sorted(s)


def appended(x):
    x.append(9)
    return len(x), bool(x), list(x)


def first_replaced(x):
    if len(x) > 1:
        x[0] = 9
    return len(x), list(x)


def popped(x):
    x.append(9)
    n = len(x)
    x.pop()
    return n, len(x)


def emptied_sequence(x):
    x.clear()
    x.append(4)
    return len(x), list(x)


LIST_PROGRAMS = [appended, first_replaced, popped, emptied_sequence]


def attributes(o):
    o.a = 1
    return len(vars(o)), list(o.__dict__), bool(vars(o))


def attribute_removed(o):
    o.a = 1
    n = len(vars(o))
    del o.a
    return n, len(vars(o))


def attribute_that_may_be_absent(o):
    try:
        del o.a
    except AttributeError:
        return "absent"
    return "removed"


def as_dict(d, value):
    d.clear()
    d.update(value)


def as_list(x, value):
    x.clear()
    x.extend(value)


def as_namespace(o, value):
    vars(o).clear()
    vars(o).update(value)


def picture(thing):
    if isinstance(thing, types.SimpleNamespace):
        thing = vars(thing)
    if isinstance(thing, set):
        return sorted(thing)
    return list(thing.items()) if isinstance(thing, dict) else list(thing)


CASES = [
    *((program, dict, as_dict, DICTS) for program in DICT_PROGRAMS),
    *((program, collections.OrderedDict, as_dict, DICTS) for program in DICT_PROGRAMS),
    *((p, set, as_dict, SETS) for p in [added, added_and_discarded, emptied, joined]),
    *((program, list, as_list, LISTS) for program in LIST_PROGRAMS),
    *((program, collections.deque, as_list, LISTS) for program in LIST_PROGRAMS),
    *(
        (program, types.SimpleNamespace, as_namespace, DICTS)
        for program in [attributes, attribute_removed, attribute_that_may_be_absent]
    ),
]


@pytest.mark.parametrize(
    ("program", "kind", "fill", "states"), CASES, ids=lambda v: getattr(v, "__name__", "")
)
def test_guards_hold_only_where_the_result_is_the_same(program, kind, fill, states):
    for first in states:
        thing = kind()
        fill(thing, first)
        record = _C.record_state(program, (thing,), {"thing": thing})
        assert record.error is None and record.impure == [], (record.error, record.impure)
        assert record.undo() and picture(thing) == picture(first)
        assert record.check(), (first, record.explain())
        for other in states:
            eager = kind()
            fill(eager, other)
            expected = program(eager)
            fill(thing, other)
            if not record.check():
                assert other is not first
                continue
            assert record.result == expected, (first, other)
            record.replay()
            assert picture(thing) == picture(eager), (first, other)


def test_values_that_are_replaced_are_not_guarded():
    table = {"a": [1], "b": 2}

    def program():
        table["a"] = 3
        return list(table)

    record = _C.record_state(program, (), {"table": table})
    record.undo()
    table["a"] = [5]
    assert record.check(), record.explain()
    table["b"] = 3
    assert not record.check()


def test_contents_that_are_cleared_are_not_guarded():
    table = {"a": [1]}

    def program():
        table.clear()
        table["b"] = 3

    record = _C.record_state(program, (), {"table": table})
    record.undo()
    table["z"] = [5]
    assert record.check(), record.explain()
    record.replay()
    assert table == {"b": 3}


def test_a_write_that_changes_nothing_is_guarded_or_repeated():
    holder = types.SimpleNamespace(x=1)

    def program():
        holder.x = 1

    record = _C.record_state(program, (), {"holder": holder})
    holder.x = 5
    assert not record.check()
    holder.x = 1
    assert record.check(), record.explain()
