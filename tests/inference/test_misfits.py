"""`make_node` refuses inputs and attributes that do not fit, and names their shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.errors import BuilderError

_HEADS = {"q_num_heads": 2, "kv_num_heads": 2}
_SHAPES = (1, 3, 4, 4), (3, 1, 2, 2)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes", "message"),
    [
        ("Attention", [(1, 2, 3, 8), (1, 2, 3, 8), (1, 3, 16)], {},
         r"of the same rank, 3 or 4, not \[1, 2, 3, 8\], \[1, 2, 3, 8\] and \[1, 3, 16\]"),
        ("Attention", [(1, 2, 3, 8), (1, 3, 16), (1, 2, 3, 8)], {}, "Q, K and V of the same rank"),
        ("Attention", [(3, 8)] * 3, _HEADS, "Q, K and V of the same rank, 3 or 4"),
        ("Attention", [(1, 3, 16)] * 3, {}, "rank 3 needs q_num_heads and kv_num_heads"),
        ("Attention", [(1, 3, 16)] * 3, {"q_num_heads": 2}, "needs q_num_heads and kv_num_heads"),
        ("Conv", [(1, 3, 4, 4), (2, 3, 2, 2)], {"strides": [1, 2, 3]},
         r"strides \[1, 2, 3\] must hold 2 numbers, one per side of each spatial axis"),
        ("MaxPool", [(1, 3, 4, 4)], {"kernel_shape": [2, 2], "pads": [1, 1]},
         r"pads \[1, 1\] must hold 4 numbers"),
        ("MaxPool", [(1, 3, 4, 4)], {"kernel_shape": [2, 2, 2]},
         r"kernel \[2, 2, 2\] does not fit an input of shape \[1, 3, 4, 4\]"),
        ("ConvTranspose", [(1, 2, 4, 4), (3, 1, 2, 2)], {},
         r"input \[1, 2, 4, 4\] and weight \[3, 1, 2, 2\] do not fit"),
        ("ConvTranspose", [(1, 3, 4), (3, 1, 2, 2)], {}, "do not fit"),
        ("ConvTranspose", [*_SHAPES], {"output_padding": [1]}, r"output_padding \[1\] must hold 2"),
        ("DepthToSpace", [(4, 2, 2)], {"blocksize": 2}, r"rank 4, not \[4, 2, 2\]"),
        ("SpaceToDepth", [(4, 2, 2)], {"blocksize": 2}, r"rank 4, not \[4, 2, 2\]"),
        ("GridSample", [(1, 1, 4, 4), (1, 2, 2, 2, 3)], {},
         r"input \[1, 1, 4, 4\] and grid \[1, 2, 2, 2, 3\] must have the same rank"),
        ("Tile", [(2, 3), np.array([2])], {}, r"one repeat per axis of \[2, 3\], not \[2\]"),
        ("Reshape", [(2, 3), np.array([3, 2, 0])], {}, r"no dim 2 to copy in \[2, 3\]"),
        ("GatherND", [(2, 3), np.array([[0, 1, 2]])], {}, r"\[1, 3\] pick 3 axes of \[2, 3\]"),
        ("Split", [(6,), np.array([1, 2, 3])], {"outputs": 2},
         r"Split into \[1, 2, 3\] has 3 parts for 2 outputs"),
        ("Split", [(6,), np.array([1, 2])], {"outputs": 2}, "does not add up to axis 0"),
        ("CenterCropPad", [(2, 3), np.array([2])], {},
         r"CenterCropPad of \[2, 3\] needs 2 sizes, not \[2\]"),
    ],
)  # fmt: skip
def test_a_node_that_does_not_fit_is_refused_with_its_shapes(
    op_type: str, inputs: list[Any], attributes: dict[str, Any], message: str
) -> None:
    builder = GraphBuilder(23)
    names = [
        builder.make_tensor_input(f"x{index}", dtypes.float32, shape_or_array)
        if isinstance(shape_or_array, tuple)
        else builder.make_initializer("", shape_or_array)
        for index, shape_or_array in enumerate(inputs)
    ]
    outputs = attributes.get("outputs", 1)
    node_attributes = {name: value for name, value in attributes.items() if name != "outputs"}
    with pytest.raises(BuilderError, match=message) as caught:
        builder.make_node(op_type, names, outputs, **node_attributes)
    assert f"Operator '{op_type}' (domain '', opset 23) cannot be added" in str(caught.value)
    assert builder.nodes == []


def test_element_types_that_a_library_lacks_are_named() -> None:
    with pytest.raises(BuilderError, match="An element of type string has no fixed size"):
        dtypes.itemsize(dtypes.string)
    with pytest.raises(BuilderError, match="Element type string has no torch equivalent"):
        dtypes.to_torch(dtypes.string)
    with pytest.raises(BuilderError, match=r"numpy dtype datetime64\[s\] has no ONNX element type"):
        dtypes.from_numpy(np.dtype("datetime64[s]"))
    with pytest.raises(BuilderError, match="Element type undefined has no numpy equivalent"):
        dtypes.to_numpy(dtypes.undefined)


def test_an_array_of_dates_is_no_initializer() -> None:
    dates = np.array(["2020-01-01"], dtype="datetime64[s]")
    with pytest.raises(BuilderError, match=r"datetime64\[s\] has no ONNX element type"):
        GraphBuilder(18).make_initializer("dates", dates)
