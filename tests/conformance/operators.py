"""A case of the operator database: one operator, one dtype, one mode."""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.conformance.calls import (
    Case,
    Refused,
    call,
    compare_call,
    compare_errors,
    compile_with,
    succeeds,
)
from tests.conformance.databases import databases, is_binary, is_elementwise, pick
from tests.conformance.seeds import seed_all
from tests.conformance.trees import is_plain, shapes_of, structure, tensors_of
from tests.conformance.verdict import Skip, describe

Arguments = tuple[tuple, dict]

UNINITIALISED = re.compile(r"(^|\.)(new_)?empty")  # their numbers mean nothing
LOOK = 24  # how many samples of the database are considered
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, float("nan"), float("inf"), float("-inf"))
SPECIAL += (1e-40, -1e-40, 1e30, -1e30, 3.0, 1e-8, 7.25, -7.5)


def run_operator(case: Case) -> None:
    name, dtype_name, mode = case.id.split("|")
    op = databases().operators[name]
    case.signed_zeros = is_elementwise(op)
    case.values = not UNINITIALISED.search(name)
    MODES[mode](case, op, getattr(torch, dtype_name))


def _function(op: Callable) -> Callable:
    def fn(*args: Any, **kwargs: Any) -> Any:
        return op(*args, **kwargs)

    return fn


def _draw(
    case: Case, op: Any, dtype: torch.dtype, gradients: bool = False, again: bool = False
) -> Iterator:
    """again: other values, by another seed; the database reseeds before each sample unless told
    not to."""
    seed_all(case.seed + again)
    fixed = case.settings.seed == 0 and not again
    try:
        yield from op.sample_inputs("cpu", dtype, requires_grad=gradients, set_seed=fixed)
    except Exception as error:
        raise Skip(f"the database has no samples: {describe(error)}") from error


def _few(case: Case, op: Any, dtype: torch.dtype, again: bool = False) -> list:
    limit = LOOK if case.settings.samples else 0
    return pick(_draw(case, op, dtype, again=again), limit, case.seed)


def _chosen(case: Case, op: Any, dtype: torch.dtype) -> list:
    return pick(_draw(case, op, dtype), case.settings.other_samples, case.seed)


def _arguments(sample: Any) -> Arguments:
    return (sample.input, *sample.args), dict(sample.kwargs)


def _each(case: Case, fn: Callable, calls: list[Arguments], **options: Any) -> None:
    """One callable, the calls one after another."""
    with contextlib.suppress(Refused):
        compiled = compile_with(case, fn)
        for args, kwargs in calls:
            compare_call(case, fn, compiled, args, kwargs, **options)


def _forward(case: Case, op: Any, dtype: torch.dtype, gradients: bool = False) -> None:
    samples = pick(_draw(case, op, dtype, gradients), case.settings.samples, case.seed)
    for sample in samples:
        process = sample.output_process_fn_grad if gradients else None
        calls = [_arguments(sample)]
        _each(case, _function(op), calls, gradients=gradients, process=process)


def _backward(case: Case, op: Any, dtype: torch.dtype) -> None:
    _forward(case, op, dtype, gradients=True)


def _non_contiguous(case: Case, op: Any, dtype: torch.dtype) -> None:
    for sample in _chosen(case, op, dtype):
        try:
            strided = sample.noncontiguous()
        except Exception:  # some samples hold what cannot be made so
            continue
        _each(case, _function(op), [_arguments(strided)])


def _in_place(case: Case, op: Any, dtype: torch.dtype) -> None:
    for sample in _chosen(case, op, dtype):
        fn = _function(op.inplace_variant)
        arguments = _arguments(sample)
        if not sample.broadcasts_input and succeeds(fn, *arguments, case.seed):
            _each(case, fn, [arguments])


def _out(case: Case, op: Any, dtype: torch.dtype) -> None:
    for sample in _chosen(case, op, dtype):
        fn = _function(op)
        args, kwargs = _arguments(sample)
        first = call(fn, args, kwargs, case.seed)
        results = tensors_of(first.result)
        if not results or "out" in kwargs or not all(is_plain(t) for t in results):
            continue
        buffers = tuple(_buffer(t) for t in results)
        single = isinstance(first.result, torch.Tensor)
        kwargs = dict(kwargs, out=buffers[0] if single else buffers)
        if succeeds(fn, args, kwargs, case.seed):
            _each(case, fn, [(args, kwargs)])


def _buffer(like: torch.Tensor) -> torch.Tensor:
    buffer = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype)
    has_nan = buffer.is_floating_point() or buffer.is_complex()
    return buffer.fill_(float("nan") if has_nan else 1)


def _special(case: Case, op: Any, dtype: torch.dtype) -> None:
    for args, kwargs in _special_arguments(case, op, dtype):
        results = tensors_of(call(_function(op), args, kwargs, case.seed).result)
        # Conversion of nan or inf to an integer is undefined.
        defined = all(t.is_floating_point() or t.dtype == torch.bool for t in results)
        if results and defined:
            _each(case, _function(op), [(args, kwargs)])


def _special_arguments(case: Case, op: Any, dtype: torch.dtype) -> Iterator[Arguments]:
    sample = next(_draw(case, op, dtype), None)
    if sample is None or not isinstance(sample.input, torch.Tensor):
        return
    values = torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    kwargs = dict(sample.kwargs)
    if is_binary(op):
        if sample.args and isinstance(sample.args[0], torch.Tensor):
            n = len(values)
            rows = values[:, None].expand(n, n).contiguous()
            columns = values[None, :].expand(n, n).contiguous()
            yield (rows, columns, *sample.args[1:]), kwargs
    elif not any(isinstance(arg, torch.Tensor) for arg in sample.args):
        yield (values, *sample.args), kwargs
        yield (values.repeat(5).reshape(5, -1).t(), *sample.args), kwargs


def _respecialise(case: Case, op: Any, dtype: torch.dtype) -> None:
    calls = [_arguments(sample) for sample in _few(case, op, dtype)]
    if not calls:
        return
    first = calls[0]
    others = [c for c in calls[1:] if shapes_of(c) != shapes_of(first)]
    alike = [c for c in others if structure(c) == structure(first)]
    if others:
        other = alike[0] if alike else others[0]
        _each(case, _function(op), [first, other, first])


def _call_again(case: Case, op: Any, dtype: torch.dtype) -> None:
    pairs = list(zip(_few(case, op, dtype), _few(case, op, dtype, again=True), strict=False))
    for a, b in pairs[: case.settings.samples or None]:
        first, other = _arguments(a), _arguments(b)
        if structure(first) == structure(other) and shapes_of(first) == shapes_of(other):
            _each(case, _function(op), [first, other, first])


def _errors(case: Case, op: Any, dtype: torch.dtype) -> None:
    seed_all(case.seed)
    limit = 2 * case.settings.samples
    for declined in pick(op.error_inputs("cpu"), limit, case.seed):
        fn = _function(op)
        args, kwargs = _arguments(declined.sample_input)
        expected = call(fn, args, kwargs, case.seed).error
        if expected is None:
            continue  # some errors are those of the method's or the out= variant's own
        with contextlib.suppress(Refused):
            compiled = compile_with(case, fn)
            compare_errors(case, expected, call(compiled, args, kwargs, case.seed).error)
            case.compared += 1


MODES: dict[str, Callable[[Case, Any, torch.dtype], None]] = {
    "fwd": _forward,
    "bwd": _backward,
    "inplace": _in_place,
    "out": _out,
    "noncontig": _non_contiguous,
    "special": _special,
    "respec": _respecialise,
    "recall": _call_again,
    "error": _errors,
}
