"""Results of differentiated programs that share memory: with each other, with inputs, with what is
saved. Values, gradients, the view relation and writes to them are eager's."""

import itertools

import pytest
import torch

import fulgurite


def close(a, b):
    return (a is None) == (b is None) and (a is None or torch.allclose(a, b, 1e-5, 1e-6))


def leaf(*sizes):
    return torch.randn(sizes, requires_grad=True)


def describe(results, inputs):
    """What can be seen of results besides their values: histories, bases, shared memory."""
    everything = [*results, *inputs]
    bases = [r._base if r._is_view() else None for r in results]
    return [
        (
            r.requires_grad,
            r.is_leaf,
            r.stride(),
            r.storage_offset(),
            # `is` to what is returned; a base that is not returned has no number
            next((i for i, other in enumerate(everything) if base is other), base is not None),
            [r.untyped_storage().data_ptr() == o.untyped_storage().data_ptr() for o in everything],
            [r is other for other in everything],
        )
        for r, base in zip(results, bases, strict=True)
    ]


def run(function, inputs, write=None):
    """(what was seen, gradients or the error) of a call, on copies of `inputs`."""
    torch.manual_seed(1)
    leaves = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    given = [x * 1 if x.requires_grad else x for x in leaves]
    results = function(*given)
    seen = describe(results, given)
    values = [r.detach().clone() for r in results] + [x.detach().clone() for x in given]
    try:
        if write is not None:
            with torch.no_grad() if write == "no_grad" else torch.enable_grad():
                results[-1].mul_(3)
        total = sum((r * (i + 1)).sum() for i, r in enumerate(results) if r.requires_grad)
        total = total + sum((x * 5).sum() for x in given if x.requires_grad)
        values += torch.autograd.grad(total, [x for x in leaves if x.requires_grad])
    except RuntimeError as error:
        return seen, values, str(error)[:60]
    return seen, values, ""


def itself_and_a_view(x, y):
    h = x.sin() * y
    return h, h.view(-1)


def two_views(x, y):
    h = x.sin() * y
    return h[0], h.t()


def chunks(x, y):
    return (x.exp() * y).chunk(2)


def split_along_rows(x, y):
    return torch.split(x.exp() * y, [1, 3], 1)


def halves_that_are_used(x, y):
    a, b = (x.exp() * y).chunk(2, 1)
    return a * b, a, b


def unbound(x, y):
    return torch.unbind(x * y)


def detached(x, y):
    h = x.sin() * y
    return h, h.detach()


def detached_alone(x, y):
    h = x.exp()
    return (h * y).sum(), h.detach()


def view_of_an_input(x, y):
    return (x * y).sum(), x.view(-1)


def view_of_an_input_without_history(x, y):
    return (x * y).sum(), y.t()


def view_without_grad(x, y):
    h = x.sin() * y
    with torch.no_grad():
        v = h[1]
    return h, v


def views_of_what_is_written(x, y):
    h = x.sin()
    v = h[0]
    h.mul_(y)
    v.add_(1)
    return h, v, h[1:].t()


def history_by_a_view(x, y):
    h = torch.zeros(4, 4)
    h[0].copy_(x[0])
    return h[:2], h[2:]


def saved_and_returned(x, y):
    h = x.exp()
    return h.t(), h * y


def view_of_a_view(x, y):
    h = (x * y).view(2, 8)
    return h, h.view(4, 2, 2)[1], h[1, 2:4]


def reshaped(x, y):
    h = x * y
    return h, h.reshape(16), h.t().reshape(16)


def writes_to_an_input(x, y):
    y.add_(x)
    return ((y * 2).sin(),)


def writes_to_an_input_and_returns_it(x, y):
    y.mul_(x.exp())
    return (y * 2, y)


def writes_and_returns_a_view(x, y):
    y[0].copy_(x[1] * 2)
    return (y.sum(), y[0])


def writes_to_one_with_a_history(x, y):
    z = y.sin()
    x.mul_(y)
    return (x * z, z)


VIEWS = [
    itself_and_a_view,
    two_views,
    chunks,
    split_along_rows,
    halves_that_are_used,
    unbound,
    detached,
    detached_alone,
    view_of_an_input,
    view_of_an_input_without_history,
    view_without_grad,
    views_of_what_is_written,
    history_by_a_view,
    saved_and_returned,
    view_of_a_view,
    reshaped,
]
WRITES = [
    writes_to_an_input,
    writes_to_an_input_and_returns_it,
    writes_and_returns_a_view,
    writes_to_one_with_a_history,
]


@pytest.mark.parametrize("write", [None, "grad", "no_grad"])
@pytest.mark.parametrize(
    ("function", "both"),
    [*itertools.product(VIEWS, [False, True]), *itertools.product(WRITES, [True])],
)
def test_as_eager(function, both, write):
    inputs = leaf(4, 4), torch.randn(4, 4, requires_grad=both)
    compiled = fulgurite.jit(function, verify=True)
    wanted = run(function, inputs, write)
    for _ in range(3):
        seen, values, error = run(compiled, inputs, write)
        assert error == wanted[2]
        assert seen == wanted[0]
        assert len(values) == len(wanted[1]) and all(map(close, values, wanted[1]))
    assert fulgurite.last_backward_traces(compiled), fulgurite.last_backward_traces(compiled).reason


def test_what_is_shown():
    compiled = fulgurite.jit(two_views)
    compiled(leaf(4, 4), torch.ones(4, 4))
    names = [trace.provenance for trace in fulgurite.last_traces(compiled)]
    assert names[:3] == ["", "Views and writes outside", "Grad transform"]
    text = fulgurite.last_epilogue_traces(compiled)[0].text()
    assert "def finish(x, y, t" in text and "torch.t(" in text


def test_inputs_that_share_memory():
    """What one write to an input changes in another is left to torch's autograd."""

    def f(a, b, x):
        a.add_(x)
        return (b * x).sum()

    x, start, compiled = leaf(3), leaf(4), fulgurite.jit(f)
    found = []
    for g in (f, compiled, compiled):
        whole = start * 1
        loss = g(whole[:3], whole[1:], x)
        found.append((loss, whole, *torch.autograd.grad(loss + whole.sum(), [x, start])))
    assert all(map(close, found[0], found[1])) and all(map(close, found[0], found[2]))
    assert not fulgurite.last_backward_traces(compiled)


def test_writes_that_are_differentiated_twice():
    def f(x, y):
        y.mul_(x.exp())
        return (y * y).sum()

    x, start, compiled, found = leaf(3), leaf(3), fulgurite.jit(f), []
    for g in (f, compiled, compiled):
        y = start.sin()
        loss = g(x, y) + (y * x).sum()
        first = torch.autograd.grad(loss, [x, start], create_graph=True)
        norm = sum(g.square().sum() for g in first)
        found.append((*first, *torch.autograd.grad(norm, [x, start])))
    assert all(map(close, found[0], found[1])) and all(map(close, found[0], found[2]))


def test_graphs_are_freed_and_retained_with_views():
    x, compiled = leaf(4), fulgurite.jit(lambda x: (x.exp()[:2], x.exp().sum()))
    compiled = fulgurite.jit(lambda x: x.exp().chunk(2))
    for _ in range(2):
        first, second = compiled(x)
        loss = first.sum() + second.square().sum()
        once = torch.autograd.grad(loss, x, retain_graph=True)[0].clone()
        assert close(once, torch.autograd.grad(loss, x)[0])
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(loss, x)
