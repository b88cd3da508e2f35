"""x[i] where i is an integer that is being traced."""

import pytest
import torch

import fulgurite

ROWS = [torch.ones(3), torch.zeros(3), torch.full((3,), 2.0)]
ALPHAS = torch.linspace(0, 1, 10)
KEPT = {}


def written_before(x, i):
    x.add_(1)
    return x[i] * 2


def written(x, i):
    x[i].add_(1)
    return x * 2


def source_written(x, i):
    y = x[i]
    x.add_(1)
    return y * 2


def local_source_written(x, i):
    x = x * 2
    y = x[i]
    x.add_(1)
    return y.view(-1) * 2


def assigned(x, i):
    x[i] = 1.0
    return x * 2


def kept(x, i):
    KEPT["row"] = x[i]
    return x * 1


AS_EAGER = {
    "row": lambda x, i: x[i] * 2,
    "computed": lambda x, i: x[i - 1] + x[i],
    "element": lambda x, i: x[i, 1] + x[i, i] + x[i][i],
    "of a slice": lambda x, i: x[1:][i] + 1,
    "narrow integer": lambda x, i: x[i.int()] * 1,
    "largest": lambda x, i: x[x.sum(1).argmax()] * 2,
    "of a tensor from elsewhere": lambda x, i: ALPHAS[i] ** 0.5 * x + (1 - ALPHAS[i]) ** 0.5,
    "parts": lambda x, i: sum(x[i].unbind(0)),
    "copied": lambda x, i: x[i].clone(),
    "source written before": written_before,
}
REFUSED = {
    "column": (lambda x, i: x[:, i] + 1, "as a view"),
    "returned": (lambda x, i: x[i], "as a view"),
    "returned without history": (lambda x, i: x[i].detach(), "as a view"),
    "kept": (kept, "as a view"),
    "written": (written, "as a view"),
    "source written": (source_written, "as a view"),
    "local source written": (local_source_written, "as a view"),
    "item of a list": (lambda x, i: ROWS[i] * 2, "as a view"),
    "element of an item of a list": (lambda x, i: ROWS[i][0] * 2, "as a view"),
    "item of a list alone": (lambda x, i: (ROWS[i], x * 2)[1], "as a view"),
    "place": (lambda x, i: (x[i].storage_offset(), x * 1), "asks where a tensor lies"),
    "short": (lambda x, i: x[i.short()] * 2, "needs the data"),
    "assigned": (assigned, "needs the data"),
    "known to Python": (lambda x, i: x[int(i)] * 2, "needs the data"),
    "by name": (lambda x, i: x.select(0, i) * 2, "needs the data"),
    "number of steps": (lambda x, i: x * len(range(i)), "needs the data"),
}


@pytest.mark.parametrize("name", AS_EAGER)
def test_as_eager(name):
    f = AS_EAGER[name]
    compiled = fulgurite.jit(f)
    for i in (2, 0, -1):
        x, index = torch.arange(15.0).view(5, 3), torch.tensor(i)
        expected, result = f(x.clone(), index), compiled(x.clone(), index)
        assert torch.equal(expected, result) and expected.stride() == result.stride()
    assert fulgurite.cache_misses(compiled) == 1


@pytest.mark.parametrize("name", REFUSED)
def test_refused_where_the_view_could_be_told(name):
    f, why = REFUSED[name]
    with pytest.raises(fulgurite.Unsupported, match=why):
        fulgurite.jit(f)(torch.arange(15.0).view(5, 3), torch.tensor(2))


def test_gradients():
    grads = []
    for wrap in (lambda f: f, fulgurite.jit):
        x = torch.arange(15.0).view(5, 3).requires_grad_()
        f = wrap(lambda x, i: (x[i] ** 2).sum())
        for i in (1, 3, 1):
            f(x, torch.tensor(i)).backward()
        grads.append(x.grad)
    assert torch.equal(*grads)


@pytest.mark.parametrize("index", [7, -6])
def test_out_of_bounds(index):
    compiled = fulgurite.jit(AS_EAGER["row"])
    x = torch.ones(5, 3)
    errors = []
    for f in (AS_EAGER["row"], compiled, compiled):
        with pytest.raises(IndexError) as error:
            f(x, torch.tensor(index))
        errors.append(str(error.value))
        compiled(x, torch.tensor(1))
    assert len(set(errors)) == 1
