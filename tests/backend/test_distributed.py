"""Several processes on this machine, gloo: DistributedDataParallel, FSDP2, collectives in the
graph. `torchrun` starts each script of `distributed/` once for each number of processes; every case
in it is a test here."""

from __future__ import annotations

import ast
import functools
import json
import tempfile
from pathlib import Path

import pytest

from tests.backend.launch import FOLDER, needs_gloo, torchrun
from tests.rotation import turn

TIMEOUT = 180

# Each script, and the numbers of processes that it runs with.
SCRIPTS = {
    "collectives.py": (2,),
    "ddp.py": (2,),
    "ddp_training.py": (2, 4),
    "ddp_steps.py": (2, 4),
    "fsdp.py": (2, 4),
    "fsdp_frozen.py": (2,),
    "fsdp_steps.py": (2, 4),
    "meshes.py": (4,),
    "shared_cache.py": (4,),
}

pytestmark = [pytest.mark.slow, needs_gloo]


@functools.cache
def outcomes(script, processes):
    """What became of each case of a script in each process, `{case: (text, text, ...)}`, and the
    end of what the processes wrote."""
    with tempfile.TemporaryDirectory() as folder:
        done = torchrun(FOLDER / script, folder, processes=processes, timeout=TIMEOUT)
        files = [Path(folder) / f"{rank}.json" for rank in range(processes)]
        found = [json.loads(file.read_text()) if file.exists() else {} for file in files]
    names = {name: None for each in found for name in each}
    cases = {name: tuple(each.get(name) for each in found) for name in names}
    return cases, done.stderr[-4000:]


def check(script, case, processes):
    cases, written = outcomes(script, processes)
    if case not in cases:
        failed = [name for name, texts in cases.items() if set(texts) != {"ok"}]
        if failed:
            pytest.fail(f"{case} was not reached: {', '.join(failed)} failed before it")
        pytest.fail(f"no process came to {case}:\n{written}")
    for rank, text in enumerate(cases[case]):
        if text not in ("ok", None):
            pytest.fail(f"process {rank}:\n{text}")
    if None in cases[case]:
        pytest.fail(f"process {cases[case].index(None)} did not end {case}:\n{written}")


def cases_of(script):
    """Names of the cases of a script, read from its text: nothing is imported here."""
    for statement in ast.parse((FOLDER / script).read_text()).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "CASES":
            return [name.id for name in statement.value.elts]
    raise AssertionError(f"{script} has no CASES")


def pytest_generate_tests(metafunc):
    """Every second script runs, and of two numbers of processes one; the commit chooses both, and
    ``--every-program`` asks for all."""
    every = metafunc.config.getoption("--every-program")
    chosen = [
        pytest.param(script, case, processes, id=f"{script[:-3]}-{case}-{processes}")
        for place, (script, numbers) in enumerate(SCRIPTS.items())
        if every or (place + turn() // 2) % 2 == 0
        for processes in (numbers if every else [numbers[(place + turn()) % len(numbers)]])
        for case in cases_of(script)
    ]
    metafunc.parametrize(("script", "case", "processes"), chosen)


def test_in_several_processes(script, case, processes):
    check(script, case, processes)
