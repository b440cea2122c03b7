"""A process that dies in the middle of a training: the others end with an error, soon, and torchrun
with a status; a refused compilation does the same, and is named."""

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
DIES = {  # the rank that dies, by the place
    "convert_forward": 1, "convert_backward": 0, "forward": 0, "backward": 1, "optimizer_step": 0,
}  # fmt: skip
LOST = r"RuntimeError: .*(closed by peer|reset by peer|Timed out)"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What became of each process, by the place at which one of them died."""
    folder = tmp_path_factory.mktemp("ranks")
    done = run([sys.executable, str(SCRIPT), str(folder)], 400)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "outcomes.json").read_text())


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("place", DIES)
def test_the_others_end_with_an_error(place, outcomes):
    told, dead = outcomes[place], DIES[place]
    assert told["statuses"][dead] == -signal.SIGKILL, told["logs"][dead]
    assert told["statuses"][1 - dead] == 1, told["logs"][1 - dead]
    assert re.match(LOST, told["errors"][1 - dead])


# What the operation that waited raises in gloo, and what it makes the others raise that wait.
TIMED_OUT = "RuntimeError: .*(Timed out waiting 4000ms|Application timeout caused pair closure)"


def test_nobody_waits_longer_than_the_timeout_for_one_that_has_stopped(outcomes):
    told = outcomes["stopped"]
    assert told["statuses"][0] == 1, told["logs"][0]
    assert re.match(TIMED_OUT, told["errors"][0])


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize(
    ("place", "rank", "said"),
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
def test_a_refusal_is_named_and_the_others_end(place, rank, said, outcomes):
    told = outcomes[place]
    assert told["statuses"] == [1, 1], told["logs"]
    assert said in told["errors"][rank] and said in told["logs"][rank]
    assert re.match(LOST, told["errors"][1 - rank])


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("place", ["backward", "refused_forward"])
def test_torchrun_ends(place, tmp_path):
    """torchrun tells who failed first, and ends those that wait."""
    done = torchrun(SCRIPT, tmp_path, place, processes=4, timeout=150)
    assert done.returncode == 1, done.stderr[-4000:]
    assert "ChildFailedError" in done.stderr
    if place == "backward":
        assert re.search(r"rank +: 1 .*\n.*exitcode +: -9", done.stderr), done.stderr[-4000:]
    else:
        said = (tmp_path / "refused_forward-1.txt").read_text()
        assert "Operator aten::relu is refused" in said and said.splitlines()[1] in done.stderr


def test_no_process_is_left_where_torchrun_itself_is_told_to_end(tmp_path):
    """SIGTERM to torchrun, while its processes start."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    command += [str(SCRIPT), str(tmp_path), "stopped"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as started:
        end = time.monotonic() + 100
        workers = []
        while len(workers) < 2 and time.monotonic() < end:
            workers = descendants(started.pid)
            time.sleep(0.2)
        assert len(workers) >= 2
        started.terminate()
        status = started.wait(60)
    assert status != 0
    for process in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)
