"""Programs as data, and as the text of a script that runs them; the text can be read back."""

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

DTYPES = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class Ref:
    """A value of the program: an input, or a result of a call."""

    number: int


@dataclass(frozen=True)
class Given:
    """An input. Its storage is the pattern over and over, or that of an earlier input, `base`."""

    dtype: torch.dtype
    pattern: tuple
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    base: int | None = None


@dataclass(frozen=True)
class Call:
    """`results`: numbers of the values it makes; `unpacked`: they come as a list, or as a tuple."""

    op: str  # "add.Tensor", of aten
    args: tuple
    kwargs: tuple[tuple[str, Any], ...]
    results: tuple[int, ...]
    unpacked: bool = False


@dataclass(frozen=True)
class Program:
    """`others`: inputs of a second call of the compiled function, or none."""

    inputs: tuple[Given, ...]
    calls: tuple[Call, ...]
    outputs: tuple[int, ...]
    others: tuple[Given, ...] = ()
    note: str = field(default="", compare=False)

    def given(self) -> list[tuple[Given, ...]]:
        return [self.inputs, self.others] if self.others else [self.inputs]


def overload(op: str) -> Any:
    name, _, which = op.partition(".")
    return getattr(getattr(torch.ops.aten, name), which or "default")


def make(inputs: tuple[Given, ...]) -> list[torch.Tensor]:
    """New tensors for the inputs."""
    tensors: list[torch.Tensor] = []
    for one in inputs:
        if one.base is not None:
            tensors.append(tensors[one.base].as_strided(one.sizes, one.strides, one.offset))
            continue
        tensors.append(given(one.dtype, one.pattern, one.sizes, one.strides, one.offset))
    return tensors


