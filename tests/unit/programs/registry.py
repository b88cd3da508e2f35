"""The programs that tests of passes run: they write in place, through views, into out=, to inputs.

Each entry of `PROGRAMS` is (make, inputs): `make()` gives the function afresh, `inputs` are
functions that make its arguments.
"""

import torch

PROGRAMS = {}


def f32(*sizes):
    return lambda: torch.randn(*sizes)


def window(*sizes):
    """A window into something larger."""

    def make():
        large = torch.randn(*[n + 2 for n in sizes])
        return large[tuple(slice(1, n + 1) for n in sizes)]

    return make


class Overlap:
    """Two inputs over one storage, made anew for every run."""

    base = None

    @staticmethod
    def first():
        Overlap.base = torch.randn(12)
        return Overlap.base[:8]

    @staticmethod
    def second():
        return Overlap.base[4:12]

    @staticmethod
    def whole():
        return Overlap.base


def program(*inputs):
    def register(function):
        PROGRAMS[function.__name__] = (lambda: function, inputs)
        return function

    return register


def made(*inputs):
    """Registers a function that makes the program: one with state."""

    def register(make):
        PROGRAMS[make.__name__] = (make, inputs)
        return make

    return register
