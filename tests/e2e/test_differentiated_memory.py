"""What a backward pass of a compiled program keeps alive while it runs, held against eager."""

import torch
from torch.profiler import ProfilerActivity, profile

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
