"""A small program with state of every sort, for the tests of the recorder."""

# ruff: noqa: E702, E731
import abc
import collections
import contextlib
import contextvars
import ctypes
import dataclasses
import enum
import functools
import sys
import threading
import types
import weakref

import numpy as np
import torch

NUMBER = 3
TABLE = {"lr": 0.1, "b": 2}
LIST = [1, 2, 3]
COUNT = 0
FLAG = False
SET = {1, 2}
NESTED = {"a": {"b": 1}, "lr": 1}
LISTS = [[1], [2]]
STRINGS = ["a"]
DEQUE = collections.deque([1])
DEFAULTS = collections.defaultdict(list)
ORDERED = collections.OrderedDict(a=1, b=2)
BYTES = bytearray(b"abc")
PAIR = (LIST, 5)


class Plain:
    pass


OBJECT = Plain()
OBJECT.x = 1
OBJECT.a = Plain()
OBJECT.a.b = {"c": 5}


class Base:
    k = 7

    def __init__(self):
        self.counter = 0
        self.items = [1]
        self.d = {"x": 1}
        self.m0 = 4

    def method(self):
        return self.k

    @property
    def prop(self):
        return self.m0 + 1

    @functools.cached_property
    def cached(self):
        return self.m0 + 2

    def bump(self):
        self.counter += 1


class Derived(Base):
    def method(self):
        return super().method() + 1


class Fallback:
    def __init__(self):
        self.store = {"z": 3}

    def __getattr__(self, name):
        return self.__dict__["store"][name]


class Intercepting:
    def __init__(self):
        self.v = 1

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


class Slotted:
    __slots__ = ("v",)


class Forwarding:
    def __init__(self):
        object.__setattr__(self, "kept", {})

    def __setattr__(self, name, value):
        self.kept[name] = value


@dataclasses.dataclass
class Config:
    h: int = 8


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Point(collections.namedtuple("Point", "x y")):
    pass


class Described:
    class Descriptor:
        def __get__(self, instance, owner):
            return instance.__dict__["_w"]

    d = Descriptor()


class Comparing:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return self.v == other

    def __hash__(self):
        return 3


class Callable:
    def __call__(self, x):
        return x + self.w


class Meta(type):
    mk = 2


class Static(metaclass=Meta):
    k = 2

    @staticmethod
    def f():
        return 1

    @classmethod
    def g(cls):
        return cls.k


class Counting(dict):
    def __missing__(self, key):
        return NUMBER


class Local(threading.local):
    pass


base, derived, fallback, slotted, config = Base(), Derived(), Fallback(), Slotted(), Config()
intercepting, forwarding, described, callable_object = (
    Intercepting(),
    Forwarding(),
    Described(),
    Callable(),
)
slotted.v = 1
described._w = 1
callable_object.w = 1
COLOUR = Colour.RED
POINT = Point(1, 2)
EQUALS = [Comparing(2), Comparing(3)]
COUNTING = Counting()
LOCAL = Local()
LOCAL.v = 1
VARIABLE = contextvars.ContextVar("variable")
VARIABLE.set(1)
UNSET = contextvars.ContextVar("unset")
REFERENCE = weakref.ref(OBJECT)
module = types.ModuleType("module")
module.q = 1
other_module = types.ModuleType("mymodule")
other_module.q = 3
sys.modules["mymodule"] = other_module


def inc(x, step=1):
    return x + step


def by_keyword(x, *, s=2):
    return x + s


PARTIAL = functools.partial(inc, step=5)
LAMBDAS = [lambda x: x + NUMBER]


def make(v):
    def inner():
        return v

    def set_inner(n):
        nonlocal v
        v = n

    return inner, set_inner


inner, set_inner = make(3)


@contextlib.contextmanager
def flagged():
    global FLAG
    old = FLAG
    FLAG = True
    try:
        yield
    finally:
        FLAG = old


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2
        self.lin = torch.nn.Linear(2, 2)
        self.lins = torch.nn.ModuleList([torch.nn.Linear(2, 2)])
        self.register_buffer("buffer", torch.ones(2))

    def forward(self, x):
        for lin in self.lins:
            x = lin(x)
        return self.lin(x) * self.scale + self.buffer


net, X = Net(), torch.ones(1, 2)
BUFFER = torch.tensor([2.0])
ARRAY = np.array([1.0, 2.0])
LARGE_ARRAY = np.zeros(100_000)
ITERATOR = iter([1, 2, 3])


def recursive(n):
    return 0 if n == 0 else recursive(n - 1) + NUMBER


def generate():
    for v in LIST:
        yield v + NUMBER


def key(v):
    return v * OBJECT.x


def decorate(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs)

    return wrapper


@decorate
def decorated():
    return NUMBER


def mutable_default(acc=[1]):  # noqa: B006
    return acc[-1]


@functools.lru_cache
def cached():
    return NUMBER


@functools.lru_cache(maxsize=None)
def cached_by(a, b=1):
    return a + b + NUMBER


@functools.lru_cache
def cached_tensor(n):
    return torch.ones(n)


@functools.singledispatch
def single(x):
    return NUMBER


def endless():
    yield from range(9)


GENERATOR = endless()
next(GENERATOR)
UNSTARTED = endless()
FILE = open(__file__)
LOCK = threading.Lock()
RLOCK = threading.RLock()
GET_PID = ctypes.CDLL(None).getpid


def delegate():
    yield from GENERATOR


def import_inside():
    import mymodule

    return mymodule.q


MANY = {f"v{i}": i for i in range(300)}
exec("def many():\n s = 0\n" + "".join(f" s += v{i}\n" for i in range(300)) + " return s", MANY)


def pass_keywords(**kw):
    kw["new"] = 1
    return kw["lr"]


def match_class():
    match config:
        case Config(h=v):
            return v


def match_mapping():
    match TABLE:
        case {"lr": v}:
            return v


def match_sequence():
    match LIST:
        case [a, *_]:
            return a


def absent_key():
    try:
        return TABLE["absent"]
    except KeyError:
        return NUMBER


def read_flag():
    with flagged():
        return FLAG


def count():
    global COUNT
    COUNT += 1


def set_and_restore():
    global FLAG
    old = FLAG
    FLAG = 5
    result = FLAG
    FLAG = old
    return result


def spread():
    return inc(*LIST[:1], **{"step": NUMBER})


def unpack():
    a, b, *rest = LIST
    return a


def nested():
    def f():
        def g():
            return NUMBER

        return g()

    return f()


def define_class():
    class Made(Base):
        k = NUMBER

    return Made().k


async def wait(v):
    return v + NUMBER


def run_coroutine():
    coroutine = wait(1)
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value


def set_global(name, value):
    """A function that sets a global of this module."""
    return lambda: globals().__setitem__(name, value)


class Abstract(abc.ABC):
    pass


def match_globals():
    return globals()["NUMBER"]


def call_abs():
    return abs(-1)


def run_exec():
    scope = {"NUMBER": NUMBER}
    exec("result = NUMBER + 1", scope)
    return scope["result"]


def run_eval():
    return eval("NUMBER + 1")


def generic():
    return list[int]


def locked():
    with LOCK, RLOCK:
        return NUMBER
