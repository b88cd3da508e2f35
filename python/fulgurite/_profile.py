"""How long each line of a compiled program takes, and how much it moves."""

import dataclasses
import os
import statistics
import time

import torch
from torch.utils.flop_counter import flop_registry

from fulgurite import _C
from fulgurite._C import UserError
from fulgurite._fusions import fusions_of
from fulgurite._inspect import entries_of
from fulgurite._jit import jit
from fulgurite._module import function_of, is_compiled
from fulgurite._outputs import Outputs

_WARM_UP = 3  # calls: after the first, gradients may come in for other outputs than expected


@dataclasses.dataclass(frozen=True)
class ProfiledLine:
    """One call of an executed trace. Medians over all runs.

    text: as the trace prints it; operator: "aten::mm", or the fusion with the operators it has.
    seconds: bytes: what is read and written, each tensor counted once; 0 for a view; None: not
        known. flops: of products, convolutions and attention, two for a multiply-add; 0 for others.
    file, line, code: of the user's program, where it is known.
    """

    text: str
    operator: str
    executor: str
    seconds: float
    bytes: int | None
    flops: int
    file: str
    line: int
    code: str

    @property
    def bytes_per_second(self):
        return (self.bytes or 0) / self.seconds if self.seconds else 0.0

    @property
    def flops_per_second(self):
        return self.flops / self.seconds if self.seconds else 0.0


@dataclasses.dataclass(frozen=True)
class ProfiledTrace:
    """lines: in order. seconds: of a run of the whole trace, by the loop that runs it; trace: the
    executed one."""

    trace: object
    lines: list
    seconds: float


@dataclasses.dataclass(frozen=True)
class OperatorTotal:
    """Of the lines that run one operator, or fusions of the same operators."""

    operator: str
    calls: int
    seconds: float
    bytes: int
    flops: int


@dataclasses.dataclass(frozen=True, repr=False)
class Profile:
    """What `profile` measured; str() is a table.

    seconds: of a call as the user makes it (with a backward pass, of both). forward, backward: a
        ProfiledTrace each; backward is None where it was not asked for.
    """

    name: str
    runs: int
    seconds: float
    forward: ProfiledTrace
    backward: ProfiledTrace | None = None

    @property
    def lines(self):
        """Of both traces."""
        return [line for part in self._parts for line in part.lines]

    @property
    def overhead(self):
        """Seconds of a call outside of all lines: guards, the result and, with a backward pass,
        torch's autograd engine."""
        return max(0.0, self.seconds - sum(line.seconds for line in self.lines))

    def by_operator(self):
        """An OperatorTotal for each, the slowest first."""
        totals = {}
        for line in self.lines:
            name = line.operator.partition(" ")[2] or line.operator
            known = totals.setdefault(name, [0, 0.0, 0, 0])
            for i, more in enumerate((1, line.seconds, line.bytes or 0, line.flops)):
                known[i] += more
        made = [OperatorTotal(name, *total) for name, total in totals.items()]
        return sorted(made, key=lambda total: -total.seconds)

    def slowest(self, count=10):
        """So many lines, the slowest first."""
        return sorted(self.lines, key=lambda line: -line.seconds)[:count]

    def __str__(self):
        return _table(self)

    __repr__ = __str__

    @property
    def _parts(self):
        return [part for part in (self.forward, self.backward) if part is not None]


def profile(f, /, *args, runs=20, backward=False, **kwargs):
    """Calls a compiled function and measures each line of the program that runs: a Profile.

    f: a compiled function or module, or one that is compiled for this. It is called with the other
        arguments, three times to warm up and then `runs` times. What it changes (buffers, state of
        Python) is changed each time, as by so many calls; random numbers are drawn from the state
        that the default generator has now, and that is what it is afterwards.
    backward: also run the backward pass, from gradients of ones for all results that have a
        history. Gradients are not accumulated anywhere.

    Raises UserError where such calls are not compiled, and for a backward pass that is no trace of
    ours (see last_backward_traces). To give `f` arguments that are called `runs` or `backward`, use
    functools.partial.
    """
    if not isinstance(runs, int) or runs < 1:
        raise UserError(f"runs is a number of calls, 1 or more, got {runs!r}")
    compiled = f if is_compiled(f) else jit(f)
    function = function_of(compiled)
    call = _step if backward else lambda f, args, kwargs: f(*args, **kwargs)
    with torch.random.fork_rng(devices=[]):
        for _ in range(_WARM_UP):
            call(compiled, args, kwargs)
        times, clock = [], _C.LineClock()
        with clock:
            for _ in range(runs):
                start = time.perf_counter_ns()
                call(compiled, args, kwargs)
                times.append(time.perf_counter_ns() - start)
    measured = {}
    for program, whole, lines in clock.runs:
        measured.setdefault(program, []).append((whole, lines))
    record, forward_runs, backward_runs = _record_that_ran(function, measured)
    if backward and not backward_runs:
        reason = (
            record.undifferentiated or "gradients came in for other results than it is made for"
        )
        raise UserError(
            f"the backward pass of {_name(function)} is not a trace of ours: {reason}. "
            "torch.profiler shows what autograd runs"
        )
    return Profile(
        _name(function),
        runs,
        statistics.median(times) * 1e-9,
        _profiled(record.traces[-1], forward_runs),
        _profiled(record.backward_traces[-1], backward_runs) if backward else None,
    )


def _name(function):
    return getattr(function, "__qualname__", type(function.target).__qualname__)


