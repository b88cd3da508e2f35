"""The list of refusals: what fulgurite is known to decline, and why.

A line is `pattern -> reason`; the pattern is a shell pattern over case names, `|` included. Empty
lines and lines that begin with # are left out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.conformance.suite import Result
from tests.conformance.verdict import REFUSED

PATH = Path(__file__).with_name("refusals.txt")


@dataclass(frozen=True)
class Entry:
    pattern: str
    reason: str

    def matches(self, case_id: str) -> bool:
        return fnmatchcase(case_id, self.pattern)


def read_refusals(path: Path = PATH) -> list[Entry]:
    entries = []
    for number, raw in enumerate(path.read_text().splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        pattern, arrow, reason = line.partition(" -> ")
        if not arrow or not reason.strip():
            raise SystemExit(f"{path.name}:{number}: expected `pattern -> reason`, got {line!r}")
        entries.append(Entry(pattern.strip(), reason.strip()))
    return entries


def unlisted(entries: list[Entry], results: Iterable[Result]) -> list[Result]:
    """Refusals that no entry foresees."""
    refused = [r for r in results if r.status == REFUSED]
    return [r for r in refused if not any(e.matches(r.id) for e in entries)]


def stale(entries: list[Entry], cases: Iterable[str], results: Iterable[Result]) -> list[Entry]:
    """Entries that no longer refuse anything. Judged are those whose cases all have a result;
    `cases` are all there are, chosen or not."""
    status = {r.id: r.status for r in results}
    found = []
    for entry in entries:
        matched = [case for case in cases if entry.matches(case)]
        judged = matched and all(case in status for case in matched)
        if judged and not any(status[case] == REFUSED for case in matched):
            found.append(entry)
    return found
