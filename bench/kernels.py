"""Generated kernels alone: GB/s of least traffic, buffers kept, one thread.

Beside each: its ratio to a plain stream of as many bytes (read, copy or triad, with the better of
ordinary and non-temporal stores), taken in turns with the kernel in one process. The last column is
what compiling the text took, in milliseconds of the processor.

Usage: python -m bench.kernels [NAME ...]
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

os.environ["FULGURITE_CACHE_DIR"] = "0"
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "unit"))
from loop_harness import COMPILER, FLAGS, MACHINE, WIDEST, lower  # noqa: E402

from fulgurite import _C  # noqa: E402

WIDTH = 1024
SIZES = (14, 20, 25)
LAST_CACHE = 32 << 20
CHUNK_SECONDS = 5e-4  # of calls between two looks at the clock
STREAMS = {
    "read": (1, ("read",)),
    "copy": (2, ("copy", "copy_streaming")),
    "triad": (3, ("triad", "triad_streaming")),
}


@dataclass(frozen=True)
class Row:
    """inputs: of as many rows as fit, of WIDTH columns; "w" is one row, "c" one column, "t" a
    transposed matrix, "8" are bytes, "p" is as "x" without negative ones, "m" is a mask, "i" a
    number of a column for each row, "r" of a row. narrow: is measured in bfloat16 too. into: the
    inputs that results are written to."""

    inputs: str
    stream: str
    function: Callable[..., object]
    narrow: bool = False
    into: tuple[int, ...] = ()


def adamw(p, g, m, v):
    m = torch.lerp(m, g, 0.1)
    v = torch.addcmul(v * 0.999, g, g, value=1e-3)
    return torch.addcdiv(p * (1 - 1e-5), m, v.sqrt() * 31.6 + 1e-8, value=-1e-2), m, v


def rotary(x, cos, sin):
    x = x.view(-1, 8, 128)
    turned = torch.cat((-x[..., 64:], x[..., :64]), -1)
    return x * cos[:128] + turned * sin[:128]


def cross_entropy(x, target):
    log = x.log_softmax(-1)
    loss = F.nll_loss(log, target, reduction="none")
    one, weight = torch.ones_like(loss), torch.zeros((), dtype=x.dtype)
    grad = torch.ops.aten.nll_loss_backward(one, log, target, None, 0, -100, weight)
    return loss, torch.ops.aten._log_softmax_backward_data(grad, log, -1, x.dtype)


def gelu_backward(grad, x):
    return torch.ops.aten.gelu_backward(grad, x, approximate="tanh")


ROWS = {
    "gelu": Row("x", "copy", lambda x: F.gelu(x, approximate="tanh"), True),
    "gelu erf": Row("x", "copy", F.gelu, True),
    "softmax": Row("x", "copy", lambda x: x.softmax(-1), True),
    "log_softmax": Row("x", "copy", lambda x: x.log_softmax(-1)),
    "layer_norm": Row("xww", "copy", lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b), True),
    "add layer_norm": Row(
        "xxww", "triad", lambda x, y, w, b: F.layer_norm(x + y, (WIDTH,), w, b), True
    ),
    "masked softmax": Row(
        "xm", "copy", lambda x, m: (x * 0.125).masked_fill(m, -torch.inf).softmax(-1), True
    ),
    "cross_entropy": Row("xi", "copy", cross_entropy),
    "rms_norm": Row("xw", "copy", lambda x, w: F.rms_norm(x, (WIDTH,), w), True),
    "sum": Row("x", "read", lambda x: x.sum()),
    "sum dim 1": Row("x", "read", lambda x: x.sum(-1), True),
    "sum dim 0": Row("x", "read", lambda x: x.sum(0), True),
    "chain": Row("xx", "triad", lambda x, y: (x + y) * y + x * x, True),
    "rotary": Row("xww", "copy", rotary, True),
    "swiglu": Row("xx", "triad", lambda x, y: F.silu(x) * y, True),
    "gelu backward": Row("xx", "triad", gelu_backward, True),
    "embedding": Row("xr", "copy", lambda x, rows: F.embedding(rows, x), True),
    "cat": Row("xx", "copy", lambda x, y: torch.cat((x, y), -1), True),
    "dequant int8": Row("8c", "copy", lambda q, s: q.float() * s),
    "transpose add": Row("tx", "triad", lambda x, y: x.t() + y),
    "adamw": Row("xxxx", "triad", adamw, into=(0, 2, 3)),
}


def make(kind: str, log2: int, dtype: torch.dtype) -> torch.Tensor:
    rows = (1 << log2) // WIDTH
    if kind == "8":
        return torch.randint(-127, 128, (rows, WIDTH), dtype=torch.int8)
    if kind == "p":
        return torch.rand(rows, WIDTH).mul_(8 if dtype == torch.int64 else 1).add_(1).to(dtype)
    if kind in "ir":
        return torch.randint(0, WIDTH if kind == "i" else rows, (rows,))
    if kind == "m":
        return torch.rand(rows, WIDTH) < 0.2
    shapes = {"x": (rows, WIDTH), "w": (WIDTH,), "c": (rows, 1), "t": (WIDTH, rows)}
    return torch.rand(shapes[kind]).sub_(0.5).to(dtype)


def streams():
    """The functions of streams.cpp by name."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "streams.so")
        source = Path(__file__).with_name("streams.cpp")
        subprocess.run(
            [COMPILER, *FLAGS, MACHINE[WIDEST], str(source), "-o", str(library)], check=True
        )
        loaded = ctypes.CDLL(str(library))
    names = [name for _, names in STREAMS.values() for name in names]
    for name in names:
        getattr(loaded, name).argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_long] * 2
    return {name: getattr(loaded, name) for name in names}


