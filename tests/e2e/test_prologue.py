"""The printed prologue and epilogue: complete programs that do what the entry does."""

import collections
import dataclasses
import random
import sys

import pytest
import torch
from torch import nn

import fulgurite
from fulgurite import _C
from fulgurite._module import function_of


def prologue_of(compiled):
    return fulgurite.last_prologue_traces(compiled)["Prologue"]


def accepts(compiled, args, kwargs):
    """What the printed prologue says of a call."""
    try:
        prologue_of(compiled).python_callable()(*args, **kwargs)
    except (AssertionError, ValueError, TypeError, AttributeError, KeyError):
        return False
    return True


def serves(compiled, args, kwargs):
    """What the compiled entry says of it."""
    return _C.entry_for(function_of(compiled), args, kwargs) is not None


def check(compiled, calls):
    """Both say the same of every call; the first is accepted."""
    args, kwargs = calls[0]
    compiled(*args, **kwargs)
    verdicts = []
    for args, kwargs in calls:
        expected = serves(compiled, args, kwargs)
        assert accepts(compiled, args, kwargs) == expected, (args, kwargs, prologue_of(compiled))
        verdicts.append(expected)
    assert verdicts[0]
    return verdicts


def run_in_steps(compiled, *args, **kwargs):
    """Prologue, computation and epilogue, each from its printed text."""
    inputs = prologue_of(compiled).python_callable()(*args, **kwargs)
    outputs = fulgurite.last_traces(compiled)[-1].replay(inputs)
    return fulgurite.last_epilogue_traces(compiled)[0].python_callable()(*outputs)


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Batch:
    data: torch.Tensor
    scale: float


class Config:
    pass


X, Y = torch.rand(2, 3), torch.rand(2, 3)
THE_CONFIG, OTHER_CONFIG = Config(), Config()
VALUES = [
    X, Y, X.t(), X.double(), X[:, :2], torch.rand(2, 3, requires_grad=True),
    X.clone().t().contiguous().t(), torch.rand(2, 3, dtype=torch.complex64).conj(),
    nn.Parameter(torch.rand(2, 3)), torch.rand(2, 3).to_sparse(),
    1, 1.0, True, 0, 0.0, -0.0, False, float("nan"), 2**70, 1j, complex(0.0, -0.0),
    "a", b"a", None, "b", (1,), [1], (1.0,), [X], (X,), {"a": 1}, {"a": X}, {"b": X}, {1: X},
    {"a": X, "b": 1}, {"b": 1, "a": X}, Point(X, 1), Point(Y, 1), Point(1, X),
    Batch(X, 1.0), Batch(X, 2.0), collections.OrderedDict(a=X), THE_CONFIG, OTHER_CONFIG,
    torch.float32, torch.float64, (), [], {}, [[X], {"k": (X, 1)}], [[X], {"k": (X, 2)}],
]  # fmt: skip


def first_tensor(*values):
    for value in values:
        if isinstance(value, torch.Tensor) and value.layout == torch.strided:
            return value + 1
    return torch.ones(1)


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_every_kind_of_argument(number):
    """An entry for this value, asked about every other."""
    compiled = fulgurite.jit(lambda value: first_tensor(value))
    value = VALUES[number]
    if isinstance(value, torch.Tensor) and value.layout != torch.strided:
        pytest.skip("is declined")
    verdicts = check(compiled, [((value,), {})] + [((other,), {}) for other in VALUES])
    assert not all(verdicts)


def test_arguments_in_random_combinations():
    generator = random.Random(0)
    values = [v for v in VALUES if not isinstance(v, torch.Tensor) or v.layout == torch.strided]

    def call():
        args = tuple(generator.choices(values, k=generator.randint(1, 3)))
        names = generator.sample(["p", "q", "r"], generator.randint(0, 2))
        return args, {name: generator.choice(values) for name in names}

    for _ in range(20):
        compiled = fulgurite.jit(lambda *args, **kwargs: first_tensor(*args, *kwargs.values()))
        first = call()
        others = [call() for _ in range(10)]
        reordered = (first[0], dict(reversed(first[1].items())))
        changed = (first[0][:-1] + (generator.choice(values),), first[1])
        check(compiled, [first, reordered, changed, *others])


