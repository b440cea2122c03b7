"""Remove Identity nodes; names of graph inputs and outputs, and names read inside subgraphs that
are protobuf, are kept.
"""

from __future__ import annotations

from ortable.ir import Graph, editing
from ortable.ir.captures import captured_by_protos, inner_graphs
from ortable.ir.node import Node


def remove_identity_nodes(graph: Graph) -> int:
    """Remove Identity nodes: readers of the copy read the original.

    A copy that is a graph output gives its name to the original, unless that is an input, an
    initializer, another output, or from an outer graph.
    """
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
    dropped: list[Node] = []
    remaining: list[Node] = []
    for node in copies:
        source, copy = node.inputs[0], node.outputs[0]
        if not source or copy in outputs or copy in fixed:
            remaining.append(node)
            continue
        editing.replace_uses(graph, copy, source)
        graph.successors[copy] = source
        editing.merge_knowledge(graph, source, copy)
        dropped.append(node)
    local = {name for node in graph.nodes for name in node.outputs} if remaining else set()
    local.difference_update(node.outputs[0] for node in dropped)
    renamed: dict[str, str] = {}
    for node in remaining:
        source, copy = node.inputs[0], node.outputs[0]
        free = source in local and source not in outputs and source not in fixed
        if copy in outputs and free and source not in renamed and copy not in fixed:
            renamed[source] = copy
            editing.merge_knowledge(graph, source, copy)
            dropped.append(node)
    if dropped:
        editing.remove_nodes(graph, dropped)
    if renamed:
        for source, copy in renamed.items():
            editing.replace_output(graph, copy, source)
        editing.rename_results(graph, renamed)
    if dropped:
        editing.drop_dead_results(graph)
    return removed + len(dropped)
