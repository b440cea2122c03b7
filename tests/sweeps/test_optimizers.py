"""Every program whose graph could hold a pattern that an optimizer of ONNX Runtime gets wrong."""

from __future__ import annotations

import pytest

from tests.optimizers import programs
from tests.optimizers.programs import Program, check_program

FAMILIES = ("ORDERS", "PADS", "POOLS", "NUMBERS", "PRODUCTS", "SIZES")
ALL = [program for family in FAMILIES for program in getattr(programs, family)]


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("program", ALL, ids=lambda each: each.name)
def test_exported_programs_equal_eager(program: Program):
    check_program(program)
