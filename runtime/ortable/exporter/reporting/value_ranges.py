"""Measure the range of the float32 values of a model on example inputs.

ONNX Runtime reduces each value to one number, so that no value has to be stored. Called by
`quantization_report.py`, for models that become float16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from ortable.builder import GraphBuilder
from ortable.exporter.reporting.numeric_diff import intermediate_results
from ortable.ir.proto.large_model import LargeModel
from ortable.passes.float16_plan import is_float32

_PREFIX = "range:"  # prefix of the names that are added to the model
# A zero joins each value, since ONNX Runtime reduces no empty tensor.
_NODES = (
    ("Abs", ("{}",), "abs", {}),
    ("IsInf", ("abs",), "is_infinite", {}),
    ("Where", ("is_infinite", "*zero", "abs"), "finite", {}),
    ("Reshape", ("finite", "*flat"), "vector", {}),
    ("Concat", ("vector", "*zeros"), "joined", {"axis": 0}),
    ("ReduceMax", ("joined",), "largest", {"keepdims": 0}),
)


def measure_ranges(
    builder: GraphBuilder, model: LargeModel, feeds: Mapping[str, Any]
) -> dict[str, float]:
    """Return the largest finite magnitude of each float32 value of the main graph, by name.

    Args:
        builder: the graph of ``model``.
        model: the model to run; it is not changed.
        feeds: the example inputs.
    """
    names = [info.name for info in builder.inputs]
    names += [name for node in builder.nodes for name in node.outputs]
    names = [name for name in dict.fromkeys(names) if is_float32(builder, name)]
    results = intermediate_results(
        _add_reductions(model, names), feeds, [f"{_PREFIX}largest:{name}" for name in names]
    )
    return dict(zip(names, map(float, results.values()), strict=True))


def _add_reductions(model: LargeModel, names: Sequence[str]) -> LargeModel:
    proto = onnx.ModelProto()
    proto.CopyFrom(model.session_proto())
    constants = {
        "zero": np.zeros((), np.float32),
        "zeros": np.zeros(1, np.float32),
        "flat": np.full(1, -1, np.int64),
    }
    for key, value in constants.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(value, f"{_PREFIX}{key}"))
    for name in names:
        for op_type, inputs, output, attrs in _NODES:
            sources = [
                name if item == "{}" else
                f"{_PREFIX}{item[1:]}" if item[0] == "*" else f"{_PREFIX}{item}:{name}"
                for item in inputs
            ]  # fmt: skip
            results = [f"{_PREFIX}{output}:{name}"]
            proto.graph.node.append(helper.make_node(op_type, sources, results, **attrs))
    del proto.graph.output[:]
    proto.graph.output.extend(
        helper.make_tensor_value_info(f"{_PREFIX}largest:{name}", TensorProto.FLOAT, ())
        for name in names
    )
    return LargeModel(proto, model.tensors)
