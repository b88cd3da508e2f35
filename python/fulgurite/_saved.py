"""What a backward pass takes from the forward one, and why."""

import dataclasses
import os

from fulgurite._C import UserError
from fulgurite._inspect import last_backward_traces, last_record


@dataclasses.dataclass(frozen=True)
class SavedValue:
    """One value that is kept for the backward pass.

    name, shape, dtype: as in the traces. nbytes: 0 for an input of the program, which is there
    anyway. line: "file:line: code" that makes it; "" for an input. used_by: the line whose gradient
    needs it first. reason: why it is not computed again.
    """

    name: str
    shape: tuple
    dtype: object
    nbytes: int
    line: str
    used_by: str
    reason: str


class SavedValues(tuple):
    """SavedValues of one compilation; str() is a table.

    nbytes: of all of them. nbytes_of_eager: of all that the formulas of the backward pass use of
    what the forward pass makes, each piece of memory once: what eager keeps, about.
    """

    nbytes_of_eager = 0

    @property
    def nbytes(self):
        return sum(value.nbytes for value in self)

    def __str__(self):
        head = ("value", "shape", "dtype", "bytes", "made by", "needed by", "why it is kept")
        rows = [head]
        for v in self:
            dtype = str(v.dtype).removeprefix("torch.")
            shape = str(list(v.shape))
            rows.append((v.name, shape, dtype, f"{v.nbytes:,}", v.line, v.used_by, v.reason))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.append(f"{self.nbytes:,} bytes are kept, of {self.nbytes_of_eager:,} that are used")
        return "\n".join(lines)


def saved_values(compiled):
    """What the backward pass of the entry compiled last takes from the forward one, with its bytes,
    the lines of the program that make and need it, and why it is not computed again: a
    `SavedValues`, which prints as a table.

    Raises UserError where there is no backward trace, with the reason.
    """
    record = last_record(compiled)
    series = last_backward_traces(compiled)
    if not series:
        raise UserError(f"there is no backward trace: {series.reason}")
    forward = next(t for t in record.traces if t.provenance == "Forward/backward split")
    inputs = {value.number for value in forward.inputs}
    makers = _first_lines(forward.bound_symbols, lambda call: call.outputs)
    users = _first_lines(series[0].bound_symbols, lambda call: call.args)
    reasons = record.saved_reasons
    values = series[0].inputs[len(series[0].inputs) - len(reasons) :]
    found = SavedValues(
        SavedValue(
            value.name,
            tuple(value.shape),
            value.dtype,
            0 if value.number in inputs else value.nbytes,
            "" if value.number in inputs else makers.get(value.number, ""),
            users.get(value.number, ""),
            reason,
        )
        for value, reason in zip(values, reasons, strict=True)
    )
    found.nbytes_of_eager = record.bytes_needed
    return found


def _first_lines(calls, values_of):
    """{number of a value: the line of the first call that it is among the values of}."""
    lines = {}
    for call in calls:
        if call.source is None:
            continue
        file, line, _, code = call.source
        for value in _flat(values_of(call)):
            if hasattr(value, "number"):
                lines.setdefault(value.number, f"{os.path.basename(file)}:{line}: {code}")
    return lines


def _flat(values):
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value
