"""Aligned text tables."""

from collections.abc import Iterable

from bench.timing import Timing


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text)


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.2f}" if seconds < 1e-4 else f"{seconds * 1e6:.0f}"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def ratio_cell(timing: Timing) -> str:
    """1.07x (1.02-1.11): the median of the ratios to eager in each round, and their quartiles."""
    digits = 2 if timing.ratio > 0.1 else 5
    return f"{timing.ratio:.{digits}f}x ({timing.low:.{digits}f}-{timing.high:.{digits}f})"
