"""Two processes on this machine, gloo: DistributedDataParallel, FSDP2, collectives in the graph.
`torchrun` starts each script of `distributed/` once; every case in it is a test here."""

from __future__ import annotations

import ast
import functools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent / "distributed"
ROOT = FOLDER.parents[2]
TIMEOUT = 120

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
        reason="this build of torch has no gloo",
    ),
]


@functools.cache
def outcomes(script):
    """What became of each case of a script in each process, `{case: (text, text)}`, and the end of
    what the processes wrote."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
        command += [str(FOLDER / script), folder]
        paths = [ROOT / "runtime", ROOT / "generated", ROOT / "codegen", ROOT]
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        environment["PYTHONPATH"] = os.pathsep.join(str(path) for path in paths)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT, env=environment
            )
            written = done.stderr[-4000:]
        except subprocess.TimeoutExpired as expired:
            tail = (expired.stderr or b"")[-4000:].decode(errors="replace")
            written = f"no end after {TIMEOUT} s\n{tail}"
        files = [Path(folder) / f"{rank}.json" for rank in range(2)]
        found = [json.loads(file.read_text()) if file.exists() else {} for file in files]
    cases = {name: tuple(each.get(name) for each in found) for name in {*found[0], *found[1]}}
    return cases, written


def check(script, case):
    cases, written = outcomes(script)
    if case not in cases:
        failed = [name for name, texts in cases.items() if texts != ("ok", "ok")]
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


def every_case():
    return [
        pytest.param(script, case, id=f"{script[:-3]}-{case}")
        for script in ("collectives.py", "ddp.py", "ddp_training.py", "fsdp.py", "fsdp_frozen.py")
        for case in cases_of(script)
    ]


@pytest.mark.parametrize(("script", "case"), every_case())
def test_in_two_processes(script, case):
    check(script, case)
