"""The printed text of every trace is run, and must do what the compiled call does."""

import warnings
from collections.abc import Callable
from typing import Any

import torch

from tests.conformance.compare import check_meta, check_values
from tests.conformance.seeds import seed_all
from tests.conformance.target import Program, Series, Target
from tests.conformance.trees import alias_signature, clone_tree, tensors_of
from tests.conformance.verdict import INTERNAL, META, VALUE, Failure, describe

Ran = tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]  # outputs, inputs, generator


def check_round_trip(
    target: Target, compiled: Callable, args: tuple, kwargs: dict, seed: int, values: bool = True
) -> None:
    """values: False compares all but numbers. Calls `compiled` once more."""
    if target.series is None:
        return
    args, kwargs = clone_tree((args, kwargs))
    series = target.series(compiled, args, kwargs)
    texts = [_run_text(program, series, seed) for program in series.programs]
    expected = _run(compiled, args, kwargs, series.inputs, seed)
    for program, actual in zip(series.programs, texts, strict=True):
        try:
            _compare(program, expected, actual, values)
        except Failure as f:
            detail = f"the text of {program.made_by}: {f.detail}"
            raise Failure(f.status, f"text_{f.kind}", detail) from None


def _run_text(program: Program, series: Series, seed: int) -> Ran:
    scope: dict[str, Any] = {}
    inputs = clone_tree(series.inputs)
    try:
        exec(compile(program.text, f"<{program.made_by}>", "exec"), scope)
        return _run(scope[program.name], (*inputs, *program.gradients), {}, inputs, seed)
    except Exception as error:
        detail = f"the text of {program.made_by}: {describe(error)}"
        raise Failure(INTERNAL, f"text_{type(error).__name__}", detail) from error


def _run(fn: Callable, args: tuple, kwargs: dict, inputs: list[torch.Tensor], seed: int) -> Ran:
    seed_all(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = fn(*args, **kwargs)
    return tensors_of(result), inputs, torch.get_rng_state()


def _compare(program: Program, expected: Ran, actual: Ran, values: bool) -> None:
    if program.returns_more:
        actual = (actual[0][: len(expected[0])], *actual[1:])
    if len(expected[0]) != len(actual[0]):
        counts = f"{len(expected[0])} tensors expected, got {len(actual[0])}"
        raise Failure(META, "structure", counts)
    aliases = [alias_signature(outputs, inputs) for outputs, inputs, _ in (expected, actual)]
    if aliases[0] != aliases[1]:
        raise Failure(META, "alias", f"compiled {aliases[0]}, the text {aliases[1]}")
    for kind, e_list, a_list in zip(("output", "input"), expected, actual, strict=False):
        for i, (e, a) in enumerate(zip(e_list, a_list, strict=True)):
            check_meta(e.detach(), a.detach(), f"{kind} {i}")  # parameters are tensors to a text
            if values:
                check_values(e, a, f"{kind} {i}")
    if not torch.equal(expected[2], actual[2]):
        raise Failure(VALUE, "generator", "the generator is left in another state")
