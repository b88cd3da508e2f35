"""Programs that keep state in names, classes, the process and the world."""

import collections
import contextlib
import ctypes
import dataclasses
import datetime
import itertools
import os
import random
import sys
import threading
import time
import types
import uuid
import warnings

import torch

from tests.e2e.hostile_registry import nothing, program

GLOBAL = 1


@program
def global_rebound_in_nested_function():
    globals()["GLOBAL"] = 1

    def f(x):
        def inner():
            global GLOBAL
            GLOBAL += 1
            return GLOBAL

        return x * inner() * GLOBAL

    return f, nothing, lambda: GLOBAL


@program
def nonlocal_two_levels():
    k = 1

    def outer(x):
        def inner():
            nonlocal k
            k += 1
            return k

        return x * inner()

    return outer, nothing, lambda: k


@program
def class_attribute_changed():
    class Base:
        k = 2

    class Thing(Base):
        pass

    thing = Thing()

    def change(i):
        if i == 0:
            Base.k = 5
        elif i == 1:
            Thing.k = 7
        else:
            thing.k = 9

    return (lambda x: x * thing.k), change, nothing


@program
def bases_changed():
    class A:
        k = 2

    class B:
        k = 5

    class Root:
        pass

    class Thing(A, Root):
        pass

    thing = Thing()
    return (
        lambda x: x * thing.k,
        lambda i: setattr(Thing, "__bases__", (B, Root) if i == 1 else (A, Root)),
        nothing,
    )


@program
def class_of_object_changed():
    class A:
        def k(self):
            return 2

    class B:
        def k(self):
            return 5

    thing = A()
    return (lambda x: x * thing.k()), lambda i: setattr(thing, "__class__", (A, B)[i % 2]), nothing


@program
def functional_patched():
    original = torch.nn.functional.relu

    def change(i):
        torch.nn.functional.relu = (lambda x: original(x) + i) if i == 1 else original

    return (lambda x: torch.nn.functional.relu(x - 2)), change, nothing


@program
def thread_local():
    local = threading.local()
    local.k = 2

    def f(x):
        local.n = getattr(local, "n", 0) + 1
        return x * local.k

    return f, lambda i: setattr(local, "k", i), lambda: local.n


@program
def lock():
    mutex = threading.Lock()
    counter = [0]

    def f(x):
        with mutex:
            counter[0] += 1
        return x * counter[0]

    return f, nothing, lambda: (counter[0], mutex.locked())


@program
def environment():
    os.environ["FULGURITE_TEST"] = "1"

    def change(i):
        os.environ["FULGURITE_TEST"] = str(i)

    return (lambda x: x * int(os.environ["FULGURITE_TEST"])), change, nothing


@program
def environment_by_getenv():
    os.environ.pop("FULGURITE_TEST2", None)

    def change(i):
        os.environ["FULGURITE_TEST2"] = str(i)

    return (lambda x: x * int(os.getenv("FULGURITE_TEST2", "4"))), change, nothing


@program
def environment_written():
    os.environ["FULGURITE_TEST3"] = "1"

    def f(x):
        os.environ["FULGURITE_TEST3"] = str(int(os.environ["FULGURITE_TEST3"]) + 1)
        return x * 2

    return f, nothing, lambda: os.environ["FULGURITE_TEST3"]


@program
def clock():
    return (lambda x: x * 0 + time.monotonic_ns() % 1000003), nothing, nothing


@program
def date():
    return (lambda x: x * datetime.datetime.now().year), nothing, nothing


@program
def unique_id():
    return (lambda x: x * 0 + uuid.uuid4().int % 1000003), nothing, nothing


@program
def identity_of_objects():
    holder = [object()]
    known = {id(holder[0]): 2}
    return (
        lambda x: x * known.get(id(holder[0]), 5),
        lambda i: holder.__setitem__(0, object()) if i == 1 else None,
        nothing,
    )


@program
def hash_of_strings():
    holder = ["a"]
    return (lambda x: x * (hash(holder[0]) % 97)), lambda i: holder.__setitem__(0, "b" * i), nothing


@program
def flags_and_limits():
    before = sys.getrecursionlimit()

    def change(i):
        sys.setrecursionlimit(before + i)

    return (
        lambda x: x * (sys.flags.optimize + 1) * (sys.getrecursionlimit() - before + 1),
        change,
        lambda: sys.setrecursionlimit(before),
    )


