"""Writes src/ir/spelling_table.inc: how ATen operators may be spelled in Python.

A printed program must call the operator that the trace has. `torch.ops.aten.add.Tensor(a, b)` does
so by construction; `torch.add(a, b)` does so only if Python's argument parser chooses that overload
and hands over the same arguments. This script asks the parser of the installed torch: it calls
every public binding that has an operator's name with arguments of every kind that the operator's
schema allows, and watches above autograd which overload arrives with which arguments. No kernel
runs.

    python scripts/generate_spelling.py           # rewrite the table
    python scripts/generate_spelling.py --check   # fail if it is not current
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.schema_check_mode import SchemaCheckMode

TABLE = Path(__file__).parent.parent / "src" / "ir" / "spelling_table.inc"
MAX_COMBINATIONS = 150  # per operator and number of positional arguments; drawn beyond
LEFT_OUT = object()

CONTIGUOUS = [torch.zeros(2, 3), torch.tensor(1.5), torch.tensor(1)]
STRIDED = [torch.zeros(3, 2).t(), torch.zeros(2, 2, 2, 2).to(memory_format=torch.channels_last)]

# The kinds of argument that the printer tells apart, with samples of each, by schema type.
KINDS: dict[str, dict[str, list[Any]]] = {
    "Tensor": {"t": CONTIGUOUS, "s": STRIDED, "n": [2, 2.5, True, 2j]},
    "number": {"i": [1, -2, 0], "f": [1.5], "b": [True], "c": [2j]},
    "int": {"v": [0, 1, -1, 2]},
    "float": {"v": [0.5, 2.0]},
    "bool": {"v": [True, False]},
    "str": {"v": ["mean"]},
    "ScalarType": {"v": [torch.float64, torch.int32]},
    "Layout": {"v": [torch.strided]},
    "Device": {"v": ["cpu", "meta"]},
    "MemoryFormat": {"v": [torch.contiguous_format, torch.preserve_format, torch.channels_last]},
    "Generator": {},
    "List[int]": {"v": [[1], [2, 1], [1, 2, 3]], "e": [[]]},
    "List[bool]": {"v": [[True], [True, False, True]], "e": [[]]},
    "List[float]": {"v": [[0.5], [0.5, 2.0]], "e": [[]]},
    "List[number]": {"v": [[1], [1.5], [True], [1, 2.5]], "e": [[]]},
    "List[Tensor]": {
        "v": [CONTIGUOUS[:1], CONTIGUOUS[:1] * 2, CONTIGUOUS[2:], CONTIGUOUS[1:]],
        "e": [[]],
    },
    "List[Optional[Tensor]]": {"v": [CONTIGUOUS[:1], [None, CONTIGUOUS[0]], [None]], "e": [[]]},
}


class Arrived(Exception):
    """Raised in place of running an operator."""


class Observer(SchemaCheckMode):
    """Notes the operator that arrives above autograd, and stops there."""

    def __init__(self) -> None:
        super().__init__()
        self._dispatch_key = torch._C.DispatchKey.PreDispatch
        self.seen: tuple[Any, tuple, dict] | None = None

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen = (func, args, kwargs or {})
        raise Arrived

    def observe(self, call: Callable[[], Any]) -> tuple[Any, tuple, dict] | None:
        """The operator, and the arguments that are not its defaults; None if none arrives."""
        self.seen = None
        try:
            call()
        except Arrived:
            return self.seen
        except (TypeError, RuntimeError, ValueError, IndexError, AttributeError):
            return None
        return None

    def watching(self) -> contextlib.ExitStack:
        """Bindings must be right under any default device, so another one is set meanwhile."""
        stack = contextlib.ExitStack()
        stack.enter_context(torch.device("meta"))
        stack.enter_context(torch._C._EnablePythonDispatcher())
        stack.enter_context(self)
        return stack


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        return a is b
    return type(a) is type(b) and a == b


@dataclass
class Operator:
    op: Any
    name: str  # "add.Tensor"

    def __post_init__(self) -> None:
        self.args = self.op._schema.arguments
        self.types = [str(a.real_type) for a in self.args]
        self.positional = sum(not a.kwarg_only for a in self.args)

    def kinds(self) -> list[dict[str, list[Any]]] | None:
        """Per argument its kinds; None if some argument has no literal."""
        result = []
        for arg, type_name in zip(self.args, self.types):
            optional = type_name.startswith("Optional[")
            base = type_name[len("Optional[") : -1] if optional else type_name
            if base not in KINDS:
                return None
            kinds = dict(KINDS[base])
            if arg.alias_info is not None and arg.alias_info.is_write:
                kinds.pop("n", None)
            if optional:
                kinds["o"] = [None]
            result.append(kinds)
        return result

    def arrives(self, observer: Observer, binding: Callable, values: list[Any]) -> bool:
        """Does `binding` hand exactly these arguments to this operator?"""
        given = [(a, v) for a, v in zip(self.args, values) if v is not LEFT_OUT]
        positional = [v for a, v in given if not a.kwarg_only]
        keywords = {a.name: v for a, v in given if a.kwarg_only}
        seen = observer.observe(lambda: binding(*positional, **keywords))
        if seen is None or seen[0] is not self.op:
            return False
        for i, (arg, value) in enumerate(zip(self.args, values)):
            default = arg.default_value
            if default == 0 and self.types[i] == "MemoryFormat":
                default = torch.contiguous_format
            if value is LEFT_OUT:
                value = default
            elif "Device" in self.types[i] and isinstance(value, str):
                value = torch.device(value)
            arrived = seen[1][i] if i < len(seen[1]) else seen[2].get(arg.name, default)
            if not same(arrived, value):
                return False
        return True


@dataclass
class Spelling:
    """One row: `path` may be used if every argument is of one of its kinds, or is left out."""

    operator: Operator
    path: str  # "torch.add"; ".add_" for a method; "" for torch.ops, which takes few numbers
    kinds: list[dict[str, list[Any]]]
    optional: list[bool]  # may be left out when it has the schema's default

    def row(self) -> str:
        words = ["".join(k) + "~" * o or "-" for k, o in zip(self.kinds, self.optional)]
        return f'{{"{self.operator.name}", "{self.path}", "{" ".join(words)}"}},'

    def written_out(self) -> Spelling:
        return replace(self, optional=[False] * len(self.optional))

    def is_usable(self) -> bool:
        return all(k or o for k, o in zip(self.kinds, self.optional))

    def combinations(self, positional: int) -> Iterator[list[Any]]:
        """Arguments of all kinds, the first `positional` positional ones given.

        All combinations where they are few. Else every pair of kinds, the other arguments drawn: a
        signature takes a call if it takes each argument, so that a conflict needs few of them.
        """
        choices = []
        for i, kinds in enumerate(self.kinds):
            given = list(kinds.values())
            if i >= self.operator.positional:
                choices.append(given + [[LEFT_OUT]] * self.optional[i])
            else:
                choices.append(given if i < positional else [[LEFT_OUT]])
        flat = [[v for samples in groups for v in samples] for groups in choices]
        if math.prod(map(len, flat)) <= MAX_COMBINATIONS:
            yield from map(list, itertools.product(*flat))
            return
        draw = random.Random(self.operator.name)
        for i, j in itertools.combinations(range(len(flat)), 2):
            for first, second in itertools.product(choices[i], choices[j]):
                values = [draw.choice(samples) for samples in flat]
                values[i], values[j] = draw.choice(first), draw.choice(second)
                yield values
        for _ in range(MAX_COMBINATIONS):
            yield [draw.choice(samples) for samples in flat]


def study(observer: Observer, operator: Operator, path: str) -> Spelling | None:
    """What of `path` is certain; None if nothing is."""
    kinds = operator.kinds()
    if kinds is None:
        return None
    if path.startswith("."):
        if not kinds or "t" not in kinds[0]:
            return None
        kinds[0].pop("n", None)
    binding = resolve(path)
    spelling = Spelling(operator, path, kinds, [False] * len(kinds))
    base = first_arriving(observer, spelling, binding)
    if base is None:
        return None
    find_optional(observer, spelling, binding, base)
    restrict_kinds(observer, spelling, binding, base)
    claims = itertools.chain([spelling], restrictions(spelling), [spelling.written_out()])
    return next((s for s in claims if s.is_usable() and confirm(observer, s, binding)), None)


def study_numbers(observer: Observer, operator: Operator) -> Spelling | None:
    """Where torch.ops takes a Python number for a tensor; None if nowhere."""
    kinds = operator.kinds()
    if kinds is None or not any("n" in k for k in kinds):
        return None
    base = [next(iter(k.values()))[0] if k else None for k in kinds]
    spelling = Spelling(operator, "", kinds, [False] * len(kinds))
    restrict_kinds(observer, spelling, operator.op, base)
    spelling.kinds = [{"n": k["n"]} if "n" in k else {} for k in spelling.kinds]
    return spelling if any(spelling.kinds) else None


def restrictions(spelling: Spelling) -> Iterator[Spelling]:
    """Weaker claims, for where an earlier signature of the parser takes some combination."""
    everything = [(i, kind) for i, kinds in enumerate(spelling.kinds) for kind in kinds]
    for i, kind in sorted(everything, key=lambda pair: pair[1] != "o"):
        kinds = {k: v for k, v in spelling.kinds[i].items() if k != kind}
        yield replace(spelling, kinds=spelling.kinds[:i] + [kinds] + spelling.kinds[i + 1 :])
    for i in range(spelling.operator.positional):
        if spelling.optional[i]:
            kept = [o and j > i for j, o in enumerate(spelling.optional)]
            yield replace(spelling, optional=kept)


def first_arriving(observer: Observer, spelling: Spelling, binding: Callable) -> list[Any] | None:
    base = [next(iter(k.values()))[0] if k else None for k in spelling.kinds]
    if spelling.operator.arrives(observer, binding, base):
        return base
    if base and base[0] is CONTIGUOUS[0]:  # contiguous() asks nobody where nothing is to be done
        base = STRIDED[:1] + base[1:]
        if spelling.operator.arrives(observer, binding, base):
            return base
    return None


def find_optional(
    observer: Observer, spelling: Spelling, binding: Callable, base: list[Any]
) -> None:
    operator = spelling.operator
    for i, arg in enumerate(operator.args):
        if arg.kwarg_only and arg.has_default_value():
            values = base[:i] + [LEFT_OUT] + base[i + 1 :]
            spelling.optional[i] = operator.arrives(observer, binding, values)
    for i in reversed(range(operator.positional)):
        values = base[:i] + [LEFT_OUT] * (operator.positional - i) + base[operator.positional :]
        if not operator.args[i].has_default_value() or not operator.arrives(
            observer, binding, values
        ):
            break
        spelling.optional[i] = True


def restrict_kinds(
    observer: Observer, spelling: Spelling, binding: Callable, base: list[Any]
) -> None:
    """Keeps the kinds that arrive when the other arguments are of their first kind."""

    def arrives(i: int, value: Any) -> bool:
        values = base[:i] + [value] + base[i + 1 :]
        return spelling.operator.arrives(observer, binding, values)

    spelling.kinds = [
        {k: samples for k, samples in kinds.items() if all(arrives(i, v) for v in samples)}
        for i, kinds in enumerate(spelling.kinds)
    ]


def confirm(observer: Observer, spelling: Spelling, binding: Callable) -> bool:
    operator = spelling.operator
    optional = sum(spelling.optional[: operator.positional])
    return all(
        operator.arrives(observer, binding, values)
        for positional in range(operator.positional - optional, operator.positional + 1)
        for values in spelling.combinations(positional)
    )


def resolve(path: str) -> Callable:
    if path.startswith("."):
        return getattr(torch.Tensor, path[1:])
    found: Any = torch
    for name in path.split(".")[1:]:
        found = getattr(found, name)
    return found


def is_binding(owner: Any, name: str) -> bool:
    kind = type(getattr(owner, name, None)).__name__
    return kind == ("method_descriptor" if owner is torch.Tensor else "builtin_function_or_method")


def bindings(name: str) -> list[str]:
    """The public bindings that may call an operator of this name, the most readable first."""
    if name.startswith("_"):
        return []
    paths = [f".{name}"] if name.endswith("_") and is_binding(torch.Tensor, name) else []
    if is_binding(torch, name):
        paths.append(f"torch.{name}")
    for module in ("linalg", "fft", "special"):
        short = name.removeprefix(module + "_")
        if short != name and is_binding(getattr(torch, module), short):
            paths.append(f"torch.{module}.{short}")
    if not name.endswith("_") and is_binding(torch.Tensor, name):
        paths.append(f".{name}")
    if is_binding(torch.nn.functional, name):
        paths.append(f"torch.nn.functional.{name}")
    return paths


def spellings() -> Iterator[Spelling]:
    observer = Observer()
    names = sorted(n for n in torch._C._dispatch_get_all_op_names() if n.startswith("aten::"))
    with observer.watching(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for full in names:
            name, _, overload = full.removeprefix("aten::").partition(".")
            op = getattr(getattr(torch.ops.aten, name), overload or "default")
            operator = Operator(op, full.removeprefix("aten::"))
            studied = (study(observer, operator, path) for path in bindings(name))
            found = next(filter(None, studied), None) or study_numbers(observer, operator)
            if found is not None:
                yield found


def table() -> str:
    version = torch.__version__.split("+")[0]
    head = f"// Written by scripts/generate_spelling.py for torch {version}; see there.\n"
    rows = sorted(spellings(), key=lambda s: s.operator.name)
    return head + "".join(spelling.row() + "\n" for spelling in rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare, exit 1 on a difference")
    options = parser.parse_args()
    text = table()
    if options.check:
        if TABLE.read_text() == text:
            return 0
        print(f"{TABLE.name} is not what this torch gives: run {Path(__file__).name}")
        return 1
    TABLE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
