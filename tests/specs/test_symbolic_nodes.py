"""torch.onnx.ops.symbolic: the model contains the node that the user writes."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
import torch
from onnx.helper import get_attribute_value

import ortable
from ortable.errors import UnsupportedCase


class SymbolicNodes(torch.nn.Module):
    def __init__(self, version: int | None = 3) -> None:
        super().__init__()
        self.version = version

    def forward(self, x: torch.Tensor) -> Any:
        attributes = {"i": 1, "f": 1.5, "s": "hey", "is": [1, 2], "fs": [1.5], "ss": ["a", "b"]}
        one = torch.onnx.ops.symbolic(
            "custom::One", (x, None, x), attributes, dtype=torch.float16, shape=(x.shape[0], 4),
            version=self.version,
        )  # fmt: skip
        two = torch.onnx.ops.symbolic_multi_out(
            "custom::Two", (one,), {}, dtypes=(torch.int64, torch.bool),
            shapes=((2,), (x.shape[0],)), version=3,
        )  # fmt: skip
        return one, *two


def convert(module: torch.nn.Module) -> onnx.ModelProto:
    sizes = ({0: torch.export.Dim("n")},)
    return ortable.to_onnx(module, (torch.rand(3, 2),), dynamic_shapes=sizes)


def test_nodes_of_another_domain_stand_in_the_model() -> None:
    model = convert(SymbolicNodes())
    one, two = model.graph.node
    assert (one.domain, one.op_type, list(one.input)) == ("custom", "One", ["x", "", "x"])
    assert (two.domain, two.op_type, len(two.output)) == ("custom", "Two", 2)
    attributes = {a.name: get_attribute_value(a) for a in one.attribute}
    expected = {"i": 1, "f": 1.5, "s": b"hey", "is": [1, 2], "fs": [1.5], "ss": [b"a", b"b"]}
    assert attributes == expected
    assert {row.domain: row.version for row in model.opset_import}["custom"] == 3
    types = [value.type.tensor_type for value in model.graph.output]
    assert [t.elem_type for t in types] == [10, 7, 9]
    assert [d.dim_param or d.dim_value for d in types[0].shape.dim] == ["n", 4]


def test_two_versions_of_one_domain_are_refused() -> None:
    with pytest.raises(UnsupportedCase, match=r"in version 3, but this model has .* version 2"):
        convert(SymbolicNodes(version=2))
