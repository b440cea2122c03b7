"""The worklist of nodes that the engine visits, one `Worklist` per pass over a graph.

Whether a rule matches at a node depends on the node's producers. So after a pass with changes, the
next pass visits each node whose producers changed after the visit of the node, and each node at
which a match depended on use counts or was rejected.
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Container, Iterable

from ortable.ir.node import Node

from .index import GraphIndex, Key


class Worklist:
    """The nodes of one pass: the selected nodes in order, then the deferred nodes."""

    def __init__(self, index: GraphIndex, nodes: Iterable[Node]) -> None:
        self.index = index
        self.queue: list[tuple[Key, int, Node]] = [
            (index.keys[node], position, node) for position, node in enumerate(nodes)
        ]
        self.position = 0  # the index of the next node in ``queue``
        self.key: Key | None = None  # the key of the current node; None if ``queue`` is exhausted
        self.covers_all = True  # whether the pass visits every node
        self.deferred: deque[Node] = deque()
        self.queued = {node for _, _, node in self.queue}
        self.revisit: set[Node] = set()  # nodes for the next pass
        self.new_nodes: set[Node] = set()
        self.learnt = index.refined_results
        self.restored_before = index.restored_nodes

    def pop_node(self) -> Node | None:
        """Return the next node; None at the end."""
        if self.position < len(self.queue):
            self.key, _, node = self.queue[self.position]
            self.position += 1
        elif self.deferred:
            self.key, node = None, self.deferred.popleft()
        else:
            return None
        self.queued.discard(node)
        return node

    def mark_visited(self, node: Node, may_match_later: bool) -> None:
        """Record that no rule matches a node.

        ``may_match_later``: whether a rule may match later although no producer changes, because
        the failed match depended on use counts or was rejected.
        """
        if may_match_later:
            self.revisit.add(node)
        else:
            self.revisit.discard(node)

    def add_changed(
        self, affected: list[Node], new_nodes: list[Node], depth: int, operators: Container[str]
    ) -> None:
        """Queue the nodes whose pattern may contain an affected node, in this or the next pass."""
        index, key, queued = self.index, self.key, self.queued
        self.new_nodes.update(new_nodes)
        # A pass over all nodes has already queued the later nodes and their readers.
        last_key = key if self.covers_all and self.restored_before == index.restored_nodes else None
        candidates, nodes_below = index.nodes_around(affected, depth, last_key)
        for node in candidates:
            if node not in queued and node.key in operators:
                self._enqueue(node)
        for node in nodes_below:
            if node not in queued and node.key in operators:
                if key is not None and index.keys[node] > key:
                    self._enqueue(node)
                else:
                    self.revisit.add(node)

    def _enqueue(self, node: Node) -> None:
        key = self.index.keys[node]
        self.queued.add(node)
        if self.key is None or key <= self.key or node in self.new_nodes:
            self.deferred.append(node)
        else:
            bisect.insort(self.queue, (key, len(self.queue), node), lo=self.position)

    def next_pass(self, operators: Container[str]) -> Worklist:
        """Return the worklist of the next pass."""
        index = self.index
        covers_all = (
            index.refined_results != self.learnt or index.restored_nodes != self.restored_before
        )
        worklist = Worklist(
            index, index.select_nodes(operators, None if covers_all else self.revisit)
        )
        worklist.covers_all = covers_all
        return worklist
