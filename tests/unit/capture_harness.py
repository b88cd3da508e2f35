"""Runs a program eagerly, captured and replayed, and compares all that can be compared."""

import copy
from contextlib import contextmanager

import torch

from fulgurite import _C


def tensors_of(result):
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, dict):
        return [t for value in result.values() for t in tensors_of(value)]
    if isinstance(result, (list, tuple)):
        return [t for value in result for t in tensors_of(value)]
    return []


@contextmanager
def deepcopy_of_traced():
    original = torch.Tensor.__deepcopy__

    def copied(self, memo):
        if not _C.is_trace_tensor(self):
            return original(self, memo)
        if id(self) not in memo:
            memo[id(self)] = _C.copy_of(self)
        return memo[id(self)]

    torch.Tensor.__deepcopy__ = copied
    try:
        yield
    finally:
        torch.Tensor.__deepcopy__ = original


def prepare(make, inputs):
    """The program and its inputs, made afresh from one seed; another seed for the run."""
    torch.manual_seed(0)
    program = make()
    tensors = [make_input() for make_input in inputs]
    torch.manual_seed(1)
    return program, tensors


def capture(program, inputs):
    """(captured, what the program returned, the tracer)"""
    tracer = _C.Tracer()
    traced = [tracer.input(x, f"x{i}") for i, x in enumerate(inputs)]
    with deepcopy_of_traced(), tracer:
        result = tensors_of(program(*traced))
    return tracer.finish(result), result, tracer


def same_bits(a, b):
    """Values to the bit, NaN included, and the layout."""
    if (a.dtype, a.shape, a.device, a.requires_grad) != (
        b.dtype,
        b.shape,
        b.device,
        b.requires_grad,
    ):
        return False
    if a.numel() and _strides(a) != _strides(b):
        return False
    a, b = (t.detach().resolve_conj().resolve_neg() for t in (a, b))
    return torch.equal(a, b) or torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def _strides(tensor):
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def run(captured, inputs):
    return captured.trace.replay([*inputs, *captured.lifted])


def snapshot(tensors):
    return [(t.detach().clone(), t._version, t.grad_fn, t.grad) for t in tensors]


def assert_untouched(tensors, before):
    for tensor, (data, version, grad_fn, grad) in zip(tensors, before, strict=True):
        assert torch.equal(tensor, data) or tensor.isnan().any()
        assert tensor._version == version
        assert tensor.grad_fn is grad_fn
        assert tensor.grad is grad


def check(make, inputs):
    """Capture agrees with eager on everything; returns what was captured."""
    program, given = prepare(make, inputs)
    eager = tensors_of(program(*given))
    eager_inputs = given
    program, given = prepare(make, inputs)
    before = snapshot(given)
    captured, predicted, _ = capture(program, given)
    assert_untouched(given, before)
    captured.trace.verify()
    assert [t.requires_grad for t in predicted] == [t.requires_grad for t in eager]

    for bodies in (False, True):
        program, again = prepare(make, inputs)
        with torch.no_grad():
            copies = copy.deepcopy([t.detach() for t in captured.lifted])
            given_now = [t.detach() for t in again]
            assert _C.check_types(captured.trace, [*given_now, *copies], bodies) == ""

    torch.manual_seed(1)
    replayed = run(captured, given)
    assert len(replayed) == len(eager)
    for index, (wanted, got, told) in enumerate(zip(eager, replayed, predicted, strict=True)):
        assert same_bits(wanted.detach(), got.detach()), f"output {index}"
        assert (told.dtype, told.shape) == (wanted.dtype, wanted.shape)
        assert _strides(told) == _strides(wanted), f"strides of output {index}"
    for wanted, got in zip(eager_inputs, given, strict=True):
        assert same_bits(wanted.detach(), got.detach()), "an input was not written as eager does"
    return captured
