"""Cases of the module and optimizer databases."""

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
    gradients_of,
    gradients_or_failure,
    judge_error,
)
from tests.conformance.compare import check_gradients, check_results, check_values, same_results
from tests.conformance.databases import databases, pick
from tests.conformance.round_trip import check_round_trip
from tests.conformance.seeds import seed_all
from tests.conformance.verdict import META, Failure, Skip, describe

STEPS = 3


def run_module(case: Case) -> None:
    name, dtype_name, mode = case.id.split("|")
    info = databases().modules[name]
    dtype = getattr(torch, dtype_name)
    training, gradients = mode != "evalfwd", mode == "bwd"
    seed_all(case.seed)
    try:
        inputs = info.module_inputs_func(
            info, device="cpu", dtype=dtype, requires_grad=gradients, training=training
        )
    except Exception as error:
        raise Skip(f"the database has no samples: {describe(error)}") from error
    few = case.settings.other_samples and case.settings.other_samples + 1
    for sample in pick(iter(inputs), few, case.seed):
        module = _build(case, info, sample, dtype, training)
        if module is not None:
            with contextlib.suppress(Refused):
                _compare_module(case, module, sample.forward_input, gradients)


def _build(case: Case, info: Any, sample: Any, dtype: torch.dtype, training: bool) -> Any:
    """None: there is no such module, or eager itself cannot call it."""
    if sample.forward_input is None:
        return None
    seed_all(case.seed)
    made = sample.constructor_input
    try:
        module = info.module_cls(*made.args, **made.kwargs).to(dtype)
        trial = copy.deepcopy(module)
    except Exception:
        return None
    module.train(training)
    outcome = call(trial.train(training), *_arguments(sample.forward_input), case.seed)
    return module if outcome.error is None else None


def _arguments(given: Any) -> tuple[tuple, dict]:
    return tuple(given.args), dict(given.kwargs)


def _compare_module(case: Case, module: torch.nn.Module, given: Any, gradients: bool) -> None:
    args, kwargs = _arguments(given)
    other, again = copy.deepcopy(module), copy.deepcopy(module)
    is_lazy = any(map(torch.nn.parameter.is_lazy, module.parameters()))
    eager = call(module, args, kwargs, case.seed)
    repeated = call(again, args, kwargs, case.seed)
    values = same_results(eager.comparable, repeated.comparable)
    compiled = compile_with(case, other)
    actual = call(compiled, args, kwargs, case.seed)
    if actual.error is not None:
        judge_error(case, actual.error)
    if not is_lazy:
        case.target.check(compiled)
    check_results(*eager.comparable, *actual.comparable, soft=case.soft, values=values)
    if is_lazy:  # its first call has made its parameters
        return _compare_module(case, again, given, gradients)
    check_generator(eager.random, actual.random)
    if values:
        check_buffers(case, module, other)
    if gradients:
        _compare_gradients(case, (module, eager), (other, actual), values)
    if case.settings.round_trip:
        check_round_trip(case.target, compiled, args, kwargs, case.seed, values)
    case.compared += 1


def check_buffers(case: Case, expected: torch.nn.Module, actual: torch.nn.Module) -> None:
    pairs = zip(expected.named_buffers(), actual.buffers(), strict=True)
    for (name, e), a in pairs:
        check_values(e, a, f"buffer {name}", soft=case.soft)


def _compare_gradients(
    case: Case,
    expected: tuple[torch.nn.Module, Outcome],
    actual: tuple[torch.nn.Module, Outcome],
    values: bool,
) -> None:
    module, eager = expected
    try:
        wanted = gradients_of(eager.result, _leaves(*expected), case.seed)
    except Exception:
        return  # eager has no gradient here
    if wanted is None:
        return
    found = gradients_or_failure(case, actual[1].result, _leaves(*actual))
    inputs = sum(t.requires_grad for t in eager.inputs)
    names = [f"input {i}" for i in range(inputs)]
    names += [name for name, p in module.named_parameters() if p.requires_grad]
    check_gradients(wanted, found, soft=case.soft, values=values, names=names)


def _leaves(module: torch.nn.Module, outcome: Outcome) -> list[torch.Tensor]:
    return [t for t in (*outcome.inputs, *module.parameters()) if t.requires_grad]


def run_optimizer(case: Case) -> None:
    """Three steps with given gradients; all options of the database."""
    info = databases().optimizers[case.id.split("|")[0]]
    if info.step_requires_closure or info.only_supports_sparse_grads:
        raise Skip("needs a closure, or sparse gradients")
    for given in pick(info.optim_inputs_func(device="cpu"), case.settings.samples, case.seed):
        try:
            parameters, optimizer = _parameters(case, info, given)
            _take_steps(parameters, optimizer.step)
        except Exception:
            continue  # eager declines these options
        with contextlib.suppress(Refused):
            _compare_steps(case, _state(optimizer), *_parameters(case, info, given), given.desc)


def _parameters(case: Case, info: Any, given: Any) -> tuple[list[torch.nn.Parameter], Any]:
    seed_all(case.settings.seed)
    matrix = (5, 5) if info.optim_cls.__name__ == "Muon" else (5, 1)
    parameters = [torch.nn.Parameter(torch.randn(shape)) for shape in ((3, 4), matrix)]
    return parameters, info.optim_cls(parameters, **copy.deepcopy(given.kwargs))


def _take_steps(parameters: list[torch.nn.Parameter], step: Any) -> None:
    for i in range(STEPS):
        generator = torch.Generator().manual_seed(i)
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=generator)
        step()


def _state(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Parameters and what the optimizer keeps for each."""
    state = {}
    for group in optimizer.param_groups:
        for i, p in enumerate(group["params"]):
            kept = {k: v for k, v in optimizer.state[p].items() if isinstance(v, torch.Tensor)}
            state |= {f"parameter {i}": p, **{f"{k} of parameter {i}": v for k, v in kept.items()}}
    return state


def _compare_steps(
    case: Case,
    expected: dict[str, torch.Tensor],
    parameters: list[torch.nn.Parameter],
    optimizer: torch.optim.Optimizer,
    options: str,
) -> None:
    def step() -> None:
        optimizer.step()

    compiled = compile_with(case, step)
    try:
        _take_steps(parameters, compiled)
    except Exception as error:
        judge_error(case, error)
    case.target.check(compiled)
    actual = _state(optimizer)
    if expected.keys() != actual.keys():
        raise Failure(META, "structure", f"expected {list(expected)}, got {list(actual)}")
    for name, e in expected.items():
        check_values(e, actual[name], f"{name} ({options})", soft=case.soft)
    case.compared += 1
