"""Who can run the calls of a trace."""

import copyreg
import difflib

from fulgurite import _C
from fulgurite._C import UserError

_EXECUTORS = {
    executor.name: executor
    for executor in (_C.fused_cpu_executor(), _C.onednn_executor(), _C.aten_executor())
}


def register_executor(executor):
    """Lets an executor of one's own be named: in `executors=["mine", "aten"]`, `get_executor`, and
    pickles. Returns it; UserError where another one has the name."""
    if not isinstance(executor, _C.Executor):
        raise UserError(f"register_executor takes an executor, got {executor!r}")
    if _EXECUTORS.setdefault(executor.name, executor) is not executor:
        raise UserError(
            f"there is an executor {executor.name!r} already; deregister that one first"
        )
    return executor


def deregister_executor(name):
    """Forgets an executor of one's own; what is compiled with it goes on."""
    if not isinstance(get_executor(name), _C.UserExecutor):
        raise UserError(f"the executor {name!r} is one of fulgurite's own")
    del _EXECUTORS[name]


def get_all_executors():
    """The executors there are, those of this version first, in the order of trying them."""
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


def _reduce(executor):
    return get_executor, (executor.name,)


copyreg.pickle(_C.Executor, _reduce)
