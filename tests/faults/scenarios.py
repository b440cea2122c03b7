"""Everything of ortable that writes files, as scenarios: the files of an older state, the writing
of a newer one, and a reader that says which of the two is there. Called by the tests of this
folder."""

from __future__ import annotations

import contextlib
import functools
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper, numpy_helper

import ortable
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.autotune import decisions
from ortable.backend.cache.memory import conversions
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.backend.sessions import tune
from ortable.backend.store import Limits
from ortable.exporter.capture import pt2
from ortable.exporter.conversion import write_model
from ortable.exporter.language_models.model_folder import (
    GENAI,
    PAST_MODEL,
    PROMPT_MODEL,
    externalize_weights,
    replace_folder,
    write_json,
)
from ortable.ir.proto.large_model import save_with_shared_data

OLD, NEW, ABSENT = "state_before", "state_after", "absent"


@dataclass(frozen=True)
class Scenario:
    """``write(folder, state)`` writes a state; ``read(folder)`` says which one is there, and raises
    where it is neither: half a file, a model with the weights of another. ``after`` are the states
    that a process may leave behind that dies on the way; ``refused`` the error of a system that
    refuses, None where only a warning says so."""

    write: Callable[[Path, str], None]
    read: Callable[[Path], str]
    after: frozenset[str] = frozenset({OLD, NEW})
    refused: tuple[type[Exception], ...] | None = (OSError, ortable.OrtableError)


NUMBERS = {OLD: 1.0, NEW: 2.0}


def model(state: str) -> onnx.ModelProto:
    """y = x + two matrices, whose numbers say the state."""
    number = NUMBERS[state]
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "v"], ["z"]), helper.make_node("Add", ["z", "w"], ["y"])],
        state,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8, 48])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [8, 48])],
        [
            numpy_helper.from_array(np.full((8, 48), number, np.float32), "v"),
            numpy_helper.from_array(np.full((8, 48), 10 * number, np.float32), "w"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def model_state(path: Path) -> str:
    """Which state a model has; raises where graph and weights are of two, or not whole."""
    if not path.exists():
        return ABSENT
    state = onnx.load(path, load_external_data=False).graph.name
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.zeros((8, 48), np.float32)})
    assert (found == 11 * NUMBERS[state]).all(), "the weights of another model"
    return state


def _write_model(folder: Path, state: str) -> None:
    write_model(model(state), folder / "m.onnx")


def _write_shards(folder: Path, state: str) -> None:
    externalize_weights(model(state)).save(folder / "m.onnx", max_shard_bytes=2000)


def _write_folder(folder: Path, state: str) -> None:
    with replace_folder(folder / "lm") as staging:
        first, second = externalize_weights(model(state)), externalize_weights(model(state))
        save_with_shared_data({PROMPT_MODEL: first, PAST_MODEL: second}, staging)
        write_json(staging / GENAI, {"state": state})


def _folder_state(folder: Path) -> str:
    """Models go last, so a folder with all of its models is whole."""
    found = {model_state(folder / "lm" / name) for name in (PROMPT_MODEL, PAST_MODEL)}
    if ABSENT in found:
        return ABSENT
    (state,) = found
    assert json.loads((folder / "lm" / GENAI).read_text())["state"] == state
    return state


class Adds(torch.nn.Module):
    """Adds a number."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.number


PROGRAMS = {
    state: torch.export.export(Adds(number), (torch.ones(2),)) for state, number in NUMBERS.items()
}


def _write_pt2(folder: Path, state: str) -> None:
    pt2.save_program(PROGRAMS[state], folder / "p.pt2")


def _pt2_state(folder: Path) -> str:
    path = folder / "p.pt2"
    if not path.exists():
        return ABSENT
    value = float(torch.export.load(str(path)).module()(torch.zeros(2))[0])
    state = next(name for name, number in NUMBERS.items() if number == value)
    with contextlib.suppress(FileNotFoundError):
        text = Path(f"{path}.graph").read_text()
        assert f", {value})" in text, "the text of another program"
    return state


@functools.cache
def _compiled(state: str) -> CompiledGraph:
    """What the backend keeps of a graph."""
    found: list[CompiledGraph] = []

    def run(compiled: CompiledGraph, options: OrtOptions) -> Any:
        found.append(compiled)
        return run_with_onnxruntime(compiled, options)

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        return compile_with_autograd(graph_module, example_inputs, OrtOptions(), run)

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(Adds(NUMBERS[state]), backend=backend)(torch.ones(2))
    return found[0]


def _write_entry(folder: Path, state: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the folder does not let it
        conversions.save(str(folder), "key", _compiled(state), Limits(size=1 << 20))


def _entry_state(folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that an entry is damaged
        found = conversions.load(str(folder), "key")
    if found is None:
        return ABSENT
    return next(state for state in NUMBERS if found.model == _compiled(state).model)


def _write_settings(folder: Path, state: str) -> None:
    found = tune.SessionTuning({"intra_op_num_threads": 1}, NUMBERS[state], 3, "")
    tune.STORE.save(str(folder), "key", found)


def _settings_state(folder: Path) -> str:
    found = tune.STORE.load(str(folder), "key")
    return ABSENT if found is None else _state_of(found.ratio)


def _write_decision(folder: Path, state: str) -> None:
    decision = decisions.Decision("torch", NUMBERS[state], 1.0)
    decisions.STORE.save(str(folder), "d", decision)


def _decision_state(folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = decisions.STORE.load(str(folder), "d")
    return ABSENT if found is None else _state_of(found.onnxruntime)


def _state_of(number: float) -> str:
    return next(name for name, value in NUMBERS.items() if value == number)


def _write_picture(folder: Path, state: str) -> None:
    ortable.draw(model(state), folder / "m.json")


def _picture_state(folder: Path) -> str:
    text = json.dumps(json.loads((folder / "m.json").read_text()))
    return next(state for state in NUMBERS if state in text)


ANY = frozenset({OLD, NEW, ABSENT})

SCENARIOS = {
    "model": Scenario(_write_model, lambda folder: model_state(folder / "m.onnx")),
    "model and shards": Scenario(_write_shards, lambda folder: model_state(folder / "m.onnx")),
    "language model": Scenario(_write_folder, _folder_state, after=ANY),
    "exported program": Scenario(_write_pt2, _pt2_state),
    "cache entry": Scenario(_write_entry, _entry_state, refused=None),
    "settings of tune": Scenario(_write_settings, _settings_state, refused=None),
    "decision of autotune": Scenario(_write_decision, _decision_state, refused=None),
    "picture": Scenario(_write_picture, _picture_state),
}
