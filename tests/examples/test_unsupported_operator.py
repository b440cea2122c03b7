"""The error for an operator without a converter has its name, the entry to add, and the graph."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from ortable import FunctionNotFoundError, to_onnx

LIBRARY = "ortable_test_unsupported"


@pytest.fixture
def soft_step() -> Iterator[object]:
    """Register the user-defined ``soft_step(Tensor x, float slope=1.) -> Tensor``."""
    library = torch.library.Library(LIBRARY, "DEF")
    library.define("soft_step(Tensor x, float slope=1.) -> Tensor")
    library.impl("soft_step", lambda x, slope=1.0: torch.sigmoid(slope * x), "CPU")
    library.impl("soft_step", lambda x, slope=1.0: torch.empty_like(x), "Meta")
    yield getattr(torch.ops, LIBRARY).soft_step
    library._destroy()


class Neuron(torch.nn.Module):
    def __init__(self, activation: object) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 1)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.activation(self.linear(x), 2.0)


def test_the_error_names_the_operator_its_line_and_the_entry_to_add(soft_step) -> None:
    with pytest.raises(FunctionNotFoundError) as exc_info:
        to_onnx(Neuron(soft_step), (torch.rand(5, 3),), input_names=["x"])
    text = str(exc_info.value)
    first = text.splitlines()[0]
    assert first.startswith(
        f"Unable to interpret function {LIBRARY}::soft_step: it has no converter, at "
        "test_unsupported_operator.py:"
    )
    assert first.endswith("(module Neuron)")
    assert exc_info.value.details.startswith(
        "Unable to interpret function <class 'torch._ops.OpOverload'>: "
        f"<OpOverload(op='{LIBRARY}.soft_step', overload='default')>, "
        f"searched for ['{LIBRARY}::soft_step'], args=(linear, 2.0)"
    )
    assert f"{LIBRARY}::soft_step, 1 call" in text
    assert "test_unsupported_operator.py" in text
    assert "return self.activation(self.linear(x), 2.0)" in text
    assert f"- op: {LIBRARY}::soft_step(Tensor x, float slope=1.) -> Tensor" in text
    assert "out: {shape: same(x), dtype: same(x)}" in text
    assert 'samples: [{x: "f32[5,1]", slope: 2.0}]' in text
    assert "ortable.load_specs" in text and "dispatcher" in text


def test_the_error_shows_the_torch_graph_and_the_place(soft_step) -> None:
    with pytest.raises(FunctionNotFoundError) as exc_info:
        to_onnx(Neuron(soft_step), (torch.rand(5, 3),), input_names=["x"])
    text = exc_info.value.graph_text
    for part in ("--DEBUG--", "--TORCH-USERS--", "--TORCH-SHAPES--", "-- process.graph_module --"):
        assert part in text
    assert "linear -> {soft_step}" in text
    assert "linear: float32[5x1]" in text
    assert f"node 4/6 target={LIBRARY}.soft_step.default" in text


def test_a_converter_given_by_the_user_is_the_remedy(soft_step) -> None:
    def convert(graph, res, x, slope=1.0):
        scaled = graph.op.Mul(x, torch.tensor(slope).numpy())
        return graph.make_node("Sigmoid", [scaled], res.outputs)

    to_onnx(
        Neuron(soft_step),
        (torch.rand(5, 3),),
        dispatcher={f"{LIBRARY}::soft_step": convert},
        validate=True,
    )
