"""What the running program must see differently while its thread is being captured.

A few functions of torch read the data of a tensor, or the state of a generator, behind the
dispatcher's back. Each is wrapped once, at import, by a function that asks whether this thread is
being captured, and otherwise does what it did: eager programs and other threads are unchanged.
"""

import contextlib
import functools
import sys
import threading

import torch
import torch.utils.checkpoint

from fulgurite import _C, _custom_function, _messages, _numbers
from fulgurite._C import Unsupported

# `recorder`: of the state of Python, while this thread is captured by `listening`.
_thread = threading.local()


@contextlib.contextmanager
def listening(tracer, recorder=None):
    """Captures what runs in the block; the default generator must come out as it went in."""
    before = _C.DefaultGeneratorState()
    _thread.recorder, _thread.reads_offsets, _thread.copies_state = recorder, False, False
    try:
        with tracer:
            yield
    finally:
        _thread.recorder = None
    if recorder is not None and recorder.drew_outside:
        return
    if before.differs():
        before.restore()
        raise Unsupported(
            "the function changed the state of the default generator through the generator "
            "object; call torch.manual_seed, torch.set_rng_state or torch.random.fork_rng instead"
        )


def install():
    """Wraps the functions; called once, when the package is imported."""
    _watch_custom_gradients()
    _answer_is_compiling()
    for name in ("tolist", "numpy", "__array__", "data_ptr", "__dlpack__"):
        _wrap(torch.Tensor, name, _reads_data(name))
    for name in ("register_hook", "register_post_accumulate_grad_hook", "retain_grad"):
        _wrap(torch.Tensor, name, _changes_graph(name))
    _C.checks_data(torch.nn.functional.gaussian_nll_loss, "var has negative entry/entries")
    _wrap(torch.Tensor, "item", _numbers.item)
    _wrap(torch.Tensor, "__deepcopy__", _deepcopy)
    _wrap(torch.Tensor, "__repr__", _repr)
    _wrap(torch.Tensor, "type", _type)
    _wrap(torch.Tensor, "new_tensor", _new_tensor)
    _wrap(torch.Tensor, "storage_offset", _storage_offset)
    for name in ("get_rng_state", "set_rng_state", "manual_seed", "seed", "initial_seed"):
        _wrap(torch.random, name, _RANDOM[name])
        setattr(torch, name, getattr(torch.random, name))


def make_first_uses():
    """Lets torch find out what it keeps from its first use on, behind what programs are seen to do:
    what a program finds then is a fact about it, not a change that it makes."""
    torch.utils.checkpoint.DefaultDeviceType.get_device_type()


