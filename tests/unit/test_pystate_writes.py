"""Writes: what is an effect, and that undo and replay put the right state in place."""

import collections
import contextvars
import copy

import numpy as np
import pytest
import state_program as s
import torch

from fulgurite import _C


class World:
    """State of every sort, and a picture of it that tells any two states apart."""

    def __init__(self):
        self.number = 1
        self.gone = 2
        self.list = [1, 2, 3]
        self.dict = {"a": 1, "b": 2, "c": 3}
        self.set = {1, 2}
        self.ordered = collections.OrderedDict(a=1, b=2)
        self.defaults = collections.defaultdict(list, a=[1])
        self.deque = collections.deque([1, 2], maxlen=5)
        self.bytes = bytearray(b"abc")
        self.array = np.arange(4.0)
        self.slotted = s.Slotted()
        self.slotted.v = 1
        self.other = s.Plain()
        self.other.x = 1
        self.module = s.Net()
        self.function = lambda x=1: x
        self.cls = type("Made", (), {"k": 1, "gone": 2})
        self.inner, self.set_inner = s.make(3)
        self.variable = contextvars.ContextVar("world")
        self.variable.set(1)
        self.unset = contextvars.ContextVar("unset")

    def picture(self):
        scalars = {k: v for k, v in vars(self).items() if isinstance(v, int)}
        return copy.deepcopy(
            [
                list(vars(self)),
                scalars,
                self.list,
                list(self.dict.items()),
                sorted(self.set),
                list(self.ordered.items()),
                list(self.defaults.items()),
                list(self.deque),
                self.deque.maxlen,
                bytes(self.bytes),
                self.array.tolist(),
                getattr(self.slotted, "v", "absent"),
                list(vars(self.other).items()),
                list(vars(self.module)),
                {k: v for k, v in vars(self.module).items() if isinstance(v, int)},
                list(self.module._buffers),
                list(self.module._modules),
                self.function.__defaults__,
                self.function.__name__,
                {k: v for k, v in vars(self.cls).items() if not k.startswith("__")},
                self.inner(),
                self.variable.get(),
                self.unset.get("absent"),
                type(self.other).__name__,
            ]
        )


def counts(w):
    w.number += 1


def removes(w):
    del w.gone


def removes_and_puts_back(w):
    value = w.gone
    del w.gone
    w.gone = value


def sets_in_dict(w):
    w.dict["a"] = 9
    w.dict["new"] = 1
    del w.dict["b"]


def updates_dict(w):
    w.dict.update(a=5, z=6)
    w.dict.update({"y": 7})
    w.dict |= {"x": 8}


def pops_dict(w):
    w.dict.pop("a")
    w.dict.setdefault("q", 3)
    w.dict.setdefault("b", 3)


def clears_dict(w):
    w.dict["a"] = 4
    w.dict.clear()
    w.dict["a"] = 1


def reorders_dict(w):
    w.dict["a"] = w.dict.pop("a")


def pops_item(w):
    w.dict.popitem()


def appends(w):
    w.list.append(4)
    w.list.extend([5, 6])
    w.list += [7]


def appends_and_reads(w):
    w.list.append(len(w.list))
    w.list.append(w.list[-1])


def sorts(w):
    w.list.sort(reverse=True)
    w.list.insert(0, 9)
    del w.list[1]


def sets_items(w):
    w.list[0] = 7
    w.list[-1] = 8
    w.list[1:2] = [4, 4]


def multiplies(w):
    w.list *= 2


def pops_list(w):
    w.list.pop()


def changes_set(w):
    w.set.add(5)
    w.set.discard(1)
    w.set |= {7}


def clears_set(w):
    w.set.clear()


def orders(w):
    w.ordered.move_to_end("a")
    w.ordered["z"] = 5
    w.ordered.pop("b")


def fills(w):
    w.defaults["n"]
    w.defaults["a"]


def rotates(w):
    w.deque.append(3)
    w.deque.rotate(1)


def writes_bytes(w):
    w.bytes[0] = 120
    w.bytes.extend(b"z")


def writes_array(w):
    w.array[0] = 7
    w.array[1:][1] = 8
    w.array += 1


def sets_slot(w):
    w.slotted.v = 3


def removes_slot(w):
    del w.slotted.v


