"""A step of AdamW over the parameters of a GPT-2 of 12 layers, one thread: eager and compiled, by
loops over lists (foreach), over parameters, and by ATen's kernel (fused), taken in turns.

Usage: python -m bench.optimizer_steps [WIDTH ...]
"""

import statistics
import sys
import time

import torch

import fulgurite

WIDTHS = (64, 768)
KINDS = {
    "foreach": {"foreach": True},
    "for": {"foreach": False},
    "fused": {"fused": True},
}
LAYERS, VOCABULARY, CONTEXT = 12, 50257, 1024
SECONDS = 10


def parameters(width: int) -> list[torch.nn.Parameter]:
    layer = [(width,)] * 2 + [(width, 3 * width), (3 * width,), (width, width), (width,)]
    layer += [(width,)] * 2 + [(width, 4 * width), (4 * width,), (4 * width, width), (width,)]
    words = VOCABULARY if width >= 256 else 1000
    shapes = [(words, width), (CONTEXT, width), *layer * LAYERS, (width,), (width,)]
    made = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    for one in made:
        one.grad = torch.randn_like(one) * 0.01
    return made


def measure(width: int) -> None:
    steps = {}
    for kind, options in KINDS.items():
        eager = torch.optim.AdamW(parameters(width), lr=1e-3, **options)
        steps[kind, "eager"] = eager.step
        compiled = fulgurite.jit(torch.optim.AdamW(parameters(width), lr=1e-3, **options).step)
        for _ in range(2):  # the first step makes the state
            compiled()
        steps[kind, "fulgurite"] = compiled
    taken: dict[tuple[str, str], list[float]] = {name: [] for name in steps}
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(taken["fused", "fulgurite"]) < 3:
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            taken[name].append(time.perf_counter() - start)
    for (kind, who), times in taken.items():
        median, least = statistics.median(times) * 1e3, min(times) * 1e3
        print(f"{width:5d}  {kind:8s} {who:10s} {median:9.2f} ms, at least {least:9.2f}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for width in map(int, sys.argv[1:] or WIDTHS):
        measure(width)
