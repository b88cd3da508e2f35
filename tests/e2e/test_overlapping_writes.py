"""Writes to memory that the same call reads in another place. What eager makes of it depends on the
order in which a kernel goes through it, or on the size of its vectors: such a call is refused."""

import pytest
import torch

import fulgurite


def _square():
    return torch.arange(1.0, 17.0).view(4, 4)


REFUSED = {
    "shift": lambda x: x[:, 1:].copy_(x[:, :-1]),
    "center": lambda x: x[:, ::2].sub_(x[1, 2]),
    "row_of_columns": lambda x: x.t().add_(x.t()[0]),
    "product": lambda x: x.addmm_(x, x),
    "product_out": lambda x: torch.mm(x, x, out=x),
    "sort_out": lambda x: torch.sort(x, out=(x, torch.empty(4, 4, dtype=torch.long))),
    "sum_out": lambda x: torch.sum(x, 1, out=x[0]),
    "masked_scatter": lambda x: x.masked_scatter_(x > 3, x),
    "statistics": lambda x: torch.nn.functional.batch_norm(x, x[0], x[0], training=True),
}
TAKEN = {
    "neighbour_columns": lambda x: x[:, 0].add_(x[:, 1]),
    "even_and_odd": lambda x: x[:, ::2].copy_(x[:, 1::2]),
    "itself": lambda x: x.mul_(x),
    "itself_transposed": lambda x: x.t().mul_(x.t()),
    "halves": lambda x: x[:2].addmm_(x[2:, :2], x[2:]),
    "out_is_an_operand": lambda x: torch.add(x, 1, out=x),
    "clone": lambda x: x[:, 1:].copy_(x[:, :-1].clone()),
    "copied_onto_itself": lambda x: x.copy_(x),
    "filled_with_its_own": lambda x: x[0].fill_(x[0, 2]),
    "masked_with_its_own": lambda x: x.masked_fill_(x > 3, x[0, 2]),
    "in_turn": lambda x: torch._foreach_add_([x[0], x[1]], [x[1], x[0]]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_order_of_a_kernel_is_refused(name):
    x = _square()
    with pytest.raises(fulgurite.Unsupported, match=r"(?s)writes to memory .*pass a clone\(\)"):
        fulgurite.jit(REFUSED[name])(x)
    assert torch.equal(x, _square())


@pytest.mark.parametrize("name", TAKEN)
def test_what_does_not_overlap_is_taken(name):
    f, compiled = TAKEN[name], fulgurite.jit(TAKEN[name])
    x, y = _square(), _square()
    for _ in range(2):
        f(x)
        compiled(y)
        assert torch.equal(x, y)


def test_view_out_of_bounds_is_an_error_though_it_is_not_used():
    def f(x):
        y = x.relu()
        y.as_strided((9,), (1,))
        return x * 2

    with pytest.raises(RuntimeError, match="out of bounds"):
        fulgurite.jit(f)(torch.ones(3))
