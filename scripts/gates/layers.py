"""Rooms of src/ include only earlier rooms, files include no file in a circle, and Python's own
headers stay in the two rooms that know of Python."""

import posixpath
import re

from gates.cpp import without_comments
from gates.tree import CPP, Tree, Violation, line_at

# A room sees itself and those before it. The two exceptions are below.
ORDER = (
    "base",
    "torch",
    "ir",
    "ops",
    "capture",
    "passes",
    "codegen",
    "executors",
    "runtime",
    "compile",
    "pystate",
    "bindings",
)
# The store of records sees little and is fed from the top: lower rooms hand their records up.
OBSERVE_SEES = ("base", "ir", "observe")
OBSERVE_SEEN_BY = ("observe", "compile", "bindings")
# The compiler plugin is loaded at run time: code generation knows its C interface and no more.
PLUGIN_SEES = ("base", "plugin")
PLUGIN_SEEN_BY = ("plugin", "codegen")

PYTHON_ROOMS = ("pystate", "bindings")
PYTHON_HEADER = re.compile(
    r"^(?:Python\.h|frameobject\.h|structmember\.h|cpython/|internal/|nanobind/|pybind11/"
    r"|torch/extension\.h|torch/csrc/.*python_|torch/csrc/utils/py)"
)
INTERPRETER_INTERNALS = re.compile(r"^(?:internal/|cpython/|frameobject\.h|opcode\.h)")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+([<"])([^>"]+)[>"]', re.MULTILINE)


def may_see(room: str) -> tuple[str, ...]:
    if room == "observe":
        return OBSERVE_SEES
    if room == "plugin":
        return PLUGIN_SEES
    seen = ORDER[: ORDER.index(room) + 1]
    seen += ("observe",) if room in OBSERVE_SEEN_BY else ()
    return seen + (("plugin",) if room in PLUGIN_SEEN_BY else ())


def room_of(path: str) -> str | None:
    """`ir` for src/ir/trace.h; None for what is in no known room."""
    parts = path.split("/")
    known = len(parts) > 2 and (parts[1] in ORDER or parts[1] in ("observe", "plugin"))
    return parts[1] if known else None


def check(tree: Tree) -> list[Violation]:
    violations: list[Violation] = []
    graph: dict[str, list[str]] = {}
    for path in tree.select(*CPP, under=("src/",)):
        room = room_of(path)
        if room is None:
            rooms = ", ".join((*ORDER, "observe", "plugin"))
            violations.append(Violation(path, 0, f"is in none of the rooms {rooms}"))
            continue
        graph[path] = []
        text = without_comments(tree.read(path))
        for m in INCLUDE.finditer(text):
            line = line_at(text, m.start(2))
            target = _resolve(tree, path, m[2]) if m[1] == '"' else None
            if target:
                graph[path].append(target)
            problem = _room_problem(room, target) if target else _python_problem(room, m[2])
            if problem:
                violations.append(Violation(path, line, problem))
    violations += [
        Violation(circle[0], 0, "includes itself: " + " -> ".join((*circle, circle[0])))
        for circle in circles(graph)
    ]
    return violations


def _resolve(tree: Tree, path: str, name: str) -> str | None:
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    return next((p for p in (f"src/{name}", beside) if p in tree.paths), None)


def _room_problem(room: str, target: str) -> str | None:
    other = room_of(target)
    if other is None or other in may_see(room):
        return None
    return f"{room} may not include {target}; it sees {', '.join(may_see(room))}"


def _python_problem(room: str, header: str) -> str | None:
    if INTERPRETER_INTERNALS.search(header) and room != "pystate":
        return f"<{header}> belongs to the interpreter's insides, which only pystate uses"
    if PYTHON_HEADER.search(header) and room not in PYTHON_ROOMS:
        return f"<{header}> needs Python; only {' and '.join(PYTHON_ROOMS)} know of it"
    return None


def circles(graph: dict[str, list[str]]) -> list[tuple[str, ...]]:
    """One circle of every strongly connected part of the include graph."""
    found: list[tuple[str, ...]] = []
    done: set[str] = set()
    for start in graph:
        if start in done:
            continue
        way: list[str] = [start]
        branches = [iter(graph[start])]
        while branches:
            following = next(branches[-1], None)
            if following is None:
                done.add(way.pop())
                branches.pop()
            elif following in way:
                found.append(tuple(way[way.index(following) :]))
            elif following not in done:
                way.append(following)
                branches.append(iter(graph.get(following, [])))
    return found
