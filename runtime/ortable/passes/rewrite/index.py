"""The index of a graph during rewriting: the order of nodes, their producers and readers.

Replacements update the index incrementally, so the cost of a replacement depends only on the
nodes that it touches. The engine makes one index for each graph; while it runs, the index and not
the graph holds the nodes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from ortable.ir.captures import captured_by_protos, read_names
from ortable.ir.editing import UseIndex, replace_inputs
from ortable.ir.node import Node

from .matcher import Matcher

Key = tuple[int, ...]

_MAX_MOVED = 32  # `move_before` gives up when it would move more nodes
_MAX_POSITION = 1 << 62  # sorts after every other position with the same prefix


class GraphIndex:
    """The nodes of a graph by position, producer and reader.

    The key of a node is a tuple. The nodes that replace a node with key ``(7,)`` have the keys
    ``(7, 0)``, ``(7, 1)`` and so on, so no other key changes. During rewriting ``graph.nodes``
    holds only the nodes that make_node has added.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.uses = UseIndex(is_managed=True)
        self.matcher = Matcher(graph, self.uses)
        self.protected_names = captured_by_protos(graph.nodes)  # names that must not change
        self.keys: dict[Node, Key] = {}
        self.removed: dict[str, tuple[Node, Key]] = {}  # result -> its removed producer
        self.aliases: dict[str, str] = {}  # old result -> the result that replaced it
        self._replaced: dict[str, list[str]] = {}  # the inverse of ``aliases``
        self.moved = 0
        self.restored_nodes = 0  # nodes that were removed and restored
        self.refined_results = 0  # results whose dtype, shape or value a replacement has refined
        for position, node in enumerate(graph.nodes):
            self.add_node(node, (position,))
        graph.nodes[:] = []
        graph.use_index = self.uses
        graph.analysis_results = {}

    def ordered_nodes(self) -> list[Node]:
        """Return the nodes in topological order."""
        return sorted(self.keys, key=self.keys.__getitem__)

    def select_nodes(
        self, operators: Container[str], among: Container[Node] | None = None
    ) -> list[Node]:
        """Return the nodes with these operators in order; with ``among``, only nodes in it."""
        nodes = [node for node in self.keys if node.key in operators]
        if among is not None:
            nodes = [node for node in nodes if node in among]
        nodes.sort(key=self.keys.__getitem__)
        return nodes

    def is_output(self, name: str) -> bool:
        """Whether the name must not change: it is a graph output, or a GraphProto reads it."""
        return name in self.matcher.outputs or name in self.protected_names

    def add_node(self, node: Node, key: Key) -> None:
        """Add a node at a position."""
        self.keys[node] = key
        for name in node.outputs:
            if name:
                self.matcher.producers[name] = node
        self.uses.add_node(node)

    def remove_node(self, node: Node) -> None:
        """Remove a node; another node may already produce its results."""
        key = self.keys.pop(node)
        for name in node.outputs:
            if name and self.matcher.producers.get(name) is node:
                del self.matcher.producers[name]
                self.removed[name] = (node, key)
        self.uses.remove_node(node)

    def drop_unread(self, names: Iterable[str]) -> list[Node]:
        """Remove unread producers of results, recursively; return readers to match again.

        These are the only readers of results that now have one reader, so that a pattern may match.
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
        """Restore the removed producer of a result that a new node reads, and what it reads."""
        while name in self.removed and name not in self.matcher.producers:
            node, key = self.removed.pop(name)
            for related_name in node.outputs:
                self.removed.pop(related_name, None)
            replace_inputs(node, self.aliases)
            self.add_node(node, key)
            self.restored_nodes += 1
            for related_name in read_names(node):
                self.restore_producer(related_name)

    def move_before(self, name: str, place: Key, not_these: Iterable[Node]) -> bool:
        """Move the producer of ``name``, with those it reads from, before ``place``.

        Return False if this would move a node of ``not_these`` or too many nodes.
        """
        immovable = set(not_these)
        to_move: dict[Node, None] = {}
        stack = [name]
        while stack:
            node = self.matcher.producers.get(stack.pop())
            if node is None or node in to_move:
                continue
            if node in immovable or len(to_move) > _MAX_MOVED:
                return False
            if self.keys[node] >= place:
                to_move[node] = None
                stack += read_names(node)
        for node in sorted(to_move, key=self.keys.__getitem__):
            self.moved += 1
            self.keys[node] = (*place[:-1], place[-1] - 1, _MAX_POSITION, self.moved)
        return True

    def redirect_readers(self, name: str, other: str) -> list[Node]:
        """Make the readers of result ``name`` read ``other``; return these readers."""
        readers = self.uses.redirect_readers(name, other)
        for earlier_name in self._replaced.pop(name, ()):
            if self.aliases[earlier_name] == name:
                self.add_alias(earlier_name, other)
        self.add_alias(name, other)
        return readers

    def add_alias(self, name: str, other: str) -> None:
        """Record that result ``other`` replaced result ``name``."""
        self.aliases[name] = other
        self._replaced.setdefault(other, []).append(name)

    def nodes_around(
        self, changed: Iterable[Node], depth: int, until: Key | None = None
    ) -> tuple[list[Node], list[Node]]:
        """Return the nodes whose pattern may contain a changed node, and all readers below these.

        The former are the changed nodes and their readers up to ``depth`` levels down, in order.
        With ``until``, readers at a later position are left out.
        """
        keys, uses = self.keys, self.uses.readers
        level = [node for node in changed if node in keys]
        reached = dict.fromkeys(level)
        near_count = len(reached)
        while level:
            next_level: dict[Node, None] = {}
            for node in level:
                if until is not None and keys[node] > until:
                    continue
                for name in node.outputs:
                    for reader in uses.get(name, ()):
                        if reader not in reached and (until is None or keys[reader] <= until):
                            next_level[reader] = None
            reached.update(next_level)
            level = list(next_level)
            if depth > 0:
                depth -= 1
                near_count = len(reached)
        nodes = list(reached)
        return sorted(nodes[:near_count], key=keys.__getitem__), nodes[near_count:]
