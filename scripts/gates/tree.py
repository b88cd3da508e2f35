"""The files that the gates look at, and what a gate reports."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

CPP = (".cpp", ".h")


@dataclass(frozen=True)
class Violation:
    path: str
    line: int  # 1 is the first; 0 for the file as a whole
    text: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.text}"


@dataclass(frozen=True)
class Tree:
    root: Path
    paths: tuple[str, ...]  # relative to the root, with forward slashes

    def select(self, *suffixes: str, under: tuple[str, ...] = ("",)) -> list[str]:
        return [p for p in self.paths if p.endswith(suffixes) and p.startswith(under)]

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8", errors="replace")


def checkout(root: Path) -> Tree:
    """Every file of the checkout that is tracked, or new and not ignored."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = sorted({p for p in listed.split("\0") if p})
    return Tree(root, tuple(p for p in paths if (root / p).is_file()))


def line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
