"""How analyses look at a graph: from a result up to what it is computed from, each result once.

In comes an analysis, a step that asks for the facts of other results; out goes the fact of one
result. Called by the other modules of this package. While rules run, facts stay in
``graph.analysed``, which the rewriting engine empties whenever it edits the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from ortable.ir import Graph, Node
from ortable.ir.editing import use_index

K = TypeVar("K", bound=Hashable)
F = TypeVar("F")

DEEPEST = 32  # nodes between a result and what it is computed from that an analysis follows


class Analysis(Generic[K, F]):
    """An analysis: the fact that holds where nothing is known, and the step that finds the fact of
    one result with the facts of those it is computed from."""

    def __init__(self, unknown: F, step: Callable[[Traversal[K, F], K], F]) -> None:
        self.unknown = unknown
        self.step = step
        self.asks_readers = False  # whether a step ever asked who reads a result

    def of(self, graph: Graph, key: K) -> F:
        """The fact about a result, or about whatever else the analysis is asked."""
        if graph.analysed is None:
            return Traversal(graph, self, {}).fact(key)
        stored = graph.analysed.get(self)
        if stored is None:
            stored = graph.analysed[self] = {}
        if key not in stored:
            uses = use_index(graph)
            asked = uses.query_count
            fact = Traversal(graph, self, stored).fact(key)
            self.asks_readers = self.asks_readers or asked != uses.query_count
            return fact
        if self.asks_readers:
            use_index(graph).query_count += 1  # whoever takes the fact asks, too
        return stored[key]


class Traversal(Generic[K, F]):
    """One look at a graph. Facts that hang on nothing but the graph go to ``stored``; those that
    lack what lies deeper than DEEPEST serve this walk only, from the same depth on."""

    def __init__(self, graph: Graph, analysis: Analysis[K, F], stored: dict[K, F]) -> None:
        self.graph = graph
        self.analysis = analysis
        self.stored = stored
        self.shortened: dict[K, tuple[int, F]] = {}
        self.depth = 0
        self.cut = False

    def fact(self, key: K) -> F:
        """The fact about another result, for a step."""
        if key in self.stored:
            return self.stored[key]
        depth, fact = self.shortened.get(key, (DEEPEST, self.analysis.unknown))
        if depth <= self.depth:
            self.cut = True
            return fact
        before, self.cut = self.cut, False
        self.depth += 1
        fact = self.analysis.step(self, key)
        self.depth -= 1
        if self.cut:
            self.shortened[key] = self.depth, fact
        else:
            self.stored[key] = fact
        self.cut = self.cut or before
        return fact


Transfer = Callable[[Traversal[str, F], Node], F]


def by_operator(
    unknown: F,
    constant: Callable[[Graph, str], F | None],
    transfers: Mapping[str, Transfer[F]],
) -> Analysis[str, F]:
    """An analysis of results: ``constant`` gives the fact that needs no look at a node, or None;
    ``transfers`` has a function for each operator that is followed."""

    def step(walk: Traversal[str, F], name: str) -> F:
        fact = constant(walk.graph, name)
        if fact is not None:
            return fact
        info = walk.graph.values.get(name) if name else None
        node = None if info is None else info.producer
        transfer = None if node is None else transfers.get(node.key)
        return unknown if node is None or transfer is None else transfer(walk, node)

    return Analysis(unknown, step)


def same_as_input(walk: Traversal[str, F], node: Node) -> F:
    """The transfer of operators that keep a fact of their first input."""
    return walk.fact(node.inputs[0])
