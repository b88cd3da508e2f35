"""Prints the folder of the installed torch; fails with a word on what to do where it does not fit.

Usage: find_torch.py X.Y
"""

import importlib.metadata
import importlib.util
import sys

wanted = sys.argv[1]
advice = f"Run 'make setup', or: {sys.executable} -m pip install 'torch=={wanted}.*'"
try:
    found = importlib.metadata.version("torch")
except importlib.metadata.PackageNotFoundError:
    sys.exit(f"{sys.executable} has no torch, and fulgurite needs {wanted}. {advice}")
if not found.startswith(wanted + "."):
    sys.exit(f"{sys.executable} has torch {found}, and fulgurite needs {wanted}. {advice}")
print(importlib.util.find_spec("torch").submodule_search_locations[0])
