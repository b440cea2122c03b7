"""Training in two processes by accelerate and Lightning ends with the weights of eager in one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from tests.backend.launch import FOLDER, needs_gloo, run

pytestmark = needs_gloo


def accelerate(folder: Path, backend: str, processes: int) -> list[str]:
    """Return the command of accelerate that runs the script.

    `--multi_gpu` makes it start torchrun, since `--cpu` starts only one process. The script's
    `Accelerator(cpu=True)` selects gloo.
    """
    command = [sys.executable, "-m", "accelerate.commands.launch", "--num_machines", "1"]
    command += ["--num_processes", str(processes), "--mixed_precision", "no"]
    command += ["--dynamo_backend", backend, "--num_cpu_threads_per_process", "1"]
    command += ["--multi_gpu", "--main_process_port", "0"] if processes > 1 else ["--cpu"]
    return [*command, str(FOLDER / "launched_accelerate.py"), str(folder)]


def lightning(folder: Path, backend: str, processes: int) -> list[str]:
    script = str(FOLDER / "launched_lightning.py")
    return [sys.executable, script, str(folder), backend, str(processes)]


@pytest.mark.parametrize("launcher", [accelerate, lightning])
def test_two_processes_end_with_the_weights_of_one(launcher, tmp_path) -> None:
    name = "onnxrt" if launcher is accelerate else "ortable"
    reports = {}
    for backend, processes in (("no", 1), (name, 2)):
        folder = tmp_path / backend
        folder.mkdir()
        process = run(launcher(folder, backend, processes), 150)
        assert process.returncode == 0, process.stderr[-9000:]
        reports[backend] = [torch.load(folder / f"{rank}.pt") for rank in range(processes)]
    [expected] = reports["no"]
    assert expected["graphs"] == 0 and expected["processes"] == 1
    for out in reports[name]:
        assert out["graphs"] >= 1 and out["processes"] == 2
        assert out["weights"].keys() == expected["weights"].keys()
        for key, value in expected["weights"].items():
            torch.testing.assert_close(
                out["weights"][key], value, rtol=2e-3, atol=1e-4, msg=lambda m, k=key: f"{k}: {m}"
            )
