"""The memory of a trace, call by call, and the measured memory of a call."""

import dataclasses

from fulgurite import _C
from fulgurite._C import UserError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_NOTE = "what torch's autograd saves for the backward pass of these calls comes on top"


@dataclasses.dataclass(frozen=True)
class MemoryLine:
    """One call of a trace; numbers are bytes.

    allocated: of new memory for its results. freed: once it has run. live: after that. peak: the
    most at once while it ran. made, gone: (name, bytes) of what these are. reused: (result,
    argument) where a result is written over an argument that nobody needs any more.
    """

    text: str
    name: str
    allocated: int
    freed: int
    live: int
    peak: int
    made: tuple
    gone: tuple
    reused: tuple


@dataclasses.dataclass(frozen=True)
class Memory:
    """What a run of a trace needs in tensors, in bytes; str() lists it.

    inputs: live before the first call. held: of these, what the caller holds throughout. peak: the
    most at once, with what is held. live: at the end, of these and of outputs. peak_line: the first
    MemoryLine that reaches the peak, None where nothing is above the inputs. arguments:
    (name, bytes) of the inputs, shared memory once. note: what is not in it, or "".
    """

    inputs: int
    held: int
    peak: int
    live: int
    peak_line: MemoryLine | None
    arguments: tuple
    lines: tuple
    note: str

    def __str__(self):
        rows = [("allocated", "freed", "live", ""), ("", "", readable(self.inputs), "the inputs")]
        for line in self.lines:
            mark = f"  # peak {readable(self.peak)}" if line is self.peak_line else ""
            over = "".join(f"  # {new} over {old}" for new, old in line.reused)
            sizes = [readable(n) if n else "" for n in (line.allocated, line.freed)]
            rows.append((*sizes, readable(line.live), line.text + over + mark))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        texts = [
            "  ".join([*(c.rjust(w) for c, w in zip(row, widths, strict=False)), row[3]]).rstrip()
            for row in rows
        ]
        return "\n".join([*texts, *([f"({self.note})"] if self.note else [])])


@dataclasses.dataclass(frozen=True)
class MeasuredMemory:
    """peak: the most bytes of tensors at once, beyond what was there before. result: what is still
    there at the end, with what the function returned."""

    peak: int
    result: int

    def __str__(self):
        return f"at most {readable(self.peak)}, {readable(self.result)} at the end"


def readable(count):
    """Bytes in the largest unit of which there is one."""
    value, unit = float(count), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{value:.4g} {_UNITS[unit]}"


def memory_of(trace):
    """The Memory of a trace that is placed and says what it frees."""
    if not any(call.frees for call in trace.bound_symbols) and trace.provenance != _LAST:
        raise UserError(
            f"memory is known of a trace as executed, the last of a series: this one is "
            f"{trace.provenance or 'as captured'}"
        )
    found = _C.memory_of(trace)
    lines = tuple(
        MemoryLine(**{k: tuple(v) if isinstance(v, list) else v for k, v in line.items()})
        for line in found["lines"]
    )
    peak_line = lines[found["peak_index"]] if found["peak_index"] >= 0 else None
    return Memory(
        found["inputs"],
        found["held"],
        found["peak"],
        found["live"],
        peak_line,
        tuple(found["arguments"]),
        lines,
        _NOTE if trace.grad_mode == "enable_grad" else "",
    )


def alloc_memory(trace):
    """(peak bytes, {what: bytes it adds}): of arguments, of calls and of what is freed after them,
    in order, as Thunder's get_alloc_memory gives them."""
    memory = memory_of(trace)
    changes = {f"argument {name}": count for name, count in memory.arguments}
    for line in memory.lines:
        names = ", ".join(name for name, _ in line.made) or ", ".join(n for n, _ in line.reused)
        if line.allocated or names:
            changes[f"{line.name} {names}".rstrip()] = line.allocated
        changes.update({f"del {name}": -count for name, count in line.gone})
    return memory.peak, changes


def measure(function, args, kwargs):
    """The MeasuredMemory of function(*args, **kwargs)."""
    return MeasuredMemory(*_C.measure_memory(lambda: function(*args, **kwargs)))


_LAST = "Delete Last Used"
