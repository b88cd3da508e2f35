"""No list of operators outside the catalogue in src/ops.

A compiler that names operators in a second place forgets one of the two when an operator is added.
Two signs of such a list are looked for in src/ and python/:
- one file names more than a few operators in full (`"aten::add"`, `at::_ops::add`,
  `torch.ops.aten.add`);
- one statement or one braced list has several string literals, most of them operators (`"add"`).
A table that a script of this repository writes from torch itself is no such list: it is an .inc
file whose first line names the script.
"""

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from gates.cpp import code_alone, literals
from gates.tree import CPP, Tree, Violation, line_at

CATALOGUE = "src/ops/"
FULL_NAMES_PER_FILE = 3
BARE_NAMES_PER_LIST = 4

# Files that need more full names than that, how many, and why.
EXCEPTIONS: dict[str, tuple[int, str]] = {}

WRITTEN_BY = re.compile(r"// Written by (scripts/\S+\.py)\b")
FULL_NAME = re.compile(r"\b(?:aten::|_ops::|ops\.aten\.)([a-z_]\w*)")
BARE_NAME = re.compile(r"(?:aten::)?([a-z_]\w*)(?:\.\w+)?")


@functools.cache
def aten_names() -> frozenset[str]:
    """Every operator of ATen: torch ships one header for each."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the gates need torch: run them with .venv/bin/python, after 'make setup'")
    headers = Path(spec.submodule_search_locations[0], "include/ATen/ops").glob("*_ops.h")
    return frozenset(h.name.removesuffix("_ops.h") for h in headers)


def is_operator(literal: str) -> bool:
    m = BARE_NAME.fullmatch(literal)
    return m is not None and (m[1] in aten_names() or m[1].removesuffix("_") in aten_names())


def check(tree: Tree) -> list[Violation]:
    violations: list[Violation] = []
    for path in tree.select(*CPP, ".py", under=("src/", "python/")):
        if path.startswith(CATALOGUE):
            continue
        text = tree.read(path)
        full = _full_names(path, text)
        limit, _ = EXCEPTIONS.get(path, (FULL_NAMES_PER_FILE, ""))
        if len(full) > limit:
            named = ", ".join(sorted(full))
            violations.append(
                Violation(path, 0, f"names {len(full)} operators, {limit} may be: {named}")
            )
        groups = _cpp_groups(text) if path.endswith(CPP) else _python_groups(path, text)
        violations += _lists(path, groups)
    for path in tree.select(".inc", under=("src/",)):
        writer = WRITTEN_BY.match(tree.read(path))
        if not writer or writer[1] not in tree.paths:
            text = (
                "does not begin with `// Written by scripts/NAME.py`, naming a script that exists"
            )
            violations.append(Violation(path, 1, text))
    return violations


def _lists(path: str, groups: Iterator[tuple[int, list[str]]]) -> list[Violation]:
    found = {}
    for line, strings in groups:
        names = sorted({s for s in strings if is_operator(s)})
        if len(names) >= BARE_NAMES_PER_LIST and 2 * len(names) > len(set(strings)):
            found[line] = Violation(path, line, f"lists operators: {', '.join(names)}")
    return list(found.values())


def _full_names(path: str, text: str) -> set[str]:
    if path.endswith(CPP):
        parts = [code_alone(text), *(literal.text for literal in literals(text))]
    else:
        parts = [ast.unparse(ast.parse(text, path))]
    return {m[1] for part in parts for m in FULL_NAME.finditer(part)}


def _cpp_groups(text: str) -> Iterator[tuple[int, list[str]]]:
    """The literals between two semicolons, and those in each pair of braces with no semicolon."""
    code = code_alone(text)
    marks = [(m.start(), m[0]) for m in re.finditer(r"[{};]", code)]
    marks += [(literal.offset, literal.text) for literal in literals(text)]
    statement: list[str] = []
    start = 0
    lists: list[tuple[int, list[str]]] = []
    for offset, mark in sorted(marks):
        if code[offset] == ";":
            yield line_at(code, start), statement
            statement, start = [], 0
        elif code[offset] == "{":
            lists.append((offset, []))
        elif code[offset] == "}":
            if lists:
                opened, strings = lists.pop()
                yield line_at(code, opened), strings
        else:
            start = start or offset
            statement.append(mark)
            for _, strings in lists:
                strings.append(mark)
    yield line_at(code, start), statement


def _python_groups(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    containers = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.BoolOp, ast.Match)
    for node in ast.walk(ast.parse(text, path)):
        if isinstance(node, containers):
            yield (
                getattr(node, "lineno", 0),
                [
                    part.value
                    for part in ast.walk(node)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                ],
            )
