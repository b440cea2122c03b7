"""Write a graph as a ModelProto, or as a FunctionProto for a local function.

Weights are copied at most once: into the model, or when a LargeModel is saved. Large constants of
functions stay outside of the FunctionProto until the model is written.
"""

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
    fill_nested_stub,
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
    """Write a graph as a ModelProto or a LargeModel.

    A LargeModel stores tensors of at least ``external_threshold`` bytes outside of the proto.
    ``inline`` replaces calls of local functions by their nodes. With ``value_info``, types of
    intermediate results of the main graph are written. Raises BuilderError if ``large_model`` is
    False and the initializers have 2 GiB or more, or if the functions cannot be inlined.
    """
    if not large_model:
        _check_size(graph)
    model = ModelProto()
    model.ir_version = versions.ir_version(
        graph.opsets, graph.ir_version, graph.target, bool(graph.functions)
    )
    if model.ir_version < 4 and _has_own_initializers(graph):
        model.ir_version = 4  # in older versions each initializer is the default of an input
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
        restore_function_constants(graph, function, external)
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
    """Return the bytes of a graph's initializers and, unless it is a subgraph, of its functions."""
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
    """Whether the graph or a subgraph has an initializer that is not the default of an input."""
    input_names = {info.name for info in graph.inputs}
    if not input_names.issuperset(graph.initializers_dict):
        return True
    return any(_has_own_initializers(inner) for node in graph.nodes for inner in inner_graphs(node))


def _check_size(graph: Graph) -> None:
    total = weight_bytes(graph)
    if total >= PROTO_LIMIT:
        raise BuilderError(
            f"The initializers take {total / 2**30:.1f} GiB, but a ModelProto is limited to 2 GiB; "
            "use to_onnx(large_model=True), whose result has save(path), or "
            "to_onnx(filename=...), which writes them next to the model."
        )


def to_function(
    graph: Graph,
    name: str,
    domain: str,
    external_threshold: int | None = None,
    module_path: str = "",
) -> FunctionProto:
    """Write a graph as a local function, with initializers as Constant nodes.

    Initializers of at least ``external_threshold`` bytes are added to ``graph.function_tensors``;
    the function has stubs of them. ``module_path`` is the path of the torch module, which is
    omitted at the start of node names.
    """
    from .node_proto import NodeWriter

    proto = FunctionProto()
    proto.name, proto.domain = name, domain
    proto.input.extend(info.name for info in graph.inputs)
    proto.output.extend(info.name for info in graph.outputs)
    for opset_domain, version in graph.opsets.items():
        imported = proto.opset_import.add()
        imported.domain, imported.version = opset_domain, version
    for constant_name, value in graph.initializers_dict.items():
        node = proto.node.add()
        node.op_type, node.name = "Constant", constant_name
        node.output.append(constant_name)
        attribute = node.attribute.add()
        attribute.name, attribute.type = "value", AttributeProto.TENSOR
        if external_threshold is None or initializers.nbytes_of(value) < external_threshold:
            fill_tensor(attribute.t, value, "")
        else:
            fill_nested_stub(attribute.t, "", value, graph.function_tensors)
    name_nodes(graph, module_path)
    writer = NodeWriter(graph)
    for graph_node in graph.nodes:
        writer.write_node(graph_node, proto.node.add())
    return proto


def restore_function_constants(
    graph: Graph, function: FunctionProto, external: ExternalTensors | None
) -> None:
    """Replace the stubs of a function by their constants.

    If ``external`` is given, large constants are added to it, and stay or become stubs.
    """
    if external is None and not graph.function_tensors:
        return
    inner_tensors = []
    for tensor in tensors_of_nodes(function.node):
        if tensor.data_location != TensorProto.EXTERNAL:
            inner_tensors.append(tensor)
            continue
        location = location_of(tensor)
        if location not in graph.function_tensors:
            continue  # external data of the model that was read stays where it is
        value = graph.function_tensors[location]
        if external is not None and external.should_externalize(value):
            external.nested[location] = value
        else:
            name = tensor.name
            tensor.Clear()
            fill_tensor(tensor, value, name)
    if external is not None:
        external.move_out(inner_tensors)
