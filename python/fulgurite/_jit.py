"""`jit`: compile a function or a module."""

import functools
import inspect

import torch

from fulgurite import _C
from fulgurite._C import UserError
from fulgurite._function import compile_function
from fulgurite._module import compile_module
from fulgurite._options import read_options


def jit(target=None, /, **options):
    """Compiles a function, a method, a callable object or an nn.Module.

    The result is called like `target` and gives eager's results: each call is served by a compiled
    entry for its tensor types and Python values, made on first use. A module gives a module, with
    the same parameters, state_dict and hooks. Without a target it is a decorator:
    `@jit` or `@jit(fallback="eager")`.

    Options: see `fulgurite._options.Options`. Raises UserError for what cannot be compiled at
    all, and Unsupported, on a call, for a program that cannot be captured soundly.
    """
    read = read_options(options)
    if target is None:
        return functools.partial(jit, **options)
    if isinstance(target, (staticmethod, classmethod)):
        return type(target)(jit(target.__func__, **options))
    _check_target(target)
    if isinstance(target, _C.Function):
        return compile_function(target.target, read)
    if isinstance(target, torch.nn.Module):
        return compile_module(target, read)
    return compile_function(target, read)


def _check_target(target):
    if not callable(target):
        raise UserError(f"jit needs a function, a module or another callable, got {target!r}")
    if isinstance(target, type):
        raise UserError(
            f"jit got the class {target.__name__}; give it an instance, or a function that uses it"
        )
    if isinstance(target, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        raise UserError(
            "jit got a TorchScript program, whose Python source is gone; give it the original "
            "module or function (a compiled function may call scripted ones)"
        )
    for is_kind, kind in (
        (inspect.isgeneratorfunction, "generator function"),
        (inspect.iscoroutinefunction, "coroutine function"),
        (inspect.isasyncgenfunction, "asynchronous generator function"),
    ):
        if is_kind(target):
            raise UserError(f"jit got a {kind}; compile the function that it calls instead")
