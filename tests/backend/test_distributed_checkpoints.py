"""torch.distributed.checkpoint through compiled models: two processes save, and two, four and one
load, and go on as if nobody had stopped."""

from __future__ import annotations

import json

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import set_model_state_dict

from tests.backend.launch import FOLDER, needs_gloo, torchrun

pytestmark = [pytest.mark.slow, needs_gloo]

RUNS = {  # in this order: script, processes, ending of what is loaded, of what is written
    "two": ("checkpoints_first.py", 2),
    "two_to_four": ("checkpoints_later.py", 4, "", "_four"),
    "four_to_two": ("checkpoints_later.py", 2, "_four", "_two"),
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The folder of the checkpoints, and what became of each case in each process."""
    folder = tmp_path_factory.mktemp("checkpoints")
    outcomes, failed = {}, ""
    for name, (script, processes, *endings) in RUNS.items():
        (folder / name).mkdir()
        if failed:
            outcomes[name] = {"": f"it did not run: {failed}"}
            continue
        done = torchrun(FOLDER / script, folder / name, *endings, processes=processes, timeout=180)
        files = [folder / name / f"{rank}.json" for rank in range(processes)]
        outcomes[name] = {
            f"{case} in {file.stem}": text
            for file in files
            for case, text in json.loads(file.read_text() if file.exists() else "{}").items()
        }
        if done.returncode:
            failed = f"{name} failed\n{done.stderr[-3000:]}"
            outcomes[name][""] = failed
    return folder, outcomes


@pytest.mark.alternates(parts=2)
@pytest.mark.parametrize("run", RUNS)
def test_a_training_goes_on_from_a_checkpoint(run, checkpoints):
    outcomes = checkpoints[1][run]
    assert outcomes and set(outcomes.values()) == {"ok"}, "\n".join(
        f"{name}: {text}" for name, text in outcomes.items() if text != "ok"
    )


@pytest.mark.alternates(parts=2)
@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("ending", ["", "_four"])
@pytest.mark.parametrize("kind", ["ddp", "fsdp_blocks", "fsdp_whole"])
def test_one_process_loads_and_compiles(kind, ending, checkpoints, fresh_dynamo, monkeypatch):
    """Without a process group: a model of one process has the weights, and its calls use them."""
    monkeypatch.syspath_prepend(str(FOLDER))
    from fsdp import Model

    folder, _ = checkpoints
    model, eager = Model(), Model()
    run = torch.compile(model, backend="ortable")
    x, y = torch.randn(4, 8), torch.randn(4, 3)
    with torch.no_grad():
        run(x)
        state = {"training": {"model": model.state_dict()}}
        dcp.load(state, checkpoint_id=folder / (kind + ending), no_dist=True)
        eager.load_state_dict(state["training"]["model"])
        set_model_state_dict(run, state["training"]["model"])  # which renames what is in the dict
        torch.testing.assert_close(run(x), eager(x), rtol=1e-4, atol=1e-5)
    nn.functional.mse_loss(run(x), y).backward()
    nn.functional.mse_loss(eager(x), y).backward()
    for (name, mine), theirs in zip(model.named_parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, msg=name)
