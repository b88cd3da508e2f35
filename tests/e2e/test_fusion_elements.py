"""Fusions of operators that join, make or look up elements."""

import pytest
import torch
import torch.nn.functional as F

import fulgurite
from fulgurite import examine

FUSED = {"executors": ["fused_cpu", "aten"]}


def operators(compiled):
    return [
        [name.partition("::")[2].partition(".")[0] for name in fusion.operators]
        for _, fusion in examine.get_fusions(fulgurite.last_traces(compiled)[-1])
    ]


def looked_up(table, index):
    return F.embedding(index, table) * 2 + 1


def chosen(table, index):
    return table[index] * 2 + 1


def gathered(table, index):
    return table.gather(1, index[:, None].expand(-1, 2)) * 2 + 1


def unread(table, index):
    return torch.zeros_like(table[index]) * 2 + 1


def divided(a, b):
    return (a // b) * 2 + 1


def written_over(table, index):
    y = table @ table.t()
    return (y * 2).index_select(0, index) + 1


TABLE, INDEX = torch.ones(5, 4), torch.tensor([4, 0, 4, 1, 2])
FAULTS = [
    (looked_up, (TABLE, INDEX), torch.tensor([4, 5, 0, 0, 0]), IndexError),
    (looked_up, (TABLE, INDEX), torch.tensor([-1, 0, 0, 0, 0]), IndexError),
    (looked_up, (TABLE, INDEX.int()), torch.tensor([0, 0, 0, 0, 5]).int(), IndexError),
    (chosen, (TABLE, -INDEX), torch.tensor([4, 0, -6, 0, 0]), IndexError),
    (unread, (TABLE, INDEX), torch.tensor([4, 0, 0, 0, 5]), IndexError),
    (gathered, (TABLE, INDEX % 4), torch.tensor([3, 0, 4, 0, 0]), RuntimeError),
    (written_over, (TABLE, INDEX), torch.tensor([3, 0, -1, 0, 0]), (IndexError, RuntimeError)),
    (divided, (torch.arange(6), torch.arange(1, 7)), torch.arange(6), RuntimeError),
]


@pytest.mark.filterwarnings("ignore:fusion0 runs call by call")
@pytest.mark.parametrize("program, good, bad, error", FAULTS)
def test_data_that_raises_an_error(program, good, bad, error):
    compiled = fulgurite.jit(program, **FUSED)
    with torch.no_grad():
        for _ in range(2):
            assert torch.equal(compiled(*good), program(*good))
            with pytest.raises(error) as expected:
                program(good[0], bad)
            with pytest.raises(error) as raised:
                compiled(good[0], bad)
            assert str(raised.value).split("\n")[0] == str(expected.value).split("\n")[0]
    assert operators(compiled)


def rotary(x, cos):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * cos


def joined(x, cos):
    return torch.cat([x * 2 + 1, x.abs() * cos], 1)


def in_a_chain(x, cos):
    return (x * cos).relu() + cos[x.argmax(-1)][..., None]


@pytest.mark.parametrize("shape", [(2, 3, 8), (8, 100, 64)])
@pytest.mark.parametrize("program", [rotary, joined])
def test_parts_are_joined_in_one_fusion(program, shape):
    compiled = fulgurite.jit(program, **FUSED)
    x, cos = torch.randn(shape), torch.rand(shape[-1])
    with torch.no_grad():
        assert torch.equal(compiled(x, cos), program(x, cos))
    (fused,) = operators(compiled)
    assert "cat" in fused and "mul" in fused


@pytest.mark.parametrize("rows", [10, 5000])
def test_elements_are_looked_up_within_chains(rows):
    def program(table, index, x):
        return F.gelu(F.embedding(index, table) + x, approximate="tanh") * 2

    compiled = fulgurite.jit(program, **FUSED)
    table, index = torch.randn(1000, 64), torch.randint(0, 1000, (rows,))
    x = torch.randn(rows, 64)
    with torch.no_grad():
        torch.testing.assert_close(compiled(table, index, x), program(table, index, x))
    assert operators(compiled) == [["embedding", "add", "gelu", "mul"]]


@pytest.mark.parametrize(
    "program",
    [
        lambda table, index: F.embedding(index, table),
        lambda table, index: torch.cat([table, table]),
        lambda table, index: table.cumsum(1),
    ],
)
def test_what_only_moves_is_left_to_aten(program):
    compiled = fulgurite.jit(program, **FUSED)
    table, index = torch.randn(3000, 64), torch.randint(0, 1000, (5000,))
    with torch.no_grad():
        assert torch.equal(compiled(table, index), program(table, index))
    assert not operators(compiled)
