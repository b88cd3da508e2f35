"""A case of the model list: forward, gradients or training against eager, three calls of one
compiled model."""

import contextlib
import copy
from typing import Any

import torch

from tests.conformance.calls import (
    Case,
    Outcome,
    Refused,
    call,
    check_generator,
    compile_with,
    judge_error,
)
from tests.conformance.compare import check_gradients, check_results
from tests.conformance.models import MODELS
from tests.conformance.models.workload import Inputs
from tests.conformance.modules import check_buffers
from tests.conformance.round_trip import check_round_trip
from tests.conformance.seeds import stable_hash
from tests.conformance.trees import tensors_of
from tests.conformance.verdict import META, VALUE, Failure

MODES = (
    "eval",  # forward, without gradients
    "grad",  # forward and backward in eval mode
    "train",  # in train mode, with dropout
)
PREFIX = "model."


def list_cases() -> list[str]:
    return [f"{PREFIX}{name}|float32|{mode}" for name in MODELS for mode in MODES]


def run_model(case: Case) -> None:
    name, _, mode = case.id.split("|")
    name = name.removeprefix(PREFIX)
    seed = case.settings.seed + stable_hash(name) % 1000
    torch.manual_seed(seed)
    workload = MODELS[name]()
    module = workload.module.train(mode == "train")
    torch.manual_seed(seed + 1)
    first, second = workload.inputs(), workload.inputs()
    other = copy.deepcopy(module)
    with torch.set_grad_enabled(mode != "eval"), contextlib.suppress(Refused):
        compiled = compile_with(case, other)
        for inputs in (first, second, first):
            _compare(case, (module, module), (other, compiled), inputs, seed)
        if case.settings.round_trip:
            check_round_trip(case.target, compiled, *_arguments(first), seed)


def _arguments(inputs: Inputs) -> tuple[tuple, dict]:
    return ((), inputs) if isinstance(inputs, dict) else (inputs, {})


def call_model(model: Any, inputs: Inputs, seed: int) -> Outcome:
    """The result as a plain dict where it is one: of what is there, in order."""

    def flat(*args: Any, **kwargs: Any) -> Any:
        out = model(*args, **kwargs)
        if not hasattr(out, "items"):
            return out
        return {k: v for k, v in out.items() if v is not None}

    return call(flat, *_arguments(inputs), seed)


def _compare(case: Case, expected: tuple, actual: tuple, inputs: Inputs, seed: int) -> None:
    """expected and actual: the module that holds the parameters, and what is called."""
    eager = call_model(expected[1], inputs, seed)
    if eager.error is not None:
        raise eager.error
    found = call_model(actual[1], inputs, seed)
    if found.error is not None:
        judge_error(case, found.error)
    case.target.check(actual[1])
    check_results(*eager.comparable, *found.comparable, soft=case.soft)
    check_generator(eager.random, found.random)
    check_buffers(case, expected[0], actual[0])
    if torch.is_grad_enabled():
        _compare_gradients(case, expected[0], eager, actual[0], found)
    case.compared += 1


def _compare_gradients(
    case: Case, module: torch.nn.Module, eager: Outcome, other: torch.nn.Module, found: Outcome
) -> None:
    expected = _gradients(module, eager.result)
    try:
        actual = _gradients(other, found.result)
    except Exception as error:
        judge_error(case, error, "backward:")
    names = [name for name, p in module.named_parameters() if p.requires_grad]
    check_gradients(expected, actual, soft=case.soft, names=names)
    for name, g in zip(names, actual, strict=True):
        if g is not None and not torch.isfinite(g).all():
            raise Failure(VALUE, "grad_nonfinite", name)


def _gradients(module: torch.nn.Module, result: Any) -> tuple:
    parameters = [p for p in module.parameters() if p.requires_grad]
    loss = loss_of(result)
    if not loss.requires_grad:
        raise Failure(META, "requires_grad", "no output carries a gradient")
    return torch.autograd.grad(loss, parameters, allow_unused=True)


def loss_of(result: Any) -> torch.Tensor:
    """The model's own, or the mean magnitude of all that is differentiable."""
    if isinstance(result, dict) and "loss" in result:
        return result["loss"]
    parts = [t for t in tensors_of(result) if t.is_floating_point() and t.requires_grad]
    means = ((t.float() * t.float().detach().sign()).mean() for t in parts)
    return sum(means, torch.zeros(()))
