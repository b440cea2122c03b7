"""The order in which the engine looks at nodes, and which it need not look at again. In come the
index of a graph and what a replacement changed, out come nodes. Called by the engine, a walk at a
time.

What rules find at a node follows from what the node is computed from. So a walk that changed
something is followed by one over the nodes behind a change that came after they were looked at, and
over those where somebody asked who reads a result, or a replacement did not fit: anything may have
changed that."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Container, Iterable

from ortable.ir.node import Node

from .index import GraphIndex, Key


class Worklist:
    """One walk: over the nodes that were chosen, in order, then over those that wait since a
    replacement, first in, first out."""

    def __init__(self, index: GraphIndex, nodes: Iterable[Node]) -> None:
        self.index = index
        self.ahead: list[tuple[Key, int, Node]] = [
            (index.keys[node], place, node) for place, node in enumerate(nodes)
        ]
        self.place = 0  # in ``ahead``
        self.key: Key | None = None  # of the node that is looked at; None behind the last one
        self.whole = True  # whether every node was chosen
        self.behind: deque[Node] = deque()
        self.waiting = {node for _, _, node in self.ahead}
        self.again: set[Node] = set()  # to be looked at in the next walk
        self.born: set[Node] = set()
        self.learnt = index.learnt
        self.revived = index.revived

    def take(self) -> Node | None:
        """The next node, None at the end."""
        if self.place < len(self.ahead):
            self.key, _, node = self.ahead[self.place]
            self.place += 1
        elif self.behind:
            self.key, node = None, self.behind.popleft()
        else:
            return None
        self.waiting.discard(node)
        return node

    def looked(self, node: Node, is_open: bool) -> None:
        """No rule fits at a node; ``is_open``: that may change with what is not above it."""
        if is_open:
            self.again.add(node)
        else:
            self.again.discard(node)

    def changed(
        self, touched: list[Node], made: list[Node], depth: int, keys: Container[str]
    ) -> None:
        """A replacement touched these nodes: patterns that may hold them are to be looked at, and
        later what lies further down. ``made``: those that are new; ``keys``: operators that rules
        begin at."""
        index, key, waiting = self.index, self.key, self.waiting
        self.born.update(made)
        # in a walk over everything, what stands further down waits, and so does what reads it
        after = key if self.whole and self.revived == index.revived else None
        near, far = index.around(touched, depth, after)
        for node in near:
            if node not in waiting and node.key in keys:
                self._wait(node)
        for node in far:
            if node not in waiting and node.key in keys:
                if key is not None and index.keys[node] > key:
                    self._wait(node)
                else:
                    self.again.add(node)

    def _wait(self, node: Node) -> None:
        place = self.index.keys[node]
        self.waiting.add(node)
        if self.key is None or place <= self.key or node in self.born:
            self.behind.append(node)
        else:
            bisect.insort(self.ahead, (place, len(self.ahead), node), lo=self.place)

    def following(self, keys: Container[str]) -> Worklist:
        """The walk after this one."""
        index = self.index
        whole = index.learnt != self.learnt or index.revived != self.revived
        walk = Worklist(index, index.chosen(keys, None if whole else self.again))
        walk.whole = whole
        return walk
