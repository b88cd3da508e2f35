"""Generated kernels alone: GB/s of least traffic, buffers kept, one thread.

Usage: python -m bench.kernels [NAME ...]
"""

import ctypes
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "unit"))
from loop_harness import Kernels, lower  # noqa: E402

WIDTH = 1024
LAST_CACHE = 32 << 20
PROGRAMS = {
    "gelu": (1, lambda x: F.gelu(x, approximate="tanh")),
    "gelu erf": (1, lambda x: F.gelu(x)),
    "softmax": (1, lambda x: x.softmax(-1)),
    "layer_norm": (1, lambda x, w, b: F.layer_norm(x, (WIDTH,), w, b)),
    "rms_norm": (1, lambda x, w: F.rms_norm(x, (WIDTH,), w)),
    "sum dim 1": (1, lambda x: x.sum(-1)),
    "sum dim 0": (1, lambda x: x.sum(0)),
    "chain": (2, lambda x, y: (x + y) * y + x * x),
    "swiglu": (2, lambda x, y: F.silu(x) * y),
}


def inputs_of(name, log2, dtype):
    full, function = PROGRAMS[name]
    rows = (1 << log2) // WIDTH
    count = function.__code__.co_argcount
    return [torch.randn(rows, WIDTH, dtype=dtype) for _ in range(full)] + [
        torch.randn(WIDTH, dtype=dtype) for _ in range(count - full)
    ]


def best_time(run, seconds=0.35):
    run()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def measure(kernels, name, log2, dtype):
    inputs = inputs_of(name, log2, dtype)
    program = lower(PROGRAMS[name][1], inputs)
    kernels.run(program, inputs)
    address = kernels.addresses[kernels.add(program)]
    outputs = program.allocate()
    seconds = best_time(
        lambda: program.run_in(address, inputs, outputs, 0, cache_bytes=LAST_CACHE * 3 // 4)
    )
    return program.bytes / seconds / 1e9


def main(names):
    if unknown := set(names) - set(PROGRAMS):
        sys.exit(f"no kernel {', '.join(sorted(unknown))}; there are {', '.join(PROGRAMS)}")
    torch.set_num_threads(1)
    ctypes.CDLL(None)
    kernels = Kernels()
    print(f"{'kernel':14}{'dtype':10}" + "".join(f"{f'2^{n}':>9}" for n in (14, 20, 25)))
    for name in names or PROGRAMS:
        for dtype in (torch.float32, torch.bfloat16):
            row = [measure(kernels, name, n, dtype) for n in (14, 20, 25)]
            print(f"{name:14}{str(dtype)[6:]:10}" + "".join(f"{gb:9.1f}" for gb in row), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
