"""Products by packed weights: right whatever is done to the weights, by whatever way."""

import copy
import ctypes
import gc
import pickle
import threading

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from loop_harness import COMPILER

import fulgurite
from tests.e2e.python_process import run_code

pytestmark = pytest.mark.skipif(
    COMPILER is None
    or not torch.backends.mkldnn.is_available()
    or not torch.cpu._is_avx512_supported(),
    reason="needs oneDNN, AVX-512 and clang",
)
ROWS, INNER, OUTER = 8, 512, 640


@pytest.fixture(autouse=True)
def no_grad():
    with torch.no_grad():
        yield


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(INNER, INNER, bias=False)
        self.second = torch.nn.Linear(INNER, INNER, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(self.first(x).relu())


def packed():
    gc.collect()
    return fulgurite.memory_stats()["packed"]


def make(**options):
    torch.manual_seed(0)
    module = torch.nn.Linear(INNER, OUTER)
    return module, fulgurite.jit(module, **options), torch.randn(ROWS, INNER)


def check(module, compiled, x):
    torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)


def is_packed(compiled):
    return "def packed0" in fulgurite.last_traces(compiled)[-1].text()


def test_a_weight_is_packed_once():
    before = packed()
    module, compiled, x = make()
    check(module, compiled, x)
    assert is_packed(compiled)
    assert packed() - before == INNER * OUTER * 4
    first = compiled(x)
    for rows in (ROWS, 2, 300):
        check(module, compiled, torch.randn(rows, INNER))
    assert torch.equal(compiled(x), first)
    assert packed() - before == INNER * OUTER * 4


def test_packed_memory_goes_with_the_function():
    before = packed()
    module, compiled, x = make()
    compiled(x)
    assert packed() > before
    del compiled
    assert packed() == before


def test_packed_memory_goes_with_the_weight():
    before = packed()
    module, compiled, x = make()
    compiled(x)
    module.weight.data = torch.randn(OUTER, INNER)
    assert packed() == before
    check(module, compiled, x)


def test_it_can_be_switched_off():
    before = packed()
    module, compiled, x = make(pack_weights=False)
    check(module, compiled, x)
    assert not is_packed(compiled) and packed() == before
    _, compiled, x = make(pack_weights=False, executors=["onednn", "aten"])
    compiled(x)
    assert not is_packed(compiled)


@pytest.mark.parametrize(
    "function, weight, rows",
    [
        (lambda x, w, b: F.linear(x, w, b), (OUTER, INNER), (ROWS, INNER)),
        (lambda x, w, b: F.linear(x, w), (OUTER, INNER), (2, ROWS, INNER)),
        (lambda x, w, b: torch.addmm(b, x, w), (INNER, OUTER), (ROWS, INNER)),
        (lambda x, w, b: x @ w, (INNER, OUTER), (ROWS, INNER)),
    ],
)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_products(function, weight, rows, dtype):
    x, w, b = (torch.randn(size).to(dtype) for size in (rows, weight, (OUTER,)))
    compiled = fulgurite.jit(lambda x: function(x, w, b))
    got, expected = compiled(x), function(x, w, b)
    exact = function(x.double(), w.double(), b.double())
    assert is_packed(compiled) and got.dtype == dtype and got.stride() == expected.stride()
    error, theirs = (got.double() - exact).abs().max(), (expected.double() - exact).abs().max()
    assert error <= 4 * theirs


@pytest.mark.parametrize(
    "function, w",
    [
        (lambda x, w: F.linear(x[:1], w), torch.randn(OUTER, INNER)),
        (lambda x, w: F.linear(x, w), torch.randn(64, INNER)),
        (lambda x, w: F.linear(x, w * 2), torch.randn(OUTER, INNER)),
        (lambda x, w: torch.addmm(x[0, 0], x, w, beta=2), torch.randn(INNER, OUTER)),
        (lambda x, w: F.linear(x.double(), w), torch.randn(OUTER, INNER).double()),
    ],
    ids=("one row", "small", "computed", "scaled", "double"),
)
def test_what_is_not_packed(function, w):
    compiled = fulgurite.jit(lambda x: function(x, w))
    x = torch.randn(ROWS, INNER)
    torch.testing.assert_close(compiled(x), function(x, w), rtol=1e-4, atol=1e-4)
    assert not is_packed(compiled)


def by_address(weight):
    return (ctypes.c_float * 4).from_address(weight.data_ptr())


def write_by_storage(weight):
    storage = weight.untyped_storage()
    storage[3] = 65


def step(optimiser, **options):
    def write(weight):
        weight.grad = torch.ones_like(weight)
        optimiser([weight], lr=0.1, **options).step()

    return write


