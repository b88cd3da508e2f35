"""What the cost model believes of single calls, beside what they take: our kernel's and ATen's.

A call is made a kernel of its own where that is estimated to be faster than ATen. Each row shows
microseconds, estimated and measured, of both, on one thread, with the memory of results kept; the
last column says where the choice is the wrong one, and by how much that is slower.

Usage: python -m bench.costs [NAME ...]    or, for each operator with a rule for elements,
       python -m bench.costs --operators
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

import torch
import torch.nn.functional as F

from bench.kernels import LAST_CACHE, ROWS, WIDTH, Row, compiled, interleave, make  # isort: skip
from loop_harness import capture  # isort: skip
from pointwise_samples import SAMPLES  # isort: skip
from fulgurite import _C

SIZES = (14, 17, 20, 23, 25)
DTYPES = (torch.float32, torch.bfloat16)
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)}


@dataclass(frozen=True)
class Single(Row):
    """A call of its own, whose stream is not asked for."""

    stream: str = ""
    function: Callable[..., object] = torch.neg
    narrow: bool = True


def single(inputs: str, function: Callable[..., object]) -> Single:
    return Single(inputs, function=function)


CALLS: dict[str, Row] = {
    **{name: row for name, row in ROWS.items() if name not in ("chain", "rotary", "adamw")},
    "add": single("xx", torch.add),
    "mul scalar": single("x", lambda x: x * 0.5),
    "relu": single("x", torch.relu),
    "exp": single("x", torch.exp),
    "silu": single("x", F.silu),
    "sqrt": single("x", torch.sqrt),
    "where": single("xx", lambda x, y: torch.where(x > y, x, y)),
    "to half": single("x", lambda x: x.half()),
    "to double": single("x", lambda x: x.double()),
    "add row": single("xw", torch.add),
    "mul column": single("xc", torch.mul),
    "amax dim 1": single("x", lambda x: x.amax(-1)),
    "argmax dim 1": single("x", lambda x: x.argmax(-1)),
    "mean dim 1": single("x", lambda x: x.mean(-1)),
    "mean dim 0": single("x", lambda x: x.mean(0)),
    "amax dim 0": single("x", lambda x: x.amax(0)),
    "var dim 1": single("x", lambda x: x.var(-1)),
    "norm dim 1": single("x", lambda x: torch.linalg.vector_norm(x, dim=-1)),
    "logsumexp": single("x", lambda x: x.logsumexp(-1)),
    "cumsum dim 1": single("x", lambda x: x.cumsum(-1)),
    "transposed copy": single("t", lambda x: x.t().contiguous()),
    "transposed mul": single("t", lambda x: x.t() * 2),
    "cat": single("xx", lambda x, y: torch.cat((x, y), -1)),
    "pad": single("x", lambda x: F.pad(x, (1, 1))),
    "roll": single("x", lambda x: x.roll(1, -1)),
    "flip": single("x", lambda x: x.flip(-1)),
    "tril": single("x", torch.tril),
}


def measure(row: Row, log2: int, dtype: torch.dtype):
    """(estimate, time) in seconds, of our kernel and of ATen."""
    inputs = [make(kind, log2, dtype) for kind in row.inputs]
    row.function(*inputs)  # what ATen has no kernel for, no kernel of ours is meant for
    trace = capture(row.function, inputs)
    ours, aten = _C.loops.estimates(trace)
    program = _C.loops.lower(trace)
    kernel, outputs = compiled(program), program.allocate()

    def run_kernel(times: int) -> None:
        program.run_in(
            kernel.address, inputs, outputs, 0, cache_bytes=LAST_CACHE * 3 // 4, times=times
        )

    def run_aten(times: int) -> None:
        for _ in range(times):
            row.function(*inputs)

    best = interleave({"ours": run_kernel, "aten": run_aten}, seconds=0.05)
    return (ours * 1e-9, best["ours"]), (aten * 1e-9, best["aten"])


def verdict(ours: tuple[float, float], aten: tuple[float, float]) -> str:
    # As src/passes/grouping.cpp has it: a kernel has to be compiled for what it gains.
    taken = ours[0] < 0.9 * aten[0] or (ours[0] < 0.97 * aten[0] and aten[0] - ours[0] > 5e-5)
    chosen, other = (ours[1], aten[1]) if taken else (aten[1], ours[1])
    loss = chosen / other
    return f"{'ours' if taken else 'ATen'} {loss:.2f}x slower" if loss > 1.15 else ""


def show(name: str, row: Row, log2: int, dtype: torch.dtype) -> None:
    try:
        ours, aten = measure(row, log2, dtype)
    except (_C.Unsupported, RuntimeError) as refusal:  # no kernel of ours, none of ATen
        print(f"{name:27}{str(dtype)[6:]:10}{str(refusal).splitlines()[0]}")
        return
    cells = "".join(f"{1e6 * v:9.1f} " for v in (*ours, *aten))
    print(f"{name:27}{str(dtype)[6:]:10}2^{log2:<6}{cells} {verdict(ours, aten)}", flush=True)


def show_operators() -> None:
    for name, functions in SAMPLES.items():
        for i, function in enumerate(functions):
            tensors = [p for p in signature(function).parameters.values() if p.default is p.empty]
            row = Row("p" * len(tensors), "", function)
            for dtype in (*DTYPES, torch.int64):
                show(f"{name}/{i}", row, 17, dtype)


def main(names: list[str]) -> None:
    if any(os.environ.get(name) != value for name, value in KEEP_MEMORY.items()):
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **KEEP_MEMORY})
    torch.set_num_threads(1)
    print(f"{WIDTH} columns; microseconds: estimated, measured")
    print(f"{'call':27}{'dtype':10}{'elements':9}{'ours':>16}{'ATen':>20}")
    with torch.no_grad():
        if names == ["--operators"]:
            return show_operators()
        if unknown := set(names) - set(CALLS):
            sys.exit(f"no call {', '.join(sorted(unknown))}; there are {', '.join(CALLS)}")
        for name in names or CALLS:
            for dtype in DTYPES[: 1 + CALLS[name].narrow]:
                for log2 in SIZES:
                    show(name, CALLS[name], log2, dtype)


if __name__ == "__main__":
    main(sys.argv[1:])
