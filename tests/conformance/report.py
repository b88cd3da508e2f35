"""Results as text: tables by mode and by group, and failures by cause."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

from tests.conformance.refusals import Entry
from tests.conformance.suite import Result, group_of
from tests.conformance.verdict import PASS, REFUSED, SKIP, STATUSES

ALWAYS_SHOWN = STATUSES[:3]
FAILURES = tuple(s for s in STATUSES if s not in (PASS, SKIP, REFUSED))


def failures(results: Iterable[Result]) -> list[Result]:
    return [r for r in results if r.status in FAILURES]


def mode_of(result: Result) -> str:
    group = group_of(result.id)
    mode = result.id.rsplit("|", 1)[1]
    return mode if group == "operators" else f"{group} {mode}"


def table(results: list[Result], first: str, key: Callable[[Result], str]) -> str:
    rows: dict[str, Counter] = defaultdict(Counter)
    for result in results:
        rows[key(result)][result.status] += 1
    rows = dict(sorted(rows.items()))
    rows["total"] = sum(rows.values(), Counter())
    shown = [s for s in STATUSES if s in ALWAYS_SHOWN or rows["total"][s]]
    width = max(len(name) for name in (*rows, first))
    lines = [f"{first:<{width}}" + "".join(f"{s:>13}" for s in shown) + f"{'pass %':>9}"]
    for name, counts in rows.items():
        judged = sum(n for status, n in counts.items() if status != SKIP)
        share = f"{100 * counts[PASS] / judged:.2f}" if judged else "-"
        cells = "".join(f"{counts[s]:>13}" for s in shown)
        lines.append(f"{name:<{width}}{cells}{share:>9}")
    return "\n".join(lines)


def models_table(results: list[Result]) -> str:
    """A row for each model, a column for each mode; '' without models."""
    rows: dict[str, dict[str, str]] = defaultdict(dict)
    for result in results:
        if group_of(result.id) == "models":
            name, _, mode = result.id.split("|")
            rows[name][mode] = result.status
    modes = list(dict.fromkeys(mode for row in rows.values() for mode in row))
    lines = [
        f"{name:<26}" + "".join(f"{row.get(m, '-'):>13}" for m in modes)
        for name, row in sorted(rows.items())
    ]
    head = f"{'model':<26}" + "".join(f"{m:>13}" for m in modes)
    return "\n".join([head, *lines]) if lines else ""


def _likeness(result: Result) -> tuple[str, str, str]:
    """What like failures have in common: the words, without what changes from case to case."""
    words = result.detail.rpartition(", compiled ")[2]
    words = re.sub(r"aten::\w+", "an operator", words)
    words = re.sub(r"\bcpu \w+\[[^]]*\]", "a tensor", words)
    words = re.sub(r"0x[0-9a-f]+|[-+]?\d+(\.\d+)?([eE][-+]?\d+)?j?", "N", words)
    words = re.sub(r"\b(float|int|uint|complex|bfloat)N\b", "dtype", words)
    words = re.sub(r"(N,?\s*)+", "N ", words)
    return result.status, result.kind, words[:80]


def causes(results: Iterable[Result]) -> str:
    """Groups of like failures, the largest first, each with its simplest case."""
    groups: dict[tuple[str, str, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[_likeness(result)].append(result)
    lines = []
    for (status, kind, _), members in sorted(groups.items(), key=lambda g: -len(g[1])):
        names = Counter(r.id.split("|")[0] for r in members)
        example = min(members, key=lambda r: (len(r.detail), len(r.id)))
        shown = ", ".join(list(names)[:6]) + (", ..." if len(names) > 6 else "")
        lines.append(f"{len(members):>5}  {status}/{kind}  ({len(names)} names: {shown})")
        lines.append(f"       e.g. {example.id}: {example.detail[:300]}")
    return "\n".join(lines)


def summary(
    title: str,
    results: list[Result],
    unlisted_refusals: list[Result],
    stale_entries: list[Entry],
) -> str:
    soft = Counter(kind for r in results for kind in r.soft)
    notes = ", ".join(f"{kind} {n}" for kind, n in soft.most_common()) or "none"
    seconds = sum(r.seconds for r in results)
    parts = [
        f"{title}: {len(results)} cases, {seconds:.0f} s in them",
        table(results, "mode", mode_of),
        models_table(results),
        f"differences that are no failures, in passing cases: {notes}",
    ]
    sections = (
        ("failures by cause", causes(failures(results))),
        ("refusals that are not listed", causes(unlisted_refusals)),
        (
            "entries of refusals.txt that refuse nothing any more",
            "\n".join(f"       {e.pattern} -> {e.reason}" for e in stale_entries),
        ),
    )
    parts += [f"{name}:\n{text}" for name, text in sections if text]
    return "\n\n".join(part for part in parts if part)
