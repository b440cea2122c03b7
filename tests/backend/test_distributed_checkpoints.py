"""Two processes save a checkpoint of a compiled model; two, four and one load it and continue."""

from __future__ import annotations

import json

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import set_model_state_dict

from tests.backend.launch import FOLDER, needs_gloo, torchrun

pytestmark = [pytest.mark.slow, needs_gloo]

RUNS = {  # in this order: script, processes, suffix of the loaded and of the saved checkpoint
    "two": ("checkpoints_first.py", 2),
    "two_to_four": ("checkpoints_later.py", 4, "", "_four"),
    "four_to_two": ("checkpoints_later.py", 2, "_four", "_two"),
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """Return the folder of the checkpoints, and the outcome of each case in each process."""
    folder = tmp_path_factory.mktemp("checkpoints")
    outcomes, failure = {}, ""
    for name, (script, processes, *suffixes) in RUNS.items():
        (folder / name).mkdir()
        if failure:
            outcomes[name] = {"": f"the run was skipped: {failure}"}
            continue
        run = torchrun(FOLDER / script, folder / name, *suffixes, processes=processes, timeout=180)
        files = [folder / name / f"{rank}.json" for rank in range(processes)]
        outcomes[name] = {
            f"{case} in {file.stem}": text
            for file in files
            for case, text in json.loads(file.read_text() if file.exists() else "{}").items()
        }
        if run.returncode:
            failure = f"{name} failed\n{run.stderr[-3000:]}"
            outcomes[name][""] = failure
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
@pytest.mark.parametrize("suffix", ["", "_four"])
@pytest.mark.parametrize("kind", ["ddp", "fsdp_blocks", "fsdp_whole"])
def test_one_process_loads_and_compiles(kind, suffix, checkpoints, fresh_dynamo, monkeypatch):
    """A model in a single process, without a process group, uses the loaded weights."""
    monkeypatch.syspath_prepend(str(FOLDER))
    from fsdp import Model

    folder, _ = checkpoints
    model, eager = Model(), Model()
    run = torch.compile(model, backend="ortable")
    x, y = torch.randn(4, 8), torch.randn(4, 3)
    with torch.no_grad():
        run(x)
        state = {"training": {"model": model.state_dict()}}
        dcp.load(state, checkpoint_id=folder / (kind + suffix), no_dist=True)
        eager.load_state_dict(state["training"]["model"])
        set_model_state_dict(run, state["training"]["model"])  # renames the keys of the dict
        torch.testing.assert_close(run(x), eager(x), rtol=1e-4, atol=1e-5)
    nn.functional.mse_loss(run(x), y).backward()
    nn.functional.mse_loss(eager(x), y).backward()
    for (name, parameter), expected in zip(
        model.named_parameters(), eager.parameters(), strict=True
    ):
        torch.testing.assert_close(parameter.grad, expected.grad, msg=name)
