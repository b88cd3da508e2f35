"""Random inputs: dtypes, values, shapes and layouts."""

import math
import random
from collections.abc import Iterator
from dataclasses import replace

import torch

from tests.fuzz.programs import Given

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTS = (torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 127, 130, 257)
MOST = 3000  # elements of an input
MOST_LARGE = 150_000  # of one for several threads


def any_dtype(draw: random.Random) -> torch.dtype:
    weights = (30, 10, 10, 10, 8, 6, 6, 5, 5, 10)
    return draw.choices((*FLOATS, *INTS, torch.bool), weights)[0]


def pattern(draw: random.Random, dtype: torch.dtype) -> tuple:
    length = draw.choice((1, 3, 7, 16, 31, 61))
    if dtype == torch.bool:
        return tuple(draw.random() < 0.5 for _ in range(length))
    if not dtype.is_floating_point:
        return tuple(_integers(draw, dtype, length))
    values = _floats(draw, dtype, length)
    return tuple(torch.tensor(values, dtype=torch.float64).to(dtype).double().tolist())


def _integers(draw: random.Random, dtype: torch.dtype, length: int) -> list[int]:
    info = torch.iinfo(dtype)
    special = [0, 1, info.max, info.max - 1, info.min, info.min + 1, 63, 64, 31, 8]
    wild = draw.random() < 0.3
    low = max(info.min, -10) if draw.random() < 0.7 else 1
    return [
        draw.choice(special) if wild and draw.random() < 0.5 else draw.randint(low, 12)
        for _ in range(length)
    ]


def _floats(draw: random.Random, dtype: torch.dtype, length: int) -> list[float]:
    info = torch.finfo(dtype)
    special = [math.inf, -math.inf, math.nan, 0.0, -0.0, info.max, -info.max, info.tiny]
    special += [-info.tiny, info.tiny / 4, info.eps, 1.0, -1.0, 0.5, 2.5]
    kind = draw.choice(("normal", "small", "eighths", "eighths", "positive", "unit", "special"))
    make = {
        "normal": lambda: draw.gauss(0, 2),
        "small": lambda: draw.gauss(0, 0.05),
        "eighths": lambda: draw.randint(-32, 32) / 8,
        "positive": lambda: draw.uniform(0.1, 4),
        "unit": lambda: draw.uniform(-1, 1),
        "special": lambda: draw.choice(special) if draw.random() < 0.4 else draw.gauss(0, 2),
    }[kind]
    return [make() for _ in range(length)]


def shape(draw: random.Random, large: bool) -> tuple[int, ...]:
    """large: for several threads."""
    if large:
        return draw.choice(((257, 513), (700, 130), (33, 65, 64), (130_000,), (3, 40_001)))
    rank = draw.choices((0, 1, 2, 3, 4), (6, 24, 40, 22, 8))[0]
    sizes: list[int] = []
    for _ in range(rank):
        room = MOST // max(1, math.prod(sizes))
        choice = [n for n in SIZES if n <= room] or [1]
        sizes.append(0 if draw.random() < 0.015 else draw.choice(choice))
    return tuple(sizes)


def row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(sizes):
        strides.append(step)
        step *= max(1, n)
    return tuple(reversed(strides))


def layout(draw: random.Random, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Strides and an offset."""
    rank = len(sizes)
    kind = draw.choices(
        ("plain", "permuted", "gaps", "expanded", "overlapping", "offset"), (48, 16, 14, 8, 5, 9)
    )[0]
    offset = draw.choice((1, 3, 8, 17)) if kind in ("offset", "gaps") else 0
    strides = list(row_major(sizes))
    if kind == "permuted" or (kind in ("gaps", "expanded") and draw.random() < 0.4):
        order = draw.sample(range(rank), rank)
        permuted = row_major(tuple(sizes[d] for d in order))
        strides = [permuted[order.index(d)] for d in range(rank)]
    if kind == "gaps" and rank:
        steps = [draw.choice((1, 2, 3)) for _ in sizes]
        wide = row_major(tuple(n * s + draw.choice((0, 0, 1)) for n, s in zip(sizes, steps)))
        strides = [w * s for w, s in zip(wide, steps)]
    if kind == "expanded" and rank:
        chosen = set(draw.sample(range(rank), draw.randint(1, rank)))
        kept = row_major(tuple(1 if d in chosen else n for d, n in enumerate(sizes)))
        strides = [0 if d in chosen else kept[d] for d in range(rank)]
    if kind == "overlapping" and rank:
        strides = [draw.choice((0, 1, 1, 2, 5)) for _ in sizes]
    return tuple(strides), offset


def broadcastable(draw: random.Random, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that goes together with this one."""
    change = draw.random()
    if change < 0.6 or not sizes:
        return sizes
    if change < 0.7:
        return ()
    cut = sizes[draw.randint(0, len(sizes)) :] if draw.random() < 0.5 else sizes
    return tuple(1 if draw.random() < 0.4 else n for n in cut)


def broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of both together, if they go together."""
    rank = max(len(a), len(b))
    pairs = list(zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        return None
    return tuple(n if m == 1 else m for m, n in pairs)


def new_input(draw: random.Random, dtype: torch.dtype, sizes: tuple[int, ...]) -> Given:
    strides, offset = layout(draw, sizes)
    return Given(dtype, pattern(draw, dtype), sizes, strides, offset)


def index_input(draw: random.Random, sizes: tuple[int, ...], bound: int) -> Given:
    """Of indices below the bound; of a bound below 0, from its other side on too."""
    low, high = (bound, -bound) if bound < 0 else (0, max(1, bound))
    values = tuple(draw.randrange(low, high) for _ in range(draw.choice((1, 3, 7))))
    dtype = torch.int32 if draw.random() < 0.2 else torch.int64
    strides, offset = layout(draw, sizes)
    return Given(dtype, values, sizes, strides, offset)


def raising(inputs: tuple[Given, ...]) -> Iterator[tuple[Given, ...]]:
    """The inputs with a number among integers that is no index, and that nothing is divided by."""
    for i, one in enumerate(inputs):
        if one.dtype not in INTS or one.base is not None:
            continue
        elements = min(len(one.pattern), math.prod(one.sizes))
        beyond = min(torch.iinfo(one.dtype).max, 1 << 20)
        for k, wrong in enumerate((0, beyond, -beyond)):
            if elements == 0 or (wrong < 0 and one.dtype == torch.uint8):
                continue
            at = (7 * i + 5 * k) % elements
            pattern = (*one.pattern[:at], wrong, *one.pattern[at + 1 :])
            yield (*inputs[:i], replace(one, pattern=pattern), *inputs[i + 1 :])


def reshaped_inputs(
    draw: random.Random, inputs: tuple[Given, ...], other_sizes: bool
) -> tuple[Given, ...]:
    """The same inputs with other values and layouts, and, if asked for, with other sizes."""
    sizes = {n for one in inputs for n in one.sizes if n > 1}
    new = {n: draw.choice((2, 3, 5, 6, 10, 19, 34, 66)) for n in sizes} if other_sizes else {}
    made: list[Given] = []
    for one in inputs:
        if one.base is not None and not other_sizes:
            made.append(one)
            continue
        shape_ = tuple(new.get(n, n) for n in one.sizes)
        strides, offset = layout(draw, shape_)
        is_index = one.dtype in (torch.int64, torch.int32) and min(one.pattern) >= 0
        values = one.pattern if is_index else pattern(draw, one.dtype)
        made.append(Given(one.dtype, values, shape_, strides, offset))
    return tuple(made)
