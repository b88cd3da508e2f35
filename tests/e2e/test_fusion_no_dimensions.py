"""Dimensions of tensors that have none, empty lists of them, and those that are out of range."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import fulgurite

aten = torch.ops.aten
VIEWS = {
    "flip": [lambda x: x.flip(0), lambda x: x.flip(-1), lambda x: x.flip([]), lambda x: x.flip(1)],
    "flip several": [lambda x: x.flip(0, 0), lambda x: x.flip(0, -1)],
    "transpose": [lambda x: x.transpose(0, 0), lambda x: x.transpose(0, -1), lambda x: x.t()],
    "permute": [lambda x: x.permute(()), lambda x: x.permute(0), lambda x: x.movedim(0, -1)],
    "squeeze": [lambda x: x.squeeze(), lambda x: x.squeeze(0), lambda x: x.squeeze(1)],
    "squeeze several": [lambda x: x.squeeze(()), lambda x: x.squeeze((0, -1))],
    "unsqueeze": [lambda x: x.unsqueeze(0), lambda x: x.unsqueeze(-1), lambda x: x.unsqueeze(1)],
    "expand": [lambda x: x.expand(()), lambda x: x.expand(3), lambda x: x.expand(2, 3)],
    "view": [lambda x: x.view(()), lambda x: x.view(-1), lambda x: x.view(1, 1)],
    "select": [lambda x: x.select(0, 0), lambda x: x[0], lambda x: x[...], lambda x: x[None]],
    "slice": [lambda x: aten.slice(x, 0, 0, 1), lambda x: x.narrow(0, 0, 1)],
    "parts": [lambda x: x.split(1)[0], lambda x: x.split([1])[0], lambda x: x.unbind()[0]],
    "roll": [lambda x: x.roll(1), lambda x: x.roll(1, 0), lambda x: x.roll(1, -1)],
}
ROWS = {
    "sum": [lambda x: x.sum(0), lambda x: x.sum(-1, True), lambda x: x.sum(1), lambda x: x.sum([])],
    "mean": [lambda x: x.mean(-1), lambda x: x.mean([]), lambda x: x.mean((0, -1))],
    "prod": [lambda x: x.prod(0), lambda x: x.prod(1)],
    "amax": [lambda x: x.amax(0), lambda x: x.amax([]), lambda x: x.amin((0, -1))],
    "any": [lambda x: x.any(-1), lambda x: torch.any(x, []), lambda x: torch.all(x, (0,))],
    "norm": [lambda x: x.norm(dim=0), lambda x: torch.linalg.vector_norm(x, dim=[])],
    "var": [lambda x: x.var(0), lambda x: x.var([]), lambda x: x.std(-1, correction=0)],
    "var_mean": [lambda x: torch.var_mean(x, 0, correction=0)[1]],
    "logsumexp": [lambda x: x.logsumexp(-1, True), lambda x: x.logsumexp([])],
    "softmax": [lambda x: x.softmax(0), lambda x: x.softmax(1), lambda x: x.log_softmax(-1)],
    "layer_norm": [lambda x: F.layer_norm(x, ()), lambda x: F.layer_norm(x, (3,))],
    "rows of a layer_norm": [lambda x: F.layer_norm(x, (1, 1)), lambda x: F.layer_norm(x, (1,))],
}
SOURCES = [torch.tensor(3.0), torch.ones(1), torch.arange(6.0).view(2, 3), torch.ones(0, 3)]


def outcome(function, x):
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return function(x)
    except (RuntimeError, IndexError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("functions", [*VIEWS.values(), *ROWS.values()], ids=[*VIEWS, *ROWS])
def test_as_eager(functions):
    for function in functions:
        for x in SOURCES:
            for program in (function, lambda x: function(x * 2) + 1):
                expected, got = outcome(program, x), outcome(fulgurite.jit(program), x)
                if isinstance(expected, tuple):
                    assert got == expected
                else:
                    torch.testing.assert_close(got, expected, equal_nan=True)
                    assert got.stride() == expected.stride()


def test_of_a_result_without_dimensions():
    x = torch.arange(4.0)
    assert fulgurite.jit(lambda x: x.sum().flip(0))(x) == 6
    assert fulgurite.jit(lambda x: (x.sum() * 2).flip(-1) + 1)(x) == 13
