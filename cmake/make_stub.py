"""Writes _C.pyi beside the built extension: make_stub.py FOLDER."""

import inspect
import sys
from pathlib import Path

import torch  # noqa: F401  the extension is loaded after libtorch
from nanobind import stubgen

folder = sys.argv[1]
stubgen.main(["--quiet", "--import", folder, "--module", "_C", "--output-dir", folder])

# What is made with CPython's own calls is not listed: exceptions, the type Function.
sys.path.insert(0, folder)
import _C  # noqa: E402

stub = Path(folder) / "_C.pyi"
text = stub.read_text()
for name, value in vars(_C).items():
    if inspect.isclass(value) and f"class {name}" not in text:
        base = value.__mro__[1]
        inherits = "" if base is object else f"({base.__name__})"
        members = [member for member in vars(value) if not member.startswith("_")]
        body = "".join(f"\n    {member}: object" for member in members) or " ..."
        text += f"\nclass {name}{inherits}:{body}\n"
stub.write_text(text)
