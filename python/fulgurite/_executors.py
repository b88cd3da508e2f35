"""Who can run the calls of a trace."""

import copyreg
import difflib

from fulgurite import _C
from fulgurite._C import UserError

_EXECUTORS = {
    executor.name: executor
    for executor in (_C.fused_cpu_executor(), _C.onednn_executor(), _C.aten_executor())
}


def get_all_executors():
    """The executors of this version, in the order in which they are tried."""
    return tuple(_EXECUTORS.values())


def get_executor(name):
    """The executor of that name; UserError where there is none."""
    if name not in _EXECUTORS:
        near = difflib.get_close_matches(str(name), _EXECUTORS, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UserError(
            f"there is no executor {name!r}; {hint}The executors are {', '.join(_EXECUTORS)}."
        )
    return _EXECUTORS[name]


def find_executor(given):
    """An executor from its name, or itself."""
    if isinstance(given, str):
        return get_executor(given)
    if isinstance(given, _C.Executor):
        return given
    raise UserError(f"option 'executors' of jit has names and executors, got {given!r} in it")


copyreg.pickle(_C.Executor, lambda executor: (get_executor, (executor.name,)))
