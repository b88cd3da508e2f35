"""A source-to-source tracing compiler for PyTorch."""

from fulgurite._torch_version import check_torch

check_torch()

import torch  # noqa: E402, F401  the extension needs libtorch loaded

from fulgurite._C import __version__  # noqa: E402

__all__ = ["__version__"]
