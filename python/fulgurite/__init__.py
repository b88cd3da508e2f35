"""A source-to-source tracing compiler for PyTorch."""

from fulgurite._torch_version import check_torch

check_torch()

import torch  # noqa: E402, F401  the extension needs libtorch loaded

from fulgurite import _addresses, _plugin, _tracing, checks  # noqa: E402
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
from fulgurite._executors import get_all_executors, get_executor  # noqa: E402
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
from fulgurite._replace import replace_trace, restore_trace  # noqa: E402
from fulgurite._trace_file import load  # noqa: E402
from fulgurite._transforms import Transform, with_text  # noqa: E402

from fulgurite import examine  # noqa: E402  isort: skip  (it reads what is above)

_tracing.install()
_addresses.install()
_plugin.announce()

__all__ = [
    "BoundSymbol",
    "Executor",
    "InternalError",
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
    "replace_trace",
    "restore_trace",
    "with_text",
]