def sets_attributes(w):
    setattr(w.other, "x", 2)  # noqa: B010
    w.other.y = 3
    w.other.__dict__["z"] = 4
    vars(w.other).update(u=5)


def removes_attribute(w):
    delattr(w.other, "x")


def changes_class(w):
    w.other.__class__ = s.Base


def sets_module(w):
    w.module.scale = 7
    w.module.extra = 1
    w.module.eval()


def registers(w):
    w.module.register_buffer("none", None)


def changes_function(w):
    w.function.__defaults__ = (2,)
    w.function.__name__ = "other"


def changes_type(w):
    w.cls.k = 3
    w.cls.new = 4
    del w.cls.gone


def sets_cell(w):
    w.set_inner(8)


def sets_variables(w):
    w.variable.set(5)
    w.unset.set(6)


def sets_everything(w):
    counts(w)
    sets_in_dict(w)
    appends_and_reads(w)
    changes_set(w)
    orders(w)
    sets_attributes(w)
    changes_type(w)
    sets_cell(w)


WRITES = [
    counts, removes, removes_and_puts_back, sets_in_dict, updates_dict, pops_dict, clears_dict,
    reorders_dict, pops_item, appends, appends_and_reads, sorts, sets_items, multiplies, pops_list,
    changes_set, clears_set, orders, fills, rotates, writes_bytes, writes_array, sets_slot,
    removes_slot, sets_attributes, removes_attribute, changes_class, sets_module, registers,
    changes_function, changes_type, sets_cell, sets_variables, sets_everything,
]  # fmt: skip
# Effects that are not repeated: the memory of arrays, what a dict's default factory makes.
REFUSED = {writes_array}


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_undo_restores_the_state(write):
    world = World()
    before = world.picture()
    record = _C.record_state(write, (world,), {"w": world})
    assert record.error is None and record.impure == []
    assert world.picture() != before and record.effects
    assert record.undo()
    assert world.picture() == before
    assert record.check(), record.explain()


@pytest.mark.parametrize(
    "write", [w for w in WRITES if w not in REFUSED], ids=lambda write: write.__name__
)
def test_replay_repeats_the_effects(write):
    world = World()
    record = _C.record_state(write, (world,), {"w": world})
    assert all(kind == "exact" for kind, *_ in record.effects), record.effects
    after = world.picture()
    record.undo()
    assert record.check(), record.explain()
    record.replay()
    assert world.picture() == after


@pytest.mark.parametrize("write", REFUSED, ids=lambda write: write.__name__)
def test_refused_effects_say_why(write):
    world = World()
    record = _C.record_state(write, (world,), {"w": world})
    (effect,) = record.effects
    assert effect[0] == "refuse" and effect[2]


def set_and_restore(w):
    old, w.number = w.number, 5
    read = w.number
    w.number = old
    return read


def fresh_only(w):
    made = [w.number]
    made.append(2)
    made += [3]
    table = dict(a=1)  # noqa: C408
    table["b"] = made
    thing = s.Base()
    thing.bump()
    thing.new = made
    numbers = collections.defaultdict(list)
    numbers["x"].append(1)
    return thing


def context_manager(w):
    return s.read_flag()


def set_then_read(w):
    w.number = 5
    return w.number + 1


NO_EFFECT = [set_and_restore, fresh_only, context_manager]


@pytest.mark.parametrize("program", NO_EFFECT, ids=lambda program: program.__name__)
def test_no_effect(program):
    world = World()
    before = world.picture()
    record = _C.record_state(program, (world,), {"w": world})
    assert record.effects == [] and record.impure == []
    assert world.picture() == before
    assert record.check(), record.explain()


def test_what_was_written_first_is_not_guarded():
    world = World()
    record = _C.record_state(set_then_read, (world,), {"w": world})
    world.number = 77
    assert record.check(), record.explain()


def test_a_read_before_a_write_is_guarded_with_its_first_value():
    world = World()
    record = _C.record_state(appends_and_reads, (world,), {"w": world})
    assert not record.check() and record.explain() == "len(w.list) was 3, is now 5"
    world.list[:] = [1, 2, 3]
    assert record.check(), record.explain()


def test_a_counter_is_guarded_by_its_type():
    world = World()
    record = _C.record_state(counts, (world,), {"w": world})
    assert [what for _, what, *_ in record.effects] == ["sets w.number to w.number + 1"]
    assert record.check(), record.explain()
    record.replay([])
    assert world.number == 3
    world.number = 1.5
    assert not record.check()


