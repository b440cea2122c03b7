"""All programs that could match a pattern that an ONNX Runtime optimizer handles wrongly."""

from __future__ import annotations

import pytest

from tests.optimizers import programs
from tests.optimizers.programs import Program, check_program

FAMILIES = ("ORDERS", "PADS", "POOLS", "NUMBERS", "PRODUCTS", "SIZES")
PROGRAMS = [program for family in FAMILIES for program in getattr(programs, family)]


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_exported_programs_equal_eager(program: Program):
    check_program(program)
