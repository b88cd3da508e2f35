"""Arguments of operators whose parameters belong to channels, and of losses over classes."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch

from tests.fuzz import inputs as make
from tests.fuzz.programs import Given, Ref

NORMS = {
    "native_batch_norm",
    "_native_batch_norm_legit.no_stats",
    "_native_batch_norm_legit_no_training",
    "_native_batch_norm_legit_functional",
    "_batch_norm_with_update_functional",
    "native_group_norm",
}
LOSSES = {"nll_loss_forward", "nll_loss2d_forward"}


def has_channels(op: str) -> bool:
    """By its name, with an overload or without."""
    return op in LOSSES or any(op == name or op == name.partition(".")[0] for name in NORMS)


class Channels:
    """Of one call. `new` adds an input."""

    def __init__(self, draw: random.Random, number: int, x: torch.Tensor, new: Callable):
        self.draw, self.number, self.x, self.new = draw, number, x, new

    def of(self, op: str) -> tuple | None:
        """None where the tensor does not fit."""
        x = self.x
        if not x.dtype.is_floating_point or x.dim() < 2 or x.numel() == 0:
            return None
        if op in LOSSES:
            return self._loss(op) if x.dim() == (4 if "2d" in op else 2) else None
        if "group" in op:
            return self._groups()
        return self._batch(op)

    def _tensor(self, sizes: tuple[int, ...], dtype: torch.dtype | None = None) -> Ref:
        return self.new(make.new_input(self.draw, dtype or self.x.dtype, sizes))

    def _vector(self, least: float = -2.0) -> Ref:
        """A number for each channel."""
        dtype = self.dtype_of_parameters
        numbers = [self.draw.uniform(least, 3) for _ in range(7)]
        pattern = tuple(torch.tensor(numbers, dtype=torch.float64).to(dtype).double().tolist())
        return self.new(Given(dtype, pattern, (self.x.shape[1],), (1,)))

    def _maybe(self, made: Callable[[], Any]) -> Any:
        return made() if self.draw.random() < 0.7 else None

    def _batch(self, op: str) -> tuple:
        narrow = self.x.dtype in (torch.float16, torch.bfloat16)
        self.dtype_of_parameters = (
            torch.float32 if narrow and self.draw.random() < 0.5 else self.x.dtype
        )
        x, eps = Ref(self.number), self.draw.choice((1e-5, 1e-3, 0.1))
        momentum = self.draw.choice((0.1, 0.5, 0.0))
        parameters = (self._maybe(self._vector), self._maybe(self._vector))
        if op.endswith("no_stats"):
            return (x, *parameters, True, momentum, eps)
        if op == "native_batch_norm" and self.draw.random() < 0.5:
            return (x, *parameters, None, None, True, momentum, eps)
        moments = (self._vector(), self._vector(0.5))
        if op.endswith(("no_training", "update_functional")):
            return (x, *parameters, *moments, momentum, eps)
        return (x, *parameters, *moments, op.endswith("functional"), momentum, eps)

    def _groups(self) -> tuple:
        self.dtype_of_parameters = self.x.dtype
        n, c = self.x.shape[:2]
        groups = self.draw.choice([g for g in range(1, c + 1) if c % g == 0])
        parameters = (self._maybe(self._vector), self._maybe(self._vector))
        return (Ref(self.number), *parameters, n, c, math.prod(self.x.shape[2:]), groups, 1e-5)

    def _loss(self, op: str) -> tuple:
        sizes = tuple(self.x.shape)
        targets, classes = sizes[:1] + sizes[2:], sizes[1]
        values = tuple(self.draw.randrange(classes) for _ in range(5))
        target = self.new(Given(torch.int64, values, targets, make.row_major(targets)))
        weight = self._maybe(lambda: self._tensor((classes,)))
        ignored = self.draw.choice((-100, values[0]))
        return Ref(self.number), target, weight, self.draw.randrange(3), ignored
