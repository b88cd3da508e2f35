"""A program by eager, and beside it in float64: exactly, and several times with small errors.

Each value has a `real` tensor, and shadows in float64: the first is computed without errors of its
own, the others have errors put in: on what an operator reads and on what it returns, of a few units
in the last place of the dtype that eager has there. How far the shadows lie apart is what rounding
may do to the value, whoever computes it.

A value is `exact` where no rounding has happened at all. Operators with jumps (comparisons, floor,
casts to integers) are applied only where errors of sixteen times the size would not change their
results; else `Rejected` is raised, as it is where eager raises or where its result is one of those
that fulgurite is known not to share.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.fuzz.channels import has_channels
from tests.fuzz.exceptions import (
    EAGER_ERRORS,
    SUMS_OF_CLASSES,
    VARIANCES,
    cancels,
    in_two_minds,
    left_out,
    underflows,
)
from tests.fuzz.operators import operators
from tests.fuzz.programs import Call, Given, Program, given, make, overload, substituted

SHADOWS = 5
AMPLIFIED = 16
MOST_ELEMENTS = 1 << 19
SEED = 17


class Rejected(Exception):
    """The call is not to be in the program: why."""


@dataclass
class Value:
    real: torch.Tensor
    shadows: list[torch.Tensor]  # of others than floats: the real one


def is_float(t: torch.Tensor) -> bool:
    return t.dtype.is_floating_point


def eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _storage(t: torch.Tensor) -> int:
    return t.untyped_storage().data_ptr()


class Evaluation:
    def __init__(self, inputs: tuple[Given, ...] = (), seed: int = 0):
        self.values: dict[int, Value] = {}
        self.inputs: list[Given] = []
        self._inexact: set[int] = set()  # storages
        self._draws = torch.Generator().manual_seed(seed)
        self._random = torch.Generator().manual_seed(SEED).get_state()  # of the program's numbers
        for one in inputs:
            self.add_input(one)

    def add_input(self, one: Given) -> int:
        number = len(self.inputs)
        self.inputs.append(one)
        if one.base is not None:
            whole = self.values[one.base]
            place = one.sizes, one.strides, one.offset
            shadows = [s.as_strided(*place) for s in whole.shadows]
            self.values[number] = Value(whole.real.as_strided(*place), shadows)
            return number
        (real,) = make((one,))
        shadows = [real] * SHADOWS
        if is_float(real):
            pattern = torch.tensor(one.pattern, dtype=one.dtype).double().tolist()
            place = one.sizes, one.strides, one.offset
            shadows = [given(torch.float64, pattern, *place) for _ in range(SHADOWS)]
        self.values[number] = Value(real, shadows)
        return number

    def is_exact(self, number: int) -> bool:
        return _storage(self.values[number].real) not in self._inexact

    def run(self, call: Call) -> None:
        """Adds the results of a call; after Rejected of one that writes, the evaluation is void."""
        op, known = overload(call.op), operators().get(call.op)
        if known and known.kind == "draw":
            return self._draw(call, op)
        reals = self._real(call, op)
        exact = self._exact_operands(call)
        jumps = bool(known and known.jumps)
        if not exact and not self._moves(known):
            self._check_digits(call)
        before = self._stored(call) if op._schema.is_mutable else None
        shadows = self._shadow(call, op, 0, reals, None)
        is_exact = exact and self._is_exact(call, known, reals, shadows)
        if before is not None:
            self._restore(call, before)
        if not exact:
            self._check_jumps(call, op, jumps, reals, shadows)
        noise = None if is_exact or self._only_views(reals, call) else "results"
        if noise and not jumps and not self._moves(known):
            noise = "operands"
        several = [self._shadow(call, op, k, reals, noise if k else None) for k in range(SHADOWS)]
        for i, (number, real) in enumerate(zip(call.results, reals, strict=True)):
            own = [s[i] for s in several] if is_float(real) else [real] * SHADOWS
            if any(o.shape != real.shape for o in own):
                raise Rejected("the shape depends on the dtype")
            self.values[number] = Value(real, own)
            if is_float(real) and not is_exact and noise:
                self._inexact.add(_storage(real))
            if is_float(real) and not exact and not noise and not self._aliases(real, call):
                self._inexact.add(_storage(real))

    def _draw(self, call: Call, op: Any) -> None:
        """The shadows have the numbers that eager draws, and what dropout scales."""
        exact = self._exact_operands(call)
        scales = "dropout" in call.op
        if not exact and not scales:
            raise Rejected("a draw that depends on rounded values")
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._random)
            reals = self._real(call, op)
            after = torch.get_rng_state()
            aliases = any(self._aliases(r, call) for r in reals)
            if aliases or torch.equal(self._random, after):
                raise Rejected("nothing is drawn")
            shadows = [[r.double() if is_float(r) else r for r in reals]] * SHADOWS
            if scales:
                torch.set_rng_state(self._random)
                x = self.values[call.args[0].number]
                ones = torch.ones_like(x.real)
                noise = pytree.tree_leaves(op(ones, *call.args[1:], **dict(call.kwargs)))[0]
                scaled = [s * noise.double() for s in x.shadows]
                noisy = [
                    self._rounded(s, reals[0], "results" if k else None, False, 0.0)
                    for k, s in enumerate(scaled)
                ]
                shadows = [[s, *reals[1:]] for s in noisy]
                self._inexact.add(_storage(reals[0]))
        self._random = after
        for i, (number, real) in enumerate(zip(call.results, reals, strict=True)):
            own = [s[i] for s in shadows] if is_float(real) else [real] * SHADOWS
            self.values[number] = Value(real, own)

    # Parts of run.

    def _operands(self, call: Call) -> list[Value]:
        numbers: list[int] = []
        substituted((call.args, tuple(v for _, v in call.kwargs)), numbers.append)
        return [self.values[n] for n in dict.fromkeys(numbers)]

    def _exact_operands(self, call: Call) -> bool:
        return all(
            _storage(v.real) not in self._inexact for v in self._operands(call) if is_float(v.real)
        )

    def _real(self, call: Call, op: Any) -> list[torch.Tensor]:
        look = lambda n: self.values[n].real
        args, kwargs = substituted(call.args, look), substituted(call.kwargs, look)
        if reason := left_out(call.op, args, dict(kwargs)):
            raise Rejected(reason)
        known = operators().get(call.op)
        if known and in_two_minds(known.kind, op, args, dict(kwargs)):
            raise Rejected("eager is in two minds")
        operands = [v.real for v in self._operands(call)]
        finite = all(bool(torch.isfinite(o).all()) for o in operands if is_float(o))
        try:
            results = op(*args, **dict(kwargs))
        except EAGER_ERRORS as error:
            raise Rejected(f"eager: {str(error).splitlines()[0]}") from None
        results = [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]
        if len(results) != len(call.results) and call.results:
            raise Rejected("other results")
        for t in results:
            if any(n < 0 for n in t.shape):
                raise Rejected("eager makes a tensor of less than no elements")
            if t.numel() > MOST_ELEMENTS or t.dim() > 6 or t.is_complex():
                raise Rejected("too large")
            narrow = t.dtype in (torch.float16, torch.bfloat16)
            if narrow and finite and torch.isinf(t).any() and call.op != "_to_copy":
                raise Rejected("a narrow float overflows")
        return results

    def _stored(self, call: Call) -> list[list[torch.Tensor]]:
        """What a writing call will change, of the shadows; the real one has changed already."""
        written = self.values[call.args[0].number]
        if written.real.numel() and not _is_dense(written.real):
            raise Rejected("elements written twice")
        return [s.clone() for s in written.shadows] if is_float(written.real) else []

    def _restore(self, call: Call, before: list) -> None:
        for shadow, old in zip(self.values[call.args[0].number].shadows, before):
            if shadow.numel():
                shadow.copy_(old)

    def _noise(self, like: torch.Tensor) -> torch.Tensor:
        return torch.rand(like.shape, generator=self._draws, dtype=torch.float64) * 2 - 1

    def _shadow(
        self, call: Call, op: Any, k: int, reals: list[torch.Tensor], noise: str | None
    ) -> list[torch.Tensor]:
        """The k-th shadow of the results."""
        writes = op._schema.is_mutable
        if not any(is_float(r) for r in reals):
            return reals
        made: dict[int, torch.Tensor] = {}
        written = call.args[0].number if writes else -1

        def look(number: int) -> torch.Tensor:
            value = self.values[number]
            shadow = value.shadows[k]
            if noise != "operands" or not is_float(value.real) or number == written:
                return shadow
            if number not in made:
                size = eps(torch.float64 if value.real.dtype == torch.float64 else torch.float32)
                made[number] = shadow * (1 + self._noise(shadow) * (size * self._rows(call, value)))
            return made[number]

        size = self._cancelled(call, k) if noise else 0.0
        results = self._call_in_double(call, op, look)
        return [
            self._rounded(r, real, noise, writes, size) if is_float(real) else real
            for r, real in zip(results, reals, strict=True)
        ]

    @staticmethod
    def _rows(call: Call, value: Value) -> float:
        """Sums have errors that grow with their length."""
        known = operators().get(call.op)
        by_rows = known is None or known.kind in ("row", "composite", "other")
        if not by_rows and not has_channels(call.op) and call.op not in SUMS_OF_CLASSES:
            return 1.0
        # Of float64 there is nothing more exact: both sums have errors. Eager's recurrence of the
        # variance has more of them, above all where most elements are alike.
        both = 128 if call.op.startswith(VARIANCES) else 8
        return (both if value.real.dtype == torch.float64 else 1) * max(
            1.0, value.real.numel() ** 0.5
        )

    def _cancelled(self, call: Call, k: int) -> torch.Tensor | float:
        """The size of the terms whose difference the result may be."""
        size: torch.Tensor | float = 0.0
        if underflows(call.op):
            return torch.finfo(torch.float32).tiny / eps(torch.float32)
        if cancels(call.op):
            size = torch.ones((), dtype=torch.float64)
            for value in self._operands(call):
                size = size * value.shadows[k].double().abs().clamp(min=1).nan_to_num(1, 1, 1)
        return size

    def _call_in_double(self, call: Call, op: Any, look: Any) -> list[torch.Tensor]:
        args, kwargs = substituted(call.args, look), substituted(call.kwargs, look)
        widen = lambda a: torch.float64 if isinstance(a, torch.dtype) and a.is_floating_point else a
        args = [widen(a) for a in args]
        kwargs = {key: widen(v) for key, v in kwargs}
        default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        try:
            results = op(*args, **kwargs)
        except EAGER_ERRORS as error:
            raise Rejected(f"in float64: {str(error).splitlines()[0]}") from None
        finally:
            torch.set_default_dtype(default)
        return [t for t in pytree.tree_leaves(results) if isinstance(t, torch.Tensor)]

    def _rounded(
        self,
        shadow: torch.Tensor,
        real: torch.Tensor,
        noise: str | None,
        in_place: bool,
        cancelled: torch.Tensor | float,
    ) -> torch.Tensor:
        """With the range of the dtype that eager has, and errors of its precision."""
        if not noise:
            return shadow
        info = torch.finfo(real.dtype)
        least = info.smallest_normal * info.eps
        result = shadow.double() if shadow.dtype != torch.float64 else shadow
        unit = info.eps * 2 if real.dtype != torch.float64 else info.eps * 4
        changed = result + self._noise(result) * ((result.abs() + cancelled) * unit + least)
        changed = torch.where((result == 0) & torch.as_tensor(cancelled == 0), result, changed)
        if real.dtype == torch.float32:
            tiny = changed.abs() < info.smallest_normal
            changed = torch.where(tiny, (changed / least).round() * least, changed)
        infinite = torch.copysign(torch.tensor(float("inf"), dtype=torch.float64), changed)
        changed = torch.where(changed.abs() > info.max * (1 + info.eps / 4), infinite, changed)
        if in_place:
            return shadow.copy_(changed)
        return (
            torch.empty_strided(real.size(), real.stride(), dtype=torch.float64).copy_(changed)
            if _is_dense(real)
            else changed
        )

    def _aliases(self, real: torch.Tensor, call: Call) -> bool:
        known = {_storage(v.real) for v in self._operands(call)}
        return _storage(real) in known and real.untyped_storage().nbytes() > 0

    def _only_views(self, reals: list[torch.Tensor], call: Call) -> bool:
        if overload(call.op)._schema.is_mutable:
            return False
        return all(self._aliases(r, call) for r in reals if is_float(r))

    @staticmethod
    def _moves(known: Any) -> bool:
        return known is not None and known.kind in ("move", "element")

    def _is_exact(
        self, call: Call, known: Any, reals: list[torch.Tensor], shadows: list[torch.Tensor]
    ) -> bool:
        """Whether each float result is what float64 gives, with room to spare in float64."""
        if known is not None and known.kind in ("row", "composite", "other"):
            floats = [v for v in self._operands(call) if is_float(v.real)]
            for real in reals:
                if is_float(real) and not _picked(real, floats):
                    return False
        for real, shadow in zip(reals, shadows):
            if not is_float(real):
                continue
            if not _same(real.double(), shadow):
                return False
            if real.dtype == torch.float64 and not _same(real, real.float().double()):
                return False
        return True

    def _check_digits(self, call: Call) -> None:
        """An operand of which rounding has left nothing may be anything."""
        for value in self._operands(call):
            if not is_float(value.real) or _storage(value.real) not in self._inexact:
                continue
            exact = value.shadows[0]
            for other in value.shadows[1:]:
                lost = (other - exact).abs() > 0.25 * exact.abs()
                if bool((lost & torch.isfinite(exact)).any()):
                    raise Rejected("no digit of an operand is sure")

    def _check_jumps(
        self, call: Call, op: Any, jumps: bool, reals: list[torch.Tensor], first: list[torch.Tensor]
    ) -> None:
        """Operands that rounding may have changed must not be near to a jump."""
        integers = any(not is_float(r) for r in reals)
        if not (jumps or integers):
            return
        written = call.args[0].number if op._schema.is_mutable else -1
        for k in range(1, SHADOWS):
            changed: dict[int, torch.Tensor] = {}

            def look(number: int) -> torch.Tensor:
                value = self.values[number]
                if not is_float(value.real) or _storage(value.real) not in self._inexact:
                    return value.shadows[0].clone() if number == written else value.shadows[0]
                if number not in changed:
                    exact = value.shadows[0]
                    apart = value.shadows[k] - exact
                    apart = torch.where(torch.isfinite(apart), apart, torch.zeros(()))
                    apart += (
                        self._noise(exact) * exact.abs().nan_to_num(0, 0, 0) * eps(value.real.dtype)
                    )
                    changed[number] = exact + AMPLIFIED * apart
                return changed[number]

            results = self._call_in_double(call, op, look)
            moved = [
                (changed[n] - self.values[n].shadows[0]).abs().nan_to_num(0, 0, 0) for n in changed
            ]
            for result, real, exact in zip(results, reals, first, strict=True):
                if not is_float(real):
                    if not torch.equal(result, real):
                        raise Rejected("a jump at a rounded value")
                    continue
                if not jumps or any(_same(result, c) for c in changed.values()):
                    continue
                noise = max((float(m.max()) for m in moved if m.numel()), default=0.0)
                step = (result - exact).abs()
                if noise > 0.25 or not _same_kind(result, exact) or (step > 2 * noise).any():
                    raise Rejected("a jump at a rounded value")


def _is_dense(t: torch.Tensor) -> bool:
    return not any(n > 1 and s == 0 for n, s in zip(t.size(), t.stride()))


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


def _same_kind(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool((torch.isfinite(a) == torch.isfinite(b)).all())


def _picked(real: torch.Tensor, operands: list[Value]) -> bool:
    """Whether it looks as if each element was one of an operand's."""
    if len(operands) != 1 or real.numel() < 3 or torch.unique(real).numel() < 2:
        return False
    given_values = operands[0].real.to(real.dtype).contiguous()
    return bool(torch.isin(real.contiguous(), given_values).all())


def evaluate(program: Program, inputs: tuple[Given, ...], seed: int = 0) -> Evaluation:
    """Of the whole program; raises Rejected."""
    evaluation = Evaluation(inputs, seed)
    for call in program.calls:
        evaluation.run(call)
    return evaluation
