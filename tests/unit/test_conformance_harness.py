"""The conformance harness itself: each class of fault is found, and a sound target passes."""

import os
from dataclasses import replace

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.conformance.calls import Settings
from tests.conformance.databases import databases
from tests.conformance.refusals import Entry, read_refusals, stale, unlisted
from tests.conformance.report import causes, summary
from tests.conformance.results import Store
from tests.conformance.suite import Result, list_cases, run_case
from tests.conformance.target import Program, Series, Target
from tests.conformance.trees import alias_signature, clone_tree, tensors_of
from tests.conformance.verdict import CRASH, HANG, INTERNAL, META, MISSED, PASS, REFUSED, VALUE
from tests.conformance.worker import Worker

SETTINGS = Settings()


class Declined(Exception):
    pass


def changing(change):
    """A target whose results are eager's, each tensor changed."""

    def compile_program(fn):
        def call(*args, **kwargs):
            return pytree.tree_map_only(torch.Tensor, change, fn(*args, **kwargs))

        return call

    return Target("changing", compile_program)


def calling(call):
    """A target that answers call(fn, args, kwargs)."""
    return Target("calling", lambda fn: lambda *args, **kwargs: call(fn, args, kwargs))


def run(target, case, settings=SETTINGS):
    result = run_case(target, case, settings)
    return result.status, result.kind


def drawing(fn, args, kwargs):
    result = fn(*args, **kwargs)
    torch.rand(1)
    return result


def on_copies(fn, args, kwargs):
    return fn(*clone_tree(args), **clone_tree(kwargs))


def swallowing(fn, args, kwargs):
    try:
        return fn(*args, **kwargs)
    except Exception:
        return torch.zeros(1)


def translating(fn, args, kwargs):
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        raise KeyError("another") from error


class Memoising:
    """Remembers its first result, whatever is asked."""

    def __init__(self, fn):
        self.fn = fn
        self.result = None

    def __call__(self, *args, **kwargs):
        if self.result is None:
            self.result = self.fn(*args, **kwargs)
        return clone_tree(self.result)


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g * 1.01


def transposed_in_memory(t):
    return t.mT.contiguous().mT if t.ndim == 2 else t.clone()


def negative_zeros(t):
    return torch.where(t == 0, -torch.zeros_like(t), t)


