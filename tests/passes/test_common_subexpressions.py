"""Equal initializers are merged, except mutable ones and tensors without data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ortable
from ortable import GraphBuilder, dtypes
from ortable.passes import common_subexpressions

X = np.array([-1.0, 2.0, 3.0], dtype=np.float32)


@pytest.fixture
def gr() -> GraphBuilder:
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (3,))
    return builder


def add_read_initializers(gr: GraphBuilder, *values: Any) -> list[str]:
    """Add an initializer w0, w1, ... for each value, and a node that reads it."""
    names = [gr.make_initializer(f"w{index}", value) for index, value in enumerate(values)]
    for name in names:
        gr.make_tensor_output(gr.op.Add("x", name))
    return names


def test_equal_arrays_become_the_first_of_them(gr, ort):
    add_read_initializers(gr, X, X.copy(), X + 1, X.astype(np.float64).astype(np.float32))
    expected = [a.tolist() for a in ort(gr, {"x": X})]
    assert common_subexpressions.merge_equal_initializers(gr) == 2
    assert list(gr.initializers_dict) == ["w0", "w2"]
    assert not gr.has_name("w1")
    assert [a.tolist() for a in ort(gr, {"x": X})] == expected


def test_bytes_decide_and_not_numbers(gr):
    zeros = np.zeros(3, dtype=np.float32)
    nan = np.full(3, np.nan, dtype=np.float32)
    add_read_initializers(gr, zeros, -zeros, zeros.reshape(1, 3), nan, nan.copy())
    assert common_subexpressions.merge_equal_initializers(gr) == 1
    assert list(gr.initializers_dict) == ["w0", "w1", "w2", "w3"]


def test_large_arrays_are_not_looked_into(gr):
    large = np.zeros((common_subexpressions.MAX_COMPARED_BYTES // 12 + 1, 3), dtype=np.float32)
    add_read_initializers(gr, large, large.copy(), large)
    assert common_subexpressions.merge_equal_initializers(gr) == 1
    assert list(gr.initializers_dict) == ["w0", "w1"]


def test_parameters_keep_their_names_and_buffers_are_compared_when_asked(gr):
    ones = torch.ones(3)
    weights = [torch.nn.Parameter(ones.clone(), requires_grad=False) for _ in range(2)]
    add_read_initializers(gr, *weights, ones.clone(), ones.clone())
    assert common_subexpressions.merge_equal_initializers(gr) == 0
    assert common_subexpressions.merge_equal_initializers(gr, buffers=True) == 1
    assert list(gr.initializers_dict) == ["w0", "w1", "w2"]


def test_tensors_without_data_stay(gr):
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(torch.ones(3)) for _ in range(2)]
    add_read_initializers(gr, *fakes)
    assert common_subexpressions.merge_equal_initializers(gr, buffers=True) == 0


def test_inputs_and_outputs_keep_theirs(gr):
    add_read_initializers(gr, X, X.copy())
    gr.make_tensor_output("w1")
    assert common_subexpressions.merge_equal_initializers(gr) == 0


def test_graphs_inside_read_the_one_that_stays(gr, ort):
    add_read_initializers(gr, X, X.copy())
    then, orelse = gr.subgraph("then"), gr.subgraph("else")
    then.make_tensor_output(then.make_node("Neg", ["w1"]))
    orelse.make_tensor_output(orelse.make_node("Exp", ["w0"]))
    gr.make_tensor_output(gr.op.If(np.array(True), then_branch=then, else_branch=orelse))
    assert common_subexpressions.merge_equal_initializers(gr) == 1
    assert then.nodes[0].inputs == ["w0"]
    assert ort(gr, {"x": X})[2].tolist() == (-X).tolist()


class Tables(torch.nn.Module):
    """A module with two equal buffers, two equal parameters and a tied parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("first", torch.arange(3.0))
        self.register_buffer("second", torch.arange(3.0))
        self.scale = torch.nn.Parameter(torch.full((3,), 2.0))
        self.tied = self.scale
        self.shift = torch.nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ((x + self.first) * self.scale - self.second) * self.tied + self.shift


@pytest.mark.parametrize("large", [False, True], ids=["one proto", "large"])
def test_a_module_keeps_the_names_of_its_weights(large: bool) -> None:
    model = ortable.to_onnx(Tables().eval(), (torch.ones(3),), large_model=large)
    proto = model.proto if large else model
    names = {tensor.name for tensor in proto.graph.initializer}
    assert {"first", "scale", "shift"} <= names
    assert "tied" not in names
    # a large model refers to tensors that may be modified before it is saved
    assert ("second" in names) == large
