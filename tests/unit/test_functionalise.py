"""Functionalised programs do what eager does: values, writes, aliasing, strides, to the bit."""

import pytest
import torch

from tests.unit.passes_check import check
from tests.unit.writing_programs import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    with torch.no_grad():
        check(*PROGRAMS[name])
