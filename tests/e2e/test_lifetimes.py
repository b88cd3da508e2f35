"""Threads, recursion, and what is kept alive."""

import gc
import threading
import weakref

import pytest
import torch
from torch import nn

import fulgurite
from bench import memory
from fulgurite import _C
from fulgurite._module import function_of
from tests.e2e.python_process import run_code


def run_in_threads(count, work):
    """Runs work(number) in that many threads at once; raises what one of them raised."""
    failures, barrier = [], threading.Barrier(count)

    def guarded(number):
        barrier.wait()
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001  told below
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)
        self.scale = 2.0
        self.seen = []

    def forward(self, x):
        return torch.tanh(self.fc(x)) * self.scale


def test_threads_compile_and_call_the_same_module():
    net = Net()
    for _ in range(3):
        compiled = fulgurite.jit(net)

        def work(number):
            for i in range(10):
                x = torch.full((1 + (number + i) % 4, 8), float(number))
                with torch.set_grad_enabled(i % 2 == 0):
                    torch.testing.assert_close(compiled(x), net(x))

        run_in_threads(4, work)
        # One entry for each shape and grad mode: what one thread compiles serves the others.
        assert fulgurite.compile_stats(compiled).entries == 8


def test_threads_with_effects_on_the_module():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.last = None

        def forward(self, x):
            self.last = {"n": x.shape[0]}
            return x * 2

    # Where an entry of another thread writes in the middle of a capture, the capture is refused.
    compiled = fulgurite.jit(Counter(), fallback="eager")

    def work(number):
        for _ in range(20):
            x = torch.ones(number + 1)
            assert torch.equal(compiled(x), x * 2)

    run_in_threads(4, work)
    assert compiled.last["n"] in (1, 2, 3, 4)


def test_one_thread_calls_while_another_compiles():
    net = Net()
    compiled = fulgurite.jit(net)
    x = torch.ones(2, 8)
    expected = compiled(x)
    stop = threading.Event()

    def call(number):
        if number == 0:
            for n in range(3, 20):
                compiled(torch.ones(n, 8))
            stop.set()
            return
        while not stop.is_set():
            torch.testing.assert_close(compiled(x), expected, rtol=0, atol=0)

    run_in_threads(2, call)


def test_threads_drop_entries_that_are_in_use():
    compiled = fulgurite.jit(lambda x: torch.tanh(x @ x).sum(), entries=1)

    def work(number):
        for i in range(10):
            x = torch.eye(40 + (number + i) % 3)
            torch.testing.assert_close(compiled(x), torch.tanh(x @ x).sum())

    run_in_threads(4, work)
    assert fulgurite.compile_stats(compiled).entries == 1


def test_recursion():
    @fulgurite.jit
    def power(x, n):
        return x if n == 0 else power(x, n - 1) * x

    assert power(torch.full((2,), 2.0), 5)[0] == 64
    assert power(torch.full((2,), 2.0), 5)[0] == 64

    @fulgurite.jit(fallback="eager")
    def eager_power(x, n):
        return x if x.sum() < 0 or n == 0 else eager_power(x, n - 1) * x

    assert eager_power(torch.full((2,), 2.0), 5)[0] == 64


def dropped(make):
    """make() returns (what is dropped, objects that have to go with it)."""
    kept, objects = make()
    references = [weakref.ref(o) for o in objects]
    del kept, objects
    gc.collect()
    return [reference() for reference in references]


def called(compiled, *args):
    for _ in range(2):
        compiled(*args)
    fulgurite.last_prologue_traces(compiled)[0].text()
    return compiled


@pytest.mark.parametrize("grad", [False, True])
def test_a_module_and_its_weights_are_freed(grad):
    def make():
        net = Net()
        compiled = fulgurite.jit(net)
        with torch.set_grad_enabled(grad):
            called(compiled, torch.ones(2, 8))
        return compiled, [net, net.fc, net.fc.weight, compiled, function_of(compiled)]

    assert dropped(make) == [None] * 5


def test_a_module_is_freed_when_only_the_compiled_function_knew_it():
    def make():
        net = Net()
        compiled = called(fulgurite.jit(lambda x: net(x)), torch.ones(2, 8))
        return compiled, [net, net.fc.weight, compiled]

    assert dropped(make) == [None] * 3


def test_functions_that_refer_to_themselves_are_freed():
    def make():
        class Holder:
            pass

        holder = Holder()
        holder.compiled = fulgurite.jit(lambda x: x * 2 if holder.compiled else x)
        called(holder.compiled, torch.ones(2))
        returned = fulgurite.jit(lambda x: (x * 2, holder))
        called(returned, torch.ones(2))
        holder.returned = returned
        return holder, [holder, holder.compiled, returned]

    assert dropped(make) == [None] * 3


def test_effects_and_transforms_keep_nothing():
    def make():
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.calls, self.last = 0, None

            def forward(self, x):
                self.calls += 1
                self.last = [x * 2, self]
                return x

        def mine(trace):
            return trace

        net = Counter()
        compiled = fulgurite.jit(net, transforms=[mine], cache="no caching")
        called(compiled, torch.ones(2))
        return compiled, [net, mine, compiled]

    assert dropped(make) == [None] * 3


