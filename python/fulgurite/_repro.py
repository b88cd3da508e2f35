"""Scripts that repeat one fusion by itself."""

import ast
import base64
import hashlib
import platform
import zlib

import torch

import fulgurite
from fulgurite._C import UserError

NUMBERS = ("fulgurite::item", "fulgurite::number")


def repro_script(trace, fusion, inputs, *, values, tolerances=None):
    """The text of a script that runs `fusion` of `trace` on tensors laid out as `inputs` are,
    compares it with torch's own operators and times both.

    values: with the very values of the inputs, rather than random ones of the same range.
    tolerances: rtol and atol of the comparison, where they are not torch.testing's.
    """
    given = "".join(f", {name}={value!r}" for name, value in (tolerances or {}).items())
    text, replaces = _replaces(fusion)
    modules = (["base64", "zlib"] if values else []) + (["hashlib"] if replaces else [])
    return _SCRIPT.format(
        name=fusion.name,
        environment=_environment(),
        imports="".join(f"import {module}\n" for module in sorted(modules)),
        helper=_STORED if values else _RANDOM,
        region=_with_numbers(trace, fusion.name),
        inputs=",\n".join(f"        {_stored(t) if values else _random(t)}" for t in inputs),
        text=text,
        replaces=replaces,
        tolerances=given,
    )


def region_text(trace, name):
    """The function that the region prints as."""
    text = trace.text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_source_segment(text, node)
    raise UserError(f"the trace does not print {name!r}: give one that was made after placement")


def _with_numbers(trace, name):
    """The same of tensors alone: numbers that the program has computed are taken out of them."""
    calls = {call.name: call for call in trace.bound_symbols}
    made = {
        value.name for call in trace.bound_symbols if call.name in NUMBERS for value in call.outputs
    }
    taken = [value.name for value in calls[name].args if value.name in made]
    head, _, body = region_text(trace, name).partition("\n")
    return "\n".join([head, *(f"  {number} = {number}.item()" for number in taken), body])


def _environment():
    threads = torch.get_num_threads()
    return (
        f"fulgurite {fulgurite.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
        f"{torch.backends.cpu.get_cpu_capability()}, {threads} thread{'s' * (threads > 1)}"
    )


def _memory(tensor):
    """All elements from the first to the last that the tensor has, once each: with the gaps
    between its own."""
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    count = reach + 1 if tensor.numel() else 0
    return torch.as_strided(tensor, (count,), (1,))


def _geometry(tensor):
    return f"{tuple(tensor.shape)}, {tuple(tensor.stride())}, {tensor.dtype}"


def _random(tensor):
    low, high = _range(tensor)
    return f"random({_geometry(tensor)}, {low!r}, {high!r})"


def _range(tensor):
    """The least and the greatest of the finite values."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.to(torch.complex128))
    if not tensor.dtype.is_floating_point:
        numbers = tensor.to(torch.int64)  # unsigned ones beyond its range wrap, and wrap again
        return (int(numbers.min()), int(numbers.max())) if tensor.numel() else (0, 1)
    finite = tensor[torch.isfinite(tensor)].double() if tensor.numel() else tensor
    return (finite.min().item(), finite.max().item()) if finite.numel() else (-1.0, 1.0)


def _stored(tensor):
    data = _memory(tensor).view(torch.uint8).numpy().tobytes()
    return f"stored({_geometry(tensor)}, {base64.b85encode(zlib.compress(data)).decode()!r})"


def _replaces(fusion):
    if not fusion.is_replaced:
        return "", ""
    printed = hashlib.sha256(fusion.printed_cpu_code().encode()).hexdigest()
    text = fusion.last_used.last_cpu_code()
    return f"\n\nCPU_CODE = {text!r}", _REPLACES.format(printed=printed)


_RANDOM = '''\
def random(sizes, strides, dtype, low, high):
    """A tensor of that layout with values from `low` to `high`, one for each place in memory."""
    reach = sum((n - 1) * step for n, step in zip(sizes, strides))
    count = 0 if 0 in sizes else reach + 1
    if dtype.is_complex or dtype.is_floating_point:
        values = torch.rand(2, count, dtype=torch.float64) * (high - low) + low
        values = torch.complex(*values) if dtype.is_complex else values[0]
    else:
        values = torch.randint(low, min(high, 2**63 - 2) + 1, (count,))
    return values.to(dtype).as_strided(sizes, strides)
'''

_STORED = '''\
def stored(sizes, strides, dtype, text):
    """A tensor of that layout with the memory that was stored."""
    data = bytearray(zlib.decompress(base64.b85decode(text)))
    memory = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return memory.clone().as_strided(sizes, strides)
'''

_REPLACES = """\
        # What ran was a C++ text that had been put in place of the printed one.
        fused(*inputs)
        fusion = fulgurite.examine.get_fusions(fulgurite.last_traces(fused)[-1])[0][1]
        printed = hashlib.sha256(fusion.last_used.last_cpu_code().encode()).hexdigest()
        assert printed == "{printed}", "another text is printed here"
        fusion.replace_cpu_code(CPU_CODE)
"""

_SCRIPT = '''\
"""{name} of a trace of fulgurite, by itself.

Made with {environment}.
"""

{imports}import time

import torch

import fulgurite


{helper}

{region}


def make_inputs():
    torch.manual_seed(0)
    return [
{inputs},
    ]{text}


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
{replaces}\
        torch.manual_seed(1)
        found = fused(*inputs)
        torch.manual_seed(1)
        torch.testing.assert_close(found, {name}(*inputs), equal_nan=True{tolerances})
        print(fulgurite.last_traces(fused)[-1])
        for kind, function in (("torch", {name}), ("fused", fused)):
            print(f"{{kind}}: {{1e6 * seconds(function, inputs):.2f}} microseconds a call")
'''
