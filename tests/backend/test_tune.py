"""Option `tune` searches settings: with fake sessions of fixed speed, and with a real session."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from onnx import ModelProto, TensorProto, helper

import ortable_generated.sessions as tables
from ortable.backend.sessions import tune
from ortable.backend.sessions.tune import make_sample_inputs, tuned_settings
from ortable.errors import OptionError


def make_relu(*sizes: int | str) -> ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, sizes)
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph)


class FakeSessionFactory:
    """A factory of sessions whose calls take a time that depends on the settings."""

    requested: list[dict[str, Any]]

    def __init__(self) -> None:
        self.requested = []

    def __call__(self, settings: Mapping[str, Any]) -> Any:
        self.requested.append(dict(settings))
        seconds = 0.004
        is_wrong = settings.get("wrong") == 1
        seconds -= 0.002 * (settings.get("good") == 1) + 0.003 * is_wrong
        if settings.get("refused") == 1:
            raise RuntimeError("no such value")

        def run(_: Any, feeds: Mapping[str, Any]) -> list[Any]:
            time.sleep(seconds)
            return [np.maximum(feeds["x"], 0) + is_wrong]

        return SimpleNamespace(get_inputs=lambda: [SimpleNamespace(name="x")], run=run)


@pytest.fixture
def search_table(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("good", "wrong", "refused")
    monkeypatch.setattr(tables, "SEARCHED", dict.fromkeys(names, (1,)))
    monkeypatch.setattr(tables, "RANGES", dict.fromkeys(names, (0, 1)))
    tune.STORE.clear()


@pytest.mark.usefixtures("search_table")
def test_what_is_faster_and_right_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    factory = FakeSessionFactory()
    tuning = tuned_settings(make_relu(2, 3), factory, {}, 30, str(tmp_path))
    assert tuning.settings == {"good": 1} and tuning.ratio < 0.9 and tuning.found == "searched"
    assert {"wrong": 1} in factory.requested or {"good": 1, "wrong": 1} in factory.requested
    # the same process, then a new process, then one with an invalid file
    unused_factory = FakeSessionFactory()
    assert tuned_settings(make_relu(2, 3), unused_factory, {}, 30, str(tmp_path)).found == "memory"
    tune.STORE.clear()
    assert tuned_settings(make_relu(2, 3), unused_factory, {}, 30, str(tmp_path)).found == "disk"
    assert not unused_factory.requested
    (entry,) = tmp_path.glob("*.tuned.json")
    for content in ('{"settings": {"good": 7}, "ratio": 0.5, "tried": 1}', "[]", "{"):
        entry.write_text(content)
        tune.STORE.clear()
        with pytest.warns(RuntimeWarning, match="measured again"):
            assert (
                tuned_settings(make_relu(2, 3), factory, {}, 0.2, str(tmp_path)).found == "searched"
            )


@pytest.mark.usefixtures("search_table")
def test_settings_of_the_user_are_not_searched() -> None:
    factory = FakeSessionFactory()
    assert tuned_settings(make_relu(2, 3), factory, {"good": 0}, 5).settings == {}
    assert not any("good" in settings for settings in factory.requested)


def test_free_sizes_are_not_tuned() -> None:
    assert make_sample_inputs(make_relu("n", 3)) == "not tuned: x has a size that is not fixed"
    tuning = tuned_settings(make_relu("n", 3), FakeSessionFactory(), {}, 5)
    assert tuning.settings == {} and "not fixed" in tuning.found


def test_a_compiled_model_is_tuned_and_says_so() -> None:
    net, x, storage = torch.nn.Linear(4, 3).eval(), torch.randn(2, 4), {}
    torch.compiler.reset()
    compiled = torch.compile(net, backend="ortable", options={"tune": 0.3, "storage": storage})
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), net(x))
    assert storage["instance"][0].tuned["found"] == "searched"


def test_a_graph_with_free_sizes_says_once_that_it_is_not_tuned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tune, "_warned", False)

    def get_warnings(**extra_options: Any) -> list[str]:
        torch.compiler.reset()
        storage: dict[str, Any] = {}
        options = {"tune": 0.1, "storage": storage, **extra_options}
        compiled = torch.compile(
            torch.nn.Linear(4, 3).eval(), backend="ortable", dynamic=True, options=options
        )
        with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            compiled(torch.randn(2, 4))
        assert "not fixed" in storage["instance"][0].tuned["found"]
        return [str(warning.message) for warning in caught if "'tune'" in str(warning.message)]

    assert get_warnings(hints=False) == []
    (message,) = get_warnings()
    assert "a size that is not fixed" in message and "dynamic=False" in message
    assert get_warnings() == []


@pytest.mark.parametrize("value", [0, -1, True, "long"])
def test_seconds_are_a_number_above_zero(value: Any) -> None:
    from ortable import OrtOptions

    with pytest.raises(OptionError, match="seconds"):
        OrtOptions(tune=value)


def test_an_object_of_the_user_is_not_tuned() -> None:
    import onnxruntime

    from ortable import OrtOptions

    with pytest.raises(OptionError, match="dict of settings"):
        OrtOptions(tune=1.0, session_options=onnxruntime.SessionOptions())
