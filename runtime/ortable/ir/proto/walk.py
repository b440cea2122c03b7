"""Traverse the nodes of a model: into subgraphs, and from values back to their producers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from onnx import FunctionProto, GraphProto, NodeProto


def graphs_inside(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the subgraphs of a node: branches, and bodies of loops."""
    for attribute in node.attribute:
        yield from (attribute.g,) if attribute.HasField("g") else attribute.graphs


def nodes_below(
    graph: GraphProto | FunctionProto, parent: NodeProto | None = None
) -> Iterator[tuple[NodeProto, NodeProto | None]]:
    """Yield all nodes of a graph and its subgraphs, each with the node whose subgraph contains it.

    Nodes of ``graph`` itself come with ``parent``.
    """
    for node in graph.node:
        yield node, parent
        for inner in graphs_inside(node):
            yield from nodes_below(inner, node)


def node_positions(producers: Mapping[str, NodeProto]) -> dict[int, int]:
    """Return the position of each node by its `id`.

    ``producers`` maps the results of nodes to the nodes, in the order of the nodes.
    """
    positions: dict[int, int] = {}
    for position, node in enumerate(producers.values()):
        positions.setdefault(id(node), position)
    return positions


def nodes_between(
    values: Iterable[str],
    producers: Mapping[str, NodeProto],
    positions: Mapping[int, int],
    cut: Collection[str],
) -> list[NodeProto]:
    """Return the nodes that ``values`` depend on, sorted by position.

    The search does not continue to the producer of an input whose name is in ``cut``.
    """
    nodes: dict[int, NodeProto] = {}
    stack = [producers[name] for name in values if name in producers]
    while stack:
        node = stack.pop()
        if id(node) not in nodes:
            nodes[id(node)] = node
            stack += [
                producers[name] for name in node.input if name in producers and name not in cut
            ]
    return sorted(nodes.values(), key=lambda node: positions[id(node)])


def free_names(graph: GraphProto) -> set[str]:
    """Return the names that a graph reads from enclosing graphs."""
    defined = {value.name for value in graph.input} | {value.name for value in graph.initializer}
    defined |= {value.values.name for value in graph.sparse_initializer}
    defined.update(name for node in graph.node for name in node.output)
    used = {value.name for value in graph.output}
    for node in graph.node:
        used.update(node.input)
        for inner in graphs_inside(node):
            used |= free_names(inner)
    used.discard("")
    return used - defined
