"""One call of a compiled program against the same call in eager."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.conformance.compare import check_gradients, check_results, same_results
from tests.conformance.round_trip import check_round_trip
from tests.conformance.seeds import seed_all, stable_hash
from tests.conformance.target import Target
from tests.conformance.trees import clone_tree, tensors_of
from tests.conformance.verdict import INTERNAL, META, MISSED, VALUE, Failure, describe


@dataclass(frozen=True)
class Settings:
    """samples: how many samples of the database a case takes; 0: all.
    round_trip: also run the printed text of every trace.
    """

    seed: int = 0
    samples: int = 2
    other_samples: int = 1  # in modes that are costly or need few
    round_trip: bool = True


@dataclass
class Case:
    """What is known of a case while it runs. refusals: what the target said, in words."""

    id: str
    target: Target
    settings: Settings
    signed_zeros: bool = False
    values: bool = True
    compared: int = 0
    soft: set[str] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)

    @property
    def seed(self) -> int:
        name, dtype, mode = self.id.split("|")
        return stable_hash(self.settings.seed, name, f"torch.{dtype}", mode) % 2**31


@dataclass
class Outcome:
    """What a call came to. random: the state of the generator afterwards."""

    result: Any
    inputs: list[torch.Tensor]
    error: Exception | None
    random: torch.Tensor

    @property
    def comparable(self) -> tuple[Any, list[torch.Tensor]]:
        return self.result, self.inputs


class Refused(Exception):
    """The target declined; the case goes on with its next sample."""


def call(fn: Callable, args: tuple, kwargs: dict, seed: int) -> Outcome:
    """Calls with copies of the arguments."""
    args, kwargs = clone_tree((args, kwargs))
    seed_all(seed)
    result, error = None, None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = fn(*args, **kwargs)
        except Exception as e:
            error = e
    return Outcome(result, tensors_of((args, kwargs)), error, torch.get_rng_state())


def succeeds(fn: Callable, args: tuple, kwargs: dict, seed: int) -> bool:
    return call(fn, args, kwargs, seed).error is None


def judge_error(case: Case, error: Exception, stage: str = "") -> None:
    """An exception where eager has none: a refusal, or an internal error."""
    if isinstance(error, case.target.refusals):
        case.refusals.append(describe(error))
        raise Refused from error
    raise Failure(INTERNAL, stage + type(error).__name__, describe(error)) from error


def compile_with(case: Case, program: Any) -> Any:
    try:
        return case.target.compile(program)
    except Exception as error:
        judge_error(case, error, "compile:")


def compare_call(
    case: Case,
    fn: Callable,
    compiled: Any,
    args: tuple,
    kwargs: dict,
    *,
    gradients: bool = False,
    process: Callable | None = None,
) -> None:
    """process: maps the result to the part of it that is differentiated."""
    eager = call(fn, args, kwargs, case.seed)
    if eager.error is not None:
        compare_errors(case, eager.error, call(compiled, args, kwargs, case.seed).error)
        return
    again = call(fn, args, kwargs, case.seed)
    values = case.values and same_results(eager.comparable, again.comparable)
    actual = call(compiled, args, kwargs, case.seed)
    if actual.error is not None:
        judge_error(case, actual.error)
    case.target.check(compiled)
    check_results(
        *eager.comparable,
        *actual.comparable,
        soft=case.soft,
        signed_zeros=case.signed_zeros,
        values=values,
    )
    check_generator(eager.random, actual.random)
    if gradients:
        _compare_gradients(case, eager, actual, process, values)
    if case.settings.round_trip:
        check_round_trip(case.target, compiled, args, kwargs, case.seed, values)
    case.compared += 1


def compare_errors(case: Case, expected: Exception, actual: Exception | None) -> None:
    if actual is None:
        raise Failure(MISSED, "no_error", f"eager raises {describe(expected)}")
    if isinstance(actual, case.target.refusals):
        case.refusals.append(describe(actual))
        raise Refused
    if type(expected) is not type(actual):
        detail = f"eager raises {describe(expected)}, compiled {describe(actual)}"
        raise Failure(MISSED, "other_error", detail)


def check_generator(expected: torch.Tensor, actual: torch.Tensor) -> None:
    if not torch.equal(expected, actual):
        raise Failure(VALUE, "generator", "the generator is left in another state")


def _compare_gradients(
    case: Case, eager: Outcome, actual: Outcome, process: Callable | None, values: bool
) -> None:
    process = process or (lambda result: result)
    leaves = [t for t in eager.inputs if t.requires_grad and t.is_leaf]
    others = [t for t in actual.inputs if t.requires_grad and t.is_leaf]
    try:
        expected = gradients_of(process(eager.result), leaves, case.seed)
    except Exception:
        return  # eager has no gradient here
    if expected is None:
        return
    found = gradients_or_failure(case, process(actual.result), others)
    check_gradients(expected, found, soft=case.soft, values=values)


def gradients_or_failure(case: Case, result: Any, leaves: list[torch.Tensor]) -> tuple:
    try:
        found = gradients_of(result, leaves, case.seed)
    except Exception as error:
        judge_error(case, error, "backward:")
    if found is None:
        raise Failure(META, "requires_grad", "no output carries a gradient")
    return found


def gradients_of(result: Any, leaves: list[torch.Tensor], seed: int) -> tuple | None:
    """Of all outputs at once, for random cotangents. None: no output carries a gradient."""
    outputs = [t for t in tensors_of(result) if t.requires_grad and not t.is_sparse]
    if not outputs or not leaves:
        return None
    cotangents = _cotangents(outputs, seed)
    return torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)


def _cotangents(outputs: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    cotangents = []
    for output in outputs:
        c = torch.randn(tuple(output.shape), generator=generator, dtype=torch.float64)
        if output.is_complex():
            c = c + 1j * c.flip(0) if c.ndim else c + 0.5j * c
        cotangents.append(c.to(output.dtype))
    return cotangents
