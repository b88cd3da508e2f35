"""What a record keeps alive, and how it gets on with other threads and with debuggers."""

import contextvars
import gc
import sys
import threading
import traceback
import tracemalloc
import weakref

import pytest
import state_program as s
import torch

from fulgurite import _C


class Owner(torch.nn.Module):
    """A module with a cycle through itself, and dicts and lists on the way to what it reads."""

    def __init__(self):
        super().__init__()
        self.net = s.Net()
        self.table = {"rates": [1.0, 2.0], "owner": self}
        self.call = self.scaled

    def scaled(self, x):
        return x * self.table["rates"][0]

    def forward(self, x):
        return self.call(self.net(x)) + len(self.table)


def test_a_record_keeps_no_model_alive():
    owner = Owner()
    record = _C.record_state(owner, (s.X,), {"owner": owner})
    assert record.impure == [] and record.check()
    record.forget()
    gone = [weakref.ref(owner), weakref.ref(owner.net), weakref.ref(owner.net.lin.weight)]
    del owner
    gc.collect()
    assert [reference() for reference in gone] == [None, None, None]
    assert not record.check()
    assert record.expired and record.explain() == "owner is gone"


def test_a_record_keeps_no_model_alive_that_is_found_in_a_global():
    s.model = s.Net()
    program = lambda: s.model(s.X)  # noqa: E731
    record = _C.record_state(program, (), {"program": program})
    gone = weakref.ref(s.model)
    assert record.check()
    record.forget()
    del s.model
    gc.collect()
    assert gone() is None
    assert not record.check() and record.expired


def test_a_record_of_an_error_keeps_no_model_alive():
    owner = Owner()

    def program(owner):
        owner(s.X)
        owner.table["new"] = 1
        raise ValueError

    record = _C.record_state(program, (owner,), {"owner": owner})
    record.undo()
    gone = weakref.ref(owner)
    del record, owner
    gc.collect()
    assert gone() is None


def test_another_object_at_the_same_place_does_not_pass():
    """Freed and made again, a tuple or a dict may get the address of the old one."""
    holder = s.Plain()
    for value in [lambda: (s.LIST, 1), lambda: {"k": 1}, lambda: [1, 2], lambda: s.Config(3)]:
        holder.value = value()
        record = _C.record_state(lambda: repr(holder.value), (), {})
        assert record.check()
        for _ in range(20):
            kind = type(holder.value)
            holder.value = None
            if kind is tuple:
                holder.value = (s.LIST, 2)
            elif kind is dict:
                holder.value = {"k": 2}
            elif kind is list:
                holder.value = [1, 3]
            else:
                holder.value = s.Config(4)
            assert not record.check()


def test_functions_made_again_at_the_same_address():
    holder = s.Plain()
    holder.f = lambda: 1
    record = _C.record_state(lambda: holder.f())
    for number in range(50):
        holder.f = None
        holder.f = eval(f"lambda: {number + 2}")
        assert not record.check()


def test_closures_made_again_at_the_same_address():
    holder = s.Plain()
    holder.f, _ = s.make(3)
    record = _C.record_state(lambda: holder.f())
    for number in range(50):
        holder.f = None
        holder.f, _ = s.make(4 + number)
        assert not record.check()


