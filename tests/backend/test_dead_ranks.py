"""When a training process dies or a compilation is rejected, all ranks end with an error."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.backend.launch import FOLDER, descendants, environment, needs_gloo, run, torchrun

pytestmark = [pytest.mark.slow, needs_gloo]

SCRIPT = FOLDER / "dead_ranks.py"
DYING_RANKS = {  # the rank that dies, by point of failure
    "convert_forward": 1, "convert_backward": 0, "forward": 0, "backward": 1, "optimizer_step": 0,
}  # fmt: skip
CONNECTION_LOST = r"RuntimeError: .*(closed by peer|reset by peer|Timed out)"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """Return the outcome of each process, by the point at which one of them failed."""
    folder = tmp_path_factory.mktemp("ranks")
    process = run([sys.executable, str(SCRIPT), str(folder)], 400)
    assert process.returncode == 0, process.stderr[-4000:]
    return json.loads((folder / "outcomes.json").read_text())


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("failure", DYING_RANKS)
def test_the_others_end_with_an_error(failure, outcomes):
    outcome, dead_rank = outcomes[failure], DYING_RANKS[failure]
    assert outcome["statuses"][dead_rank] == -signal.SIGKILL, outcome["logs"][dead_rank]
    assert outcome["statuses"][1 - dead_rank] == 1, outcome["logs"][1 - dead_rank]
    assert re.match(CONNECTION_LOST, outcome["errors"][1 - dead_rank])


# gloo's error for an operation that times out, and for others that wait at that moment.
TIMED_OUT = "RuntimeError: .*(Timed out waiting 4000ms|Application timeout caused pair closure)"


def test_nobody_waits_longer_than_the_timeout_for_one_that_has_stopped(outcomes):
    outcome = outcomes["stopped"]
    assert outcome["statuses"][0] == 1, outcome["logs"][0]
    assert re.match(TIMED_OUT, outcome["errors"][0])


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize(
    ("failure", "rank", "message"),
    [
        ("refused_forward", 1, "FunctionNotFoundError: Operator aten::relu is refused"),
        (
            "refused_backward",
            0,
            "FunctionNotFoundError: The backward of this graph cannot be compiled. Operator "
            "aten::threshold_backward is refused",
        ),
    ],
)
def test_a_refusal_is_named_and_the_others_end(failure, rank, message, outcomes):
    outcome = outcomes[failure]
    assert outcome["statuses"] == [1, 1], outcome["logs"]
    assert message in outcome["errors"][rank] and message in outcome["logs"][rank]
    assert re.match(CONNECTION_LOST, outcome["errors"][1 - rank])


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("failure", ["backward", "refused_forward"])
def test_torchrun_ends(failure, tmp_path):
    """torchrun reports the rank that failed first and ends the waiting ranks."""
    process = torchrun(SCRIPT, tmp_path, failure, processes=4, timeout=150)
    assert process.returncode == 1, process.stderr[-4000:]
    assert "ChildFailedError" in process.stderr
    if failure == "backward":
        assert re.search(r"rank +: 1 .*\n.*exitcode +: -9", process.stderr), process.stderr[-4000:]
    else:
        error = (tmp_path / "refused_forward-1.txt").read_text()
        assert "Operator aten::relu is refused" in error and error.splitlines()[1] in process.stderr


def test_no_process_is_left_where_torchrun_itself_is_told_to_end(tmp_path):
    """torchrun ends its processes if it receives SIGTERM while they start."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command += [str(SCRIPT), str(tmp_path), "stopped"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as launcher:
        deadline = time.monotonic() + 100
        workers = []
        while len(workers) < 2 and time.monotonic() < deadline:
            workers = descendants(launcher.pid)
            time.sleep(0.2)
        assert len(workers) >= 2
        launcher.terminate()
        status = launcher.wait(60)
    assert status != 0
    for worker in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)
