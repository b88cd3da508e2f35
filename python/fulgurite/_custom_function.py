"""A torch.autograd.Function whose results are differentiated, captured as one call.

Torch runs the forward, on traced tensors; then the backward is run, too, on a gradient for every
result, so that the program holds both.
"""

import itertools

import torch

from fulgurite import _C
from fulgurite._C import Unsupported

# With more results, whose gradients may each be None, there are too many backwards.
_MOST_PATTERNS_OF = 3


def can_be_recorded(cls, args):
    """Whether `cls.apply(*args)` has gradients that the trace must know of."""
    return _C.CustomCall.possible() and any(
        isinstance(a, torch.Tensor) and a.requires_grad for a in args
    )


def record(apply, cls, args, kwargs, recorder):
    """The result of `cls.apply(*args, **kwargs)`, recorded as a call with a gradient.

    recorder: of the state of Python, which a backward must leave alone; or None.
    """
    if cls.clear_saved_tensors_on_access:
        _C.refuse(
            f"applies {cls.__qualname__}, a custom autograd.Function with "
            "clear_saved_tensors_on_access",
            "leave that out",
        )
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    with _C.CustomCall(cls.__name__, tensors) as call:
        result = apply(cls, *args, **kwargs)
        outputs = result if isinstance(result, tuple) else (result,)
        if any(isinstance(o, torch.Tensor) and o.requires_grad for o in outputs):
            _differentiate(call, cls, args, outputs, recorder)
        return result


def _differentiate(call, cls, args, outputs, recorder):
    context = _context_of(cls, outputs)
    zeros = _C.zeros_for_none(context)
    saved = [t for t in context.saved_tensors if t is not None]
    tensors = [o for o in outputs if isinstance(o, torch.Tensor)]
    call.end_forward(tensors, saved, zeros)
    for given in _patterns(cls, tensors, zeros):
        gradients = iter(call.begin_backward(given))
        everything = [next(gradients) if isinstance(o, torch.Tensor) else None for o in outputs]
        results = []

        def run(everything=everything, results=results):
            results += _run_backward(cls, context, args, everything)

        if recorder is None:
            run()
        elif recorder.changes_state(run):
            _refuse_backward(cls, "changes the state of Python")
        call.end_backward(results)
    call.finish()


def _context_of(cls, outputs):
    """What the forward got as `ctx`: the node that torch has put behind the results."""
    for output in outputs:
        if isinstance(output, torch.Tensor) and isinstance(output.grad_fn, cls._backward_cls):
            return output.grad_fn
    return _C.refuse(
        f"applies {cls.__qualname__}, a custom autograd.Function that writes to a view",
        "write to a clone() of it, or call it outside of the compiled function",
    )


def _patterns(cls, outputs, zeros):
    """Which gradients arrive: all, or, where they may be None, any but none."""
    if zeros:
        return [[True] * len(outputs)]
    differentiable = [o.requires_grad for o in outputs]
    if sum(differentiable) > _MOST_PATTERNS_OF:
        _C.refuse(
            f"applies {cls.__qualname__}, a custom autograd.Function that calls "
            f"set_materialize_grads(False) and has {sum(differentiable)} results",
            "leave out set_materialize_grads(False), or return fewer tensors",
        )
    choices = [(True, False) if d else (False,) for d in differentiable]
    return [list(given) for given in itertools.product(*choices) if any(given)]


def _run_backward(cls, context, args, gradients):
    """The gradients of the tensors among `args`."""
    try:
        with torch.no_grad():
            results = context.apply(*gradients)
    except Unsupported:
        raise
    except Exception as error:
        _refuse_backward(cls, f"raises {type(error).__name__}: {error}")
    results = results if isinstance(results, tuple) else (results,)
    if len(results) < len(args) or any(r is not None for r in results[len(args) :]):
        _refuse_backward(cls, f"returns {len(results)} gradients for {len(args)} arguments")
    wanted = []
    for arg, result in zip(args, results, strict=False):
        is_tensor = isinstance(result, torch.Tensor)
        if result is not None and not (is_tensor and isinstance(arg, torch.Tensor)):
            _refuse_backward(cls, f"returns a {type(result).__name__} where None or a tensor goes")
        if isinstance(arg, torch.Tensor):
            wanted.append(result)
    return wanted


def _refuse_backward(cls, what):
    _C.refuse(
        f"applies {cls.__qualname__}, a custom autograd.Function whose backward {what}",
        "change the backward, or call the function outside of the compiled one",
    )
