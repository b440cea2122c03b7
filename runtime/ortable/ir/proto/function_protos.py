"""Local functions of a model: a graph as a FunctionProto, and its large constants, which stay
outside of it until the model is written."""

from __future__ import annotations

from onnx import AttributeProto, FunctionProto, TensorProto

from ortable.ir import initializers
from ortable.ir.graph import Graph

from .node_names import name_nodes
from .tensor_proto import (
    ExternalTensors,
    fill_nested,
    fill_tensor,
    location_of,
    tensors_of_nodes,
)


def to_function(
    graph: Graph,
    name: str,
    domain: str,
    external_threshold: int | None = None,
    within: str = "",
) -> FunctionProto:
    """The graph as a local function of the same inputs and outputs; initializers become Constant
    nodes, which leave values of ``external_threshold`` bytes or more in
    ``graph.function_tensors``, by reference. ``within``: path of the module whose body it is."""
    from .node_proto import NodeWriter

    proto = FunctionProto()
    proto.name, proto.domain = name, domain
    proto.input.extend(info.name for info in graph.inputs)
    proto.output.extend(info.name for info in graph.outputs)
    for key, version in graph.opsets.items():
        imported = proto.opset_import.add()
        imported.domain, imported.version = key, version
    for constant, value in graph.initializers_dict.items():
        node = proto.node.add()
        node.op_type, node.name = "Constant", constant
        node.output.append(constant)
        attribute = node.attribute.add()
        attribute.name, attribute.type = "value", AttributeProto.TENSOR
        if external_threshold is None or initializers.nbytes_of(value) < external_threshold:
            fill_tensor(attribute.t, value, "")
        else:
            fill_nested(attribute.t, "", value, graph.function_tensors)
    name_nodes(graph, within)
    writer = NodeWriter(graph)
    for item in graph.nodes:
        writer.write(item, proto.node.add())
    return proto


def settle_function(
    graph: Graph, function: FunctionProto, external: ExternalTensors | None
) -> None:
    """Gives the constants that a function of this model left out their place: in the function, or
    in ``external``, which also receives large ones that the function holds."""
    if external is None and not graph.function_tensors:
        return
    written = []
    for tensor in tensors_of_nodes(function.node):
        if tensor.data_location != TensorProto.EXTERNAL:
            written.append(tensor)
            continue
        location = location_of(tensor)
        if location not in graph.function_tensors:
            continue  # in a file of its own
        value = graph.function_tensors[location]
        if external is not None and external.takes(value):
            external.nested[location] = value
        else:
            name = tensor.name
            tensor.Clear()
            fill_tensor(tensor, value, name)
    if external is not None:
        external.move(written)
