"""Writes _C.pyi beside the built extension: make_stub.py FOLDER."""

import sys

import torch  # noqa: F401  the extension is loaded after libtorch
from nanobind import stubgen

folder = sys.argv[1]
stubgen.main(["--quiet", "--import", folder, "--module", "_C", "--output-dir", folder])
