"""Writes a graph as a ModelProto: opsets, functions, metadata, and weights, which are copied once
into the model or left out of it. Called by `builder` and `exporter`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx import ModelProto

from ortable.errors import BuilderError
from ortable.ir import initializers, versions
from ortable.ir.captures import inner_graphs
from ortable.ir.graph import Graph
from ortable.ir.state import GraphState
from ortable_generated.onnx.traits import HAS_SUBGRAPH

from .function_protos import settle_function
from .large_model import LargeModel
from .node_names import name_nodes
from .node_proto import fill_graph
from .tensor_proto import ExternalTensors
from .trust import check_functions

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
