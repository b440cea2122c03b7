"""Hundreds of small programs by family against eager: results, gradients, written arguments.

Each runs in one of its modes, another one for its neighbour in the table; `--every-program` runs
all of its modes.
"""

from __future__ import annotations

import pytest

from .programs import every_program
from .programs.against import check, modes

PROGRAMS = every_program()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    every = metafunc.config.getoption("--every-program")
    chosen = []
    for index, (name, program) in enumerate(PROGRAMS.items()):
        found = list(modes(program))
        chosen += [(name, mode) for mode in (found if every else [found[index % len(found)]])]
    metafunc.parametrize(("name", "mode"), chosen, ids=[f"{n}-{m}" for n, m in chosen])


def test_program_equals_eager(name: str, mode: str, fresh_dynamo: None) -> None:
    check(PROGRAMS[name], mode)
