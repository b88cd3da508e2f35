"""Functionalised programs do what eager does: values, writes, aliasing, strides, to the bit."""

import pytest
import torch

from tests.unit.passes_check import check
from tests.unit.programs import PROGRAMS
from tests.unit.test_capture_cases import CASES


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    with torch.no_grad():
        check(*PROGRAMS[name])


# The harness runs a trace on twins of the arguments, and a twin of a tensor that is no leaf is one.
@pytest.mark.parametrize("name", [name for name in CASES if name != "argument_that_is_no_leaf"])
def test_whatever_can_be_captured(name):
    """Under autograd, too; what gives gradients to the caller is not functionalised."""
    check(*CASES[name], always_pure=False)
