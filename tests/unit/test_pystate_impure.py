"""What no guard can cover is flagged, with the line, and can be refused before it happens."""

import _thread
import array
import builtins
import collections
import copy
import ctypes
import datetime
import decimal
import gc
import hashlib
import importlib
import io
import logging
import os
import py_compile
import random
import socket
import sys
import threading
import time
import uuid
import warnings

import numpy as np
import pytest
import state_program as s
import torch

from fulgurite import _C

log = logging.getLogger("fulgurite.test")
log.addHandler(logging.NullHandler())
log.propagate = False
generator = torch.Generator()
OLD_TEXT = io.StringIO()
OLD_HASH = hashlib.md5()
view = memoryview(bytearray(b"abc"))
NUMBERS = array.array("d", [1.0, 2.0])
NUMBERS_IN_C = (ctypes.c_double * 2)(1.0, 2.0)


class ReadsAttributeError(Exception):
    pass


# name: (program, kinds that are expected, all of them)
IMPURE = {
    "print": (lambda: print(end=""), {"message"}),
    "logging": (lambda: log.warning("hello"), {"message"}),
    "warnings": (lambda: warnings.warn("x", stacklevel=1), {"message"}),
    "random": (lambda: random.random(), {"random"}),
    "random.choice": (lambda: random.choice([1, 2]), {"random"}),
    "numpy random": (lambda: np.random.rand(), {"random"}),
    "next(old iterator)": (lambda: next(s.ITERATOR), {"iterator"}),
    "for over an old iterator": (lambda: [v for v in s.ITERATOR], {"iterator"}),
    "list(old iterator)": (lambda: list(s.ITERATOR), {"iterator"}),
    "zip(old iterator)": (lambda: list(zip([1], s.ITERATOR)), {"iterator"}),
    "unpacked old iterator": (lambda: [*s.ITERATOR], {"iterator"}),
    "next(old generator)": (lambda: next(s.GENERATOR), {"iterator"}),
    "next(old generator), not started": (lambda: next(s.UNSTARTED), {"iterator"}),
    "list(old generator)": (lambda: list(s.endless_generator), {"iterator"}),
    "yield from an old generator": (lambda: list(s.delegate()), {"iterator"}),
    "time": (lambda: time.time(), {"outside"}),
    "perf_counter": (lambda: time.perf_counter(), {"outside"}),
    "datetime": (lambda: datetime.datetime.now(), {"outside"}),
    "date": (lambda: datetime.date.today(), {"outside"}),
    "open": (lambda: open(os.devnull).close(), {"outside"}),
    "file": (lambda: s.FILE.read(1), {"outside"}),
    "StringIO": (lambda: OLD_TEXT.write("x"), {"unreviewed"}),
    "lock": (lambda: s.LOCK.acquire(False) and s.LOCK.release(), {"outside"}),
    "thread": (lambda: _thread.start_new_thread(int, ()), {"outside"}),
    "md5 object": (lambda: OLD_HASH.update(b"x"), {"unreviewed"}),
    "recorded warnings": (
        lambda: warnings.catch_warnings(record=True).__enter__(), {"unreviewed"},
    ),
    "getcwd": (lambda: os.getcwd(), {"outside"}),
    "getpid": (lambda: os.getpid(), {"outside"}),
    "uuid": (lambda: uuid.uuid4(), {"outside"}),
    "environ": (lambda: os.environ.__setitem__("FULGURITE_TEST", "1"), {"outside"}),
    "socket": (lambda: socket.socket().close(), {"outside", "unreviewed"}),
    "_getframe": (lambda: sys._getframe(), {"unreviewed"}),
    "settrace": (lambda: sys.settrace(sys.gettrace()), {"unreviewed"}),
    "gc": (lambda: gc.get_objects(), {"unreviewed"}),
    "ctypes": (lambda: s.GET_PID(), {"unreviewed"}),
    "cache_clear": (lambda: s.cached.cache_clear(), {"unreviewed"}),
    "memoryview": (lambda: view[0], {"unreviewed"}),
    "sum of an array": (lambda: sum(NUMBERS), {"unreviewed"}),
    "list of a ctypes array": (lambda: list(NUMBERS_IN_C), {"unreviewed"}),
    "tensor of a memoryview": (lambda: torch.tensor(view), {"unreviewed"}),
    "decimal": (lambda: decimal.Decimal(1) / 7, {"unreviewed"}),
    "__dict__ shared": (lambda: setattr(s.Plain(), "__dict__", vars(s.OBJECT)), {"unreviewed"}),
    "tensor.data": (lambda: setattr(s.BUFFER, "data", torch.ones(1)), {"tensor state"}),
    "requires_grad_": (lambda: s.BUFFER.requires_grad_(False), {"tensor state"}),
    "manual_seed": (lambda: torch.manual_seed(0), {"unreviewed"}),
    "generator": (lambda: generator.manual_seed(0), {"unreviewed"}),
    "set_default_dtype": (lambda: torch.set_default_dtype(torch.float32), {"unreviewed"}),
    "set_num_threads": (lambda: torch.set_num_threads(torch.get_num_threads()), {"unreviewed"}),
    "deterministic": (lambda: torch.use_deterministic_algorithms(False), {"unreviewed"}),
    "torch.save": (lambda: torch.save([1], io.BytesIO()), {"unreviewed"}),
}  # fmt: skip
s.endless_generator = s.endless()
next(s.endless_generator)