def _wrap(owner, name, instead):
    """`instead(original, *args)` runs while this thread is captured, the original otherwise."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*args, **kwargs):
        if _C.is_capturing():
            return instead(original, *args, **kwargs)
        return original(*args, **kwargs)

    setattr(owner, name, wrapped)


def _watch_custom_gradients():
    """A trace that runs under autograd has the gradients of its operators, and of the custom
    functions that are recorded."""
    function = torch.autograd.Function
    apply = function.__dict__["apply"].__func__

    @functools.wraps(apply)
    def watched_apply(cls, *args, **kwargs):
        if _is_differentiated() and _custom_function.can_be_recorded(cls, args):
            return _custom_function.record(apply, cls, args, kwargs, _recorder())
        return apply(cls, *args, **kwargs)

    function.apply = classmethod(watched_apply)
    hooks = torch.autograd.graph.saved_tensors_hooks
    enter = hooks.__enter__

    @functools.wraps(enter)
    def checked_enter(self):
        # Torch's own hooks (save_on_cpu, a checkpoint) give back what they got.
        own = type(self) is not hooks and type(self).__module__.startswith("torch.")
        if _is_differentiated() and not own:
            _C.refuse(
                f"enters {type(self).__qualname__}, hooks on what is saved for the backward",
                "enter it around the call of the compiled function",
            )
        return enter(self)

    hooks.__enter__ = checked_enter


def _recorder():
    return getattr(_thread, "recorder", None)


def _is_differentiated():
    """Whether the trace that is being captured will run under autograd as it is."""
    return _C.is_capturing() and torch.is_grad_enabled()


def _answer_is_compiling():
    # A program does what it does in eager, so that the answer is no. Transformers alone is told
    # otherwise: it then leaves out looks at the values of its masks, with the same results. The
    # code is replaced and not the function: torch.compile knows the function by identity.
    namespace = torch.compiler.__dict__
    namespace["_fulgurite_answers"] = _answers_for

    def is_compiling() -> bool:
        if torch.jit.is_scripting():
            return False
        return _is_compiling_flag or _fulgurite_answers()  # noqa: F821

    torch.compiler.is_compiling.__code__ = is_compiling.__code__


def _answers_for():
    if not _C.is_capturing():
        return False
    return sys._getframe(2).f_globals.get("__name__", "").startswith("transformers.")


def _reads_data(name):
    def instead(original, tensor, *args, **kwargs):
        if _C.is_trace_tensor(tensor):
            _C.refuse(
                f"reads the data of a traced tensor with .{name}()",
                "keep the computation in torch operators, move the read out of the compiled "
                'function, or compile with fallback="eager"',
            )
        _C.read_data(tensor)
        return original(tensor, *args, **kwargs)

    return instead


def _changes_graph(name):
    def instead(original, tensor, *args, **kwargs):
        _C.refuse(
            f"calls .{name}() on a tensor",
            "call it outside of the compiled function, on its inputs or outputs",
        )

    return instead


# In the memo of deepcopy(): what shares memory shares that of the copies again.
_COPIES = "fulgurite: (original, copy) of tensors"


def _deepcopy(original, tensor, memo):
    plain = type(tensor) is torch.Tensor and not vars(tensor)
    if not _C.is_trace_tensor(tensor) and not plain:
        return original(tensor, memo)
    if id(tensor) not in memo:
        _thread.copies_state |= plain and not _C.is_trace_tensor(tensor)
        copies = memo.setdefault(_COPIES, [])
        memo[id(tensor)] = _C.copy_of(tensor, copies)
        copies.append((tensor, memo[id(tensor)]))
    return memo[id(tensor)]


def _repr(original, tensor, **kwargs):
    if not _C.is_trace_tensor(tensor):
        return original(tensor, **kwargs)
    if not _messages.is_for_people(sys._getframe(2)):
        _C.refuse(
            "makes text of a traced tensor, which has no values yet",
            "give the text to print(), logging or warnings in the same expression, or make it "
            "outside of the compiled function",
        )
    return _C.describe_trace_tensor(tensor)


def _type(original, tensor, *args, **kwargs):
    if args or kwargs or not _C.is_trace_tensor(tensor):
        return original(tensor, *args, **kwargs)
    name = _LEGACY_NAMES.get(tensor.dtype)
    if name is None:
        _C.refuse(f"calls .type() on a tensor of {tensor.dtype}", "ask for its dtype")
    device = "" if tensor.device.type == "cpu" else f"{tensor.device.type}."
    return f"torch.{device}{name}Tensor"


def _new_tensor(original, tensor, data, *, dtype=None, device=None, **kwargs):
    if not _C.is_trace_tensor(tensor):
        return original(tensor, data, dtype=dtype, device=device, **kwargs)
    return torch.tensor(data, dtype=dtype or tensor.dtype, device=device or tensor.device, **kwargs)


# What .type() calls them.
_LEGACY_NAMES = {
    torch.bool: "Bool",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
    torch.float16: "Half",
    torch.bfloat16: "BFloat16",
    torch.float32: "Float",
    torch.float64: "Double",
    torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}


def _storage_offset(original, tensor):
    if _C.is_trace_tensor(tensor):
        _thread.reads_offsets = True
        _C.refuse_place_of_selection(tensor)
    return original(tensor)


def reads_offsets():
    """Whether what this thread captured last asks where a tensor lies in its storage."""
    return _thread.reads_offsets


def copies_state():
    """Whether what this thread captured last copies tensors that are no arguments: which of them
    share memory counts then."""
    return _thread.copies_state


def _get_rng_state(original):
    return torch.ops.fulgurite.get_rng_state()


def _set_rng_state(original, state):
    torch.ops.fulgurite.set_rng_state(state)


def _manual_seed(original, seed):
    torch.ops.fulgurite.manual_seed(int(seed))
    return torch.default_generator


def _refuse_seed(original):
    _C.refuse(f"calls torch.{original.__name__}()", "call it outside of the compiled function")


_RANDOM = {
    "get_rng_state": _get_rng_state,
    "set_rng_state": _set_rng_state,
    "manual_seed": _manual_seed,
    "seed": _refuse_seed,
    "initial_seed": _refuse_seed,
}
