"""The examples of several processes, started by torchrun: the gradients of two processes are those
of one, and a training in which a process dies goes on by itself."""

from __future__ import annotations

import re

from tests.backend.launch import ROOT, needs_gloo, torchrun

pytestmark = needs_gloo


def test_two_processes() -> None:
    done = torchrun(ROOT / "examples" / "ddp.py", processes=2, timeout=120)
    assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(2):
        assert f"process {rank} of 2: 4 rows, graphs forward, backward, " in done.stdout
    differences = [float(n) for n in re.findall(r"of one process by (\S+)", done.stdout)]
    assert len(differences) == 2 and max(differences) < 1e-6


def test_a_training_goes_on_after_a_death(tmp_path) -> None:
    """From its latest checkpoint, in processes that convert nothing, to the same weights."""
    done = torchrun(
        ROOT / "examples" / "ddp_restart.py",
        processes=2,
        timeout=180,
        settings=["--rdzv-id", "of-a-test", "--max-restarts", "1"],
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
        TMPDIR=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "exitcode: -9" in done.stderr
    for rank in range(2):
        assert (
            f"process {rank}, life 2: began with epoch 3, graphs found: disk, "
            "weights are those of a training without a death: True"
        ) in done.stdout
    assert not list(tmp_path.glob("ddp-restart-*"))
