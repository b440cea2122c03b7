"""Hundreds of small programs equal eager in results, gradients and mutated arguments.

The commit selects a third of the programs and a mode for each of them. `--every-program` runs all
programs in all modes.
"""

from __future__ import annotations

import pytest

from tests.rotation import rotation_seed

from .programs import load_programs
from .programs.against import check, modes

PROGRAMS = load_programs()
PARTS = 3


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_all = metafunc.config.getoption("--every-program")
    cases = []
    for index, (name, program) in enumerate(PROGRAMS.items()):
        names, (turns, part) = list(modes(program)), divmod(index + rotation_seed(), PARTS)
        if run_all or not part:
            cases += [(name, mode) for mode in (names if run_all else [names[turns % len(names)]])]
    metafunc.parametrize(("name", "mode"), cases, ids=[f"{n}-{m}" for n, m in cases])


def test_program_equals_eager(name: str, mode: str, fresh_dynamo: None) -> None:
    check(PROGRAMS[name], mode)