FAULTS = {
    "wrong value": (changing(lambda t: t + 0.01), "sub|float32|fwd", VALUE, "float"),
    "wrong integer": (changing(lambda t: t + 1), "sub|int64|fwd", VALUE, "int_or_bool"),
    "nan": (changing(lambda t: t * float("nan")), "sub|float32|fwd", VALUE, "nonfinite"),
    "wrong dtype": (changing(lambda t: t.double()), "sub|float32|fwd", META, "dtype"),
    "wrong shape": (changing(lambda t: t[None]), "sub|float32|fwd", META, "shape"),
    "wrong stride": (changing(transposed_in_memory), "mm|float32|fwd", META, "stride"),
    "sign of zero": (changing(negative_zeros), "abs|float32|special", VALUE, "signed_zero"),
    "list for tuple": (
        calling(lambda f, a, k: list(f(*a, **k))),
        "var_mean|float32|fwd",
        META,
        "structure",
    ),
    "view copied": (changing(lambda t: t.clone()), "transpose|float32|fwd", META, "alias"),
    "view for input": (changing(lambda t: t.view_as(t)), "positive|float32|fwd", META, "identity"),
    "write lost": (calling(on_copies), "sub|float32|inplace", META, "alias"),
    "out lost": (calling(on_copies), "sub|float32|out", META, "alias"),
    "no gradient": (changing(lambda t: t.detach()), "sub|float32|bwd", META, "requires_grad"),
    "wrong gradient": (changing(WrongGradient.apply), "sub|float32|bwd", VALUE, "grad_float"),
    "draws too much": (calling(drawing), "sub|float32|fwd", VALUE, "generator"),
    "other random numbers": (changing(torch.rand_like), "bernoulli|float32|fwd", VALUE, "float"),
    "stale value": (Target("", Memoising), "sub|float32|recall", VALUE, "float"),
    "stale shape": (Target("", Memoising), "sub|float32|respec", META, "shape"),
    "swallowed error": (calling(swallowing), "cat|float32|error", MISSED, "no_error"),
    "other error": (calling(translating), "cat|float32|error", MISSED, "other_error"),
    "error": (calling(lambda f, a, k: 1 / 0), "sub|float32|fwd", INTERNAL, "ZeroDivisionError"),
    "module": (changing(lambda t: t + 0.01), "module.nn.Linear|float32|bwd", VALUE, "float"),
    "optimizer": (calling(lambda f, a, k: None), "optim.SGD|float32|step", VALUE, "float"),
    "model": (changing(lambda t: t * 1.01), "model.own_mixer|float32|eval", VALUE, "float"),
    "model gradient": (
        changing(WrongGradient.apply),
        "model.own_mixer|float32|grad",
        VALUE,
        "grad_float",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault):
    target, case, status, kind = FAULTS[fault]
    assert run(target, case) == (status, kind)


@pytest.mark.parametrize("case", sorted({case for _, case, _, _ in FAULTS.values()}))
def test_eager_passes(case):
    assert run(Target("eager", lambda fn: fn), case) == (PASS, "")


def test_a_lost_write_to_an_input_is_found():
    def returns_the_input(fn, args, kwargs):
        fn(*clone_tree(args), **kwargs)
        return args[0]

    assert run(calling(returns_the_input), "sub|float32|inplace")[0] in (VALUE, META)


def test_a_refusal_is_no_failure_and_no_refusal_hides_one():
    def refuses(fn, args, kwargs):
        raise Declined("not this")

    target = replace(calling(refuses), refusals=(Declined,))
    assert run(target, "sub|float32|fwd") == (REFUSED, "Declined")

    def refuses_then_errs(fn):
        samples.append(fn)
        if len(samples) == 1:
            raise Declined("not the first")
        return lambda *args, **kwargs: fn(*args, **kwargs) + 1

    samples = []
    target = Target("", refuses_then_errs, refusals=(Declined,))
    assert run(target, "sub|float32|fwd") == (VALUE, "float")


def test_an_exception_that_is_no_refusal_is_internal():
    def refuses(fn, args, kwargs):
        raise NotImplementedError("not supported")

    assert run(calling(refuses), "sub|float32|fwd") == (INTERNAL, "NotImplementedError")


def printing(text):
    """A target that shows every program as this text."""

    def series(compiled, args, kwargs):
        return Series([Program("computation", "a pass", text)], tensors_of((args, kwargs)))

    return Target("printing", lambda fn: fn, series=series)


TEXTS = {
    "right": ("return a - b", PASS, ""),
    "wrong value": ("return a + b", VALUE, "text_float"),
    "wrong dtype": ("return (a - b).double()", META, "text_dtype"),
    "one result too many": ("return a - b, a", META, "text_structure"),
    "does not run": ("return missing", INTERNAL, "text_NameError"),
    "writes an input": ("c = a - b; b.zero_(); return c", VALUE, "text_float"),
}


@pytest.mark.parametrize("text", TEXTS)
def test_the_text_of_a_trace_is_run(text):
    body, status, kind = TEXTS[text]
    target = printing(f"import torch\ndef computation(a, b):\n  {body}\n")
    case = "atan2|float32|fwd"
    assert run(target, case, Settings(round_trip=False)) == (PASS, "")
    case = "mm|float32|fwd"
    body = body.replace("a - b", "a @ b").replace("a + b", "a @ b + 1")
    target = printing(f"import torch\ndef computation(a, b):\n  {body}\n")
    assert run(target, case) == (status, kind)
    assert run(target, case, Settings(round_trip=False)) == (PASS, "")


def abort(fn, args, kwargs):
    os.abort()


def spin(fn, args, kwargs):
    while True:
        pass


@pytest.mark.parametrize(
    ("call", "status", "kind"), [(abort, CRASH, "SIGABRT"), (spin, HANG, "timeout")]
)
def test_a_worker_survives(tmp_path, call, status, kind):
    databases()  # their import is not to count
    calls = []

    def only_sub(fn, args, kwargs):
        calls.append(fn)
        return call(fn, args, kwargs) if len(calls) == 1 else fn(*args, **kwargs)

    worker = Worker(lambda: calling(only_sub), SETTINGS, tmp_path / "log", timeout=2)
    try:
        first = worker.run("sub|float32|fwd")
        assert (first.status, first.kind) == (status, kind)
    finally:
        worker.stop()
    worker = Worker(lambda: calling(lambda f, a, k: f(*a, **k)), SETTINGS, tmp_path / "log")
    try:
        assert worker.run("sub|float32|fwd").status == PASS
    finally:
        worker.stop()


def test_clones_keep_aliasing_strides_and_versions():
    base = torch.arange(12.0).reshape(3, 4)
    tree = {"a": base[1:, ::2], "b": [base.t(), base], "c": base}
    copy = clone_tree(tree)
    first, second = tensors_of(tree), tensors_of(copy)
    assert [t.stride() for t in first] == [t.stride() for t in second]
    assert [t.storage_offset() for t in first] == [t.storage_offset() for t in second]
    assert copy["b"][1] is copy["c"]
    assert {t._version for t in second} == {0}
    assert alias_signature(second, first) == ["fresh", "output 0", "output 0", "output 0"]
    copy["a"].zero_()
    assert base.sum() == 66
    assert copy["c"].sum() == 66 - (4 + 6 + 8 + 10)


def test_the_list_of_refusals(tmp_path):
    path = tmp_path / "refusals.txt"
    path.write_text("# why\n\nnonzero|*|* -> its shape depends on data\nitem|*|fwd -> data\n")
    entries = read_refusals(path)
    assert entries == [
        Entry("nonzero|*|*", "its shape depends on data"),
        Entry("item|*|fwd", "data"),
    ]
    refused = Result("nonzero|float32|fwd", REFUSED)
    other = Result("sort|float32|fwd", REFUSED)
    assert unlisted(entries, [refused, other]) == [other]

    cases = ["nonzero|float32|fwd", "nonzero|float32|bwd", "item|float32|fwd"]
    fine = [Result("nonzero|float32|bwd", PASS), Result("item|float32|fwd", PASS)]
    assert stale(entries, cases, [refused, *fine]) == [entries[1]]
    assert stale(entries, cases, [refused]) == []  # item has not run
    passing = [Result(case, PASS) for case in cases]
    assert stale(entries, cases, passing) == entries


@pytest.mark.parametrize("text", ["nonzero|*|*", "nonzero|*|* -> ", "-> why"])
def test_a_refusal_needs_a_reason(tmp_path, text):
    path = tmp_path / "refusals.txt"
    path.write_text(text)
    with pytest.raises(SystemExit, match=r"refusals\.txt:1"):
        read_refusals(path)


def test_results_are_resumed(tmp_path):
    store = Store(tmp_path / "results.jsonl", {"seed": 0})
    assert store.open(fresh=False) == {}
    first, second = Result("a|b|c", PASS), Result("d|e|f", VALUE, "float", "far", soft=["x"])
    store.add(first)
    store.add(second)
    with store.path.open("a") as file:
        file.write('{"id": "cut')
    assert store.open(fresh=False) == {"a|b|c": first, "d|e|f": second}
    with pytest.raises(SystemExit, match="another configuration"):
        Store(store.path, {"seed": 1}).open(fresh=False)
    assert store.open(fresh=True) == {}


def test_the_report_groups_failures_by_cause():
    far = [
        Result(f"{n}|float32|fwd", VALUE, "float", f"output 0[{i}]: expected {i}.5, got 1")
        for i, n in enumerate(("add", "mul"))
    ]
    failed = Result("sort|float32|fwd", INTERNAL, "KeyError", "KeyError: 1")
    text = causes([failed, *far])
    assert text.index("value/float  (2 names: add, mul)") < text.index("internal/KeyError")
    refused = Result("item|float32|fwd", REFUSED, "Declined", "Declined: reads data")
    whole = summary("a run", [*far, failed, refused], [refused], [Entry("x", "y")])
    for part in ("failures by cause", "not listed", "Declined: reads data", "x -> y"):
        assert part in whole


def test_every_mode_and_model_has_cases():
    cases = list_cases()
    modes = {case.rsplit("|", 1)[1] for case in cases}
    assert modes == {
        "fwd", "bwd", "inplace", "out", "noncontig", "special", "respec", "recall", "error",
        "evalfwd", "step", "eval", "grad", "train",
    }  # fmt: skip
    models = {case.split("|")[0] for case in cases if case.startswith("model.")}
    assert len(models) == 32
    assert len(cases) > 6000
    assert set(cases) < set(list_cases(full=True)) and len(cases) == len(set(cases))


def test_every_listed_refusal_names_cases():
    cases = list_cases(full=True)
    unknown = [e.pattern for e in read_refusals() if not any(map(e.matches, cases))]
    assert unknown == []
