"""Caps on the length of files and functions: a prompt to split them."""

import ast

from gates.cpp import functions
from gates.tree import CPP, Tree, Violation

FILE_LINES = 600
FUNCTION_LINES = 80
# Names that say nothing of what is inside.
EMPTY_NAMES = ("common", "helper", "helpers", "misc", "util", "utils")


def check(tree: Tree) -> list[Violation]:
    violations: list[Violation] = []
    for path in tree.select(*CPP, ".py", ".ts"):
        text = tree.read(path)
        lines = text.count("\n")
        if lines > FILE_LINES:
            violations.append(Violation(path, 0, f"has {lines} lines; the cap is {FILE_LINES}"))
        if path.rsplit("/", 1)[-1].split(".")[0] in EMPTY_NAMES:
            violations.append(Violation(path, 0, "has a name that does not say what is inside"))
        violations += [
            Violation(path, first, f"{name} has {n} lines; the cap is {FUNCTION_LINES}")
            for name, first, n in _functions(path, text)
            if n > FUNCTION_LINES
        ]
    return violations


def _functions(path: str, text: str) -> list[tuple[str, int, int]]:
    """Name, first line and number of lines."""
    if path.endswith(CPP):
        return [(f.name, f.first, f.lines) for f in functions(text)]
    if not path.endswith(".py"):
        return []
    return [
        (node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(text, path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
