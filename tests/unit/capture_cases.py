"""What the modules of capture cases share: a registry, and makers of inputs."""

import torch


def registry():
    """(cases, decorator): the decorator registers a function that returns a program, by its name,
    with makers of its inputs."""
    cases = {}

    def case(*inputs):
        def register(make):
            cases[make.__name__] = (make, inputs)
            return make

        return register

    return cases, case


def f32(*shape):
    return lambda: torch.randn(*shape)


def ints(high, *shape):
    return lambda: torch.randint(0, high, shape)


def grad(*shape):
    return lambda: torch.randn(*shape, requires_grad=True)
