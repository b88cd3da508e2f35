"""Operators of a user's own, in one call."""

import torch

from fulgurite._C import UserError


def register_operator(name, function, *, fake, gradient=None, mutates=(), schema=None):
    """A `torch.library.custom_op` that runs `function`; returns it.

    name: "mine::scale". function: over tensors and numbers, with annotated types, or with a
    `schema` as torch.library writes it. It gives new tensors, and writes to the arguments named in
    `mutates` alone. fake: the same parameters; empty tensors of the result's type, None where there
    is none.
    gradient(grad, *args): the gradient of each argument, None for numbers; `grad` is that of the
    result, or a tuple of them, and the arguments are as they were given.

    What torch.library can do beyond this (other devices, vmap, autograd with saved results) is done
    to what is returned, or with torch.library itself: any such operator is captured, printed, run
    and differentiated.
    """
    namespace, _, own = str(name).partition("::")
    if not (namespace.isidentifier() and own.isidentifier()):
        raise UserError(f"an operator's name is like 'mine::scale', got {name!r}")
    for what, given in (("function", function), ("fake", fake), ("gradient", gradient)):
        if not callable(given) and (given is not None or what != "gradient"):
            raise UserError(f"the {what} of the operator {name} is a function, got {given!r}")
    if gradient is not None and mutates:
        raise UserError(
            f"the operator {name} writes to its arguments, and has a gradient: torch.library "
            "differentiates operators that write nothing"
        )
    if hasattr(getattr(torch.ops, namespace), own):
        raise UserError(f"there is an operator {name!r} already")
    try:
        operator = torch.library.custom_op(name, function, mutates_args=mutates, schema=schema)
    except ValueError as error:
        raise UserError(f"the operator {name} cannot be registered: {error}") from error
    operator.register_fake(fake)
    if gradient is not None:
        operator.register_autograd(_backward(name, gradient), setup_context=_save)
    return operator


def _save(ctx, inputs, output):
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, torch.Tensor)))
    ctx.others = [None if isinstance(value, torch.Tensor) else (value,) for value in inputs]


def _backward(name, gradient):
    def backward(ctx, *grads):
        tensors = iter(ctx.saved_tensors)
        args = [next(tensors) if other is None else other[0] for other in ctx.others]
        found = gradient(grads[0] if len(grads) == 1 else grads, *args)
        found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
        if len(found) != len(args):
            raise UserError(
                f"the gradient of the operator {name} returned {len(found)} values for "
                f"{len(args)} arguments"
            )
        return found

    return backward
