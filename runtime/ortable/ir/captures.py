"""Find the names that a node's subgraphs read from enclosing graphs, and rename them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import GraphProto

from ortable_generated.onnx.traits import HAS_SUBGRAPH

from .node import Node
from .proto.walk import free_names
from .state import GraphState

_GRAPHS = (GraphState, GraphProto)


def find_subgraphs(node: Node) -> list[Any]:
    """Return the subgraphs of a node, each a `GraphState` or a GraphProto."""
    graphs: list[Any] = []
    if not node.domain and node.op_type not in HAS_SUBGRAPH:
        return graphs  # hot path: other ONNX operators have no graph attributes
    for value in node.attrs.values():
        if isinstance(value, list | tuple):  # all elements of a list have the same type
            if value and isinstance(value[0], _GRAPHS):
                graphs += value
        elif isinstance(value, _GRAPHS):
            graphs.append(value)
    return graphs


def captured_names(node: Node) -> set[str]:
    """Return the names that the subgraphs of a node read from enclosing graphs."""
    names: set[str] = set()
    for graph in find_subgraphs(node) if node.attrs else ():
        names |= free_names(graph) if isinstance(graph, GraphProto) else _names_from_outside(graph)
    return names


def captured_by_protos(nodes: Iterable[Node]) -> set[str]:
    """Return the names that GraphProto subgraphs at any depth read, which no pass may rename."""
    names: set[str] = set()
    for node in nodes:
        for graph in find_subgraphs(node) if node.attrs else ():
            if isinstance(graph, GraphProto):
                names |= free_names(graph)
            else:
                names |= captured_by_protos(graph.nodes)
    return names


def _names_from_outside(graph: GraphState) -> set[str]:
    defined = {info.name for info in graph.inputs} | set(graph.initializers_dict)
    defined.update(name for node in graph.nodes for name in node.outputs)
    used = {info.name for info in graph.outputs}
    for node in graph.nodes:
        used.update(node.inputs)
        used |= captured_names(node)
    used.discard("")
    return used - defined


def inner_graphs(node: Node) -> list[Any]:
    """Return the subgraphs of a node that passes can edit, which excludes GraphProtos."""
    graphs = find_subgraphs(node)
    return [graph for graph in graphs if isinstance(graph, GraphState)] if graphs else graphs


def read_names(node: Node) -> set[str]:
    """Return the names that a node or its subgraphs read."""
    names = set(node.inputs)
    names.discard("")
    if node.attrs and find_subgraphs(node):
        names |= captured_names(node)
    return names


def rename_captured(graph: GraphState, names: Mapping[str, str]) -> None:
    """Rename the inputs of all nodes of a subgraph and its subgraphs, but not in GraphProtos."""
    graph.use_index = None
    for node in graph.nodes:
        node.inputs = [names.get(name, name) for name in node.inputs]
        for inner in find_subgraphs(node):
            if isinstance(inner, GraphState):
                rename_captured(inner, names)
