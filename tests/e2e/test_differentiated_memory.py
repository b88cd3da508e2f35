"""What a backward pass of a compiled program keeps alive while it runs, held against eager."""

import pytest
import torch
import torch.nn.functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

import fulgurite


def peak_of(run):
    """The most bytes that were alive at once while `run()` ran, and no longer after."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    events = sorted(found.profiler.kineto_results.events(), key=lambda event: event.start_ns())
    alive = most = 0
    for event in events:
        if event.name() == "[memory]":
            alive += event.nbytes()
            most = max(most, alive)
    return most


def test_what_is_saved_is_freed_as_the_backward_pass_goes_along():
    weights = [torch.nn.Parameter(torch.randn(64, 64) / 8) for _ in range(8)]

    def net(x):
        for weight in weights:
            x = (x @ weight).relu()
        return x.square().mean()

    x, compiled, peaks = torch.randn(1024, 64), fulgurite.jit(net), {}

    def step(f, retain_graph=False):
        loss = f(x)
        loss.backward(retain_graph=retain_graph)

    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    for f in (net, compiled):
        step(f)
        peaks[f] = peak_of(lambda f=f: step(f))
    retained = peak_of(lambda: step(compiled, retain_graph=True))
    activation = 1024 * 64 * 4
    assert peaks[compiled] < peaks[net]
    assert peaks[compiled] <= 9.5 * activation < retained


def block():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(8, 16),
        torch.nn.LayerNorm(16),
        torch.nn.GELU(),
        torch.nn.Linear(16, 16),
        torch.nn.Dropout(0.3),
        torch.nn.Softmax(-1),
        torch.nn.Linear(16, 4),
    )
    return net, torch.randn(6, 8, requires_grad=True)


def gradients(f, net, x):
    torch.manual_seed(1)
    loss = f(x).square().mean()
    torch.rand(1)  # a draw in between is not seen by what is computed again
    return torch.autograd.grad(loss, [x, *net.parameters()])


@pytest.mark.parametrize("executors", [[], ["aten"]])
def test_memory_budget(executors):
    net, x = block()
    wanted, kept = gradients(net, net, x), []
    for budget in (1, 0.7, 0.4, 0):
        compiled = fulgurite.jit(net, memory_budget=budget, executors=executors, verify=True)
        for _ in range(2):
            found = gradients(compiled, net, x)
            assert all(torch.allclose(a, b, 1e-4, 1e-6) for a, b in zip(wanted, found, strict=True))
        saved = fulgurite.saved_values(compiled)
        kept.append(saved.nbytes)
        assert all(v.nbytes == 0 or v.line for v in saved)
    most, least = kept[0], kept[-1]
    assert kept == sorted(kept, reverse=True) and least < most
    assert kept[1] <= least + 0.7 * (most - least) and kept[2] <= least + 0.4 * (most - least)
    # What is drawn is never drawn again: all that is left besides inputs.
    reasons = {v.reason for v in saved if v.nbytes}
    assert all("random" in reason or "written" in reason for reason in reasons), reasons


def test_memory_budget_computes_products_and_attention_again():
    def f(q, k, v):
        return F.scaled_dot_product_attention(q @ k, k, v).exp().sum()

    inputs = [torch.randn(2, 8, 8, requires_grad=True) for _ in range(3)]
    wanted = torch.autograd.grad(f(*inputs), inputs)
    compiled = fulgurite.jit(f, memory_budget=0)
    found = torch.autograd.grad(compiled(*inputs), inputs)
    assert all(torch.allclose(a, b, 1e-3, 1e-4) for a, b in zip(wanted, found, strict=True))
    assert fulgurite.saved_values(compiled).nbytes == 0
    # An input that is written to meanwhile is noticed, even if eager would not have needed it.
    loss = compiled(*inputs)
    with torch.no_grad():
        inputs[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_memory_budget_and_running_statistics():
    norm = torch.nn.BatchNorm1d(4)
    compiled, x = fulgurite.jit(norm, memory_budget=0), torch.randn(5, 4, requires_grad=True)
    for _ in range(2):
        before = norm.num_batches_tracked.item()
        (found,) = torch.autograd.grad(compiled(x).exp().sum(), x)
        assert norm.num_batches_tracked.item() == before + 1
        (wanted,) = torch.autograd.grad(F.batch_norm(x, None, None, training=True).exp().sum(), x)
        assert torch.allclose(found, wanted, 1e-3, 1e-5)


def test_what_is_said_of_saved_values():
    weight = torch.nn.Parameter(torch.randn(4, 4))

    def loss(x):
        hidden = (x @ weight).exp()
        return F.dropout(hidden, 0.5).sum()

    compiled = fulgurite.jit(loss)
    compiled(torch.randn(8, 4))
    saved = fulgurite.saved_values(compiled)
    by_name = {value.name: value for value in saved}
    assert by_name["x"].nbytes == 0 and by_name["x"].reason == "it is an input"
    made = [value for value in saved if value.nbytes]
    assert any("hidden = (x @ weight).exp()" in value.line for value in made)
    assert any("F.dropout" in value.used_by for value in made)
    assert saved.nbytes == sum(value.nbytes for value in made) <= saved.nbytes_of_eager
    text = str(saved)
    assert text.splitlines()[0].split()[:2] == ["value", "shape"]
    assert f"{saved.nbytes:,} bytes are kept" in text
    with pytest.raises(fulgurite.UserError, match="there is no backward trace"):
        compiled = fulgurite.jit(lambda x: x * 2)
        compiled(torch.ones(2))
        fulgurite.saved_values(compiled)
    for wrong in (-0.1, 2, True, "all"):
        with pytest.raises(fulgurite.UserError, match="from 0 to 1"):
            fulgurite.jit(loss, memory_budget=wrong)


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_reentrant_checkpoints_are_obeyed(dropout):
    """Of each region its input is kept, and masks, which are drawn once; the rest is computed again."""
    weight = torch.nn.Parameter(torch.randn(16, 16) / 4)

    def region(x):
        return F.dropout((x @ weight).sigmoid().exp().tanh(), dropout)

    def net(x, keep):
        for _ in range(3):
            x = region(x) if keep else checkpoint(region, x, use_reentrant=True)
        return x.square().mean()

    x = torch.randn(8, 16, requires_grad=True)

    def gradients_of(f, keep):
        torch.manual_seed(0)
        x.grad = weight.grad = None
        f(x, keep).backward()
        return x.grad, weight.grad, torch.rand(1)

    bytes_kept = []
    for keep in (False, True):
        compiled = fulgurite.jit(net, verify=True)
        for _ in range(2):
            wanted, found = gradients_of(net, keep), gradients_of(compiled, keep)
            assert all(torch.allclose(a, b, 1e-4, 1e-6) for a, b in zip(wanted, found, strict=True))
        bytes_kept.append(fulgurite.saved_values(compiled).nbytes)
    activation = 8 * 16 * 4
    assert bytes_kept[0] <= (6 if dropout else 3) * activation < bytes_kept[1]


def test_what_a_formula_computes_from_what_is_saved_is_computed_where_it_is_used():
    compiled = fulgurite.jit(lambda x: x.sin().sum())
    compiled(torch.randn(4, requires_grad=True))
    assert [(v.name, v.nbytes) for v in fulgurite.saved_values(compiled)] == [("x", 0)]
    assert "cos" in fulgurite.last_backward_traces(compiled)[-1].text()
