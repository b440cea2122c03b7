"""The index of a graph that is being rewritten: order of nodes, producers, readers; kept true by
small changes, so that a replacement costs what it touches.

In comes a graph, whose nodes the index holds from then on; out go nodes in order and who reads
what. Made by the engine for each graph, edited by replacements."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from ortable.ir.captures import captured_by_protos, read_names
from ortable.ir.editing import Uses, replace_inputs
from ortable.ir.node import Node

from .matcher import Matcher

Key = tuple[int, ...]

_MOVED = 32  # nodes that are brought forward for one replacement, at most
_LAST = 1 << 62  # after every place inside the one before it


class GraphIndex:
    """Nodes of a graph by place, producer and reader.

    A node's place is a tuple; what replaces a node at ``(7,)`` stands at ``(7, 0)``, ``(7, 1)``,
    so that nothing is ever numbered again. While it is in use ``graph.nodes`` holds
    only what make_node adds.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self.uses = Uses(is_managed=True)
        self.matcher = Matcher(graph, self.uses)
        self.fixed = captured_by_protos(graph.nodes)  # names that nothing can rename
        self.keys: dict[Node, Key] = {}
        self.removed: dict[str, tuple[Node, Key]] = {}  # results of nodes that nothing read
        self.aliases: dict[str, str] = {}  # results replaced by others
        self._replaced: dict[str, list[str]] = {}  # by the others: who has them in ``aliases``
        self.moved = 0
        self.revived = 0  # nodes that were taken away and came back
        self.learnt = 0  # results of which more became known than when they were made
        for place, node in enumerate(graph.nodes):
            self.add(node, (place,))
        graph.nodes[:] = []
        graph.use_index = self.uses
        graph.analysed = {}

    def in_order(self) -> list[Node]:
        """The nodes, each after what it reads."""
        return sorted(self.keys, key=self.keys.__getitem__)

    def chosen(self, operators: Container[str], among: Container[Node] | None = None) -> list[Node]:
        """The nodes of some operators in order, with ``among`` only those that are there."""
        found = [node for node in self.keys if node.key in operators]
        if among is not None:
            found = [node for node in found if node in among]
        found.sort(key=self.keys.__getitem__)
        return found

    def is_output(self, name: str) -> bool:
        """Whether the name must stay: an output, or read inside a GraphProto."""
        return name in self.matcher.outputs or name in self.fixed

    def add(self, node: Node, key: Key) -> None:
        """Puts a node at a place."""
        self.keys[node] = key
        for name in node.outputs:
            if name:
                self.matcher.producers[name] = node
        self.uses.add_node(node)

    def drop(self, node: Node) -> None:
        """Takes a node away; its results may be produced by another one already."""
        key = self.keys.pop(node)
        for name in node.outputs:
            if name and self.matcher.producers.get(name) is node:
                del self.matcher.producers[name]
                self.removed[name] = (node, key)
        self.uses.remove_node(node)

    def drop_unread(self, names: Iterable[str]) -> list[Node]:
        """Takes away the nodes that make these results if nothing reads any of theirs, and then
        those that made what they read; the nodes that are the only readers of a result left."""
        alone: list[Node] = []
        stack = sorted(names, reverse=True)
        uses, producers = self.uses.readers, self.matcher.producers
        while stack:
            name = stack.pop()
            readers = uses.get(name)
            if readers:
                if len(readers) == 1:
                    alone += readers
                continue
            node = producers.get(name)
            if node is None or any(map(self.is_read, node.outputs)):
                continue
            self.drop(node)
            stack += sorted(read_names(node), reverse=True)
        return alone

    def is_read(self, name: str) -> bool:
        """Whether a node, a graph inside one or the caller reads the result."""
        return bool(name) and (bool(self.uses.readers.get(name)) or self.is_output(name))

    def revive(self, name: str) -> None:
        """Brings back the node of a result that was taken away, for a node that reads it after
        all (the size of a dimension that was computed before)."""
        while name in self.removed and name not in self.matcher.producers:
            node, key = self.removed.pop(name)
            for each in node.outputs:
                self.removed.pop(each, None)
            replace_inputs(node, self.aliases)
            self.add(node, key)
            self.revived += 1
            for each in read_names(node):
                self.revive(each)

    def bring_before(self, name: str, place: Key, not_these: Iterable[Node]) -> bool:
        """Whether the result is made before ``place``, after what makes it was moved there; False
        when that needs one of ``not_these``, or more than a few nodes."""
        barred = set(not_these)
        found: dict[Node, None] = {}
        stack = [name]
        while stack:
            node = self.matcher.producers.get(stack.pop())
            if node is None or node in found:
                continue
            if node in barred or len(found) > _MOVED:
                return False
            if self.keys[node] >= place:
                found[node] = None
                stack += read_names(node)
        for node in sorted(found, key=self.keys.__getitem__):
            self.moved += 1
            self.keys[node] = (*place[:-1], place[-1] - 1, _LAST, self.moved)
        return True

    def redirect(self, name: str, other: str) -> list[Node]:
        """Every reader of a result reads another one; these readers."""
        readers = self.uses.redirect_readers(name, other)
        for old in self._replaced.pop(name, ()):
            if self.aliases[old] == name:
                self.alias(old, other)
        self.alias(name, other)
        return readers

    def alias(self, name: str, other: str) -> None:
        """Remembers which result took the place of one."""
        self.aliases[name] = other
        self._replaced.setdefault(other, []).append(name)

    def around(
        self, nodes: Iterable[Node], depth: int, after: Key | None = None
    ) -> tuple[list[Node], list[Node]]:
        """Nodes whose pattern may hold one of these, in order: they themselves, what reads them,
        and so on ``depth`` times; and what lies behind those. With ``after`` nothing that stands
        behind that place, but for the nodes themselves."""
        keys, uses = self.keys, self.uses.readers
        level = [node for node in nodes if node in keys]
        found = dict.fromkeys(level)
        near = len(found)
        while level:
            further: dict[Node, None] = {}
            for node in level:
                if after is not None and keys[node] > after:
                    continue
                for name in node.outputs:
                    for reader in uses.get(name, ()):
                        if reader not in found and (after is None or keys[reader] <= after):
                            further[reader] = None
            found.update(further)
            level = list(further)
            if depth > 0:
                depth -= 1
                near = len(found)
        every = list(found)
        return sorted(every[:near], key=keys.__getitem__), every[near:]
