"""No list of operators outside the catalogue in src/ops.

A compiler that names operators in a second place forgets one of the two when an operator is added.
Three signs of such a list are looked for in src/ and python/:
- one file names more than a few operators in full (`"aten::add"`, `at::_ops::add`,
  `torch.ops.aten.add`), or looks up more than a pass may need to write its own calls
  (`find_op("aten::add")`);
- one list of values has several string literals, most of them operators (`{"add", "mul"}`);
- one statement compares with several (`name == "add" || name == "mul"`).
A table that a script of this repository writes from torch itself is no such list: it is an .inc
file whose first line names the script.
"""

import ast
import functools
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from gates.cpp import braces, code_alone, literals, without_comments
from gates.tree import CPP, Tree, Violation, line_at

CATALOGUE = "src/ops/"
FULL_NAMES_PER_FILE = 3
LOOKED_UP_PER_FILE = 16
BARE_NAMES_PER_LIST = 4

# Files that need more full names than that, how many, and why.
EXCEPTIONS: dict[str, tuple[int, str]] = {}

WRITTEN_BY = re.compile(r"// Written by (scripts/\S+\.py)\b")
FULL_NAME = re.compile(r"\b(?:aten::|_ops::|ops\.aten\.)([a-z_]\w*)")
LOOK_UP = re.compile(r'\bfind_op\(\s*"aten::([a-z_]\w*)"')
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
        violations += _too_many(path, text)
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


def _too_many(path: str, text: str) -> list[Violation]:
    if path.endswith(CPP):
        text = without_comments(text)
        looked_up = {m[1] for m in LOOK_UP.finditer(text)}
        named = {m[1] for m in FULL_NAME.finditer(LOOK_UP.sub("", text))}
    else:
        looked_up = set()
        named = {m[1] for m in FULL_NAME.finditer(ast.unparse(ast.parse(text, path)))}
    limit, _ = EXCEPTIONS.get(path, (FULL_NAMES_PER_FILE, ""))
    return [
        Violation(
            path, 0, f"{verb} {len(found)} operators, {most} may be: {', '.join(sorted(found))}"
        )
        for verb, found, most in (
            ("names", named, limit),
            ("looks up", looked_up, LOOKED_UP_PER_FILE),
        )
        if len(found) > most
    ]


def _lists(path: str, groups: Iterator[tuple[int, list[str]]]) -> list[Violation]:
    found = {}
    for line, strings in groups:
        names = sorted({s for s in strings if is_operator(s)})
        if len(names) >= BARE_NAMES_PER_LIST and 2 * len(names) > len(set(strings)):
            found[line] = Violation(path, line, f"lists operators: {', '.join(names)}")
    return list(found.values())


def _cpp_groups(text: str) -> Iterator[tuple[int, list[str]]]:
    """The literals of each list of values, and those of each statement less what is looked up."""
    code = code_alone(text)
    strings = literals(text)
    pairs = braces(code)
    for pair in pairs:
        if pair.kind == "list":
            inside = [s.text for s in strings if pair.opened < s.offset < pair.closed]
            yield line_at(code, pair.opened), inside
    looked_up = {m.start(1) for m in LOOK_UP.finditer(text)}
    ends = [m.start() for m in re.finditer(";", code)]
    ends += [at for p in pairs if p.kind != "list" for at in (p.opened, p.closed)]
    start = 0
    for end in [*sorted(ends), len(code)]:
        inside = [
            s
            for s in strings
            if start <= s.offset < end and s.offset + len('"aten::') not in looked_up
        ]
        if inside:
            yield line_at(code, inside[0].offset), [s.text for s in inside]
        start = end


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
