"""Autocast as a transform: the policy is torch's own."""

import torch

from fulgurite._C import TraceValue, UserError
from fulgurite._transforms import Transform


def autocast(dtype=torch.bfloat16, device="cpu"):
    """A Transform after which a program computes as under `torch.autocast(device, dtype)`.

    Results have the types that they have there; the casts are calls of the trace.
    """
    if dtype not in (torch.bfloat16, torch.float16):
        raise UserError(f"autocast casts to bfloat16 or float16, got {dtype}")
    try:
        torch.autocast(device, dtype)
    except (RuntimeError, ValueError) as error:
        raise UserError(f"there is no autocast to {dtype} on {device!r}: {error}") from error

    def rule(call, *args):
        if call.op is None or call.name.startswith("fulgurite::") or _has_numbers(call):
            return NotImplemented
        with torch.autocast(device, dtype, cache_enabled=False):
            return call(*args)

    return Transform(lambda trace: trace.rewrite(rule), before="Functionalise", name="autocast")


def _has_numbers(call):
    """Numbers that the program computes, which are no tensors for an operator."""
    schema = call.op._schema.arguments
    pairs = zip(schema, call.args, strict=True)
    return any(isinstance(a, TraceValue) and "Tensor" not in str(s.type) for s, a in pairs)
