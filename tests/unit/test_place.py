"""The line and the module that are running, as capture asks for them."""

import functools
import linecache
import operator

import torch

from fulgurite import _C


class Inner(torch.nn.Module):
    def forward(self, here):
        here()  # inner line
        return here


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, here):
        here()  # outer line
        self.inner(here)
        here()  # outer again


def lines(places):
    return [text for _, _, _, text, _ in places]


def test_line_function_and_file():
    def program(here):
        here()  # the first
        [here() for _ in range(1)]  # in a comprehension

    places = _C.places_of(program)
    assert lines(places) == [
        "here()  # the first",
        "[here() for _ in range(1)]  # in a comprehension",
    ]
    file, line, function, text, module = places[0]
    assert file == __file__ and module is None
    assert linecache.getline(file, line).strip() == text
    assert function.endswith("program")


def test_innermost_module():
    outer = Outer()
    places = _C.places_of(outer)
    assert lines(places) == [
        "here()  # outer line",
        "here()  # inner line",
        "here()  # outer again",
    ]
    assert [module for *_, module in places] == [id(outer), id(outer.inner), id(outer)]


def test_torch_code_is_skipped():
    def program(here):
        with torch.no_grad():
            torch.no_grad()(functools.partial(here))()  # through a decorator of torch

    assert lines(_C.places_of(program)) == [
        "torch.no_grad()(functools.partial(here))()  # through a decorator of torch"
    ]


def test_line_in_torch_nn_where_there_is_no_other():
    module = torch.nn.Identity()
    ((file, _, function, text, _),) = _C.places_of(module.apply)
    assert file.endswith("torch/nn/modules/module.py")
    assert (function, text) == ("Module.apply", "fn(self)")


def test_line_of_the_caller_where_nothing_else_runs():
    ((file, _, function, _, _),) = _C.places_of(operator.methodcaller("__call__"))
    assert file == __file__
    assert function == "test_line_of_the_caller_where_nothing_else_runs"


def test_code_that_is_gone():
    def program(here):
        scope = {"here": here}
        exec(compile("def f():\n  here()\nf()", "<made>", "exec"), scope)
        scope.clear()

    ((file, line, function, text, _),) = _C.places_of(program)
    assert (file, line, function, text) == ("<made>", 2, "f", "")


def test_error_ends_the_tracking():
    def program(here):
        raise ValueError("mine")

    for _ in range(2):
        try:
            _C.places_of(program)
        except ValueError as error:
            assert str(error) == "mine"
        else:
            raise AssertionError