def interleave(calls: dict[str, Callable[[int], None]], seconds=0.35) -> dict[str, float]:
    """The least processor seconds of one call of each; a call takes how often it is to run."""

    def timed(call, count):
        call(1)  # its data into the caches, where they fit
        start = time.thread_time()
        call(count)
        return (time.thread_time() - start) / count

    once = {name: min(timed(call, 1) for _ in range(3)) for name, call in calls.items()}
    counts = {name: max(1, int(CHUNK_SECONDS / best)) for name, best in once.items()}
    best, end = once, time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for name, call in calls.items():
            best[name] = min(best[name], timed(call, counts[name]))
    return best


def compiled(program):
    kernel = _C.compile_kernel(program.cpu("kernel", WIDEST), "kernel")
    if kernel is None:
        sys.exit(f"no kernel compiler: {_C.missing_compiler()}")
    return kernel


def measure(plain, row: Row, log2: int, dtype: torch.dtype):
    """GB/s of the kernel and of its stream; milliseconds that it took to compile."""
    inputs = [make(kind, log2, dtype) for kind in row.inputs]
    program = lower(row.function, inputs)
    outputs = [inputs[i] for i in row.into] or program.allocate()
    # As calls have it: what is written has just been read.
    cache_bytes = 1 << 62 if row.into else LAST_CACHE * 3 // 4
    start = time.process_time()
    kernel = compiled(program)
    took = 1e3 * (time.process_time() - start)
    count, names = STREAMS[row.stream]
    n = program.bytes // (4 * count) // 64 * 64
    buffers = [torch.ones(n) for _ in range(3)]
    pointers = [buffer.data_ptr() for buffer in buffers]
    calls = {
        "kernel": lambda times: program.run_in(
            kernel.address, inputs, outputs, 0, cache_bytes=cache_bytes, times=times
        )
    }
    for name in names:
        calls[name] = lambda times, run=plain[name]: run(*pointers, n, times)
    best = interleave(calls)
    stream = min(best[name] for name in names)
    return program.bytes / best["kernel"] / 1e9, count * 4 * n / stream / 1e9, took


def main(names: list[str]) -> None:
    if unknown := set(names) - set(ROWS):
        sys.exit(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    torch.set_num_threads(1)
    plain = streams()
    print(
        f"{'kernel':16}{'dtype':10}{'stream':8}"
        + "".join(f"{f'2^{n}':>15}" for n in SIZES)
        + f"{'ms':>7}"
    )
    for name in names or ROWS:
        row = ROWS[name]
        for dtype in (torch.float32, torch.bfloat16)[: 1 + row.narrow]:
            found = [measure(plain, row, n, dtype) for n in SIZES]
            cells = "".join(f"{gb:9.1f} {gb / limit:.2f}x" for gb, limit, _ in found)
            took = max(took for _, _, took in found)
            print(f"{name:16}{str(dtype)[6:]:10}{row.stream:8}{cells}{took:7.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
