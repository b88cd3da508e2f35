"""Traces as files: the printed program, and the types of its inputs in a comment at its end."""

import ast
import inspect
import json
from pathlib import Path

import torch

from fulgurite import _C, _tracing
from fulgurite._C import UserError
from fulgurite._fusions import fusions_of
from fulgurite._outputs import Outputs

_MARK = "# fulgurite inputs: "
_TYPE = (
    "dtype", "device", "shape", "strides", "offset", "storage", "nbytes", "requires_grad",
    "is_conj", "is_neg",
)  # fmt: skip
_MODES = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference_mode": torch.inference_mode,
}


def names_of(trace):
    """{name: object}: torch, which the printed program imports, and its fusions, live."""
    return {"torch": torch, **fusions_of(trace)}


def save(trace, path):
    """Writes the program, which stays one that runs by itself."""
    head = {"grad_mode": trace.grad_mode, "inputs": [_written(value) for value in trace.inputs]}
    text = trace.text()
    Path(path).write_text(f"{text}\n{_MARK}{json.dumps(head)}\n", encoding="utf-8")


def _written(value):
    fields = {field: getattr(value, field) for field in _TYPE}
    fields["dtype"] = str(value.dtype).removeprefix("torch.")
    return fields


def load(path):
    """The trace that Trace.save wrote to `path`: the same program, captured anew from its text,
    which may have been edited. What the text does not say (the pass that made it, source lines,
    bodies as comments) is not kept.

    This runs the file as Python code: load only what you trust. Raises UserError for a file that
    is no saved trace.
    """
    text = Path(path).read_text(encoding="utf-8")
    head = _read_head(text, path)
    function = _function_of(text, path)
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != len(head["inputs"]):
        raise UserError(
            f"{path} describes {len(head['inputs'])} inputs, and {function.__name__} takes "
            f"{len(parameters)}; keep the last line of the file in step with the program"
        )
    tracer = _C.Tracer()
    inputs = [
        tracer.typed_input(name, {**fields, "dtype": getattr(torch, fields["dtype"])})
        for name, fields in zip(parameters, head["inputs"], strict=True)
    ]
    with _MODES[head["grad_mode"]](), _tracing.listening(tracer):
        result = function(*inputs)
    outputs = Outputs(result, lambda value: False)
    return _C.finish(tracer, outputs.tensors, outputs.tree).trace


def _read_head(text, path):
    lines = [line for line in text.splitlines() if line.startswith(_MARK)]
    if not lines:
        raise UserError(f"{path} is no trace that was written by Trace.save: it has no {_MARK!r}")
    return json.loads(lines[-1].removeprefix(_MARK))


def _function_of(text, path):
    """The last function of the program: the ones before it are regions."""
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    if not names:
        raise UserError(f"{path} defines no function")
    scope = {}
    exec(compile(text, str(path), "exec"), scope)
    return scope[names[-1]]
