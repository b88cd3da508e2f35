"""A jitted module is a module: it shares all state with the module that it was made from."""

import copy
import functools
import types
import weakref

import torch
from torch.compiler import is_dynamo_compiling

from fulgurite import _C
from fulgurite._C import UserError
from fulgurite._function import compile_function

# Weakly, class of module -> class of its compiled modules, which refers to the former.
_CLASSES = weakref.WeakKeyDictionary()


def compile_module(module, options):
    """A module of a subclass of `module`'s class whose calls are compiled."""
    if isinstance(getattr(type(module), "_fulgurite_function", None), types.MemberDescriptorType):
        module = module._fulgurite_function.target
    if not hasattr(module, "__dict__") or _has_slots(type(module)):
        raise UserError(f"jit cannot share the state of a {type(module).__name__}: it has slots")
    compiled = object.__new__(_class_for(type(module)))
    object.__setattr__(compiled, "__dict__", module.__dict__)
    function = compile_function(module, options)
    function.inlined = functools.partial(_inlined, type(module).__call__, weakref.ref(compiled))
    object.__setattr__(compiled, "_fulgurite_function", function)
    return compiled


def _inlined(call, compiled, /, *args, **kwargs):
    """A call that others trace: torch.fx looks for the very module that is part of another."""
    return call(compiled(), *args, **kwargs)


def is_compiled(f):
    """Whether it is what fulgurite.jit returned."""
    return isinstance(f, _C.Function) or hasattr(type(f), "_fulgurite_function")


def function_of(compiled):
    """The compiled function of a jitted function or module; UserError for anything else."""
    if isinstance(compiled, _C.Function):
        return compiled
    function = getattr(type(compiled), "_fulgurite_function", None)
    if function is None:
        raise UserError(
            f"expected what fulgurite.jit returned, got a {type(compiled).__name__}: {compiled!r}"
        )
    return compiled._fulgurite_function


def _class_for(kind):
    made = _CLASSES[kind]() if kind in _CLASSES else None
    if made is None:
        body = {
            "__slots__": ("_fulgurite_function",),
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": kind.__doc__,
            "__new__": _constructor_of(kind),
            "__init_subclass__": classmethod(_refuse_subclass),
            "__call__": _call,
            "__reduce_ex__": _reduce,
            "__copy__": _copy,
            "__deepcopy__": _deepcopy,
        }
        made = type(kind)(kind.__name__, (kind,), body)
        _CLASSES[kind] = weakref.ref(made)
    return made


def _constructor_of(kind):
    @functools.wraps(kind.__init__)
    def construct(cls, *args, **kwargs):
        """What the class of a compiled module makes, a slice of a Sequential say, is plain."""
        return kind(*args, **kwargs)

    return construct


def _refuse_subclass(cls, **kwargs):
    name = cls.__base__.__name__
    raise UserError(
        f"the class {cls.__name__} is derived from that of a compiled module: derive it from "
        f"{name} itself, and change what a module does (a parametrization, say) before jit"
    )


def _call(self, *args, **kwargs):
    if is_dynamo_compiling():  # torch.compile sees the module that it was made from
        return self._fulgurite_function.target(*args, **kwargs)
    return self._fulgurite_function(*args, **kwargs)


def _reduce(self, protocol):
    function = self._fulgurite_function
    return compile_module, (function.target, function.state.options)


def _copy(self):
    function = self._fulgurite_function
    return compile_module(copy.copy(function.target), function.state.options)


def _deepcopy(self, memo):
    function = self._fulgurite_function
    return compile_module(copy.deepcopy(function.target, memo), function.state.options)


def _has_slots(kind):
    return any(
        getattr(base, "__slots__", ()) for base in kind.__mro__ if base is not torch.nn.Module
    )
