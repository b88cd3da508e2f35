"""One call of the user's function, captured: the operators it runs, and the Python state that it
depends on and changes."""

import dataclasses
import inspect
import os
import re
import sysconfig
import traceback
import warnings

import torch
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _device

from fulgurite import _C, _names, _numbers, _tracing
from fulgurite._advice import advised
from fulgurite._arguments import container_places, substitute, top_names
from fulgurite._C import Unsupported
from fulgurite._outputs import Outputs, refuse_attributes

# Whose frames are not the program's own.
_LIBRARIES = (os.path.dirname(torch.__file__), os.path.dirname(__file__))
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_HARMLESS = ("message", "import")
_REGISTERS_HOOK = re.compile(r"\._\w*hooks\w*\[")


class SetsUp(Unsupported):
    """The call registers hooks in a module, as some models do in their first call."""


@dataclasses.dataclass
class Program:
    """A captured call.

    captured: its trace and the real tensors lifted into it.
    sources: for each argument input of the trace, the index of the tensor among the call's.
    template: how to build the result.
    state: guards on the state of Python, and the effects on it, which the capture left undone.
    reads: real tensors whose data the program depends on.
    kept: containers that the result has as themselves.
    places: of the containers among the arguments, where the program changes or returns one.
    reads_offsets: whether it depends on where its arguments lie in their storages.
    copies_state: whether it depends on which of its tensors share memory.
    raised: what the user's code raised, in which case all else is empty.
    """

    captured: object = None
    sources: list = dataclasses.field(default_factory=list)
    template: tuple = ()
    state: object = None
    reads: list = dataclasses.field(default_factory=list)
    kept: list = dataclasses.field(default_factory=list)
    places: list = dataclasses.field(default_factory=list)
    reads_offsets: bool = False
    copies_state: bool = False
    raised: str = ""


def capture(target, args, kwargs):
    """The program of one call. The state of Python is left as it was before.

    Raises Unsupported for what cannot be captured soundly.
    """
    _tracing.make_first_uses()
    tracer = _C.Tracer()
    given = substitute(tracer, target, args, kwargs)
    places = container_places(given.args, given.kwargs)
    recorder = _C.StateRecorder(_roots(target, args, kwargs), places.containers, given.stand_ins)
    ambient, modes = _C.ambient_key(), _FunctionModes()
    try:
        with _numbers.collected(), _tracing.listening(tracer, recorder), recorder:
            result = target(*given.args, **given.kwargs)
            _numbers.settle()
        _check_undisturbed(ambient, modes, tracer)
        _check_repeatable(recorder, target)
        program = _program(target, tracer, given, places, recorder, result)
        _names.name_inputs(program.captured, target, args, kwargs)
        return program
    except Unsupported as error:
        raise advised(error, target, args, kwargs) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, too, comes after what the program did before
        return Program(raised=_describe(error))
    finally:
        modes.restore()
        if not recorder.undo():
            warnings.warn(
                "fulgurite could not put back all that a captured call changed", stacklevel=2
            )


def _describe(error):
    """The error, and the line of the program that raised it."""
    text = f"the capture raised {type(error).__name__}: {error}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(_LIBRARIES)
    ]
    if frames:
        last = frames[-1]
        text += f"\n  at {last.filename}:{last.lineno} in {last.name}: {last.line}"
    return text


def _program(target, tracer, given, places, recorder, result):
    state = recorder.outcome()
    outputs = Outputs(result, recorder.is_old, places, given.stand_ins)
    for what, refusal, file, line in state.effects:
        if refusal:
            kind = SetsUp if _REGISTERS_HOOK.search(what) else Unsupported
            raise kind(
                f"the function {what}, which cannot be repeated: {refusal}"
                f"{_place(file, line, target)}"
            )
    _check_arguments(given, places, state, outputs)
    state.share_results(outputs.made)
    stored = state.take_tensors()
    for tensor in stored:
        refuse_attributes(tensor, given.stand_ins, "keeps")
    _refuse_new_parameters(outputs.tensors + stored, given)
    captured = _C.finish(tracer, outputs.tensors + stored, _with_stored(outputs, stored))
    found = places.found if state.uses_arguments or outputs.gives_argument else []
    return Program(
        captured,
        given.sources,
        outputs.template,
        state,
        captured.reads,
        outputs.kept,
        found,
        _tracing.reads_offsets(),
        _tracing.copies_state(),
    )


