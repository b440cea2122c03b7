"""DistributedDataParallel, FSDP2 and collectives in graphs, in several processes with gloo."""

from __future__ import annotations

import ast
import functools
import json
import tempfile
from pathlib import Path

import pytest

from tests.backend.launch import FOLDER, needs_gloo, torchrun
from tests.rotation import rotation_seed

TIMEOUT = 180

# Scripts and the numbers of processes that each runs with.
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
def run_script(script, processes):
    """Return a script's outcomes, `{case: (text of rank 0, ...)}`, and the end of its stderr."""
    with tempfile.TemporaryDirectory() as folder:
        process = torchrun(FOLDER / script, folder, processes=processes, timeout=TIMEOUT)
        files = [Path(folder) / f"{rank}.json" for rank in range(processes)]
        reports = [json.loads(file.read_text()) if file.exists() else {} for file in files]
    names = {name: None for report in reports for name in report}
    cases = {name: tuple(report.get(name) for report in reports) for name in names}
    return cases, process.stderr[-4000:]


def check_case(script, case, processes):
    cases, output = run_script(script, processes)
    if case not in cases:
        failed = [name for name, texts in cases.items() if set(texts) != {"ok"}]
        if failed:
            pytest.fail(f"{case} was not reached: {', '.join(failed)} failed before it")
        pytest.fail(f"no process reached {case}:\n{output}")
    for rank, text in enumerate(cases[case]):
        if text not in ("ok", None):
            pytest.fail(f"process {rank}:\n{text}")
    if None in cases[case]:
        pytest.fail(f"process {cases[case].index(None)} did not finish {case}:\n{output}")


def read_case_names(script):
    """Return the names of a script's cases by parsing it, without an import."""
    for statement in ast.parse((FOLDER / script).read_text()).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "CASES":
            return [name.id for name in statement.value.elts]
    raise AssertionError(f"{script} has no CASES")


def pytest_generate_tests(metafunc):
    """Select scripts and numbers of processes by the commit, or all with `--every-program`."""
    select_all = metafunc.config.getoption("--every-program")
    parameters = [
        pytest.param(script, case, processes, id=f"{script[:-3]}-{case}-{processes}")
        for index, (script, numbers) in enumerate(SCRIPTS.items())
        if select_all or (index + rotation_seed() // 2) % 2 == 0
        for processes in (
            numbers if select_all else [numbers[(index + rotation_seed()) % len(numbers)]]
        )
        for case in read_case_names(script)
    ]
    metafunc.parametrize(("script", "case", "processes"), parameters)


def test_in_several_processes(script, case, processes):
    check_case(script, case, processes)
