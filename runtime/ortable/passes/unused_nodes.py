"""Remove what no output needs: nodes, initializers, local functions without callers."""

from __future__ import annotations

from ortable.ir import Graph, editing
from ortable.ir.captures import captured_names, find_subgraphs, inner_graphs
from ortable.ir.local_functions import called_by_nodes, called_by_protos
from ortable.ir.node import Node


def remove_unused(graph: Graph) -> int:
    """Remove nodes without a needed output, then unread initializers."""
    needed = {info.name for info in graph.outputs}
    dead: list[Node] = []
    removed = 0
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            dead.append(node)
            continue
        needed.update(node.inputs)
        needed.discard("")  # an input or output that is left out
        if node.attrs and find_subgraphs(node):
            removed += sum(remove_unused(inner) for inner in inner_graphs(node))
            needed |= captured_names(node)
    if dead:
        editing.remove_nodes(graph, dead)
        removed += len(dead)
    inputs = {info.name for info in graph.inputs}
    for name in [n for n in graph.initializers_dict if n not in needed and n not in inputs]:
        del graph.initializers_dict[name]
        removed += 1
    if removed:
        editing.drop_dead_results(graph)
    return removed


def remove_unused_functions(graph: Graph) -> int:
    """Drop the functions that no node of the model calls, directly or through other functions;
    return how many.
    """
    called: set[tuple[str, str]] = set()
    waiting = called_by_nodes(graph.nodes)
    while waiting:
        key = waiting.pop()
        function = graph.functions.get(key)
        if function is not None and key not in called:
            called.add(key)
            waiting.extend(called_by_protos(function.node))
    unused = [key for key in graph.functions if key not in called]
    for key in unused:
        del graph.functions[key]
    return len(unused)