def test_arguments_are_not_kept():
    compiled = fulgurite.jit(lambda x, o: (x * 2, [x]))

    class Thing:
        pass

    thing, x = Thing(), torch.ones(3)
    called(compiled, x, thing)
    references = weakref.ref(thing), weakref.ref(x)
    del thing, x
    gc.collect()
    assert [r() for r in references] == [None, None]


def test_the_weights_of_an_argument_go_with_the_next_compilation():
    compiled = fulgurite.jit(lambda x, net: net(x))
    net = Net()
    called(compiled, torch.ones(2, 8), net)
    references = weakref.ref(net), weakref.ref(net.fc.weight)
    del net
    called(compiled, torch.ones(2, 8), Net())
    gc.collect()
    assert [r() for r in references] == [None, None]
    assert fulgurite.compile_stats(compiled).entries == 1


def test_the_class_of_a_module_is_freed():
    def make():
        class Local(nn.Module):
            def forward(self, x):
                return x * 2

        compiled = called(fulgurite.jit(Local()), torch.ones(2))
        return compiled, [Local, type(compiled)]

    assert dropped(make) == [None] * 2


def test_a_failed_capture_keeps_nothing():
    def make():
        net = Net()

        def program(x):
            y = net(x)
            return y if y.sum() > 0 else -y

        compiled = fulgurite.jit(program, fallback="eager")
        for _ in range(2):
            compiled(torch.ones(2, 8))
        return compiled, [net, net.fc.weight]

    assert dropped(make) == [None] * 2


def test_entries_are_bounded_and_the_oldest_goes_first():
    compiled = fulgurite.jit(lambda x: x * 2, entries=3)
    for n in (1, 2, 3, 1, 4):
        compiled(torch.ones(n))
    assert fulgurite.compile_stats(compiled).entries == 3
    misses = fulgurite.cache_misses(compiled)
    for n in (1, 3, 4):
        compiled(torch.ones(n))
    assert fulgurite.cache_misses(compiled) == misses
    compiled(torch.ones(2))
    assert fulgurite.cache_misses(compiled) == misses + 1


def test_an_entry_is_found_without_looking_at_the_others():
    compiled = fulgurite.jit(lambda x: x * 2, entries=200)
    for n in range(1, 150):
        compiled(torch.ones(n))
    function = function_of(compiled)
    for n in range(1, 150):
        assert (
            _C.entry_for(function, (torch.ones(n),), {})
            .record.signature["x"]
            .startswith(f"float32[{n}]")
        )
    assert _C.compared_entries(function) <= 2 * 149


@pytest.mark.parametrize("kind", ["calls", "new shapes", "new functions"])
def test_memory_does_not_grow(kind):
    net, x = Net(), torch.ones(2, 8)
    compiled = fulgurite.jit(net, entries=4)
    work = {
        "calls": lambda i: compiled(x),
        "new shapes": lambda i: compiled(torch.ones(1 + i, 8)),
        "new functions": lambda i: fulgurite.jit(net)(x),
    }[kind]
    rounds = 2000 if kind == "calls" else 100
    # A leak of one small object per round would be seen in the least of three tries.
    with torch.no_grad():
        least = min(memory.growth(work, rounds, warm_up=rounds) for _ in range(3))
    assert least < 200, f"{least} KiB for {rounds} {kind}"


def test_a_capture_that_is_given_up_leaves_no_function_mode():
    class Quiet(torch.overrides.TorchFunctionMode):
        def __enter__(self):
            super().__enter__()
            raise fulgurite.Unsupported("given up in the middle")

    def program(x):
        with Quiet():
            return x + 1

    with pytest.raises(fulgurite.Unsupported):
        fulgurite.jit(program)(torch.ones(1))
    assert not torch.overrides._get_current_function_mode_stack()


class Failure(Exception):
    pass


def test_an_exception_that_a_capture_kept_is_freed():
    def compiled_and_called():
        net = nn.Linear(4, 4)

        def program(x):
            try:
                raise Failure
            except Failure as error:
                error.note = 1
                kept = error  # a cycle: the exception holds this frame
            return x + net.weight.sum() if kept else x

        compiled = fulgurite.jit(program, fallback="eager")
        compiled(torch.ones(2))
        return weakref.ref(net), weakref.ref(compiled)

    references = compiled_and_called()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


OWNERS_THAT_ARE_GONE = """
import collections, torch, fulgurite

class Owner:
    def __init__(self):
        self.kept, self.count = collections.deque(maxlen=2), 0

    def __call__(self, x):
        self.kept.append(x.mean(0))
        self.count = (self.count + 1) % 3
        return x + self.kept[0] * self.count

class World: pass

world = World()
compiled = fulgurite.jit(lambda x: world.owner(x))
for epoch in range(3):
    world.owner = Owner()
    for rows in (2, 2, 3, 3, 2, 3):
        compiled(torch.ones(rows, 4))
world.owner = torch.nn.Tanh()
compiled(torch.zeros(2, 4))
print("done")
"""


def test_state_whose_owner_is_gone():
    """Freed memory is overwritten in this process, so that a look at it is noticed."""
    done = run_code(OWNERS_THAT_ARE_GONE, PYTHONMALLOC="debug")
    assert done.stdout == "done\n", done.stderr
