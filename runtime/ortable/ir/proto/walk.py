"""Ways through the nodes of a model: into the graphs inside them, and from values back to what
computes them. In come messages of protobuf; called by `ir`, `passes` and `debug`."""

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
    """All nodes of a graph and of the graphs inside nodes, each with the node that it is inside."""
    for node in graph.node:
        yield node, parent
        for inner in graphs_inside(node):
            yield from nodes_below(inner, node)


def places_of(made: Mapping[str, NodeProto]) -> dict[int, int]:
    """The places of nodes, by `id`, in the order of a table of what they compute."""
    places: dict[int, int] = {}
    for place, node in enumerate(made.values()):
        places.setdefault(id(node), place)
    return places


def nodes_between(
    values: Iterable[str],
    made: Mapping[str, NodeProto],
    places: Mapping[int, int],
    cut: Collection[str],
) -> list[NodeProto]:
    """The nodes that compute values, down to others that are cut off, in the order of `places`;
    `made`: the nodes by what they compute."""
    found: dict[int, NodeProto] = {}
    stack = [made[name] for name in values if name in made]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack += [made[name] for name in node.input if name in made and name not in cut]
    return sorted(found.values(), key=lambda node: places[id(node)])


def free_names(graph: GraphProto) -> set[str]:
    """Names that a graph reads from around it."""
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
