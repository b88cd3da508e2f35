"""Looking into what was compiled: the fusions of a trace, and scripts that repeat one by itself."""

import ast
import base64
import platform
import zlib

import torch

import fulgurite
from fulgurite import _C
from fulgurite._C import UserError
from fulgurite._fusions import fusions_of

__all__ = ["get_fusion_repro", "get_fusions", "get_nvfuser_repro"]

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def get_fusions(trace):
    """[(name, fusion)] for the fused regions of a compiled trace, in order."""
    return list(fusions_of(_checked(trace)).items())


def get_fusion_repro(trace, name, *, values=False):
    """A Python script that runs one fusion of a compiled trace by itself: it makes inputs with the
    shapes, strides and dtypes of the last run, compares the fusion with torch's own operators, and
    times both.

    values: put the very values of the last run into the script, rather than random ones of the
        same range.

    Raises UserError unless the function was compiled with jit(..., store_fusion_inputs=True) and
    has been called.
    """
    fusions = fusions_of(_checked(trace))
    if name not in fusions:
        there_are = (
            ", ".join(fusions) or "none; see compile_data(f).fusion_decisions for the reasons"
        )
        raise UserError(f"the trace has no fusion {name!r}; its fusions are: {there_are}")
    inputs = fusions[name].last_inputs
    made = ",\n".join(f"        {_stored(t) if values else _random(t)}" for t in inputs)
    return _SCRIPT.format(
        name=name,
        environment=_environment(),
        region=_region_text(trace, name),
        inputs=made,
        helpers=_HELPERS[values],
    )


get_nvfuser_repro = get_fusion_repro


def _checked(trace):
    if not isinstance(trace, _C.Trace):
        raise UserError(
            f"expected a trace, such as fulgurite.last_traces(f)[-1], got a {type(trace).__name__}"
        )
    return trace


def _environment():
    threads = torch.get_num_threads()
    return (
        f"fulgurite {fulgurite.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{torch.backends.cpu.get_cpu_capability()}, {threads} thread{'s' * (threads > 1)}"
    )


def _region_text(trace, name):
    text = trace.text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_source_segment(text, node)
    raise UserError(f"the trace does not print {name!r}: give one that was made after placement")


def _geometry(tensor):
    return f"{tuple(tensor.shape)}, {tuple(tensor.stride())}, {tensor.dtype}"


def _random(tensor):
    if tensor.dtype not in _INTEGERS or not tensor.numel():
        return f"random({_geometry(tensor)})"
    return f"random({_geometry(tensor)}, {int(tensor.min())}, {int(tensor.max()) + 1})"


def _stored(tensor):
    data = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return f"stored({_geometry(tensor)}, {base64.b85encode(zlib.compress(data)).decode()!r})"


_RANDOM = '''\
def random(sizes, strides, dtype, low=0, high=2):
    """A tensor of that layout; integers from `low` up to `high`, excluded."""
    floating = dtype.is_floating_point or dtype.is_complex
    values = torch.randn(sizes, dtype=dtype) if floating else torch.randint(low, high, sizes)
    return torch.empty_strided(sizes, strides, dtype=dtype).copy_(values)
'''

_STORED = '''\
def stored(sizes, strides, dtype, text):
    """A tensor of that layout with the values that were stored."""
    data = bytearray(zlib.decompress(base64.b85decode(text)))
    values = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return torch.empty_strided(sizes, strides, dtype=dtype).copy_(values.view(sizes))
'''

_HELPERS = {False: _RANDOM, True: "import base64\nimport zlib\n\n\n" + _STORED}

_SCRIPT = '''\
"""{name} of a trace of fulgurite, by itself.

Made with {environment}.
"""

import time

import torch

import fulgurite

{helpers}

{region}


def make_inputs():
    torch.manual_seed(0)
    return [
{inputs},
    ]


def seconds(function, inputs, budget=0.5):
    taken, end = [], time.perf_counter() + budget
    while not taken or time.perf_counter() < end:
        start = time.perf_counter()
        function(*inputs)
        taken.append(time.perf_counter() - start)
    return sorted(taken)[len(taken) // 2]


if __name__ == "__main__":
    inputs = make_inputs()
    fused = fulgurite.jit({name}, executors=["fused_cpu", "aten"])
    with torch.no_grad():
        torch.testing.assert_close(fused(*inputs), {name}(*inputs), equal_nan=True)
        print(fulgurite.last_traces(fused)[-1])
        for kind, function in (("torch", {name}), ("fused", fused)):
            print(f"{{kind}}: {{1e6 * seconds(function, inputs):.2f}} microseconds a call")
'''
