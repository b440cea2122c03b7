"""Hundreds of small programs by family against eager: results, gradients, written arguments.

A third of them runs, each in one of its modes, another one for its neighbour in the table; the
commit chooses. `--every-program` runs all in all of their modes.
"""

from __future__ import annotations

import pytest

from tests.rotation import turn

from .programs import every_program
from .programs.against import check, modes

PROGRAMS = every_program()
PARTS = 3


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = metafunc.config.getoption("--every-program")
    chosen = []
    for index, (name, program) in enumerate(PROGRAMS.items()):
        found, (place, other) = list(modes(program)), divmod(index + turn(), PARTS)
        if every or not other:
            chosen += [(name, mode) for mode in (found if every else [found[place % len(found)]])]
    metafunc.parametrize(("name", "mode"), chosen, ids=[f"{n}-{m}" for n, m in chosen])


def test_program_equals_eager(name: str, mode: str, fresh_dynamo: None) -> None:
    check(PROGRAMS[name], mode)
