"""Measure the range of the float32 values of a model on example inputs.

ONNX Runtime reduces each value to one number, so that no value has to be stored. Called by
`quantization_report.py`, for models that become float16.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import TensorProto, helper

from ortable.builder import GraphBuilder
from ortable.exporter.reporting.numeric_diff import intermediate_results
from ortable.ir.proto.large_model import LargeModel
from ortable.passes.float16_plan import is_float32

_DOMAIN = "ortable.ranges"
# A zero joins each value, since ONNX Runtime reduces no empty tensor.
_LARGEST = """<domain: "ortable.ranges", opset_import: ["": {opset}]> Largest (x) => (y) {{
  zeros = Constant <value_floats: floats = [0.0]> ()
  flat = Constant <value_ints: ints = [-1]> ()
  magnitudes = Abs (x)
  is_infinite = IsInf (magnitudes)
  vector = Reshape (magnitudes, flat)
  is_infinite_vector = Reshape (is_infinite, flat)
  finite = Where (is_infinite_vector, zeros, vector)
  joined = Concat <axis: int = 0> (finite, zeros)
  y = ReduceMax <keepdims: int = 0> (joined)
}}"""


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
    sources = {f"largest:{name}": name for name in names if is_float32(builder, name)}
    if not sources:
        return {}
    proto = onnx.ModelProto()
    proto.CopyFrom(model.session_proto())
    proto.functions.append(onnx.parser.parse_function(_LARGEST.format(opset=builder.opset)))
    proto.opset_import.append(helper.make_opsetid(_DOMAIN, 1))
    proto.graph.node.extend(
        helper.make_node("Largest", [name], [result], domain=_DOMAIN)
        for result, name in sources.items()
    )
    del proto.graph.output[:]
    proto.graph.output.extend(
        helper.make_tensor_value_info(result, TensorProto.FLOAT, ()) for result in sources
    )
    results = intermediate_results(LargeModel(proto, model.tensors), feeds, list(sources))
    return {sources[result]: float(value) for result, value in results.items()}
