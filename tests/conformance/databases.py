"""PyTorch's databases of operators, modules and optimizers, and the cases made of them."""

import functools
import itertools
import random
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from tests.conformance.seeds import stable_hash

OPERATOR_MODES = (
    "fwd",  # the first samples
    "bwd",  # and their gradients
    "inplace",  # the in-place variant
    "out",  # the out= variant
    "noncontig",  # non-contiguous inputs
    "special",  # nan, inf, -0.0, denormals, for elementwise operators
    "respec",  # shapes A, B, A with one callable
    "recall",  # the same shapes with other values, one callable
    "error",  # inputs that eager declines
)
MODULE_MODES = ("fwd", "bwd", "evalfwd")
OPTIMIZER_MODE = "step"

PREFERRED = (
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.int64,
    torch.bool,
    torch.bfloat16,
)
SECOND = (
    torch.bfloat16,
    torch.float16,
    torch.float64,
    torch.complex64,
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int8,
)
MODULE_DTYPES = (torch.float32, torch.float64, torch.bfloat16)


@dataclass(frozen=True)
class Databases:
    operators: dict[str, Any]
    modules: dict[str, Any]  # "module.NAME"
    optimizers: dict[str, Any]  # "optim.NAME"


@functools.cache
def databases() -> Databases:
    """Takes seconds: torch builds its databases while it imports them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_methods_invocations import op_db  # noqa: PLC0415
        from torch.testing._internal.common_modules import module_db  # noqa: PLC0415
        from torch.testing._internal.common_optimizers import optim_db  # noqa: PLC0415
    _leave_seeds_to_the_harness()
    return Databases(
        _named((op, op.name, op.variant_test_name) for op in op_db),
        _named((m, "module", m.name) for m in module_db),
        {f"optim.{o.optim_cls.__name__}": o for o in optim_db},
    )


def _named(entries: Iterable[tuple[Any, str, str]]) -> dict[str, Any]:
    """Names as yet unknown get a + each."""
    named: dict[str, Any] = {}
    for entry, *parts in entries:
        name = ".".join(part for part in parts if part)
        while name in named:
            name += "+"
        named[name] = entry
    return named


def _leave_seeds_to_the_harness() -> None:
    """The database seeds the generator inside of random operators, which then is what is tested."""
    for module in list(sys.modules.values()):
        name = getattr(module, "__name__", "")
        if name.startswith("torch.testing._internal") and hasattr(module, "wrapper_set_seed"):
            module.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def is_elementwise(op: Any) -> bool:
    kinds = {base.__name__ for base in type(op).__mro__}
    return bool(kinds & {"UnaryUfuncInfo", "BinaryUfuncInfo"})


def is_binary(op: Any) -> bool:
    return "BinaryUfuncInfo" in {base.__name__ for base in type(op).__mro__}


def list_cases(full: bool) -> list[str]:
    """`name|dtype|mode`. Not full: one main dtype in all modes, two more forward and backward."""
    known = databases()
    cases = []
    for name, op in known.operators.items():
        for dtype, mode in _operator_cases(name, op, full):
            cases.append(f"{name}|{dtype_name(dtype)}|{mode}")
    for name, info in known.modules.items():
        dtypes = [d for d in MODULE_DTYPES if d in info.dtypes]
        for dtype in dtypes if full else dtypes[:1]:
            modes = MODULE_MODES if full else MODULE_MODES[1:]
            cases += [f"{name}|{dtype_name(dtype)}|{mode}" for mode in modes]
    cases += [f"{name}|float32|{OPTIMIZER_MODE}" for name in known.optimizers]
    return cases


def _operator_cases(name: str, op: Any, full: bool) -> Iterator[tuple[torch.dtype, str]]:
    order = dict.fromkeys((*PREFERRED, *SECOND, *sorted(op.dtypes, key=str)))
    dtypes = [d for d in order if d in op.dtypes]
    main = dtypes[0] if dtypes else None
    chosen = dtypes if full else _quick_dtypes(name, op, main)
    for dtype in chosen:
        for mode in OPERATOR_MODES:
            in_quick = dtype == main or mode in ("fwd", "bwd")
            if (full or in_quick) and _has_mode(op, dtype, mode, main):
                yield dtype, mode


def _quick_dtypes(name: str, op: Any, main: torch.dtype | None) -> list[torch.dtype]:
    if main is None:
        return []
    chosen = [main]
    if torch.int64 in op.dtypes and main != torch.int64:
        chosen.append(torch.int64)
    others = [d for d in SECOND if d in op.dtypes and d != main]
    if others:
        chosen.append(others[stable_hash(name) % len(others)])
    return list(dict.fromkeys(chosen))


def _has_mode(op: Any, dtype: torch.dtype, mode: str, main: torch.dtype | None) -> bool:
    if mode == "bwd":
        smooth = dtype.is_floating_point or dtype.is_complex
        return bool(
            smooth and op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
        )
    if mode == "inplace":
        return op.inplace_variant is not None
    if mode == "out":
        return op.supports_out
    if mode == "special":
        return is_elementwise(op) and dtype.is_floating_point
    if mode == "error":
        return op.error_inputs_func is not None and dtype == main
    return True


def pick(samples: Iterable, limit: int, seed: int, look: int = 24) -> list:
    """The first sample and some others of the first `look`; all of them when limit is 0."""
    if not limit:
        return list(samples)
    got = list(itertools.islice(samples, look))
    if len(got) <= limit:
        return got
    rest = list(range(1, len(got)))
    random.Random(seed).shuffle(rest)
    return [got[i] for i in sorted([0, *rest[: limit - 1]])]
