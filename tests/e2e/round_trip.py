"""A program captured, printed, and captured again from its text."""

import torch

from fulgurite import _C, _tracing
from fulgurite._arguments import Places
from fulgurite._outputs import Outputs

MODES = {
    "no_grad": torch.no_grad,
    "enable_grad": torch.enable_grad,
    "inference_mode": torch.inference_mode,
}


def capture(function, tensors):
    tracer = _C.Tracer()
    inputs = [tracer.input(tensor, f"x{i}") for i, tensor in enumerate(tensors)]
    with _tracing.listening(tracer):
        result = function(*inputs)
    outputs = Outputs(result, lambda value: False, Places())
    return _C.finish(tracer, outputs.tensors, outputs.tree)


def program(text, name):
    scope = {}
    exec(compile(text, "<trace>", "exec"), scope)
    return scope[name]


def of_type(value):
    """A tensor like a value of a trace."""
    made = torch.empty_strided(value.shape, value.strides, dtype=value.dtype, device=value.device)
    return made.fill_(1).requires_grad_(value.requires_grad)


def round_trip(trace, tensors):
    """What differs once the text of `trace` has been captured; "" if nothing does."""
    text = trace.text()
    with MODES[trace.grad_mode]():
        again = capture(program(text, trace.name), tensors).trace
    difference = trace.difference(again)
    return difference and f"{difference}\n{text}"


def check(function, *tensors):
    captured = capture(function, tensors)
    everything = [*tensors, *captured.lifted]
    compiled = _C.compile_captured(captured, True)
    for trace in [captured.trace, *compiled.series]:
        gradients = [of_type(value) for value in trace.inputs[len(everything) :]]
        assert round_trip(trace, [*everything, *gradients]) == "", trace.provenance
    for trace in compiled.backward:
        given = [of_type(value) for value in trace.inputs]
        assert round_trip(trace, given) == "", f"backward, {trace.provenance}"
