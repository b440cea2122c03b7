"""Removes Identity nodes; names of graph inputs and outputs, and names read inside subgraphs that
are protobuf, are kept."""

from __future__ import annotations

from ortable.ir import Graph, editing
from ortable.ir.captures import captured_by_protos, subgraphs
from ortable.ir.node import Node
from ortable.ir.state import GraphState


def remove_identity_nodes(graph: Graph) -> int:
    """Removes Identity nodes: readers of the copy read the original. A copy that is a graph
    output gives its name to the original, unless that is an input, an initializer, another
    output, or from outside."""
    removed = 0
    fixed = captured_by_protos(graph.nodes)
    outputs = {info.name for info in graph.outputs}
    readers: dict[str, str] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        if readers:
            editing.replace_inputs(node, readers)
        (source, copy) = _identity(node)
        if source and copy not in outputs and copy not in fixed:
            readers[copy] = source
            editing.merge_knowledge(graph, source, copy)
            removed += 1
        else:
            kept.append(node)
        for inner in subgraphs(node) if node.attrs else ():
            if isinstance(inner, GraphState):
                removed += remove_identity_nodes(inner)  # type: ignore[arg-type]
    own = {name for node in kept for name in node.outputs}
    renamed: dict[str, str] = {}
    last: list[Node] = []
    for node in kept:
        (source, copy) = _identity(node)
        free = source in own and source not in outputs and source not in fixed
        if source and copy in outputs and free and source not in renamed and copy not in fixed:
            renamed[source] = copy
            editing.merge_knowledge(graph, source, copy)
            removed += 1
        else:
            last.append(node)
    if removed:
        graph.nodes[:] = last
    if renamed:
        for source, copy in renamed.items():
            _drop_value(graph, copy, keep=source)
        editing.rename(graph, renamed)
    if removed:
        editing.forget(graph)
    return removed


def _identity(node: Node) -> tuple[str, str]:
    if node.op_type == "Identity" and not node.domain:
        return node.inputs[0], node.outputs[0]
    return "", ""


def _drop_value(graph: Graph, name: str, keep: str) -> None:
    """Removes the record of an output whose name passes to another result."""
    old, new = graph.values.pop(name), graph.values[keep]
    graph.outputs[:] = [new if info is old else info for info in graph.outputs]
    graph._constants.discard(name)
    graph._computed.pop(name, None)
