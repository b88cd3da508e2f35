"""What a program reads of the place of a tensor in autograd."""

import pytest
import torch

import fulgurite


def test_what_autograd_says_of_an_argument_counts():
    def program(x):
        if x.grad_fn is not None:
            return x * 2
        return x * 3 if x.grad is None else x * (5 if x.is_leaf else 7)

    compiled = fulgurite.jit(program)
    leaf = torch.ones(2, requires_grad=True)
    with_gradient = torch.ones(2, requires_grad=True)
    with_gradient.grad = torch.ones(2)
    for _ in range(2):
        for x in (leaf, leaf * 1, with_gradient, leaf.detach()):
            assert torch.equal(compiled(x), program(x))
    assert fulgurite.cache_misses(compiled) == 4
    with pytest.raises(fulgurite.Unsupported, match="grad of an argument"):
        fulgurite.jit(lambda x: x + x.grad)(with_gradient)


def test_the_gradient_of_a_parameter_is_fetched_on_every_call():
    model = torch.nn.Linear(3, 2)
    clip = fulgurite.jit(lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1))
    for number in range(4):
        norms = []
        for step in (clip, lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)):
            for p in model.parameters():
                p.grad = torch.full_like(p, number + 1.0)
            norms.append(step())
            norms.append([p.grad.clone() for p in model.parameters()])
        assert torch.equal(norms[0], norms[2])
        assert all(map(torch.equal, norms[1], norms[3]))
    assert fulgurite.cache_misses(clip) == 1
