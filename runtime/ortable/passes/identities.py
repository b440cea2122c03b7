"""Remove Identity nodes, but keep names of outputs and names that subgraph protos read."""

from __future__ import annotations

from ortable.ir import Graph, editing
from ortable.ir.captures import captured_by_protos, inner_graphs
from ortable.ir.node import Node


def remove_identity_nodes(graph: Graph) -> int:
    """Remove Identity nodes, so that readers of the copy read the original.

    A copy that is a graph output gives its name to the original, unless the original is an input,
    an initializer, another output, or a result of an outer graph.
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
    protected = captured_by_protos(graph.nodes)
    outputs = {info.name for info in graph.outputs}
    dropped: list[Node] = []
    remaining: list[Node] = []
    for node in copies:
        source, copy = node.inputs[0], node.outputs[0]
        if not source or copy in outputs or copy in protected:
            remaining.append(node)
            continue
        editing.replace_uses(graph, copy, source)
        graph.successors[copy] = source
        editing.merge_facts(graph, source, copy)
        dropped.append(node)
    local = {name for node in graph.nodes for name in node.outputs} if remaining else set()
    local.difference_update(node.outputs[0] for node in dropped)
    renamed: dict[str, str] = {}
    for node in remaining:
        source, copy = node.inputs[0], node.outputs[0]
        can_rename = source in local and source not in outputs and source not in protected
        if copy in outputs and can_rename and source not in renamed and copy not in protected:
            renamed[source] = copy
            editing.merge_facts(graph, source, copy)
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
