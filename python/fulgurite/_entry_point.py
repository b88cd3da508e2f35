"""`torch.compile(backend="fulgurite")` without an installed distribution of fulgurite.

torch finds backends by the entry points of distributions. Where fulgurite is imported from its
source, there is none, and it offers its entry point itself: at no cost until somebody asks.
"""

import importlib.metadata
import sys

_METADATA = {
    "METADATA": "Metadata-Version: 2.1\nName: fulgurite\nVersion: {version}\n",
    "entry_points.txt": "[torch_dynamo_backends]\nfulgurite = fulgurite.dynamo:backend\n",
}


class _Distribution(importlib.metadata.Distribution):
    def __init__(self, version):
        self._version = version

    def read_text(self, filename):
        text = _METADATA.get(filename)
        return None if text is None else text.format(version=self._version)

    def locate_file(self, path):
        return path


class _Finder:
    """Behind all others on sys.meta_path: an installed distribution counts first."""

    def __init__(self, version):
        self._version = version

    def find_spec(self, name, path=None, target=None):
        return None

    def find_distributions(self, context=None):
        name = getattr(context, "name", None)
        return [_Distribution(self._version)] if name in (None, "fulgurite") else []


def offer(version):
    """Called once, when the package is imported."""
    sys.meta_path.append(_Finder(version))
    registry = sys.modules.get("torch._dynamo.backends.registry")
    if registry is not None:  # it may have looked, and does so only once
        (entry_point,) = _Distribution(version).entry_points
        registry._BACKENDS.setdefault(entry_point.name, entry_point)
