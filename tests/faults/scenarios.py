"""Scenarios for each part of ortable that writes files: write a state, read which state exists."""

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
    """Functions that write and read a state, and the allowed outcomes of failures.

    ``read`` returns the state of the files and raises if they are incomplete or inconsistent. A
    failed file operation raises ``error_types``, or only warns if None.
    """

    write: Callable[[Path, str], None]
    read: Callable[[Path], str]
    states_after_crash: frozenset[str] = frozenset({OLD, NEW})
    error_types: tuple[type[Exception], ...] | None = (OSError, ortable.OrtableError)


STATE_VALUES = {OLD: 1.0, NEW: 2.0}


def make_model(state: str) -> onnx.ModelProto:
    """Make a model y = x + two matrices, whose values identify the state."""
    number = STATE_VALUES[state]
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


def read_model_state(path: Path) -> str:
    """Return the state of a model; raise if its graph and weights are of different states."""
    if not path.exists():
        return ABSENT
    state = onnx.load(path, load_external_data=False).graph.name
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {"x": np.zeros((8, 48), np.float32)})
    assert (result == 11 * STATE_VALUES[state]).all(), "the weights are those of another state"
    return state


def _write_model(folder: Path, state: str) -> None:
    write_model(make_model(state), folder / "m.onnx")


def _write_shards(folder: Path, state: str) -> None:
    externalize_weights(make_model(state)).save(folder / "m.onnx", max_shard_bytes=2000)


def _write_folder(folder: Path, state: str) -> None:
    with replace_folder(folder / "lm") as staging:
        first, second = (
            externalize_weights(make_model(state)),
            externalize_weights(make_model(state)),
        )
        save_with_shared_data({PROMPT_MODEL: first, PAST_MODEL: second}, staging)
        write_json(staging / GENAI, {"state": state})


def _read_folder(folder: Path) -> str:
    """Return the state of a folder, which is complete if the models exist: they come last."""
    states = {read_model_state(folder / "lm" / name) for name in (PROMPT_MODEL, PAST_MODEL)}
    if ABSENT in states:
        return ABSENT
    (state,) = states
    assert json.loads((folder / "lm" / GENAI).read_text())["state"] == state
    return state


class Add(torch.nn.Module):
    """A module that adds a number."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.number


PROGRAMS = {
    state: torch.export.export(Add(number), (torch.ones(2),))
    for state, number in STATE_VALUES.items()
}


def _write_pt2(folder: Path, state: str) -> None:
    pt2.save_program(PROGRAMS[state], folder / "p.pt2")


def _read_pt2(folder: Path) -> str:
    path = folder / "p.pt2"
    if not path.exists():
        return ABSENT
    value = float(torch.export.load(str(path)).module()(torch.zeros(2))[0])
    state = next(name for name, number in STATE_VALUES.items() if number == value)
    with contextlib.suppress(FileNotFoundError):
        text = Path(f"{path}.graph").read_text()
        assert f", {value})" in text, "the text is that of another program"
    return state


@functools.cache
def compile_graph(state: str) -> CompiledGraph:
    """Compile a graph and return what the backend stores of it."""
    compiled_graphs: list[CompiledGraph] = []

    def record_graph(compiled: CompiledGraph, options: OrtOptions) -> Any:
        compiled_graphs.append(compiled)
        return run_with_onnxruntime(compiled, options)

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        return compile_with_autograd(graph_module, example_inputs, OrtOptions(), record_graph)

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(Add(STATE_VALUES[state]), backend=backend)(torch.ones(2))
    return compiled_graphs[0]


def _write_entry(folder: Path, state: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a folder without write access
        conversions.save(str(folder), "key", compile_graph(state), Limits(size=1 << 20))


def _read_entry(folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a damaged entry
        entry = conversions.load(str(folder), "key")
    if entry is None:
        return ABSENT
    return next(state for state in STATE_VALUES if entry.model == compile_graph(state).model)


def _write_settings(folder: Path, state: str) -> None:
    tuning = tune.SessionTuning({"intra_op_num_threads": 1}, STATE_VALUES[state], 3, "")
    tune.STORE.save(str(folder), "key", tuning)


def _read_settings(folder: Path) -> str:
    tuning = tune.STORE.load(str(folder), "key")
    return ABSENT if tuning is None else _find_state(tuning.ratio)


def _write_decision(folder: Path, state: str) -> None:
    decision = decisions.Decision("torch", {"onnxruntime": STATE_VALUES[state], "torch": 1.0})
    decisions.STORE.save(str(folder), "d", decision)


def _read_decision(folder: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        decision = decisions.STORE.load(str(folder), "d")
    return ABSENT if decision is None else _find_state(decision.seconds["onnxruntime"])


def _find_state(number: float) -> str:
    return next(name for name, value in STATE_VALUES.items() if value == number)


def _write_picture(folder: Path, state: str) -> None:
    ortable.draw(make_model(state), folder / "m.json")


def _read_picture(folder: Path) -> str:
    text = json.dumps(json.loads((folder / "m.json").read_text()))
    return next(state for state in STATE_VALUES if state in text)


ANY_STATE = frozenset({OLD, NEW, ABSENT})

SCENARIOS = {
    "model": Scenario(_write_model, lambda folder: read_model_state(folder / "m.onnx")),
    "model and shards": Scenario(_write_shards, lambda folder: read_model_state(folder / "m.onnx")),
    "language model": Scenario(_write_folder, _read_folder, states_after_crash=ANY_STATE),
    "exported program": Scenario(_write_pt2, _read_pt2),
    "cache entry": Scenario(_write_entry, _read_entry, error_types=None),
    "settings of tune": Scenario(_write_settings, _read_settings, error_types=None),
    "decision of autotune": Scenario(_write_decision, _read_decision, error_types=None),
    "picture": Scenario(_write_picture, _read_picture),
}