def given(dtype, pattern, sizes, strides, offset=0):
    last = sum((n - 1) * s for n, s in zip(sizes, strides)) if 0 not in sizes else 0
    count = offset + last + 1
    storage = torch.tensor(pattern, dtype=dtype).repeat(count // len(pattern) + 1)[:count]
    return storage.clone().as_strided(sizes, strides, offset)


def references(args: Any) -> list[int]:
    """Of arguments, the values they name."""
    if isinstance(args, Ref):
        return [args.number]
    if isinstance(args, tuple | list):
        return [number for arg in args for number in references(arg)]
    return []


def substituted(args: Any, value: Callable[[int], Any]) -> Any:
    """The arguments with value(number) for each reference."""
    if isinstance(args, Ref):
        return value(args.number)
    if isinstance(args, tuple):
        return tuple(substituted(arg, value) for arg in args)
    if isinstance(args, list):
        return [substituted(arg, value) for arg in args]
    return args


def used_by(call: Call) -> list[int]:
    return references((call.args, [v for _, v in call.kwargs]))


def function_of(program: Program) -> Callable:
    """The program as a Python function, from its text."""
    scope: dict[str, Any] = {}
    exec(
        compile("import torch\n\naten = torch.ops.aten\n\n" + _body(program), "program", "exec"),
        scope,
    )
    return scope["program"]


def renumbered(program: Program) -> Program:
    """Without gaps in the numbers, and without inputs and calls that nothing needs."""
    needed = set(program.outputs)
    calls: list[Call] = []
    for call in reversed(program.calls):
        if overload(call.op)._schema.is_mutable or needed.intersection(call.results):
            needed.update(used_by(call))
            calls.append(call)
    calls.reverse()
    bases = {one.base for i, one in enumerate(program.inputs) if i in needed}
    bases |= {one.base for i, one in enumerate(program.others) if i in needed}
    inputs = [i for i in range(len(program.inputs)) if i in needed or i in bases]
    number = {old: new for new, old in enumerate(inputs)}
    for call in calls:
        for old in call.results:
            number[old] = len(number)

    def moved(all_given: tuple[Given, ...]) -> tuple[Given, ...]:
        chosen = [all_given[i] for i in inputs] if all_given else []
        return tuple(
            one if one.base is None else replace(one, base=number[one.base]) for one in chosen
        )

    def call_of(call: Call) -> Call:
        refer = lambda n: Ref(number[n])
        return replace(
            call,
            args=substituted(call.args, refer),
            kwargs=substituted(call.kwargs, refer),
            results=tuple(number[r] for r in call.results),
        )

    return Program(
        moved(program.inputs),
        tuple(call_of(call) for call in calls),
        tuple(number[o] for o in program.outputs),
        moved(program.others),
        program.note,
    )


# Text.


def _literal(value: Any, names: Callable[[int], str]) -> str:
    if isinstance(value, Ref):
        return names(value.number)
    if isinstance(value, torch.dtype | torch.memory_format):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(_literal(v, names) for v in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def _name(program: Program, number: int) -> str:
    return f"x{number}" if number < len(program.inputs) else f"t{number}"


def _body(program: Program) -> str:
    names = lambda number: _name(program, number)
    lines = [f"def program({', '.join(names(i) for i in range(len(program.inputs)))}):"]
    for call in program.calls:
        args = [_literal(a, names) for a in call.args]
        args += [f"{key}={_literal(value, names)}" for key, value in call.kwargs]
        results = ", ".join(names(r) for r in call.results)
        if call.unpacked and len(call.results) == 1:
            results += ","
        path = call.op if "." in call.op else call.op + ".default"
        lines.append(f"    {results + ' = ' if results else ''}aten.{path}({', '.join(args)})")
    lines.append("    return " + "".join(names(o) + ", " for o in program.outputs).rstrip())
    return "\n".join(lines) + "\n"


def _given_text(name: str, inputs: tuple[Given, ...]) -> str:
    lines = [f"def {name}():"]
    for i, one in enumerate(inputs):
        layout = f"{one.sizes}, {one.strides}, {one.offset}"
        if one.base is not None:
            lines.append(f"    x{i} = x{one.base}.as_strided({layout})")
            continue
        pattern = ", ".join(_literal(v, str) for v in one.pattern)
        lines.append(f"    x{i} = given({one.dtype}, [{pattern}], {layout})")
    names = "".join(f"x{i}, " for i in range(len(inputs))).rstrip()
    lines.append(f"    return {names or '()'}")
    return "\n".join(lines) + "\n"


_HEAD = """\
import torch

aten = torch.ops.aten


def given(dtype, pattern, sizes, strides, offset=0):
    last = sum((n - 1) * s for n, s in zip(sizes, strides)) if 0 not in sizes else 0
    count = offset + last + 1
    storage = torch.tensor(pattern, dtype=dtype).repeat(count // len(pattern) + 1)[:count]
    return storage.clone().as_strided(sizes, strides, offset)


"""
_TAIL = """\
if __name__ == "__main__":
    import fulgurite

    compiled = fulgurite.jit(program, executors=["fused_cpu", "aten"])
    with torch.no_grad():
        for make in {makers}:
            for i, (e, f) in enumerate(zip(program(*make()), compiled(*make()))):
                differ = ~((e == f) | (e.isnan() & f.isnan()))
                print(f"result {{i}}, {{e.dtype}}: {{int(differ.sum())}} of {{e.numel()}} differ")
                print("  eager", e[differ][:8].tolist(), "fused", f[differ][:8].tolist())
        print(fulgurite.last_traces(compiled)[-1])
"""


def script(program: Program) -> str:
    """A script that runs the program twice, by eager and compiled, and shows what differs."""
    note = "".join(f"# {line}\n" for line in program.note.splitlines())
    parts = [note + _HEAD + _given_text("inputs", program.inputs)]
    if program.others:
        parts.append(_given_text("other_inputs", program.others))
    parts.append(_body(program))
    parts.append(_TAIL.format(makers="(inputs, other_inputs)" if program.others else "(inputs,)"))
    return "\n\n".join(parts)


class _Reader:
    """Of the functions in a script."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Name(id=name):
                return Ref(self.numbers[name])
            case ast.List(elts=elts):
                return [self.value(e) for e in elts]
            case ast.Tuple(elts=elts):
                return tuple(self.value(e) for e in elts)
            case ast.Attribute(value=ast.Name(id="torch"), attr=name):
                return getattr(torch, name)
            case ast.Call(func=ast.Name(id="float"), args=[text]):
                return float(ast.literal_eval(text))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.value(operand)
        return ast.literal_eval(node)

    def given(self, function: ast.FunctionDef) -> tuple[Given, ...]:
        found: list[Given] = []
        for line in function.body:
            if not isinstance(line, ast.Assign):
                continue
            call = line.value
            args = [self.value(a) for a in call.args]
            if isinstance(call.func, ast.Attribute):
                base = int(call.func.value.id[1:])
                found.append(Given(found[base].dtype, found[base].pattern, *args, base=base))
            else:
                found.append(Given(args[0], tuple(args[1]), *args[2:]))
        return tuple(found)

    def calls(self, function: ast.FunctionDef) -> tuple[tuple[Call, ...], tuple[int, ...]]:
        self.numbers = {arg.arg: i for i, arg in enumerate(function.args.args)}
        calls = []
        for line in function.body[:-1]:
            targets = line.targets[0] if isinstance(line, ast.Assign) else ast.Tuple([])
            call = line.value
            args = tuple(self.value(a) for a in call.args)
            kwargs = tuple((k.arg, self.value(k.value)) for k in call.keywords)
            names = targets.elts if isinstance(targets, ast.Tuple) else [targets]
            op = ast.unparse(call.func).removeprefix("aten.").removesuffix(".default")
            for target in names:
                self.numbers[target.id] = len(self.numbers)
            results = tuple(self.numbers[t.id] for t in names)
            calls.append(Call(op, args, kwargs, results, isinstance(targets, ast.Tuple)))
        return tuple(calls), tuple(r.number for r in self.value(function.body[-1].value))


def read(text: str) -> Program:
    """The program of a script."""
    functions = {n.name: n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)}
    reader = _Reader()
    calls, outputs = reader.calls(functions["program"])
    inputs = reader.given(functions["inputs"])
    others = reader.given(functions["other_inputs"]) if "other_inputs" in functions else ()
    note = "\n".join(
        line[2:] for line in text.split("import torch")[0].splitlines() if line.startswith("# ")
    )
    return Program(inputs, calls, outputs, others, note)
