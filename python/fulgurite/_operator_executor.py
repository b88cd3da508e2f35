"""Executors of a user's own."""

import functools

import torch
from torch.autograd.function import once_differentiable

from fulgurite import _C
from fulgurite._C import UserError
from fulgurite._executors import _EXECUTORS, get_executor

_NOT_CLAIMED = "it does not claim it"


class OperatorExecutor(_C.UserExecutor):
    """Runs calls of one's own choice, each by a function over real tensors.

    claims(call): whether it takes the call, a BoundSymbol: True, or False, or a str that says why
      not. lower(call): a function that gets one tensor per tensor argument of the call and returns
      one per result. Or register an implementation for an operator, which gets the operator's own
      arguments: see `register_implementation`. Both may be used together.

    gradient: what happens where gradients through a call are needed. None: the call is refused, and
    the next executor runs it. "recompute": the backward runs the operator itself again, under
    autograd, on the same arguments. "own": the functions are differentiable themselves.

    Functions may run on several threads at once. They must not write to their arguments, and must
    return new tensors of the very shape, dtype, device and strides that the trace has for the
    results: UserError otherwise. Calls that write, or give views, are never claimed.
    """

    def __init__(self, name, claims=None, lower=None, *, gradient=None):
        if not isinstance(name, str) or not name.isidentifier():
            raise UserError(f"an executor's name is an identifier, got {name!r}")
        if (claims is None) != (lower is None):
            raise UserError(f"the executor {name} needs both claims and lower, or neither")
        for what, given in (("claims", claims), ("lower", lower)):
            if given is not None and not callable(given):
                raise UserError(f"{what} of the executor {name} is a function, got {given!r}")
        if gradient not in (None, "recompute", "own"):
            raise UserError(
                f'gradient of the executor {name} is None, "recompute" or "own", got {gradient!r}'
            )
        self._given = (claims, lower, gradient)
        self._implementations = {}
        super().__init__(name, self._refusal, self._function, gradient is not None)

    def register_implementation(self, op, function=None, *, checker=None):
        """`function(*args, **kwargs)` runs the calls of `op`, as "aten::softmax.int" or
        torch.ops.aten.softmax.int, with the operator's own arguments; those for which
        `checker(call)` says False, or a reason, are not taken. Without a function, a decorator."""
        if function is None:
            return functools.partial(self._decorate, op, checker)
        for given in (function, *([checker] if checker is not None else [])):
            if not callable(given):
                raise UserError(f"an implementation is a function, got {given!r}")
        self._implementations[_name_of(op)] = (function, checker)
        return None

    def _decorate(self, op, checker, function):
        self.register_implementation(op, function, checker=checker)
        return function

    def _refusal(self, call):
        function, checker = self._implementations.get(call.name, (None, None))
        ask = checker if function else self._given[0]
        if function and checker is None:
            return ""
        if ask is None:
            return f"it has no implementation of {call.name}"
        try:
            said = ask(call)
        except Exception as error:
            raise UserError(
                f"the executor {self.name} raised {type(error).__name__} when it was asked for "
                f"{call!r}: {error}"
            ) from error
        if isinstance(said, str) and said:
            return said
        if said is True or said is False:
            return "" if said else _NOT_CLAIMED
        raise UserError(
            f"the executor {self.name} said {said!r} of {call!r}; it has to say True, False or a "
            "reason"
        )

    def _function(self, call):
        implementation, _ = self._implementations.get(call.name, (None, None))
        if implementation:
            function = _with_arguments(implementation, call)
        else:
            try:
                function = self._given[1](call)
            except Exception as error:
                raise UserError(
                    f"the executor {self.name} raised {type(error).__name__} when it was to lower "
                    f"{call!r}: {error}"
                ) from error
        if not callable(function):
            raise UserError(
                f"the executor {self.name} lowered {call!r} to {function!r}; it has to be a "
                "function over tensors"
            )
        needs = call.grad_mode == "enable_grad" and any(
            v.requires_grad for v in _tensors(call.outputs)
        )
        if self._given[2] == "recompute" and needs:
            return _recomputing(function, call)
        return function

    def __reduce__(self):
        if _EXECUTORS.get(self.name) is self:
            return get_executor, (self.name,)
        claims, lower, gradient = self._given
        return _remade, (self.name, claims, lower, gradient, self._implementations)

    def __repr__(self):
        known = ", ".join(self._implementations)
        return f"<executor {self.name}{f' of {known}' if known else ''}>"


