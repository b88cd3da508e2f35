"""`PROGRAMS`, by name: (make, inputs)."""

from tests.unit.programs import given, operators, views
from tests.unit.programs.registry import PROGRAMS

__all__ = ["PROGRAMS", "given", "operators", "views"]