@pytest.mark.parametrize("name", IMPURE)
def test_flagged(name):
    program, kinds = IMPURE[name]
    record = _C.record_state(program)
    found = {kind for kind, *_ in record.impure}
    assert found and found & kinds, record.impure


@pytest.mark.parametrize("name", [n for n in IMPURE if IMPURE[n][1] != {"message"}])
def test_refused_before_it_happens(name):
    """The error is raised in the line that was about to do it."""
    program, kinds = IMPURE[name]
    record = _C.record_state(
        program, raised=["random", "outside", "iterator", "tensor data", "tensor state", "unreviewed"],
        error_type=ReadsAttributeError,
    )  # fmt: skip
    assert isinstance(record.error, ReadsAttributeError), (record.error, record.impure)
    assert any(prevented for *_, prevented in record.impure)


def test_refusal_comes_before_the_effect():
    happened = []

    def program():
        happened.append(1)
        os.environ["FULGURITE_TEST"] = "written"
        happened.append(2)

    os.environ.pop("FULGURITE_TEST", None)
    record = _C.record_state(program, raised=["outside"], error_type=KeyError)
    assert happened == [1] and "FULGURITE_TEST" not in os.environ
    record.undo()
    assert happened == []
    ((kind, what, line, prevented),) = record.impure
    assert (kind, prevented) == ("outside", True)
    assert what == "calls posix.putenv(), which asks the operating system"


def test_a_lock_that_is_kept_is_flagged():
    lock = threading.RLock()
    record = _C.record_state(lambda: lock.acquire())
    lock.release()
    ((kind, what, *_),) = record.impure
    assert kind == "outside" and "RLock" in what


def test_swallowed_refusal_is_still_noted():
    def program():
        try:
            time.time()
        except Exception:  # noqa: BLE001
            return 1

    record = _C.record_state(program, raised=["outside"], error_type=KeyError)
    assert record.error is None and record.result == 1
    assert [kind for kind, *_ in record.impure] == ["outside"]


def test_flags_name_the_line():
    def program():
        value = 1
        return value + time.time()

    ((_, what, line, _),) = _C.record_state(program).impure
    assert what == "calls time.time(), which reads the clock"
    assert line == program.__code__.co_firstlineno + 2


