"""Walk the nodes of a model: into subgraphs, and from values back to what computes them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from onnx import FunctionProto, GraphProto, NodeProto


def graphs_inside(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs of a node: branches, and bodies of loops."""
    for attribute in node.attribute:
        yield from (attribute.g,) if attribute.HasField("g") else attribute.graphs


def nodes_below(
    graph: GraphProto | FunctionProto, parent: NodeProto | None = None
) -> Iterator[tuple[NodeProto, NodeProto | None]]:
    """Yield all nodes of a graph and its subgraphs, each with the node that contains it."""
    for node in graph.node:
        yield node, parent
        for inner in graphs_inside(node):
            yield from nodes_below(inner, node)


def node_positions(producers: Mapping[str, NodeProto]) -> dict[int, int]:
    """Return the positions of nodes, by `id`, in the order of a table of what they compute."""
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
    """Return the nodes that compute values, down to the names in `cut`, by `positions`."""
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
    """Return names that a graph reads from outside."""
    defined = {x.name for x in graph.input} | {x.name for x in graph.initializer}
    defined |= {x.values.name for x in graph.sparse_initializer}
    defined.update(name for node in graph.node for name in node.output)
    used = {x.name for x in graph.output}
    for node in graph.node:
        used.update(node.input)
        for inner in graphs_inside(node):
            used |= free_names(inner)
    used.discard("")
    return used - defined
