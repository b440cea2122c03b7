"""Who reads each result of a graph: the index behind `Graph.uses`. Made when it is first asked for,
so that making nodes costs nothing; nodes appended since then are added at the next question, and
`editing` keeps it true while it changes nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .captures import captured, inner_graphs, rename_in
from .node import Node


class Uses:
    """Readers of the results of one graph, in the order of its nodes. A node that reads a result
    twice, or inside a graph of its own, is one reader."""

    __slots__ = ("_counted", "_last", "asked", "held", "readers")

    def __init__(self, nodes: Iterable[Node] = (), held: bool = False) -> None:
        self.readers: dict[str, dict[Node, None]] = {}
        self.held = held  # its owner adds and removes nodes, not the graph's list of them
        self.asked = 0  # how often somebody asked for readers
        self._counted = 0
        self._last: Node | None = None
        for node in nodes:
            self.add(node)
            self._counted += 1
            self._last = node

    def follow(self, nodes: list[Node]) -> bool:
        """Adds what was appended to the list of nodes; False when the list was changed
        otherwise."""
        if self.held:
            return True
        count = self._counted
        if len(nodes) < count or (count and nodes[count - 1] is not self._last):
            return False
        for node in nodes[count:]:
            self.add(node)
        self.settle(nodes)
        return True

    def settle(self, nodes: list[Node]) -> None:
        """Says that all of these nodes are in the index."""
        self._counted = len(nodes)
        self._last = nodes[-1] if nodes else None

    def add(self, node: Node) -> None:
        """A node that reads what it reads now."""
        readers = self.readers
        for name in node.inputs:
            found = readers.get(name)
            if found is not None:
                found[node] = None
            elif name:
                readers[name] = {node: None}
        for name in captured(node) if node.attrs else ():
            readers.setdefault(name, {})[node] = None

    def remove(self, node: Node) -> None:
        """Takes a node out; call it before the node's inputs change."""
        readers = self.readers
        for name in (*node.inputs, *captured(node)) if node.attrs else node.inputs:
            found = readers.get(name)
            if found is not None:
                found.pop(node, None)

    def redirect(self, old: str, new: str) -> list[Node]:
        """Every reader of a result reads another one, but for the node that makes that one; these
        readers."""
        found = self.readers.pop(old, None)
        if not found:
            return []
        maker = next((node for node in found if new in node.outputs), None)
        if maker is not None:
            del found[maker]
            self.readers[old] = {maker: None}
        for node in found:
            replace_inputs(node, {old: new})
        self.readers.setdefault(new, {}).update(found)
        return list(found)


def replace_inputs(node: Node, names: Mapping[str, str]) -> None:
    """The node, and the graphs inside it, read other results."""
    if not names.keys().isdisjoint(node.inputs):
        node.inputs = [names.get(each, each) for each in node.inputs]
    for inner in inner_graphs(node) if node.attrs else ():
        rename_in(inner, names)