@program
def warnings_filters():
    def f(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("hidden", stacklevel=1)
        return x * len(warnings.filters)

    return f, nothing, lambda: len(warnings.filters)


@program
def attribute_deleted():
    holder = types.SimpleNamespace(k=2, gone=1)

    def f(x):
        if hasattr(holder, "gone"):
            del holder.gone
            return x * holder.k
        return x

    return f, lambda i: setattr(holder, "gone", 1) if i == 1 else None, lambda: vars(holder).copy()


@program
def computed_names():
    holder = types.SimpleNamespace(k0=1, k1=2, k2=3, which=0)

    def f(x):
        holder.which += 1
        return x * getattr(holder, "k" + str(holder.which % 3))

    return f, lambda i: setattr(holder, f"k{i}", 10 + i), lambda: holder.which


@program
def code_replaced():
    def scale():
        return 2

    def other():
        return 5

    def change(i):
        scale.__code__, other.__code__ = other.__code__, scale.__code__

    return (lambda x: x * scale()), change, nothing


@program
def defaults_replaced():
    def scale(k=2, *, z=1):
        return k * z

    def change(i):
        scale.__defaults__ = (i + 3,)
        scale.__kwdefaults__["z"] = i + 1

    return (lambda x: x * scale()), change, nothing


@program
def closure_cell_changed():
    def make():
        k = 2
        return (lambda: k), (lambda: 0)

    scale, _ = make()

    def change(i):
        scale.__closure__[0].cell_contents = i

    return (lambda x: x * scale()), change, nothing


@program
def parameter_replaced():
    module = torch.nn.Linear(3, 3, bias=False)
    torch.nn.init.constant_(module.weight, 0.5)

    def change(i):
        module.weight = torch.nn.Parameter(torch.full((3 - i % 2, 3), float(i)))

    return (lambda x: module(x).detach()), change, nothing


@program
def hooks_added():
    module = torch.nn.Linear(3, 3, bias=False)
    torch.nn.init.constant_(module.weight, 0.5)
    handles = []

    def change(i):
        if i == 0:
            handles.append(module.register_forward_hook(lambda m, a, out: out * 2))
        elif i == 1:
            handles.append(module.register_forward_pre_hook(lambda m, a: (a[0] + 1,)))
        elif handles:
            handles.pop().remove()

    return (lambda x: module(x).detach()), change, nothing


@program
def file_read():
    path = f"/tmp/fulgurite_{os.getpid()}"
    with open(path, "w") as file:
        file.write("2")

    def f(x):
        with open(path) as file:
            return x * int(file.read())

    def change(i):
        with open(path, "w") as file:
            file.write(str(i))

    return f, change, nothing


@program
def random_generator_object():
    generator = random.Random(0)
    return (lambda x: x * generator.random()), nothing, nothing


@program
def itertools_kept():
    numbers = itertools.cycle([1, 2, 3])
    return (lambda x: x * next(numbers)), nothing, nothing


@program
def context_manager():
    depth = [0]

    @contextlib.contextmanager
    def deeper():
        depth[0] += 1
        try:
            yield depth[0]
        finally:
            depth[0] -= 1
            depth.append(0)

    def f(x):
        with deeper() as n:
            return x * n * len(depth)

    return f, nothing, lambda: list(depth)


@program
def recursion_with_memory():
    memory = {0: 0, 1: 1}

    def fib(n):
        if n not in memory:
            memory[n] = fib(n - 1) + fib(n - 2)
        return memory[n]

    return (
        (lambda x: x * fib(len(memory) + 1)),
        lambda i: memory.pop(i + 2, None),
        lambda: dict(memory),
    )


@program
def comparison_operators():
    class Version:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

        def __lt__(self, other):
            return self.n < other.n

        __hash__ = None

    versions = [Version(2), Version(1)]

    def f(x):
        return x * min(versions).n * (5 if Version(3) in versions else 1)

    return f, lambda i: versions.append(Version(3 - i)), nothing


@program
def format_hook():
    class Text:
        k = 1

        def __format__(self, spec):
            return spec * self.k

    return (lambda x: x * len(f"{Text():ab}")), lambda i: setattr(Text, "k", i), nothing


@program
def array_of_bytes():
    data = bytearray(b"\x01\x02")

    def f(x):
        data.append(len(data))
        return x * sum(data)

    return f, lambda i: data.extend(b"\x05"), lambda: bytes(data)


class Scale(ctypes.Structure):
    _fields_ = [("factor", ctypes.c_double)]


@program
def structure_in_c():
    scale = Scale(2.0)
    return (lambda x: x * scale.factor), lambda i: setattr(scale, "factor", i + 3.0), nothing


@program
def deque_rotated():
    values = collections.deque([1, 2, 3], maxlen=4)

    def f(x):
        values.rotate(1)
        values.append(values[0])
        return x * values[-2]

    return f, lambda i: values.appendleft(i), lambda: list(values)


@program
def counter():
    tally = collections.Counter()

    def f(x):
        tally.update(["a"])
        tally["b"] += 2
        return x * tally.most_common(1)[0][1]

    return f, lambda i: tally.subtract(["a"]), lambda: dict(tally)


@program
def vars_and_dir():
    holder = types.SimpleNamespace(a=1)

    def f(x):
        vars(holder)["n"] = len(vars(holder))
        return x * len([name for name in dir(holder) if not name.startswith("_")])

    return f, lambda i: setattr(holder, f"z{i}", 1), lambda: vars(holder).copy()


@program
def sorted_by_key():
    weights = {"a": 3, "b": 1}
    return (
        lambda x: x * weights[sorted(weights, key=weights.get)[0]],
        lambda i: weights.update({"ab"[i % 2]: -i}),
        nothing,
    )


@program
def date_replaced():
    holder = types.SimpleNamespace(when=datetime.date(2020, 1, 1))

    def f(x):
        holder.when = holder.when + datetime.timedelta(days=1)
        return x * holder.when.day

    return f, nothing, lambda: holder.when


@program
def exec_made():
    scope = {"k": 2}
    exec("def scale():\n  global k\n  k += 1\n  return k", scope)
    return (lambda x: x * scope["scale"]()), lambda i: scope.update(k=i), lambda: scope["k"]


@program
def match_statement():
    @dataclasses.dataclass
    class Point:
        x: int
        y: int

    holder = [Point(0, 2)]

    def f(x):
        match holder[0]:
            case Point(x=0, y=k):
                return x * k
            case Point():
                return x - 1

    return f, lambda i: setattr(holder[0], "x", i % 2), nothing
