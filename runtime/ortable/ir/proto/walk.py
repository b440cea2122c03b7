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


def nodes_between(
    values: Iterable[str], made: Mapping[str, NodeProto], cut: Collection[str]
) -> list[NodeProto]:
    """The nodes that compute values, down to others that are cut off, in the order of `made`: the
    nodes by what they compute."""
    found: dict[int, NodeProto] = {}
    stack = [made[name] for name in values if name in made]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found[id(node)] = node
            stack += [made[name] for name in node.input if name in made and name not in cut]
    if len(found) < 2:
        return list(found.values())
    return [
        node for node in {id(node): node for node in made.values()}.values() if id(node) in found
    ]


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
