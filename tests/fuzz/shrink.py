"""The smallest program found that fails as a given one does."""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from tests.fuzz.evaluation import Rejected, evaluate
from tests.fuzz.inputs import row_major
from tests.fuzz.programs import Call, Given, Program, Ref, renumbered, substituted

SIMPLER_DTYPES = {
    torch.float64: (torch.float32,),
    torch.float16: (torch.float32,),
    torch.bfloat16: (torch.float32,),
    torch.int64: (torch.int32,),
    torch.int16: (torch.int32,),
    torch.int8: (torch.int32,),
    torch.uint8: (torch.int32,),
}
SIMPLEST = (1, 0, 2)  # numbers, the simplest first
SHORT = 8  # of a pattern whose values are tried one by one


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 120) -> Program:
    """fails: whether a program still shows the fault; it is called on many that do not even run."""
    end = time.monotonic() + seconds
    again = True
    while again and time.monotonic() < end:
        again = False
        for step in STEPS:
            for smaller in _tries(step, program, end):
                if fails(smaller):
                    program, again = smaller, True
                    break
            if again:
                break
    return program


def _tries(step: Callable, program: Program, end: float) -> Iterator[Program]:
    for smaller in step(program):
        if time.monotonic() > end:
            return
        yield renumbered(smaller)


def _one_set(program: Program) -> Iterator[Program]:
    if program.others:
        yield replace(program, others=())
        yield replace(program, inputs=program.others, others=())


def _fewer_outputs(program: Program) -> Iterator[Program]:
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield replace(program, outputs=(output,))
        for i in range(len(program.outputs)):
            yield replace(program, outputs=program.outputs[:i] + program.outputs[i + 1 :])
    for call in reversed(program.calls):  # an earlier value alone
        for result in call.results:
            if program.outputs != (result,) and len(program.outputs) == 1:
                if result < program.outputs[0]:
                    yield replace(program, outputs=(result,))


def _fewer_calls(program: Program) -> Iterator[Program]:
    """A call's results made inputs, or one of its operands."""
    for at, call in enumerate(program.calls):
        if not call.results:
            continue
        rest = program.calls[:at] + program.calls[at + 1 :]
        operands = []
        substituted((call.args, tuple(v for _, v in call.kwargs)), operands.append)
        for operand in operands:
            yield _replaced(replace(program, calls=rest), {r: operand for r in call.results})
        made = _as_inputs(program, at)
        if made is not None:
            yield made


def _replaced(program: Program, other: dict[int, int]) -> Program:
    refer = lambda n: Ref(other.get(n, n))
    calls = tuple(
        replace(c, args=substituted(c.args, refer), kwargs=substituted(c.kwargs, refer))
        for c in program.calls
    )
    outputs = tuple(dict.fromkeys(other.get(o, o) for o in program.outputs))
    return replace(program, calls=calls, outputs=outputs)


def _as_inputs(program: Program, at: int) -> Program | None:
    """The results of a call given, with the values that eager has."""
    call = program.calls[at]
    sets = []
    for inputs in program.given():
        try:
            evaluation = evaluate(replace(program, calls=program.calls[: at + 1]), inputs)
        except (Rejected, RuntimeError, KeyError):
            return None
        sets.append(tuple(_given(evaluation.values[r].real) for r in call.results))
    first = len(program.inputs)
    shift = lambda n: n if n < first else n + len(call.results)
    new = {r: first + i for i, r in enumerate(call.results)}
    number = lambda n: new.get(n, shift(n))
    refer = lambda n: Ref(number(n))
    calls = tuple(
        Call(
            c.op,
            substituted(c.args, refer),
            substituted(c.kwargs, refer),
            tuple(shift(r) for r in c.results),
            c.unpacked,
        )
        for i, c in enumerate(program.calls)
        if i != at
    )
    others = program.others + sets[1] if program.others else ()
    outputs = tuple(number(o) for o in program.outputs)
    return Program(program.inputs + sets[0], calls, outputs, others, program.note)


def _given(t: torch.Tensor) -> Given:
    values = t.contiguous().flatten()[:4096]
    wide = values.double() if t.dtype.is_floating_point else values
    pattern = tuple(wide.tolist()) or (0,)
    return Given(t.dtype, pattern, tuple(t.shape), row_major(tuple(t.shape)))


