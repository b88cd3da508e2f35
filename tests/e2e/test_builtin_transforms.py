"""Autocast, int8 weights and low-rank adapters."""

import pickle

import pytest
import torch

import fulgurite
from fulgurite import UserError
from fulgurite.transforms import Int8Linear, LoraLinear, autocast, int8_linear, lora, merge_lora

F = torch.nn.functional


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 16)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16, bias=False)
        self.norm, self.head = torch.nn.LayerNorm(16), torch.nn.Linear(16, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        x = self.norm(x + self.down(F.gelu(self.up(x))))
        return self.head(x)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Model()


TOKENS = torch.arange(10).reshape(2, 5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("grad", [False, True])
def test_autocast_is_torchs(model, grad, dtype):
    compiled = fulgurite.jit(model, transforms=[autocast(dtype)], executors=["aten"], verify=True)
    results, gradients = [], []
    for call in (compiled, model):
        model.zero_grad()
        with torch.set_grad_enabled(grad), torch.autocast("cpu", dtype, enabled=call is model):
            result = call(TOKENS)
        if grad:
            result.float().square().sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        results.append(result)
    assert results[0].dtype == dtype
    torch.testing.assert_close(*results, rtol=0, atol=0)
    if grad:
        torch.testing.assert_close(*gradients)


def test_autocast_of_programs_with_writes_and_lists():
    def program(x, y):
        z = torch.cat([x @ y, x]).split(2)[0]
        z.add_(1)
        x.mul_(2)
        return z, torch.softmax(z, -1), torch.stack([z, z]).unbind(0)

    x, y = torch.randn(3, 3), torch.randn(3, 3)
    mine, theirs = x.clone(), x.clone()
    actual = fulgurite.jit(program, transforms=[autocast()], executors=["aten"])(mine, y)
    with torch.autocast("cpu"):
        expected = program(theirs, y)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    torch.testing.assert_close(mine, theirs)


def test_autocast_to_what_there_is_not():
    with pytest.raises(UserError, match="bfloat16 or float16"):
        autocast(torch.float32)
    with pytest.raises(UserError, match="no autocast"):
        autocast(device="abacus")


def test_int8_weights(model):
    small = int8_linear(model)
    assert [type(m) for m in (small.up, small.down, small.head)] == [Int8Linear] * 3
    assert type(model.up) is torch.nn.Linear
    assert small.norm.weight is model.norm.weight
    assert small.embed.weight is model.embed.weight
    for name in ("up", "down", "head"):
        layer, weight = getattr(small, name), getattr(model, name).weight
        error = (layer.dequantised() - weight).abs()
        assert (error <= layer.scale[:, None] * 0.501).all()
        assert layer.weight_int8.abs().amax(1).eq(127).all()
    with torch.no_grad():
        exact, rounded = model(TOKENS), fulgurite.jit(small)(TOKENS)
        torch.testing.assert_close(rounded, small(TOKENS))
        assert 0 < (rounded - exact).norm() / exact.norm() < 0.02
    restored = int8_linear(Model())
    restored.load_state_dict(small.state_dict())
    torch.testing.assert_close(restored(TOKENS), small(TOKENS))


def test_int8_of_zeros_and_of_narrow_floats():
    layer = torch.nn.Linear(4, 3)
    torch.nn.init.zeros_(layer.weight)
    torch.testing.assert_close(int8_linear(layer)(torch.ones(2, 4)), layer(torch.ones(2, 4)))
    narrow = torch.nn.Linear(4, 3).bfloat16()
    x = torch.ones(2, 4, dtype=torch.bfloat16)
    assert int8_linear(narrow)(x).dtype == torch.bfloat16
    torch.testing.assert_close(int8_linear(narrow)(x), narrow(x), rtol=0.05, atol=0.05)


def test_lora_trains_the_adapters_alone(model):
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    adapted = lora(model, r=4, alpha=8, targets=["up", "down"])
    assert isinstance(adapted.up, LoraLinear) and type(adapted.head) is torch.nn.Linear
    assert adapted.head.weight is adapted.embed.weight
    assert adapted.embed.weight.data_ptr() == model.embed.weight.data_ptr()
    trained = {name for name, p in adapted.named_parameters() if p.requires_grad}
    assert trained == {"up.a", "up.b", "down.a", "down.b"}
    assert all(p.requires_grad for p in model.parameters())
    compiled = fulgurite.jit(adapted)
    torch.testing.assert_close(compiled(TOKENS), model(TOKENS))
    optimiser = torch.optim.SGD([p for p in adapted.parameters() if p.requires_grad], 0.1)
    losses = []
    for _ in range(5):
        optimiser.zero_grad()
        loss = F.cross_entropy(compiled(TOKENS).flatten(0, 1), TOKENS.flatten())
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(torch.equal(p, before[name]) for name, p in model.named_parameters())
    expected = adapted(TOKENS)
    copy = pickle.loads(pickle.dumps(adapted))
    merged = merge_lora(adapted)
    assert type(merged.up) is torch.nn.Linear
    torch.testing.assert_close(merged(TOKENS), expected)
    torch.testing.assert_close(copy(TOKENS), expected)


def test_one_layer_alone_and_one_used_twice():
    layer = torch.nn.Linear(4, 4)
    assert isinstance(lora(layer), LoraLinear)
    assert type(merge_lora(lora(layer))) is torch.nn.Linear
    twice = torch.nn.Sequential(layer, layer)
    adapted = lora(twice)
    assert adapted[0] is adapted[1]


def test_bad_requests(model):
    with pytest.raises(UserError, match="found no nn.Linear to change among up, down, head"):
        lora(model, targets=["gate"])
    with pytest.raises(UserError, match="takes a module"):
        int8_linear(F.relu)
    with pytest.raises(UserError, match="takes a module"):
        lora(F.relu)
    with pytest.raises(UserError, match="positive int"):
        lora(model, r=0)
    with pytest.raises(UserError, match="probability"):
        lora(model, dropout=1.0)
    with pytest.raises(UserError, match="list of names"):
        lora(model, targets="up")
    model.up.register_forward_hook(lambda *args: None)
    with pytest.raises(UserError, match="'up' has hooks"):
        int8_linear(model)
