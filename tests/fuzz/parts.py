"""Arguments of operators that put a part into a tensor: the part is as large as its place."""

import random
from collections.abc import Callable

import torch


def _select(draw: random.Random, x: torch.Tensor) -> tuple:
    d = draw.randrange(x.dim())
    return draw.choice((d, d - x.dim())), draw.randrange(-x.shape[d], x.shape[d])


def _slice(draw: random.Random, x: torch.Tensor) -> tuple:
    d = draw.randrange(x.dim())
    start, end = sorted(draw.randint(0, x.shape[d]) for _ in range(2))
    return draw.choice((d, d - x.dim())), start, draw.choice((end, 2**63 - 1)), draw.choice((1, 2))


def _diagonal(draw: random.Random, x: torch.Tensor) -> tuple:
    return (draw.randint(-2, 3), *draw.sample(range(x.dim()), 2))


# By the view whose place it is: the arguments after the tensor, and how many dimensions it needs.
PLACES: dict[str, tuple[Callable[[random.Random, torch.Tensor], tuple], int]] = {
    "select": (_select, 1),
    "slice": (_slice, 1),
    "diagonal": (_diagonal, 2),
}
VIEWS = {
    "select": torch.ops.aten.select.int,
    "slice": torch.ops.aten.slice.Tensor,
    "diagonal": torch.ops.aten.diagonal.default,
}


def has_part(op: str) -> bool:
    """Whether it is "select_scatter", "slice_backward" or the like."""
    view, _, what = op.partition("_")
    return view in PLACES and what in ("scatter", "backward")


def place(draw: random.Random, op: str, x: torch.Tensor) -> tuple[tuple[int, ...], tuple] | None:
    """The sizes of a part of x, and the arguments that say where it is; None where there is none."""
    view = op.partition("_")[0]
    choose, rank = PLACES[view]
    if x.dim() < rank or x.numel() == 0:
        return None
    where = choose(draw, x)
    return tuple(VIEWS[view](x, *where).shape), where