def _smaller_sizes(program: Program) -> Iterator[Program]:
    """One size made smaller wherever it is, in literals too."""
    sizes = sorted({n for s in program.given() for one in s for n in one.sizes if n > 1})
    for size in reversed(sizes):
        for new in sorted({1, 2, 3, 4, 8, size // 2, size - 1}):
            if not 0 < new < size:
                continue
            other = lambda n: new if n == size else n
            changed = replace(
                program,
                inputs=tuple(_resized(one, other) for one in program.inputs),
                others=tuple(_resized(one, other) for one in program.others),
            )
            yield changed
            yield replace(changed, calls=tuple(_resized_call(c, other) for c in program.calls))
    for sets in program.given():  # a dimension less
        for d in range(max((len(one.sizes) for one in sets), default=0)):
            yield replace(program, others=(), inputs=tuple(_without(one, d) for one in sets))


def _resized(one: Given, other: Callable[[int], int]) -> Given:
    sizes = tuple(other(n) for n in one.sizes)
    if sizes == one.sizes or one.base is not None:
        return one
    if one.strides == row_major(one.sizes):
        return replace(one, sizes=sizes, strides=row_major(sizes))
    return replace(one, sizes=sizes)


def _resized_call(call: Call, other: Callable[[int], int]) -> Call:
    resize = lambda a: [other(v) if type(v) is int else v for v in a] if isinstance(a, list) else a
    return replace(
        call,
        args=tuple(resize(a) for a in call.args),
        kwargs=tuple((k, resize(v)) for k, v in call.kwargs),
    )


def _without(one: Given, d: int) -> Given:
    sizes = one.sizes[:d] + one.sizes[d + 1 :]
    return replace(one, sizes=sizes, strides=row_major(sizes))


def _each_input(program: Program, change: Callable[[Given], Iterator[Given]]) -> Iterator[Program]:
    for i, one in enumerate(program.inputs):
        for new in change(one):
            yield replace(program, inputs=program.inputs[:i] + (new,) + program.inputs[i + 1 :])
    for i, one in enumerate(program.others):
        for new in change(one):
            yield replace(program, others=program.others[:i] + (new,) + program.others[i + 1 :])


def _plain_layouts(program: Program) -> Iterator[Program]:
    def change(one: Given) -> Iterator[Given]:
        plain = row_major(one.sizes)
        if one.base is not None:
            yield replace(one, base=None)
        elif (one.strides, one.offset) != (plain, 0):
            yield replace(one, strides=plain, offset=0)
            yield replace(one, offset=0)

    yield from _each_input(program, change)


def _simpler_dtypes(program: Program) -> Iterator[Program]:
    def change(one: Given) -> Iterator[Given]:
        for dtype in SIMPLER_DTYPES.get(one.dtype, ()):
            yield replace(one, dtype=dtype)

    yield from _each_input(program, change)
    for dtype, simpler in SIMPLER_DTYPES.items():
        for other in simpler:
            swap = lambda one: replace(one, dtype=other) if one.dtype == dtype else one
            if any(one.dtype == dtype for one in program.inputs):
                inputs = tuple(swap(one) for one in program.inputs)
                yield replace(program, inputs=inputs, others=tuple(swap(o) for o in program.others))


def _simpler_values(program: Program) -> Iterator[Program]:
    def change(one: Given) -> Iterator[Given]:
        pattern = one.pattern
        used = min(len(pattern), _elements(one))
        if used < len(pattern):
            yield replace(one, pattern=pattern[:used])
        for value in SIMPLEST:
            if pattern == (value,):
                break
            yield replace(one, pattern=(_of(one.dtype, value),))
        if len(pattern) > 1:
            half = len(pattern) // 2
            yield replace(one, pattern=pattern[:half])
            yield replace(one, pattern=pattern[half:])
            for value in list(dict.fromkeys(pattern))[:64]:
                yield replace(one, pattern=(value,))
        if 1 < len(pattern) <= SHORT:
            for i in range(len(pattern)):
                yield replace(one, pattern=pattern[:i] + pattern[i + 1 :])
        if len(pattern) <= SHORT and one.dtype != torch.bool:
            for i, value in enumerate(pattern):
                for new in _simpler_numbers(value):
                    yield replace(
                        one, pattern=pattern[:i] + (_of(one.dtype, new),) + pattern[i + 1 :]
                    )

    yield from _each_input(program, change)


def _of(dtype: torch.dtype, value: float) -> float | int | bool:
    if dtype == torch.bool:
        return bool(value)
    return float(value) if dtype.is_floating_point else int(value)


def _elements(one: Given) -> int:
    return one.offset + 1 + sum((n - 1) * s for n, s in zip(one.sizes, one.strides) if n)


def _simpler_numbers(value: float) -> Iterator[float]:
    yield from itertools.takewhile(lambda new: new != value, SIMPLEST)
    if value in SIMPLEST:
        return
    if isinstance(value, float) and math.isfinite(value):
        for new in (float(round(value)), round(value, 1), round(value, 3)):
            if new != value and len(repr(new)) < len(repr(value)):
                yield new


def _simpler_literals(program: Program) -> Iterator[Program]:
    """Numbers made 1, and named arguments left out."""
    for at, call in enumerate(program.calls):
        rest = lambda new: program.calls[:at] + (new,) + program.calls[at + 1 :]
        for i in range(len(call.kwargs)):
            kwargs = call.kwargs[:i] + call.kwargs[i + 1 :]
            yield replace(program, calls=rest(replace(call, kwargs=kwargs)))
        for i, arg in enumerate(call.args):
            if type(arg) in (int, float) and arg != 1:
                args = call.args[:i] + (type(arg)(1),) + call.args[i + 1 :]
                yield replace(program, calls=rest(replace(call, args=args)))


STEPS = (
    _one_set,
    _fewer_outputs,
    _fewer_calls,
    _smaller_sizes,
    _plain_layouts,
    _simpler_values,
    _simpler_dtypes,
    _simpler_literals,
)
