"""examples/ddp.py, started by torchrun: the gradients of two processes are those of one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this build of torch has no gloo",
)
def test_two_processes() -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    paths = (ROOT / "runtime", ROOT / "generated", ROOT / "codegen", ROOT)
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(map(str, paths)))
    done = subprocess.run(
        [*command, str(ROOT / "examples" / "ddp.py")],
        capture_output=True, text=True, timeout=120, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(2):
        assert f"process {rank} of 2: 4 rows, graphs forward, backward, " in done.stdout
    differences = [float(n) for n in re.findall(r"of one process by (\S+)", done.stdout)]
    assert len(differences) == 2 and max(differences) < 1e-6