def _remade(name, claims, lower, gradient, implementations):
    executor = OperatorExecutor(name, claims, lower, gradient=gradient)
    executor._implementations.update(implementations)
    return executor


def _name_of(op):
    if isinstance(op, torch._ops.OpOverloadPacket):
        overloads = [getattr(op, name) for name in op.overloads()]
        overloads = [each for each in overloads if not each._schema.is_mutable]
        if len(overloads) > 1:
            names = ", ".join(sorted(_name_of(each) for each in overloads))
            raise UserError(f"{op} has several overloads, name one: {names}")
        op = overloads[0]
    if isinstance(op, torch._ops.OpOverload):
        return op.name()
    if isinstance(op, torch.library.CustomOpDef):
        return op._qualname
    if isinstance(op, str) and "::" in op:
        return op
    raise UserError(f"an operator is named as 'aten::softmax.int', or given itself, got {op!r}")


def _tensors(args):
    for arg in args:
        if isinstance(arg, _C.TraceValue):
            yield arg
        elif isinstance(arg, list):
            yield from _tensors(arg)


def _with_arguments(function, call):
    """Of the tensors of the call: `function` with the operator's own arguments."""
    schema = call.op._schema.arguments
    names = [argument.name if argument.kwarg_only else None for argument in schema]
    args = _with_places(call.args)

    def run(*tensors):
        left = iter(tensors)
        positional, keywords = [], {}
        for name, arg in zip(names, args, strict=True):
            value = _filled(arg, left)
            if name is None:
                positional.append(value)
            else:
                keywords[name] = value
        return function(*positional, **keywords)

    return run


_PLACE = object()  # of a tensor


def _with_places(arg):
    if isinstance(arg, list):
        return [_with_places(item) for item in arg]
    return _PLACE if isinstance(arg, _C.TraceValue) else arg


def _filled(arg, tensors):
    if isinstance(arg, list):
        return [_filled(item, tensors) for item in arg]
    return next(tensors) if arg is _PLACE else arg


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, run, again, differentiable, *tensors):
        ctx.save_for_backward(*tensors)
        ctx.again = again
        made = run(*tensors)
        results = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        # Tensors of their own, so that what the function keeps is not given this history.
        results = tuple(r.detach() if isinstance(r, torch.Tensor) else r for r in results)
        ctx.mark_non_differentiable(
            *(r for r, d in zip(results, differentiable, strict=True) if not d)
        )
        return results

    @staticmethod
    @once_differentiable
    def backward(ctx, *gradients):
        needed = ctx.needs_input_grad[3:]
        saved = ctx.saved_tensors
        with torch.enable_grad(), torch.autocast(saved[0].device.type, enabled=False):
            inputs = [
                tensor.detach().requires_grad_(need)
                for tensor, need in zip(saved, needed, strict=True)
            ]
            made = ctx.again(*inputs)
        results = made if isinstance(made, (tuple, list)) else (made,)
        pairs = [(r, g) for r, g in zip(results, gradients, strict=True) if r.requires_grad]
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        outputs, arrived = zip(*pairs, strict=True)
        found = iter(torch.autograd.grad(outputs, wanted, arrived, allow_unused=True))
        return None, None, None, *(next(found) if need else None for need in needed)


def _recomputing(function, call):
    again = _with_arguments(call.op, call)
    differentiable = [value.requires_grad for value in _tensors(call.outputs)]

    def run(*tensors):
        return _Recomputed.apply(function, again, differentiable, *tensors)

    return run