def test_no_growth():
    def program():
        made = s.Base()
        made.items.append(s.net(s.X))
        return [v for v in s.generate()], s.define_class(), s.cached_by(1), made

    def run(count):
        for _ in range(count):
            record = _C.record_state(program, (), {"net": s.net})
            assert record.check() and record.error is None
            record.undo()

    run(30)
    gc.collect()
    objects = len(gc.get_objects())
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run(1000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(gc.get_objects()) - objects < 100
    assert grown < 100_000


def test_references_are_balanced():
    objects = [s.LIST, s.TABLE, s.net, s.net.lin.weight, s.Base, s.inc, s.OBJECT, s.TABLE["lr"]]

    def program():
        s.net(s.X)
        s.LIST.append(1)
        s.TABLE["lr"] = 5
        s.OBJECT.x += s.inc(s.Base.k)

    def counts():
        return [sys.getrefcount(thing) for thing in objects]

    def run():
        record = _C.record_state(program)
        record.undo()

    run()
    before = counts()
    for _ in range(50):
        run()
    assert counts() == before


def test_code_made_at_run_time_is_freed():
    def program():
        scope = {}
        exec("def made():\n  return 1\nresult = made()", scope)
        return weakref.ref(scope["made"].__code__)

    record = _C.record_state(program)
    code = record.result
    del record
    gc.collect()
    assert code() is None


def test_two_threads_record_at_once():
    barrier = threading.Barrier(2)
    records = {}

    def program(name):
        barrier.wait(10)
        for _ in range(300):
            value = s.NUMBER if name == "a" else s.OBJECT.x
        barrier.wait(10)
        return value

    def run(name):
        records[name] = _C.record_state(lambda: program(name))

    threads = [threading.Thread(target=run, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    places = {name: {place for _, place, *_ in record.guards} for name, record in records.items()}
    assert any("NUMBER" in place for place in places["a"])
    assert not any("NUMBER" in place for place in places["b"])
    assert any(place.endswith("OBJECT.x") for place in places["b"])
    assert not any(place.endswith("OBJECT.x") for place in places["a"])


def test_one_recording_per_thread():
    def program():
        with pytest.raises(Exception, match="recorded already"):
            _C.record_state(lambda: 1)
        return s.NUMBER

    record = _C.record_state(program)
    assert record.error is None and record.complete
    assert sys.gettrace() is None


class Debugger:
    def __init__(self):
        self.lines = []

    def __call__(self, frame, event, argument):
        if frame.f_code.co_filename in (__file__, s.__file__):
            self.lines.append((event, frame.f_code.co_name, frame.f_lineno))
        return self


def debugged():
    x = s.NUMBER
    return list(s.generate()) + [s.recursive(2), x]


@pytest.fixture
def debugger():
    old = sys.gettrace()
    yield Debugger()
    sys.settrace(old)


def test_a_debugger_sees_the_same(debugger):
    sys.settrace(debugger)
    debugged()
    sys.settrace(None)
    plain, debugger.lines = debugger.lines, []
    sys.settrace(debugger)
    record = _C.record_state(debugged)
    kept = sys.gettrace() is debugger
    sys.settrace(None)
    own = ("test_a_debugger_sees_the_same",)
    assert [line for line in debugger.lines if line[1] not in own] == [
        line for line in plain if line[1] not in own
    ]
    assert kept and record.complete
    assert any(place == "NUMBER" or place.endswith(".NUMBER") for _, place, *_ in record.guards)


def test_the_program_sees_the_debugger(debugger):
    sys.settrace(debugger)
    record = _C.record_state(lambda: sys.gettrace())
    sys.settrace(None)
    assert record.result is debugger


def boom():
    return s.TABLE["not there"]


def formatted():
    try:
        boom()
    except KeyError:
        return traceback.format_exc()


def test_tracebacks_are_unchanged():
    assert _C.record_state(formatted).result == formatted()


def test_recursion_limit_is_unchanged():
    def deep(n):
        return deep(n + 1)

    def depth():
        try:
            deep(0)
        except RecursionError as error:
            return sum(1 for _ in traceback.walk_tb(error.__traceback__))

    # One frame is that of the call by the recorder.
    assert abs(_C.record_state(depth).result - depth()) <= 1


def test_hooks_that_run_in_the_autograd_engine_are_recorded():
    weight = torch.ones(2, requires_grad=True)

    def program():
        made = weight * 2
        made.register_hook(lambda grad: grad * s.NUMBER)
        made.sum().backward()

    record = _C.record_state(program)
    assert any(place.endswith("NUMBER") for _, place, *_ in record.guards)


def test_objects_that_only_the_run_knew_are_not_guarded():
    def program():
        thing = s.Base()
        thing.items.append(1)
        pairs = list(zip([1], [2]))
        return len(pairs), sorted(thing.d), str(thing.items)

    record = _C.record_state(program)
    assert record.effects == []
    gc.collect()
    assert record.check(), record.explain()


class Step:
    def __init__(self, value):
        self.value = value


def test_nothing_is_stored_in_an_object_that_is_gone():
    def program():
        for step in map(Step, [1]):  # made by C code: nobody knows how the program comes to it
            {}.get(step)
        return 1

    record = _C.record_state(program)
    assert [refusal for _, _, refusal, _ in record.effects] == [
        "nobody knows how the program comes to the object that it changes"
    ]


def test_a_guard_on_a_context_variable_that_is_gone_is_described():
    holder = s.Base()
    holder.variable = contextvars.ContextVar("variable", default=1)
    record = _C.record_state(lambda: holder.variable.get())
    record.forget()
    holder.variable = None
    gc.collect()
    others = [(i, i) for i in range(1000)]  # where it was
    assert any(kind == "context variable" for kind, *_ in record.guards)
    del others


class Finalized:
    """Garbage that only the cyclic collector finds, with a finalizer that writes."""

    def __init__(self):
        self.me = self

    def __del__(self):
        s.STRINGS.append("gone")


def test_finalizers_of_garbage_are_not_of_the_program():
    def program(x):
        for _ in range(2000):
            [[] for _ in range(50)]
        return x + 1

    gc.collect()
    before = list(s.STRINGS)
    Finalized()
    record = _C.record_state(program, (s.X,), {"program": program})
    assert s.STRINGS == before
    assert (record.impure, record.effects) == ([], []) and record.check()
    assert gc.isenabled()
    gc.collect()
    assert s.STRINGS == [*before, "gone"]
    s.STRINGS[:] = before


@pytest.mark.parametrize("enabled", [False, True])
def test_the_collector_is_left_as_it_was(enabled):
    def program(x):
        raise ValueError("of the program")

    gc.enable() if enabled else gc.disable()
    try:
        _C.record_state(program, (s.X,), {"program": program})
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
