"""The framework of dataflow analyses: facts flow from operands to results, each result once.

An analysis has a step that computes the fact of a result from those of other results. While
rules run, facts are cached in ``graph.analysed``, which the rewrite engine clears whenever it
edits the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from ortable.ir import Graph, Node
from ortable.ir.editing import use_index

K = TypeVar("K", bound=Hashable)
F = TypeVar("F")

MAX_DEPTH = 32  # nodes that an analysis follows above a result


class Analysis(Generic[K, F]):
    """An analysis: the fact of unknown results, and the step that computes the fact of a result
    from those of its operands.
    """

    def __init__(self, unknown: F, step: Callable[[Traversal[K, F], K], F]) -> None:
        self.unknown = unknown
        self.step = step
        self.asks_readers = False  # whether a step ever looked up the readers of a result

    def fact_of(self, graph: Graph, key: K) -> F:
        """The fact of a result, or of another key of the analysis."""
        if graph.analysed is None:
            return Traversal(graph, self, {}).find_fact(key)
        stored = graph.analysed.get(self)
        if stored is None:
            stored = graph.analysed[self] = {}
        if key not in stored:
            uses = use_index(graph)
            queries_before = uses.query_count
            fact = Traversal(graph, self, stored).find_fact(key)
            self.asks_readers = self.asks_readers or queries_before != uses.query_count
            return fact
        if self.asks_readers:
            use_index(graph).query_count += 1  # the caller depends on readers as well
        return stored[key]


class Traversal(Generic[K, F]):
    """One traversal of a graph. Facts that hold everywhere go to ``stored``; those computed without
    operands below MAX_DEPTH serve this traversal only, from the same depth on.
    """

    def __init__(self, graph: Graph, analysis: Analysis[K, F], stored: dict[K, F]) -> None:
        self.graph = graph
        self.analysis = analysis
        self.stored = stored
        self.shortened: dict[K, tuple[int, F]] = {}
        self.depth = 0
        self.cut = False

    def find_fact(self, key: K) -> F:
        """Find the fact of another result, for a step."""
        if key in self.stored:
            return self.stored[key]
        depth, fact = self.shortened.get(key, (MAX_DEPTH, self.analysis.unknown))
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
    """An analysis of results by the operator that makes them.

    ``constant`` gives facts that need no node, or None; ``transfers`` has a function for each
    operator that is followed.
    """

    def compute_fact(traversal: Traversal[str, F], name: str) -> F:
        fact = constant(traversal.graph, name)
        if fact is not None:
            return fact
        info = traversal.graph.values.get(name) if name else None
        node = None if info is None else info.producer
        transfer = None if node is None else transfers.get(node.key)
        return unknown if node is None or transfer is None else transfer(traversal, node)

    return Analysis(unknown, compute_fact)


def same_as_input(traversal: Traversal[str, F], node: Node) -> F:
    """The transfer of operators that keep a fact of their first input."""
    return traversal.find_fact(node.inputs[0])
