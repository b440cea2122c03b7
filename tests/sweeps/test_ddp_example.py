"""The multi-process examples under torchrun: equal gradients, and restart after a process dies."""

from __future__ import annotations

import re

from tests.backend.launch import ROOT, needs_gloo, torchrun

pytestmark = needs_gloo


def test_two_processes() -> None:
    process = torchrun(ROOT / "examples" / "ddp.py", processes=2, timeout=120)
    assert process.returncode == 0, process.stderr[-4000:]
    for rank in range(2):
        assert f"process {rank} of 2: 4 rows, graphs forward, backward, " in process.stdout
    differences = [float(n) for n in re.findall(r"of one process by (\S+)", process.stdout)]
    assert len(differences) == 2 and max(differences) < 1e-6


def test_a_training_goes_on_after_a_death(tmp_path) -> None:
    """Restarted processes load a checkpoint and cached graphs, and end with the same weights."""
    process = torchrun(
        ROOT / "examples" / "ddp_restart.py",
        processes=2,
        timeout=180,
        settings=["--rdzv-id", "of-a-test", "--max-restarts", "1"],
        TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1",
        TMPDIR=str(tmp_path),
    )
    assert process.returncode == 0, process.stderr[-4000:]
    assert "exitcode: -9" in process.stderr
    for rank in range(2):
        assert (
            f"process {rank}, life 2: began with epoch 3, graphs found: disk, "
            "weights are those of a training without a death: True"
        ) in process.stdout
    assert not list(tmp_path.glob("ddp-restart-*"))
