"""Remove nodes, initializers and local functions that no output depends on."""

from __future__ import annotations

from ortable.ir import Graph, editing
from ortable.ir.captures import captured_names, find_subgraphs, inner_graphs
from ortable.ir.local_functions import called_by_nodes, called_by_protos
from ortable.ir.node import Node


def remove_unused(graph: Graph) -> int:
    """Remove nodes and initializers that no output depends on, also in subgraphs.

    Args:
        graph: the graph, edited in place.

    Returns:
        The number of removed nodes and initializers.
    """
    needed = {info.name for info in graph.outputs}
    dead: list[Node] = []
    removed = 0
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.outputs):
            dead.append(node)
            continue
        needed.update(node.inputs)
        needed.discard("")  # the name of an omitted optional input
        if node.attrs and find_subgraphs(node):
            removed += sum(remove_unused(inner) for inner in inner_graphs(node))
            needed |= captured_names(node)
    if dead:
        editing.remove_nodes(graph, dead)
        removed += len(dead)
    input_names = {info.name for info in graph.inputs}
    needed |= input_names
    for name in [key for key in graph.initializers_dict if key not in needed]:
        del graph.initializers_dict[name]
        removed += 1
    if removed:
        editing.drop_dead_results(graph)
    return removed


def remove_unused_functions(graph: Graph) -> int:
    """Remove local functions that no node of the model calls, directly or through other functions.

    Args:
        graph: the graph of the model, edited in place.

    Returns:
        The number of removed functions.
    """
    called: set[tuple[str, str]] = set()
    worklist = called_by_nodes(graph.nodes)
    while worklist:
        key = worklist.pop()
        function = graph.functions.get(key)
        if function is not None and key not in called:
            called.add(key)
            worklist.extend(called_by_protos(function.node))
    unused = [key for key in graph.functions if key not in called]
    for key in unused:
        del graph.functions[key]
    return len(unused)
