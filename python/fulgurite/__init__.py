"""A source-to-source tracing compiler for PyTorch."""

from fulgurite._torch_version import check_torch

check_torch()

import torch  # noqa: E402, F401  the extension needs libtorch loaded

from fulgurite import _tracing  # noqa: E402
from fulgurite._C import (  # noqa: E402
    BoundSymbol,
    InternalError,
    Trace,
    TraceValue,
    Unsupported,
    UserError,
    __version__,
)
from fulgurite._inspect import (  # noqa: E402
    cache_hits,
    cache_misses,
    compile_data,
    compile_stats,
    last_recompile_reason,
    last_traces,
)
from fulgurite._jit import jit  # noqa: E402

_tracing.install()

__all__ = [
    "BoundSymbol",
    "InternalError",
    "Trace",
    "TraceValue",
    "Unsupported",
    "UserError",
    "__version__",
    "cache_hits",
    "cache_misses",
    "compile_data",
    "compile_stats",
    "jit",
    "last_recompile_reason",
    "last_traces",
]
