"""Removes Identity nodes; names of graph inputs and outputs, and names read inside subgraphs that
are protobuf, are kept."""

from __future__ import annotations

from ortable.ir import Graph, editing
from ortable.ir.captures import captured_by_protos, inner_graphs
from ortable.ir.node import Node


def remove_identity_nodes(graph: Graph) -> int:
    """Removes Identity nodes: readers of the copy read the original. A copy that is a graph
    output gives its name to the original, unless that is an input, an initializer, another
    output, or from outside."""
    removed = sum(
        remove_identity_nodes(inner)
        for node in graph.nodes
        if node.attrs
        for inner in inner_graphs(node)
    )
    copies = [node for node in graph.nodes if node.op_type == "Identity" and not node.domain]
    if not copies:
        return removed
    fixed = captured_by_protos(graph.nodes)
    outputs = {info.name for info in graph.outputs}
    gone: list[Node] = []
    kept: list[Node] = []
    for node in copies:
        source, copy = node.inputs[0], node.outputs[0]
        if not source or copy in outputs or copy in fixed:
            kept.append(node)
            continue
        editing.replace_uses(graph, copy, source)
        graph.successors[copy] = source
        editing.merge_knowledge(graph, source, copy)
        gone.append(node)
    own = {name for node in graph.nodes for name in node.outputs} if kept else set()
    own.difference_update(node.outputs[0] for node in gone)
    renamed: dict[str, str] = {}
    for node in kept:
        source, copy = node.inputs[0], node.outputs[0]
        free = source in own and source not in outputs and source not in fixed
        if copy in outputs and free and source not in renamed and copy not in fixed:
            renamed[source] = copy
            editing.merge_knowledge(graph, source, copy)
            gone.append(node)
    if gone:
        editing.remove_nodes(graph, gone)
    if renamed:
        for source, copy in renamed.items():
            editing.replace_output(graph, copy, source)
        editing.rename_results(graph, renamed)
    if gone:
        editing.drop_dead_results(graph)
    return removed + len(gone)
