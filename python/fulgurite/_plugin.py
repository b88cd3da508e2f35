"""Where the kernel compiler is: the package fulgurite_clang, if it is installed."""

import importlib.util
from pathlib import Path

from fulgurite import _C


def announce() -> None:
    """Tells the core. The package is not imported, and the plugin not loaded."""
    spec = importlib.util.find_spec("fulgurite_clang")
    for folder in (spec and spec.submodule_search_locations) or ():
        _C.set_packaged_plugin(str(Path(folder) / "libfulgurite_clang.so"))