def _step(compiled, args, kwargs):
    results = Outputs(compiled(*args, **kwargs), lambda value: False).tensors
    results = [t for t in results if t.requires_grad]
    if not results:
        raise UserError("backward=True needs a result that requires grad, and there is none")
    wanted = _differentiated(results, _C.argument_tensors(args, kwargs))
    torch.autograd.grad(results, wanted, [torch.ones_like(t) for t in results], allow_unused=True)


def _differentiated(results, arguments):
    """The leaves that the results come from, and arguments that are none."""
    inner = {t.grad_fn: t for t in arguments if t.grad_fn is not None}
    found, seen, open_ = [], set(), [t.grad_fn for t in results]
    while open_:
        node = open_.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node in inner:
            found.append(inner[node])
        elif hasattr(node, "variable"):
            found.append(node.variable)
        else:
            open_ += [node for node, _ in node.next_functions]
    return found


def _record_that_ran(function, measured):
    """(the Record of the entry whose program ran last, its runs, those of its backward pass)."""
    ids = list(measured)
    for entry in reversed(entries_of(function)):
        if entry.eager:
            continue
        forward, backward = _C.program_ids(entry.compiled)
        if forward in ids:
            return entry.record, measured[forward], measured.get(backward, [])
    reasons = function.state.fallbacks
    why = reasons[-1] if reasons else "no compiled entry served them"
    raise UserError(f"the calls of {_name(function)} are not compiled: {why}")


def _profiled(trace, runs):
    fusions = fusions_of(trace)
    medians = [
        statistics.median(taken) for taken in zip(*(lines for _, lines in runs), strict=True)
    ]
    lines = [
        _line(symbol, fusions.get(symbol.name), taken * 1e-9)
        for symbol, taken in zip(trace.bound_symbols, medians, strict=True)
    ]
    return ProfiledTrace(trace, lines, statistics.median(whole for whole, _ in runs) * 1e-9)


def _line(symbol, fusion, seconds):
    file, line, _, code = symbol.source or ("", 0, "", "")
    name = symbol.name
    if symbol.op is None:
        inner = (s.name.partition("::")[2].partition(".")[0] for s in symbol.subsymbols)
        name += f" ({', '.join(inner)})"
    moved = fusion.last_used.bytes() if fusion is not None else _bytes(symbol)
    return ProfiledLine(
        repr(symbol), name, symbol.executor, seconds, moved, _flops(symbol), file, line, code
    )


def _bytes(symbol):
    if symbol.op is not None:
        packet, _, overload = symbol.name.partition(".")
        if _C.op_facts(packet, overload)["is_view"]:
            return 0
    values = {v.number: v for v in _values([symbol.args, symbol.outputs])}
    return sum(min(_elements(v) * v.dtype.itemsize, v.nbytes) for v in values.values())


def _values(arguments):
    for argument in arguments:
        if isinstance(argument, _C.TraceValue):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _values(argument)


def _elements(value):
    return torch.Size(value.shape).numel()


def _flops(symbol):
    """By torch's own formulas; of a fusion or a composite, those of what it is made of."""
    formula = flop_registry.get(symbol.op.overloadpacket) if symbol.op is not None else None
    if formula is None:
        return sum(_flops(inner) for inner in symbol.subsymbols)
    given = {name: _on_meta(value) for name, value in symbol.arguments.items()}
    by_name = {a.name for a in symbol.op._schema.arguments if a.kwarg_only}
    arguments = [value for name, value in given.items() if name not in by_name]
    keywords = {name: value for name, value in given.items() if name in by_name}
    outputs = [_on_meta(value) for value in symbol.outputs]
    outputs = outputs[0] if len(outputs) == 1 else tuple(outputs)
    return int(formula(*arguments, **keywords, out_val=outputs))


def _on_meta(argument):
    if isinstance(argument, _C.TraceValue):
        return torch.empty(argument.shape, dtype=argument.dtype, device="meta")
    if isinstance(argument, (list, tuple)):
        return [_on_meta(part) for part in argument]
    return argument


def _table(profile):
    total = sum(line.seconds for line in profile.lines)
    out = [
        f"{profile.name}: {_time(profile.seconds)} a call, {_time(total)} of it in these lines, "
        f"{_time(profile.overhead)} around them (medians of {profile.runs} runs)"
    ]
    for what, part in (("forward", profile.forward), ("backward", profile.backward)):
        if part is None:
            continue
        out += ["", f"{what}, {_time(part.seconds)}", _HEADING]
        out += [_row(line, profile.seconds) for line in part.lines]
    rows = [
        f"{_time(t.seconds):>10}  {t.seconds / profile.seconds:5.1%}  {t.calls:5}  {t.operator}"
        for t in profile.by_operator()
    ]
    return "\n".join([*out, "", "by operator", f"{'time':>10}  share  calls", *rows])


_HEADING = f"{'time':>10}  share      bytes      GB/s   GFLOP/s  line"


def _row(line, whole):
    speed = f"{line.bytes_per_second * 1e-9:9.2f}" if line.bytes else " " * 9
    flops = f"{line.flops_per_second * 1e-9:9.2f}" if line.flops else " " * 9
    moved = _size(line.bytes) if line.bytes else ""
    place = f"  # {os.path.basename(line.file)}:{line.line}" if line.file else ""
    share = line.seconds / whole
    return (
        f"{_time(line.seconds):>10}  {share:5.1%}  {moved:>9} {speed} {flops}  {line.text}{place}"
    )


def _time(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e6:.1f} us"


def _size(count):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