WRITES = {
    "mul_": lambda w: w.mul_(2),
    "add_ to a view": lambda w: w[3:5].add_(1),
    "detach": lambda w: w.detach().mul_(2),
    "data.mul_": lambda w: w.data.mul_(2),
    "data[0]": lambda w: w.data[0].fill_(3),
    "data =": lambda w: setattr(w, "data", torch.randn(OUTER, INNER)),
    "set_": lambda w: w.data.set_(torch.randn(OUTER, INNER)),
    "copy_": lambda w: w.copy_(torch.randn(OUTER, INNER)),
    "numpy": lambda w: w.detach().numpy().__setitem__(0, 7),
    "asarray": lambda w: np.asarray(w.detach()).__setitem__(0, 7),
    "dlpack": lambda w: torch.from_dlpack(w.detach()).mul_(2),
    "numpy by dlpack": lambda w: np.asarray(w.detach().numpy()).fill(1),
    "address": lambda w: by_address(w).__setitem__(0, 99.0),
    "storage": write_by_storage,
    "storage fill": lambda w: w.untyped_storage().fill_(0),
    "share_memory_": lambda w: w.share_memory_().data.mul_(2),
    "sgd": step(torch.optim.SGD),
    "adamw": step(torch.optim.AdamW),
    "fused adamw": step(torch.optim.AdamW, fused=True),
    "init": lambda w: torch.nn.init.ones_(w),
    "inference mode": lambda w: torch.inference_mode()(lambda: w.mul_(2))(),
}


@pytest.mark.parametrize("name", WRITES)
def test_writes_between_calls(name):
    module, compiled, x = make()
    for _ in range(3):
        check(module, compiled, x)
        WRITES[name](module.weight)
    for _ in range(2):
        check(module, compiled, x)


def test_what_is_known_before_and_written_later():
    for remember in (
        lambda w: w.detach().numpy(),
        lambda w: np.asarray(w.detach()),
        by_address,
        lambda w: w.data.view(-1),
        lambda w: torch.from_dlpack(w.detach()).view(-1),
    ):
        for calls_before in (0, 2):
            module, compiled, x = make()
            for _ in range(calls_before):
                compiled(x)
            memory = remember(module.weight)
            module.weight.mul_(2)
            for value in (5.0, -3.0):
                check(module, compiled, x)
                check(module, compiled, x)
                memory[0] = value
            check(module, compiled, x)


def test_buffers_known_to_numpy():
    weight = torch.randn(OUTER, INNER)
    compiled = fulgurite.jit(lambda x: F.linear(x, weight))
    x = torch.randn(ROWS, INNER)
    compiled(x)
    array = weight.numpy()
    weight.mul_(2)
    compiled(x)
    array[0] = 7
    torch.testing.assert_close(compiled(x), F.linear(x, weight), rtol=1e-4, atol=1e-4)


def test_memory_of_others():
    array = np.random.randn(OUTER, INNER).astype(np.float32)
    weight = torch.from_numpy(array)
    compiled = fulgurite.jit(lambda x: F.linear(x, weight))
    x = torch.randn(ROWS, INNER)
    before = packed()
    for _ in range(3):
        torch.testing.assert_close(compiled(x), F.linear(x, weight), rtol=1e-4, atol=1e-4)
        array *= 2
    assert packed() == before


def test_a_weight_is_packed_again_after_operators():
    before = packed()
    module, compiled, x = make()
    for _ in range(3):
        check(module, compiled, x)
        assert packed() > before
        module.weight.mul_(0.5)
        module.load_state_dict({k: v + 1 for k, v in module.state_dict().items()})
    check(module, compiled, x)


def test_weights_that_change_on_every_call():
    module, compiled, x = make()
    for _ in range(40):
        module.weight.add_(0.01)
        check(module, compiled, x)


def test_tied_weights():
    before = packed()
    module = Tied()
    compiled = fulgurite.jit(module)
    x = torch.randn(ROWS, INNER)
    check(module, compiled, x)
    assert packed() - before == INNER * INNER * 4
    module.second.weight.mul_(2)
    check(module, compiled, x)
    module.first.weight.data.mul_(2)
    check(module, compiled, x)


def test_modules_that_move():
    module, compiled, x = make()
    check(module, compiled, x)
    twin = copy.deepcopy(module)
    twin.weight.mul_(3)
    check(module, compiled, x)
    check(twin, fulgurite.jit(twin), x)
    again = pickle.loads(pickle.dumps(module))
    assert torch.equal(again.weight, module.weight)
    check(module, compiled, x)
    module.double()
    check(module, compiled, x.double())
    module.bfloat16()
    torch.testing.assert_close(compiled(x.bfloat16()), module(x.bfloat16()), rtol=2e-2, atol=2e-2)
    module.float()
    check(module, compiled, x)


def test_training_goes_on():
    module, compiled, x = make()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(3):
        check(module, compiled, x)
        with torch.enable_grad():
            compiled(x).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad()
    check(module, compiled, x)


def test_threads():
    module, compiled, x = make()
    expected = module(x)
    wrong = []

    def call():
        with torch.no_grad():
            for _ in range(20):
                if not torch.allclose(compiled(x), expected, rtol=1e-4, atol=1e-4):
                    wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


FORKED = """
import os, torch, fulgurite
torch.set_num_threads(1)
m = torch.nn.Linear(512, 640)
c = fulgurite.jit(m)
x = torch.randn(8, 512)
with torch.no_grad():
    c(x)
    child = os.fork()
    if child == 0:
        m.weight.data.mul_(2)
        os._exit(0 if torch.allclose(c(x), m(x), rtol=1e-4, atol=1e-4) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.allclose(c(x), m(x), rtol=1e-4, atol=1e-4)
"""


def test_fork():
    done = run_code(FORKED)
    assert done.returncode == 0, done.stderr