def test_aliasing_arguments():
    base = torch.rand(6)
    a, b = torch.rand(3), torch.rand(3)
    calls = [(a, b), (a, a), (base[:3], base[3:]), (base[:3], base[1:4]), (base[1:4], base[2:5])]
    for first in range(len(calls)):
        compiled = fulgurite.jit(lambda x, y: x.add_(1) + y)
        rotated = calls[first:] + calls[:first]
        check(compiled, [(tuple(t.clone() if False else t for t in call), {}) for call in rotated])


def test_offsets_where_they_count():
    compiled = fulgurite.jit(lambda x: x.as_strided((2,), (1,), 1))
    base = torch.rand(6)
    verdicts = check(compiled, [((base[2:],), {}), ((torch.rand(8)[4:],), {})])
    assert verdicts == [True, False]
    assert "offset=2" in prologue_of(compiled).text()


SETTINGS = {
    "grad": lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast half": lambda: torch.autocast("cpu", torch.float16),
    "device": lambda: torch.device("meta"),
    "own device": lambda: torch.device("cpu"),
    "mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
    "attention": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_of_torch(name):
    compiled = fulgurite.jit(lambda x: x + 1)
    call = [((X,), {})]
    check(compiled, call)
    with SETTINGS[name]():
        assert not serves(compiled, *call[0])
        assert not accepts(compiled, *call[0])
    assert accepts(compiled, *call[0])


def test_the_default_dtype_and_determinism():
    compiled = fulgurite.jit(lambda x: x + 1)
    check(compiled, [((X,), {})])
    for change, back in (
        (lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)),
        (lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)),
    ):  # fmt: skip
        change()
        try:
            assert not serves(compiled, (X,), {})
            assert not accepts(compiled, (X,), {})
        finally:
            back()
    assert accepts(compiled, (X,), {})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.blocks = nn.ModuleList([nn.Linear(3, 3), nn.Dropout(0.5)])
        self.register_buffer("shift", torch.ones(3))
        self.scale, self.names, self.table = 2.0, ["a", "b"], {"k": 1.0}
        self.calls, self.seen, self.last = 0, [], None

    def forward(self, x):
        self.calls += 1
        self.seen.append((x.shape[0], self.calls))
        self.last = {"x": x * 2, "n": [self.calls]}
        for block in self.blocks:
            x = block(x)
        x = self.fc(x) * self.scale + self.shift + len(self.names) + self.table["k"]
        return {"out": x, "info": (self.calls, "text", THE_CONFIG)}


