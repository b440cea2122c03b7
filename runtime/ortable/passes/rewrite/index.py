"""The index of a graph during rewriting: order of nodes, producers, readers, updated
incrementally, so that a replacement costs only what it touches.

The engine makes one for each graph, and the index holds the nodes from then on; replacements
edit it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from ortable.ir.captures import captured_by_protos, read_names
from ortable.ir.editing import Uses, replace_inputs
from ortable.ir.node import Node

from .matcher import Matcher

Key = tuple[int, ...]

_MAX_MOVED = 32  # nodes that are moved up for one replacement
_MAX_POSITION = 1 << 62  # after every position inside the one before it


class GraphIndex:
    """Nodes of a graph by position, producer and reader.

    A node's key is a tuple; what replaces a node at ``(7,)`` stands at ``(7, 0)``, ``(7, 1)``,
    so that nothing is renumbered. Meanwhile ``graph.nodes`` holds only what make_node adds.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.uses = Uses(is_managed=True)
        self.matcher = Matcher(graph, self.uses)
        self.fixed = captured_by_protos(graph.nodes)  # names that must not change
        self.keys: dict[Node, Key] = {}
        self.removed: dict[str, tuple[Node, Key]] = {}  # results of unread nodes
        self.aliases: dict[str, str] = {}  # results replaced by others
        self._replaced: dict[str, list[str]] = {}  # the inverse of ``aliases``
        self.moved = 0
        self.revived = 0  # nodes that were removed and restored
        self.learnt = 0  # results whose dtype, shape or value was refined later
        for position, node in enumerate(graph.nodes):
            self.add_node(node, (position,))
        graph.nodes[:] = []
        graph.use_index = self.uses
        graph.analysed = {}

    def in_order(self) -> list[Node]:
        """The nodes, each after its producers."""
        return sorted(self.keys, key=self.keys.__getitem__)

    def select_nodes(
        self, operators: Container[str], among: Container[Node] | None = None
    ) -> list[Node]:
        """The nodes with these operators in order, with ``among`` only those in it."""
        nodes = [node for node in self.keys if node.key in operators]
        if among is not None:
            nodes = [node for node in nodes if node in among]
        nodes.sort(key=self.keys.__getitem__)
        return nodes

    def is_output(self, name: str) -> bool:
        """Whether the name must stay: an output, or read inside a GraphProto."""
        return name in self.matcher.outputs or name in self.fixed

    def add_node(self, node: Node, key: Key) -> None:
        """Add a node at a position."""
        self.keys[node] = key
        for name in node.outputs:
            if name:
                self.matcher.producers[name] = node
        self.uses.add_node(node)

    def remove_node(self, node: Node) -> None:
        """Remove a node; another one may make its results already."""
        key = self.keys.pop(node)
        for name in node.outputs:
            if name and self.matcher.producers.get(name) is node:
                del self.matcher.producers[name]
                self.removed[name] = (node, key)
        self.uses.remove_node(node)

    def drop_unread(self, names: Iterable[str]) -> list[Node]:
        """Remove the producers of these results that nothing reads, and then theirs.

        Returns the nodes that became the only reader of a result.
        """
        single_readers: list[Node] = []
        stack = sorted(names, reverse=True)
        uses, producers = self.uses.readers, self.matcher.producers
        while stack:
            name = stack.pop()
            readers = uses.get(name)
            if readers:
                if len(readers) == 1:
                    single_readers += readers
                continue
            node = producers.get(name)
            if node is None or any(map(self.is_read, node.outputs)):
                continue
            self.remove_node(node)
            stack += sorted(read_names(node), reverse=True)
        return single_readers

    def is_read(self, name: str) -> bool:
        """Whether a node, a nested graph or the caller reads the result."""
        return bool(name) and (bool(self.uses.readers.get(name)) or self.is_output(name))

    def restore_producer(self, name: str) -> None:
        """Restore the removed node of a result that a new node reads (such as a computed size)."""
        while name in self.removed and name not in self.matcher.producers:
            node, key = self.removed.pop(name)
            for dependency in node.outputs:
                self.removed.pop(dependency, None)
            replace_inputs(node, self.aliases)
            self.add_node(node, key)
            self.revived += 1
            for dependency in read_names(node):
                self.restore_producer(dependency)

    def bring_before(self, name: str, place: Key, not_these: Iterable[Node]) -> bool:
        """Move the producers of a result before ``place``; False when that needs one of
        ``not_these``, or more than a few nodes.
        """
        fixed = set(not_these)
        needed: dict[Node, None] = {}
        stack = [name]
        while stack:
            node = self.matcher.producers.get(stack.pop())
            if node is None or node in needed:
                continue
            if node in fixed or len(needed) > _MAX_MOVED:
                return False
            if self.keys[node] >= place:
                needed[node] = None
                stack += read_names(node)
        for node in sorted(needed, key=self.keys.__getitem__):
            self.moved += 1
            self.keys[node] = (*place[:-1], place[-1] - 1, _MAX_POSITION, self.moved)
        return True

    def redirect_readers(self, name: str, other: str) -> list[Node]:
        """Replace a result by another one in its readers; return them."""
        readers = self.uses.redirect_readers(name, other)
        for old in self._replaced.pop(name, ()):
            if self.aliases[old] == name:
                self.add_alias(old, other)
        self.add_alias(name, other)
        return readers

    def add_alias(self, name: str, other: str) -> None:
        """Record which result replaced another one."""
        self.aliases[name] = other
        self._replaced.setdefault(other, []).append(name)

    def nodes_around(
        self, changed: Iterable[Node], depth: int, after: Key | None = None
    ) -> tuple[list[Node], list[Node]]:
        """Nodes whose pattern may contain one of these, in order, and the nodes below those.

        The first are the readers up to ``depth`` levels down. With ``after``, nothing at a later
        position is included except the nodes themselves.
        """
        keys, uses = self.keys, self.uses.readers
        level = [node for node in changed if node in keys]
        reached = dict.fromkeys(level)
        near = len(reached)
        while level:
            further: dict[Node, None] = {}
            for node in level:
                if after is not None and keys[node] > after:
                    continue
                for name in node.outputs:
                    for reader in uses.get(name, ()):
                        if reader not in reached and (after is None or keys[reader] <= after):
                            further[reader] = None
            reached.update(further)
            level = list(further)
            if depth > 0:
                depth -= 1
                near = len(reached)
        nodes = list(reached)
        return sorted(nodes[:near], key=keys.__getitem__), nodes[near:]
