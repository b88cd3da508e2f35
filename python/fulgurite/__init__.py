"""A source-to-source tracing compiler for PyTorch."""

import importlib

from fulgurite._torch_version import check_torch

check_torch()

import torch  # noqa: E402, F401  the extension needs libtorch loaded

from fulgurite import _addresses, _entry_point, _plugin, _tracing, checks  # noqa: E402
from fulgurite._C import (  # noqa: E402
    BoundSymbol,
    Executor,
    InternalError,
    Trace,
    TraceValue,
    Unsupported,
    UserError,
    __version__,
    empty_cache,
    memory_stats,
)
from fulgurite._executors import (  # noqa: E402
    deregister_executor,
    get_all_executors,
    get_executor,
    register_executor,
)
from fulgurite._inspect import (  # noqa: E402
    cache_hits,
    cache_misses,
    compile_data,
    compile_stats,
    last_backward_traces,
    last_epilogue_traces,
    last_prologue_traces,
    last_recompile_reason,
    last_traces,
)
from fulgurite._jit import jit  # noqa: E402
from fulgurite._operator_executor import OperatorExecutor  # noqa: E402
from fulgurite._operators import register_operator  # noqa: E402
from fulgurite._patterns import Finding, Match, Pattern  # noqa: E402
from fulgurite._profile import Profile, profile  # noqa: E402
from fulgurite._replace import replace_trace, restore_trace  # noqa: E402
from fulgurite._saved import saved_values  # noqa: E402
from fulgurite._trace_file import load  # noqa: E402
from fulgurite._transforms import Transform, with_text  # noqa: E402

from fulgurite import examine, transforms  # noqa: E402  isort: skip  (they read what is above)

_tracing.install()
_addresses.install()
_plugin.announce()
_entry_point.offer(__version__)


def __getattr__(name):
    if name == "dynamo":  # it imports torch._dynamo
        return importlib.import_module("fulgurite.dynamo")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "BoundSymbol",
    "Executor",
    "Finding",
    "InternalError",
    "Match",
    "OperatorExecutor",
    "Pattern",
    "Profile",
    "Trace",
    "TraceValue",
    "Transform",
    "Unsupported",
    "UserError",
    "__version__",
    "cache_hits",
    "cache_misses",
    "checks",
    "examine",
    "compile_data",
    "compile_stats",
    "deregister_executor",
    "empty_cache",
    "get_all_executors",
    "get_executor",
    "jit",
    "last_backward_traces",
    "last_epilogue_traces",
    "last_prologue_traces",
    "last_recompile_reason",
    "last_traces",
    "load",
    "memory_stats",
    "profile",
    "register_executor",
    "register_operator",
    "replace_trace",
    "restore_trace",
    "saved_values",
    "transforms",
    "with_text",
]
