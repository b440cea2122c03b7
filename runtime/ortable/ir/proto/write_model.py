"""Write a graph as a ModelProto (opsets, functions, metadata, and weights, which are copied once
into the model or left out of it) or as a FunctionProto, whose large constants stay outside of it
until the model is written. Called by `builder`, `exporter` and `ir.local_functions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import AttributeProto, FunctionProto, ModelProto, TensorProto

from ortable.errors import BuilderError
from ortable.ir import initializers, versions
from ortable.ir.captures import inner_graphs
from ortable.ir.graph import Graph
from ortable.ir.state import GraphState
from ortable_generated.onnx.traits import HAS_SUBGRAPH

from .large_model import LargeModel
from .model_validation import check_functions
from .node_proto import fill_graph, name_nodes
from .tensor_proto import (
    ExternalTensors,
    fill_nested,
    fill_tensor,
    location_of,
    tensors_of_nodes,
)

PROTO_LIMIT = 2**31 - 1


def to_onnx(
    graph: Graph,
    large_model: bool,
    external_threshold: int,
    metadata: Mapping[str, str] | None,
    *,
    inline: bool = False,
    value_info: bool = False,
) -> ModelProto | LargeModel:
    """The model, or the model without its large tensors together with these.

    Raises BuilderError for a model of 2 GiB or more that is not asked for as a large one."""
    if not large_model:
        _check_size(graph)
    model = ModelProto()
    model.ir_version = versions.ir_version(
        graph.opsets, graph.ir_version, graph.target, bool(graph.functions)
    )
    if model.ir_version < 4 and _has_own_initializers(graph):
        model.ir_version = 4  # before, each initializer was the default of an input
    model.producer_name = "ortable"
    model.doc_string = (
        f"large_model={large_model}, inline={inline}, external_threshold={external_threshold}"
    )
    external = ExternalTensors(external_threshold) if large_model else None
    name_nodes(graph)
    fill_graph(graph, model.graph, external, value_info)
    for domain, version in graph.opsets.items():
        imported = model.opset_import.add()
        imported.domain, imported.version = domain, version
    model.functions.extend(graph.functions.values())
    for function in model.functions:
        settle_function(graph, function, external)
    for key, value in (metadata or {}).items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, str(value)
    if inline and graph.functions:
        from onnx.inliner import inline_local_functions

        check_functions(model)
        model = inline_local_functions(model)
    if external is None:
        return model
    return LargeModel(model, external.tensors, external.nested)


def weight_bytes(graph: Any) -> int:
    """Bytes of the constants of a model: initializers, those of subgraphs, and functions."""
    total = sum(initializers.nbytes_of(value) for value in graph.initializers_dict.values())
    for node in graph.nodes:
        if node.key in HAS_SUBGRAPH:
            inner = [value for value in node.attrs.values() if isinstance(value, GraphState)]
            total += sum(map(weight_bytes, inner))
    if graph.parent is None:
        total += sum(function.ByteSize() for function in graph.functions.values())
        total += sum(initializers.nbytes_of(value) for value in graph.function_tensors.values())
    return total


def _has_own_initializers(graph: GraphState) -> bool:
    """Whether an initializer, in the graph or inside it, is no default of an input."""
    fed = {info.name for info in graph.inputs}
    if not fed.issuperset(graph.initializers_dict):
        return True
    return any(_has_own_initializers(inner) for node in graph.nodes for inner in inner_graphs(node))


def _check_size(graph: Graph) -> None:
    total = weight_bytes(graph)
    if total >= PROTO_LIMIT:
        raise BuilderError(
            f"The initializers take {total / 2**30:.1f} GiB, a ModelProto holds less than 2 GiB; "
            "use to_onnx(large_model=True), whose result has save(path), or "
            "to_onnx(filename=...), which writes them beside the model."
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
        writer.write_node(item, proto.node.add())
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
        if external is not None and external.should_externalize(value):
            external.nested[location] = value
        else:
            name = tensor.name
            tensor.Clear()
            fill_tensor(tensor, value, name)
    if external is not None:
        external.move_out(written)
