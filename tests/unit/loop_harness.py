"""Captures a function as one loop program, compiles the texts of many at once, and runs them."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import torch

from fulgurite import _C

COMPILER = shutil.which("clang++-19")
FLAGS = ("-std=c++20", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-w")
# AVX-512 only where the machine has it.
AVX512 = "avx512f" in Path("/proc/cpuinfo").read_text()
WIDEST = 64 if AVX512 and os.environ.get("FULGURITE_CPU") != "avx2" else 32
MACHINE = {64: "-march=native", 32: "-march=x86-64-v3"}


def capture(function, inputs):
    tracer = _C.Tracer()
    with torch.no_grad():
        traced = [tracer.input(x, f"x{i}") for i, x in enumerate(inputs)]
        with tracer:
            results = function(*traced)
        results = [results] if isinstance(results, torch.Tensor) else list(results)
        return _C.passes.functionalise(tracer.finish(results).trace)


def lower(function, inputs):
    """The loop program; raises Unsupported."""
    return _C.loops.lower(capture(function, inputs))


class Kernels:
    """Machine code by text. Texts are collected by `add`, and compiled together when first run."""

    def __init__(self, vector_bytes=WIDEST):
        self.vector_bytes = vector_bytes
        self.names, self.pending, self.addresses = {}, {}, {}

    def add(self, program):
        body = program.cpu("NAME", self.vector_bytes)
        name = self.names.setdefault(body, f"k{hashlib.sha1(body.encode()).hexdigest()[:12]}")
        if name not in self.addresses:
            self.pending[name] = body.replace("NAME", name)
        return name

    def compile(self):
        texts, self.pending = self.pending, {}
        parts = [f"namespace n_{name} {{\n{text}}}\n" for name, text in texts.items()]
        undefine = "#undef INL\n#undef INLINE\n#undef SIXTEEN\n#undef SPLIT\n#undef JOINED\n#undef BITS\n#undef FMA\n#undef INF\n#undef NAN\n"
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "kernels.cpp")
            source.write_text(undefine.join(parts))
            library = Path(folder, "kernels.so")
            command = [
                COMPILER,
                *FLAGS,
                MACHINE[self.vector_bytes],
                str(source),
                "-o",
                str(library),
                "-lm",
            ]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr[:4000]
            loaded = ctypes.CDLL(str(library))
        for name in texts:
            self.addresses[name] = ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value

    def run(self, program, inputs, chunk=0):
        name = self.add(program)
        if name not in self.addresses:
            self.compile()
        outputs = program.allocate()
        assert program.run_in(self.addresses[name], inputs, outputs, chunk), "a check fails"
        return outputs

    def fails(self, program, inputs):
        name = self.add(program)
        if name not in self.addresses:
            self.compile()
        return not program.run_in(self.addresses[name], inputs, program.allocate())
