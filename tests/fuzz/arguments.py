"""Random arguments for an operator, from its schema: by the types and names of its parameters."""

import math
import random
import re
from typing import Any

import torch

from tests.fuzz import inputs as make
from tests.fuzz.channels import Channels, has_channels
from tests.fuzz.operators import Operator
from tests.fuzz.parts import has_part, place
from tests.fuzz.programs import Given, Ref

SKIPPED = {
    "layout",
    "device",
    "pin_memory",
    "non_blocking",
    "memory_format",
    "generator",
    "implicit",
}
MASKS = {"condition", "mask"}
INDICES = {"index", "indices"}
SECOND_MATRICES = {"mat2", "batch2"}
TEXTS = {
    "approximate": ("none", "tanh"),
    "rounding_mode": (None, "floor", "trunc"),
}
SIZES_OF_DIMS = {"size", "sizes", "shape"}
DIMS = {"dim", "dims", "axis", "dim0", "dim1", "dim2", "axis0", "axis1", "source", "destination",
        "start_dim", "end_dim", "dimension"}  # fmt: skip
COUNTS = {"end", "n", "m"}  # of elements to be made
PADDINGS = {"pad", "padding"}


class Arguments:
    """Of one call; inputs that it needs and nobody has are put into `new_inputs`."""

    def __init__(self, draw: random.Random, pool: dict[int, torch.Tensor], dtype: torch.dtype):
        """pool: the values there are. dtype: the program's favourite."""
        self.draw, self.pool, self.dtype = draw, pool, dtype
        self.new_inputs: list[Given] = []
        self.first: torch.Tensor | None = None
        self.joined: int | None = None  # the dimension in which the tensors of a list differ
        self.padded: int | None = None  # how many dimensions the operator pads

    def of(self, operator: Operator) -> tuple[tuple, tuple[tuple[str, Any], ...]]:
        if has_part(operator.name) and (args := self._of_part(operator.name)) is not None:
            return args, ()
        if has_channels(operator.name):
            return self._of_channels(operator.name), ()
        padded = re.search(r"_pad(\d)d", operator.name)
        self.padded = int(padded[1]) if padded else None
        if operator.name == "one_hot":
            return (self._new(self._index_input((self.draw.choice((1, 3, 17)),), 8)), 8), ()
        args: list[Any] = []
        kwargs: list[tuple[str, Any]] = []
        for parameter in operator.schema.arguments:
            if parameter.name in SKIPPED:
                continue
            if parameter.has_default_value() and self.draw.random() < 0.5:
                continue
            value = self._value(parameter)
            if parameter.kwarg_only or len(args) < self._position(operator, parameter.name):
                kwargs.append((parameter.name, value))
            else:
                args.append(value)
        return tuple(args), tuple(kwargs)

    def _of_part(self, name: str) -> tuple | None:
        """A tensor and a part to be put into it, or the part and the sizes around it."""
        number = self._pick(list(self.pool))
        found = place(self.draw, name, self.pool[number])
        if found is None:
            return None
        sizes, where = found
        part = self._new(make.new_input(self.draw, self.pool[number].dtype, sizes))
        if name.endswith("_scatter"):
            return Ref(number), part, *where
        return part, list(self.pool[number].shape), *where

    def _of_channels(self, name: str) -> tuple:
        number = self._pick(list(self.pool))
        return Channels(self.draw, number, self.pool[number], self._new).of(name) or ()

    @staticmethod
    def _position(operator: Operator, name: str) -> int:
        return [a.name for a in operator.schema.arguments].index(name)

    def _value(self, parameter: Any) -> Any:
        kind, name = str(parameter.real_type), parameter.name
        if kind.startswith("Optional["):
            kind = kind[9:-1]
            if self.draw.random() < 0.3:
                return None
        if kind == "Tensor":
            return self._tensor(name)
        if kind == "List[Tensor]":
            first = self._tensor(name)
            if self.draw.random() < 0.3 and self.first.dim():
                self.joined = self.draw.randrange(self.first.dim())
            return [first, *(self._another(name) for _ in range(self.draw.randint(0, 2)))]
        if kind == "List[Optional[Tensor]]":
            return self._indices()
        if kind == "ScalarType":
            return make.any_dtype(self.draw)
        if name == "p":
            return self.draw.choice((0.0, 0.1, 0.5, 2 / 3, 1.0))
        if kind in ("number", "float"):
            return self._number(kind)
        if kind == "bool":
            return self.draw.random() < 0.5
        if kind == "str":
            return self.draw.choice(TEXTS.get(name, ("",)))
        if kind in ("int", "SymInt"):
            return self._integer(name)
        if kind in ("List[int]", "List[SymInt]"):
            return self._integers(name)
        raise ValueError(f"no rule for {parameter.name}: {kind}")

    # Tensors.

    def _tensor(self, name: str, same_shape: bool = False) -> Ref:
        if self.first is None:
            fitting = [n for n, t in self.pool.items() if self._may_be_padded(t)]
            number = self._pick(fitting or list(self.pool))
            if name in MASKS:
                number = self._of_dtype(torch.bool) or number
            self.first = self.pool[number]
            return Ref(number)
        if name in INDICES:
            return self._index()
        sizes = tuple(self.first.shape)
        if name in SECOND_MATRICES and len(sizes) > 1:
            shape = (*sizes[:-2], sizes[-1], self.draw.choice((1, 3, 8)))
            return self._new(make.new_input(self.draw, self.first.dtype, shape))
        dtype = torch.bool if name in MASKS else None
        fitting = [n for n, t in self.pool.items() if self._fits(t, sizes, dtype, same_shape)]
        if fitting and self.draw.random() < 0.75:
            return Ref(self._pick(fitting))
        dtype = dtype or (self.dtype if self.draw.random() < 0.7 else make.any_dtype(self.draw))
        shape = sizes if same_shape or name == "out" else make.broadcastable(self.draw, sizes)
        if name in ("weight", "bias"):
            shape = sizes[-1:]
        return self._new(make.new_input(self.draw, dtype, shape))

    def _may_be_padded(self, t: torch.Tensor) -> bool:
        return self.padded is None or t.dim() in (self.padded + 1, self.padded + 2)

    def _another(self, name: str) -> Ref:
        """Of a list: as large as the first, or larger or smaller in one dimension."""
        if self.joined is None:
            return self._tensor(name, True)
        sizes = list(self.first.shape)
        sizes[self.joined] = self.draw.choice((0, 1, 2, 5, 16, 33))
        if len(sizes) > 0 and self.first.numel() > make.MOST:
            sizes[self.joined] = 1
        return self._new(make.new_input(self.draw, self.first.dtype, tuple(sizes)))

    def _pick(self, numbers: list[int]) -> int:
        """The later ones rather than the first."""
        return numbers[max(self.draw.randrange(len(numbers)) for _ in range(2))]

    def _of_dtype(self, dtype: torch.dtype) -> int | None:
        found = [n for n, t in self.pool.items() if t.dtype == dtype]
        return self._pick(found) if found else None

    @staticmethod
    def _fits(t: torch.Tensor, sizes: tuple, dtype: torch.dtype | None, same: bool) -> bool:
        if dtype is not None and t.dtype != dtype:
            return False
        if same or tuple(t.shape) == sizes:
            return tuple(t.shape) == sizes
        together = make.broadcast(tuple(t.shape), sizes)
        return together is not None and math.prod(together) <= max(4 * make.MOST, math.prod(sizes))

    def _index(self) -> Ref:
        sizes = tuple(self.first.shape)
        bound = min(sizes, default=1)
        shape = sizes if self.draw.random() < 0.5 else (self.draw.choice((1, 3, 8)),)
        return self._new(self._index_input(shape, bound))

    def _index_input(self, sizes: tuple[int, ...], bound: int) -> Given:
        return make.index_input(self.draw, sizes, bound)

    def _indices(self) -> list[Ref | None]:
        """One for some of the dimensions, of shapes that go together."""
        shape = self.draw.choice(((), (1,), (3,), (17,), (2, 5)))
        chosen: list[Ref | None] = []
        for size in self.first.shape[: self.draw.randint(1, max(1, self.first.dim()))]:
            if self.draw.random() < 0.35:
                chosen.append(None)
                continue
            sizes = tuple(1 if self.draw.random() < 0.2 else n for n in shape)
            bound = -size if size and self.draw.random() < 0.5 else size
            chosen.append(self._new(self._index_input(sizes, bound)))
        return chosen

    def _new(self, one: Given) -> Ref:
        """Numbered from -1 downwards until the call is taken."""
        self.new_inputs.append(one)
        return Ref(-len(self.new_inputs))

    # Numbers.

    def _number(self, kind: str) -> float | int | bool:
        floats = self.first is None or self.first.dtype.is_floating_point or kind == "float"
        if floats and self.draw.random() < 0.75:
            return self.draw.choice((0.5, -0.5, 0.25, 1.5, -2.0, 2.5, 0.125, 3.0, 1e-3, 0.3, -0.7))
        if kind == "float":
            return float(self.draw.randint(-3, 5))
        if self.first is None and self.draw.random() < 0.7:
            return self._count()
        return self.draw.choice((0, 1, 2, 3, -1, -2, 5, 7, -7, 31, 100, 1, 2, 3, True, 0.5))

    def _count(self) -> int:
        """A size that there is."""
        sizes = [n for t in self.pool.values() for n in t.shape]
        return self.draw.choice(sizes or [3])

    def _rank(self) -> int:
        return self.first.dim() if self.first is not None else 0

    def _integer(self, name: str) -> int:
        rank = max(1, self._rank())
        if name in COUNTS:
            return self._count()
        if name == "reduction":
            return self.draw.randrange(3)
        if name == "dim" and self.joined is not None and self.draw.random() < 0.8:
            return self.joined
        if name in DIMS:
            return self.draw.randrange(-rank, rank)
        return self.draw.choice((0, 1, 1, 2, 2, 3, 4, -1, -2, 5, 8, 33))

    def _integers(self, name: str) -> list[int]:
        sizes = tuple(self.first.shape) if self.first is not None else ()
        if name in SIZES_OF_DIMS and (self.first is None or self.draw.random() < 0.3):
            shape = tuple(self.pool[self._pick(list(self.pool))].shape)
            return list(make.broadcastable(self.draw, shape))
        if name in PADDINGS:
            count = 2 * (self.padded or self.draw.randint(1, max(1, len(sizes))))
            widths = (0, 1, 1, 2, -1) if self.padded else (-1, 0, 0, 1, 2, 3, 17)
            return [self.draw.choice(widths) for _ in range(count)]
        if name in SIZES_OF_DIMS:
            return self._new_sizes(sizes)
        if name == "normalized_shape":
            return list(sizes[self.draw.randrange(len(sizes)) :]) if sizes else []
        if name == "split_sizes":
            return self._parts(self.draw.choice(sizes)) if sizes else []
        if name == "dims" and self.draw.random() < 0.6:
            return self.draw.sample(range(len(sizes)), len(sizes))
        if name in DIMS:
            chosen = self.draw.sample(range(len(sizes)), self.draw.randint(0, len(sizes)))
            return [d - len(sizes) if self.draw.random() < 0.4 else d for d in chosen]
        return [self.draw.choice((0, 1, 2, 3)) for _ in range(self.draw.choice((1, 2, len(sizes))))]

    def _parts(self, size: int) -> list[int]:
        parts = []
        while size > 0 and len(parts) < 4:
            parts.append(self.draw.randint(0, size))
            size -= parts[-1]
        return [*parts, size] if size else parts

    def _new_sizes(self, sizes: tuple[int, ...]) -> list[int]:
        """Of as many elements, or with the sizes of 1 made larger."""
        if self.draw.random() < 0.4:
            wide = [self.draw.choice((2, 5)) if n == 1 else n for n in sizes]
            kept = [-1 if self.draw.random() < 0.3 else n for n in wide]
            return [self.draw.choice((1, 3))] * self.draw.randint(0, 1) + kept
        left, parts = math.prod(sizes), []
        if left:
            while left > 1 and len(parts) < 3:
                parts.append(self.draw.choice([d for d in range(1, left + 1) if left % d == 0]))
                left //= parts[-1]
            parts.append(left)
        else:
            parts = [0, self.draw.choice((1, 3))]
        self.draw.shuffle(parts)
        if parts and self.draw.random() < 0.3 and math.prod(sizes):
            parts[self.draw.randrange(len(parts))] = -1
        return parts