def _refuse_new_parameters(tensors, given):
    """A later call would make plain tensors in their place."""
    known = {id(tensor) for tensor in given.stand_ins}
    for tensor in tensors:
        made = isinstance(tensor, torch.nn.Parameter) and _C.is_trace_tensor(tensor)
        if made and id(tensor) not in known:
            raise Unsupported(
                "the function hands out a torch.nn.Parameter that it makes; make parameters "
                "outside of it, or call the uncompiled module once before it is compiled"
            )


def _with_stored(outputs, stored):
    """The tree of the printed return: what effects store comes behind the user's own result."""
    if not stored:
        return outputs.tree
    first = len(outputs.tensors)
    leaves = [("leaf", first + i, (), ()) for i in range(len(stored))]
    return ("tuple", "", (), (outputs.tree, *leaves))


class _FunctionModes:
    """The function modes of this thread, a default device among them."""

    def __init__(self):
        self.stack = _get_current_function_mode_stack()
        self.device = _device.CURRENT_DEVICE

    def changed(self):
        now = _get_current_function_mode_stack()
        return len(now) != len(self.stack) or any(
            a is not b for a, b in zip(now, self.stack, strict=True)
        )

    def restore(self):
        """A capture that was given up may have left a `with` block without its end."""
        if self.changed():
            while _get_current_function_mode_stack():
                _pop_mode()
            for mode in self.stack:
                _push_mode(mode)
        _device.CURRENT_DEVICE = self.device


def _check_arguments(given, places, state, outputs):
    changed = given.changed()
    if changed is not None and not state.uses_arguments:
        raise Unsupported(
            f"the function changes a {type(changed).__name__} among its arguments in code that is "
            "not watched; return the new container instead"
        )
    if places.hidden and (state.uses_arguments or outputs.gives_argument):
        raise Unsupported(
            "the function changes or returns a container among its arguments that is in a "
            "container of a kind of its own; return the new container instead"
        )


def _check_undisturbed(ambient, modes, tracer):
    if tracer.grads:
        raise Unsupported(
            "the function leaves a gradient in the .grad of a tensor: it calls backward(), or sets "
            "it; use torch.autograd.grad in it, or call backward() on what it returns"
        )
    if _C.ambient_key() != ambient or modes.changed():
        raise Unsupported(
            "the function leaves grad mode, autocast, the default dtype or device, or another "
            "setting of torch changed; use a with statement, or change it outside"
        )


def _check_repeatable(recorder, target):
    if not recorder.complete:
        raise Unsupported("the function replaces the trace function of its thread (sys.settrace)")
    for kind, what, file, line in recorder.impurities:
        if kind == "message":
            message = (
                f"the function {what}; that happens when it is compiled, and not on later calls"
            )
            warnings.warn_explicit(message, UserWarning, file, line)
        elif kind not in _HARMLESS:
            raise Unsupported(f"the function {what}{_place(file, line, target)}")


def _place(file, line, target):
    """Where something happened, and where the user's code is if that is in a library."""
    text = f"\n  at {file}:{line}"
    called = target.forward if isinstance(target, torch.nn.Module) else target
    code = getattr(inspect.unwrap(called), "__code__", None)
    if file.startswith(_INSTALLED) and code is not None:
        text += f"\n  called in {code.co_qualname} at {code.co_filename}:{code.co_firstlineno}"
    return text


def _roots(target, args, kwargs):
    """{name: object} that the program starts from, the arguments that are objects among them."""
    roots = {}
    owner = getattr(target, "__self__", None)
    if isinstance(target, torch.nn.Module):
        roots["self"] = target
    elif owner is not None and not isinstance(owner, type(torch)):
        roots["self"] = owner
    function = getattr(target, "__func__", target)
    if function is not roots.get("self"):
        roots[getattr(function, "__name__", "f")] = function
    for name, value in zip(top_names(target, args, kwargs), [*args, *kwargs.values()], strict=True):
        if not isinstance(value, torch.Tensor) and not container_places([value], {}).containers:
            roots.setdefault(name, value)
    return roots