def test_append_to_a_list_that_is_not_read_works_with_any_list():
    world = World()
    record = _C.record_state(lambda w: w.list.append(4), (world,), {"w": world})
    assert record.check(), record.explain()
    world.list[:] = [0]
    assert record.check()
    record.replay()
    assert world.list == [0, 4]


def test_store_into_a_dict_that_is_not_read_works_with_any_dict():
    world = World()
    record = _C.record_state(lambda w: w.dict.__setitem__("k", 4), (world,), {"w": world})
    world.dict.clear()
    assert record.check()
    record.replay()
    assert world.dict == {"k": 4}


def test_effects_say_what_and_where():
    world = World()
    record = _C.record_state(counts, (world,), {"w": world})
    ((kind, what, refusal, line),) = record.effects
    assert (kind, what, refusal) == ("exact", "sets w.number to w.number + 1", "")
    assert line == counts.__code__.co_firstlineno + 1


def test_new_containers_are_made_anew_each_time():
    world = World()

    def program(w):
        shared = [1, {"a": (2, {3})}]
        w.other.x = shared
        w.other.y = {"again": shared}

    record = _C.record_state(program, (world,), {"w": world})
    assert [kind for kind, *_ in record.effects] == ["exact", "exact"]
    first = world.other.x
    first.append("changed later")
    record.replay()
    assert world.other.x == [1, {"a": (2, {3})}]
    assert world.other.x is not first
    assert world.other.y["again"] is world.other.x


def test_old_objects_are_stored_as_they_are():
    world = World()

    def program(w):
        w.other.x = w.module
        w.other.y = w.list

    record = _C.record_state(program, (world,), {"w": world})
    record.undo()
    record.replay()
    assert world.other.x is world.module and world.other.y is world.list


def test_tensors_are_given_at_replay():
    world = World()

    def program(w):
        made = torch.ones(2) + 1
        w.other.x = made
        w.list.append({"t": made})
        w.other.y = (made * 2, 3)

    record = _C.record_state(program, (world,), {"w": world})
    assert [kind for kind, *_ in record.effects] == ["tensor", "tensor", "tensor"]
    assert len(record.tensors) == 2 and record.tensors[0] is world.other.x
    record.undo()
    assert record.check(), record.explain()
    one, two = torch.zeros(2), torch.full((2,), 5.0)
    record.replay([one, two])
    assert world.other.x is one and world.other.y == (two, 3) and world.other.y[0] is two
    assert world.list[-1]["t"] is one


@pytest.mark.parametrize(
    "store", [lambda w: setattr(w.other, "x", s.Base()), lambda w: setattr(w.other, "x", lambda: 1)]
)
def test_objects_that_cannot_be_made_again_are_refused(store):
    world = World()
    record = _C.record_state(store, (world,), {"w": world})
    ((kind, what, refusal, _),) = record.effects
    assert (
        kind == "refuse" and what.startswith("sets w.other.x") and "cannot be made again" in refusal
    )


def test_gradients():
    world = World()
    weight = world.module.lin.weight

    def program(w):
        w.module.lin.weight.grad = None

    weight.grad = torch.ones(2, 2)
    old = weight.grad
    record = _C.record_state(program, (world,), {"w": world})
    assert [what for _, what, *_ in record.effects] == ["sets w.module.lin.weight.grad to None"]
    assert weight.grad is None
    record.undo()
    assert weight.grad is old
    record.replay()
    assert weight.grad is None


def test_arguments_are_written_but_not_guarded():
    def program(table):
        table["y"] = table["x"] + table["inner"]["z"]

    table = {"x": 1, "inner": {"z": 2}}
    record = _C.record_state(program, (table,), {"table": table}, arguments={"table"})
    assert [what for _, what, *_ in record.effects] == ["sets table['y'] to 3"]
    table["x"] = 7
    table["inner"]["z"] = 8
    assert record.check(), record.explain()


def test_undo_after_an_error():
    world = World()
    before = world.picture()

    def program(w):
        counts(w)
        appends(w)
        raise ValueError("in the middle")

    record = _C.record_state(program, (world,), {"w": world})
    assert isinstance(record.error, ValueError)
    record.undo()
    assert world.picture() == before