CHANGES = {
    "attribute": lambda net: setattr(net, "scale", 3.0),
    "same value of another type": lambda net: setattr(net, "scale", 2),
    "list": lambda net: net.names.append("c"),
    "new list": lambda net: setattr(net, "names", ["a", "b"]),
    "dict": lambda net: net.table.update(k=2.0),
    "mode": lambda net: net.train(),
    "parameter": lambda net: setattr(net.fc, "weight", nn.Parameter(torch.rand(3, 3))),
    "data": lambda net: net.fc.weight.data.zero_(),
    "no grad": lambda net: net.fc.weight.requires_grad_(False),
    "buffer": lambda net: setattr(net, "shift", torch.zeros(3)),
    "dtype": lambda net: net.double(),
    "hook": lambda net: net.fc.register_forward_hook(lambda m, a, r: r * 2),
    "child": lambda net: net.blocks.__setitem__(1, nn.ReLU()),
    "nothing": lambda net: setattr(net, "unrelated", 3),
    "class": lambda net: setattr(type(net.fc), "unrelated", 3),
    "counter": lambda net: setattr(net, "calls", 17),
    "deleted": lambda net: delattr(net, "scale"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_state_of_python(name):
    torch.manual_seed(0)
    net = Net().eval()
    compiled = fulgurite.jit(net)
    x = torch.rand(2, 3)
    for _ in range(2):
        with torch.no_grad():
            compiled(x)
    net.calls, net.seen, net.last = 1, net.seen[:1], net.last
    with torch.no_grad():
        before = serves(compiled, (x,), {})
        assert accepts(compiled, (x,), {}) == before
        CHANGES[name](net)
        assert accepts(compiled, (x,), {}) == serves(compiled, (x,), {})


def test_the_text_says_what_is_checked_and_where():
    net = Net().eval()
    compiled = fulgurite.jit(net)
    compiled(torch.rand(2, 3))
    text = prologue_of(compiled).text()
    assert text.startswith("# Constructed by Prologue\nimport torch\n")
    for part in ("torch.float32", "(2, 3)", "'training'", "False", "fc.weight", "test_prologue.py:",
                 "def prologue(*args, **kwargs):", "return [x, "):  # fmt: skip
        assert part in text, part
    compile(text, "<text>", "exec")
    assert fulgurite.last_prologue_traces(compiled)[0].text() == text
    with pytest.raises(KeyError, match="Prologue"):
        fulgurite.last_prologue_traces(compiled)["Epilogue"]


def test_a_call_in_printed_steps():
    torch.manual_seed(0)
    nets = [Net().eval() for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    mine, eagers = nets
    x = torch.rand(2, 3)
    compiled = fulgurite.jit(mine)
    with torch.no_grad():
        compiled(x)
        eagers(x)
        mine.calls = eagers.calls = 0
        actual, expected = run_in_steps(compiled, x), eagers(x)
    assert torch.equal(actual["out"], expected["out"])
    assert actual["info"] == expected["info"]
    assert actual["info"][2] is THE_CONFIG
    assert (mine.calls, mine.seen) == (eagers.calls, eagers.seen)
    assert torch.equal(mine.last["x"], eagers.last["x"])
    assert mine.last["n"] == eagers.last["n"]
    assert "sets self.calls to 1" in fulgurite.last_epilogue_traces(compiled)[0].text()


def test_results_are_built_anew_and_kept_together():
    def results(x):
        items = [x + 1, x]
        return {"a": items, "b": items, "p": Point(x, None), "o": Batch(x * 2, 1.0)}

    compiled = fulgurite.jit(results)
    compiled(X)
    actual = run_in_steps(compiled, X)
    assert actual["a"] is actual["b"]
    assert actual["a"][1] is X
    assert type(actual["p"]) is Point
    assert actual["p"].x is X
    assert torch.equal(actual["o"].data, X * 2)


def test_data_that_the_program_depends_on():
    table = torch.tensor([1.0, 2.0])
    compiled = fulgurite.jit(lambda x: x * table.tolist()[0])
    check(compiled, [((X,), {})])
    table[0] = 5
    assert not serves(compiled, (X,), {})
    assert not accepts(compiled, (X,), {})


def test_no_backward_traces():
    compiled = fulgurite.jit(lambda x: (x.view(-1), x.detach()))
    compiled(torch.rand(2, requires_grad=True))
    series = fulgurite.last_backward_traces(compiled)
    assert list(series) == []
    assert "inputs and views of them" in series.reason
    with pytest.raises(KeyError, match="views of them"):
        series["Backward"]
    with pytest.raises(fulgurite.UserError, match="call the function first"):
        fulgurite.last_backward_traces(fulgurite.jit(lambda x: x))


def test_programs_of_an_entry_that_is_not_kept():
    compiled = fulgurite.jit(lambda x: x * 2, cache="no caching")
    compiled(X)
    assert accepts(compiled, (X,), {})


def test_an_object_that_is_gone_fails_the_check():
    class Scale:
        by = 2.0

    def make():
        return Scale()

    scale = make()
    compiled = fulgurite.jit(lambda x, scale: x * scale.by)
    compiled(X, scale)
    assert accepts(compiled, (X, scale), {})
    del scale
    assert not accepts(compiled, (X, make()), {})


def test_the_text_returns_what_effects_store():
    class Keeping(nn.Module):
        def forward(self, x):
            self.kept = x * 2
            return {"y": x + 1}

    module = Keeping()
    compiled = fulgurite.jit(module, verify=True)
    assert torch.equal(compiled(X)["y"], X + 1)
    assert torch.equal(module.kept, X * 2)
    for trace in fulgurite.last_traces(compiled):
        scope = {}
        exec(trace.text(), scope)
        result, stored = scope[trace.name](X)
        assert torch.equal(result["y"], X + 1)
        assert torch.equal(stored, X * 2)


def test_what_a_library_answers_is_checked():
    compiled = fulgurite.jit(lambda x: x + sys.getrecursionlimit())
    compiled(torch.ones(2))
    prologue = fulgurite.last_prologue_traces(compiled)[0]
    assert "answer(" in prologue.text()
    prologue.python_callable()(torch.ones(2))
