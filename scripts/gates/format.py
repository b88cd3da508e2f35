"""clang-format for C++, ruff for Python."""

import re
import shutil
import subprocess
import sys

from gates.tree import CPP, Tree, Violation

CLANG_FORMAT = "clang-format-19"


def check(tree: Tree) -> list[Violation]:
    cpp = tree.select(*CPP)
    python = tree.select(".py")
    violations: list[Violation] = []
    if cpp:
        if not shutil.which(CLANG_FORMAT):
            raise SystemExit(f"{CLANG_FORMAT} is not installed: run 'make setup'")
        violations += _run(tree, [CLANG_FORMAT, "--dry-run", "-Werror", *cpp], "make format")
    if python:
        ruff = [sys.executable, "-m", "ruff"]
        concise = ["check", "--output-format", "concise", *python]
        violations += _run(tree, [*ruff, *concise], "")
        violations += _run(tree, [*ruff, "format", "--check", *python], "make format")
    return violations


LOCATED = re.compile(r"^(?:\s*--> )?([^\s:]+)(?::(\d+):\d+:)?\s*(.*)$")


def _run(tree: Tree, command: list[str], remedy: str) -> list[Violation]:
    """The located lines that the command prints, or one per file where `remedy` mends them all."""
    done = subprocess.run(command, cwd=tree.root, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    found: dict[tuple[str, str], Violation] = {}
    for line in (done.stdout + done.stderr).splitlines():
        m = LOCATED.match(line)
        if m and m[1] in tree.paths:
            text = f"is not formatted: {remedy}" if remedy else m[3]
            key = (m[1], "" if remedy else line)
            found.setdefault(key, Violation(m[1], int(m[2] or 0), text))
    if not found:
        raise SystemExit(f"{' '.join(command[:3])} failed:\n{done.stdout}{done.stderr}")
    return list(found.values())