def test_refusals_name_the_line_of_the_user(tmp_path, monkeypatch):
    """Not that of an installed package which it calls, where there is one of the user."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "installed_for_test.py").write_text("import time\n\ndef now():\n    time.time()\n")
    monkeypatch.syspath_prepend(folder)
    installed = importlib.import_module("installed_for_test")
    record = _C.record_state(lambda: installed.now(), raised=["outside"], error_type=ValueError)
    text = str(record.error)
    assert "installed_for_test.py:4" in text and f"called at {__file__}:" in text, text


def test_trace_function_of_the_program():
    """One that replaces ours makes the record worthless, which is said."""

    def program():
        sys.settrace(None)
        return s.NUMBER

    record = _C.record_state(program)
    assert not record.complete
    assert _C.record_state(lambda: s.NUMBER).complete


def write_and_read(text):
    text.write("abc")
    return text.getvalue()


def keep(iterator):
    kept, queue = [], collections.deque()
    kept.append(iterator)
    queue.append(iterator)
    return len(kept) + len(queue)


def take_and_give_back(*locks):
    for lock in locks:
        lock.acquire()
        lock.release()


def ignore_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")


class Taker:
    def __call__(self, a, b):
        return a + b


class Taken:
    def __init__(self, a, b):
        self.b = b


PURE = {
    "StringIO": lambda: write_and_read(io.StringIO()),
    "old iterator kept": lambda: keep(s.ITERATOR),
    "sizes": lambda: torch.Size([2, 3]).numel(),
    "this thread": lambda: threading.current_thread() is threading.main_thread(),
    "lock given back": lambda: take_and_give_back(threading.RLock(), s.LOCK),
    "md5": lambda: hashlib.md5(b"a").hexdigest() + hashlib.sha256(b"b").hexdigest(),
    "Decimal": lambda: float(decimal.Decimal("1.5")),
    "timedelta": lambda: (datetime.timedelta(seconds=3) * 2).total_seconds(),
    "warnings ignored": lambda: ignore_warnings(),
    "spread generator": lambda: [Taker()(*(i for i in (1, 2))), Taken(*iter([1, 2])).b],
    "spread tensor": lambda: [a for a, b in zip(*torch.ones(2, 2), strict=True)],
    "spread list": lambda: [max(*[1, 2]), max(*{1, 2}), max(*{3: 4, 5: 6}.values())],
    "finfo": lambda: float(np.finfo(np.float32).max) + np.iinfo("int8").max,
    "numpy of scalars": lambda: np.sqrt(2.0) + np.prod([1, 2, 3]),
    "numpy of new arrays": lambda: np.arange(3).reshape(3, 1).sum().item() + np.zeros(2)[0],
    "math": lambda: __import__("math").sqrt(2),
    "import": lambda: __import__("math"),
    "regular expression": lambda: __import__("re").sub("a", "b", "aaa"),
    "deepcopy": lambda: copy.deepcopy({"a": [1, (2, {3})], "b": s.Config(4)}),
    "dataclass": lambda: s.Config(3) == s.Config(4),
    "namedtuple": lambda: s.Point(1, 2)._replace(x=3),
    "enum": lambda: s.Colour("RED") if False else s.Colour["RED"],
    "exceptions": lambda: s.absent_key(),
    "string methods": lambda: "a,b".split(",")[0].upper().join(["x", "y"]).encode().hex(),
    "sets": lambda: {1, 2} | {3} & {4} ^ {5},
    "builtins": lambda: [
        builtins.min(1, 2), divmod(5, 2), round(2.5), hash("a"), id(s), ord("a"), bin(3), pow(2, 3),
    ],
    "types": lambda: [int("3"), float("1.5"), str(3), tuple([1]), frozenset([2]), complex(1, 2)],
    "type": lambda: type(s.base) is s.Base,
    "new class": lambda: type("New", (s.Base,), {"k": 3})().k,
    "generator": lambda: sum(x for x in range(3)),
    "partial": lambda: s.functools.partial(s.inc, 2)(),
    "cached tensor": lambda: s.cached_tensor(3) + 1,
    "tensor ops": lambda: torch.cat([s.X, s.X]).softmax(-1).view(-1)[0].mean(),
    "no_grad": lambda: torch.no_grad()(lambda: s.X + 1)(),
    "functional": lambda: torch.nn.functional.gelu(torch.nn.functional.linear(s.X, s.net.lin.weight)),
    "einsum": lambda: torch.einsum("ij,kj->ik", s.X, s.X),
    "pytree": lambda: torch.utils._pytree.tree_map(lambda t: t + 1, {"a": [s.X, 2]}),
}  # fmt: skip


@pytest.mark.parametrize("name", PURE)
def test_not_flagged(name):
    PURE[name]()  # what is imported or cached at first use
    record = _C.record_state(PURE[name])
    assert record.error is None
    assert record.impure == [], record.impure
    assert record.effects == [], record.effects
    assert record.check(), record.explain()


def test_first_import_is_noted_but_harmless():
    sys.modules.pop("this_is_imported_late", None)
    directory = os.path.dirname(__file__)
    name = "imported_late"
    sys.modules.pop(name, None)
    assert directory in sys.path

    def program():
        import imported_late

        return imported_late.VALUE

    record = _C.record_state(program, raised=["unreviewed", "outside"], error_type=KeyError)
    assert record.error is None and {kind for kind, *_ in record.impure} == {"import"}
    assert record.check(), record.explain()
    sys.modules[name].VALUE = 5
    assert not record.check()


@pytest.mark.parametrize("from_byte_code", [False, True])
def test_an_import_by_library_code_is_not_of_the_program(from_byte_code, tmp_path, monkeypatch):
    """What the module's own code does is neither repeated nor undone: it runs once."""
    source = tmp_path / "imported_by_others.py"
    source.write_text("import logging\nLOGGER = logging.getLogger(__name__)\nVALUES = [1]\n")
    if from_byte_code:
        py_compile.compile(str(source), cfile=str(source) + "c", doraise=True)
        source.unlink()
    monkeypatch.syspath_prepend(tmp_path)

    def program():
        return importlib.import_module("imported_by_others").VALUES[0]

    record = _C.record_state(program)
    module = sys.modules.pop("imported_by_others")
    assert {kind for kind, *_ in record.impure} == {"import"} and record.effects == []
    assert record.undo() and module.VALUES == [1] and module.LOGGER


def test_cached_function_hit():
    """A hit is what the cache holds: guarded, though the function does not run."""
    s.cached_by.cache_clear()
    s.cached_by(10)
    record = _C.record_state(lambda: s.cached_by(10))
    assert record.impure == [] and record.check()
    s.cached_by(11)
    assert record.check()
    s.cached_by.cache_clear()
    assert not record.check()


def test_cached_function_miss():
    s.cached_by.cache_clear()
    record = _C.record_state(lambda: s.cached_by(10, b=2))
    assert record.impure == [] and record.effects == [] and record.check()
    s.cached_by(10, b=2)
    assert record.check()


def test_function_of_a_cache_runs_outside():
    """It runs once in any program: its tensor is a real one, and stays."""
    s.cached_tensor.cache_clear()
    _C.record_state(lambda: s.cached_tensor(3))
    assert s.cached_tensor.cache_info().currsize == 1
