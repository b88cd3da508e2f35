"""What a library does only when it is first used, in a process of its own: it is no effect of the
program, which is compiled at its first call and guarded like one that was called before."""

import subprocess
import sys

import pytest

START = """
import enum, functools, io, logging, sys, typing, warnings
import numpy as np
import torch
import fulgurite

x = torch.ones(3)


def same(f, *arguments):
    compiled = fulgurite.jit(f)
    for _ in range(3):
        assert torch.equal(compiled(*arguments), f(*arguments))
    assert len(fulgurite.last_traces(compiled)) > 0
    return compiled
"""

PROGRAMS = {
    "enum": """
class Flag(enum.IntFlag):
    A = 1
    B = 2
    C = 4

def f(x, flag):
    return x * 2 if flag & Flag.B else x + int(flag | Flag.C)

compiled = same(f, x, Flag.A)
for flag in (Flag.A | Flag.B, Flag.B, Flag.A, ~Flag.A):
    assert torch.equal(compiled(x, flag), f(x, flag))
""",
    "enum with a lookup of its own": """
calls = []

class Level(enum.Enum):
    LOW = 1

    @classmethod
    def _missing_(cls, value):
        calls.append(value)
        return cls.LOW

same(lambda x: x * Level(7).value, x)
assert calls == [7] * 6, calls
""",
    "operators": """
library = torch.library.Library("first_use", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
same(lambda x: torch.ops.first_use.twice(x), x)
library.define("thrice(Tensor x) -> Tensor")
library.impl("thrice", lambda x: x * 3, "CompositeImplicitAutograd")
same(lambda x: torch.ops.first_use.thrice.default(x), x)
same(lambda x: torch.ops.aten.__or__.Tensor(x > 0, x > 1), x)
same(lambda x: x + hasattr(torch.ops.first_use, "fourfold"), x)
try:
    fulgurite.jit(lambda x: torch.ops.aten.relu.nowhere(x))(x)
    raise RuntimeError("there is no such overload")
except AttributeError:
    pass
""",
    "singledispatch": """
@functools.singledispatch
def encode(value):
    return torch.zeros(3)

@encode.register
def _(value: int):
    return torch.full((3,), float(value))

f = lambda x, value: x + encode(value)
compiled = same(f, x, 3)
assert torch.equal(compiled(x, 2.5), x)
encode.register(float, lambda value: torch.full((3,), value))
assert torch.equal(compiled(x, 2.5), x + 2.5)
encode.register(int, lambda value: torch.full((3,), -1.0))
assert torch.equal(compiled(x, 3), x - 1)
""",
    "singledispatch on an abstract class": """
from collections.abc import Sized

class Thing:
    pass

@functools.singledispatch
def encode(value):
    return 1

encode.register(Sized, lambda value: 2)
f = lambda x, value: x * encode(value)
compiled, thing = same(f, x, Thing()), Thing()
assert torch.equal(compiled(x, thing), x)
Sized.register(Thing)
assert torch.equal(compiled(x, thing), x * 2)
""",
    "logger": """
def f(x):
    log = logging.getLogger("new.logger.of.this.test")
    log.debug("x")
    return x * 2 if log.isEnabledFor(logging.INFO) else x

compiled = same(f, x)
logging.getLogger("new.logger.of.this.test").setLevel(logging.INFO)
assert torch.equal(compiled(x), x * 2)
logging.getLogger("new.logger.of.this.test").setLevel(logging.ERROR)
assert torch.equal(compiled(x), x)
""",
    "logging without handlers": """
def f(x):
    logging.warning("hello %s", 1)
    return x * 2

same(f, x)
""",
    "text that is shown into a string": """
import contextlib

def f(x):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        print("hello")
    return x * len(shown.getvalue())

out = sys.stdout
same(f, x)
assert sys.stdout is out
""",
    "small types of the library": """
import collections, decimal, hashlib

def f(x):
    point = collections.namedtuple("Point", "u v")(x, decimal.Decimal("1.5"))
    return point.u * float(point.v) * hashlib.md5(b"a").digest()[0]

same(f, x)
""",
    "hooks of transformers": """
import transformers

config = transformers.BertConfig(
    vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
)
model = transformers.BertModel(config).eval()
model.set_attn_implementation("eager")
ids = torch.randint(0, 20, (2, 5))
compiled = fulgurite.jit(model)
with torch.no_grad():
    for _ in range(2):
        ours = compiled(ids, output_hidden_states=True, output_attentions=True)
        eager = model(ids, output_hidden_states=True, output_attentions=True)
        assert len(ours.hidden_states) == 3 and len(ours.attentions) == 2
        torch.testing.assert_close(ours.hidden_states, eager.hidden_states)
        torch.testing.assert_close(ours.attentions, eager.attentions)
""",
    "generic class": """
T = typing.TypeVar("T")

class Box(typing.Generic[T]):
    def __init__(self, value):
        self.value = value

same(lambda x: Box[int](x).value * 2, x)
""",
    "numpy": """
same(lambda x: x.clamp(min=float(np.finfo(np.float32).min)) * np.iinfo(np.int8).max, x)
same(lambda x: x + torch.from_numpy(np.ones(3).astype("uint8")), x)
same(lambda x: x + torch.from_numpy(np.linspace(0, 1, 3)), x)
same(lambda x: x + torch.from_numpy(np.eye(3)[:2]), torch.ones(2, 3))
""",
    "warning of C++": """
f = lambda x: x.expand(3, 3).view(1, 3, 3).T.sum()
same(f, x)
""",
    "import that registers classes": """
p, u = torch.nn.MaxPool2d(2, return_indices=True), torch.nn.MaxUnpool2d(2)

def f(x):
    y, i = p(x)
    return u(y, i, output_size=x.size())

same(f, torch.randn(1, 2, 4, 4))
""",
    "progress bar": """
tqdm = __import__("pytest").importorskip("tqdm").tqdm
scales = [1, 2]

def f(x):
    for scale in tqdm(scales, file=sys.stderr):
        x = x * scale
    for scale in tqdm(range(2), disable=True):
        x = x + scale
    return x

compiled = same(f, x)
scales.append(5)
assert torch.equal(compiled(x), f(x))
""",
    "scripted function that is differentiated": """
@torch.jit.script
def swish(x: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(x)

x = torch.randn(3, requires_grad=True)
for _ in range(4):
    swish(x).sum().backward()  # TorchScript has made a derivative graph by now
f = lambda x: swish(x) + swish(swish(x))
compiled = same(f, x)
(ours,) = torch.autograd.grad(compiled(x).sum(), x)
(eager,) = torch.autograd.grad(f(x).sum(), x)
torch.testing.assert_close(ours, eager)
assert torch._C._get_graph_executor_optimize()
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_first_call_is_compiled(name, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(START + PROGRAMS[name])
    ran = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
