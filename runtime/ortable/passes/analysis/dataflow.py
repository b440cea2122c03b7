"""The framework of dataflow analyses: facts flow from operands to results.

The step of an analysis computes the fact of a result from the facts of other results. While rules
run, `Analysis.fact_of` caches facts in ``graph.analysis_results``; the rewrite engine clears this
cache whenever it edits the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Generic, TypeVar

from ortable.ir import Graph, Node
from ortable.ir.editing import use_index

K = TypeVar("K", bound=Hashable)
F = TypeVar("F")

MAX_DEPTH = 32  # the longest chain of producers that an analysis follows


class Analysis(Generic[K, F]):
    """A dataflow analysis.

    ``unknown`` is the fact of results about which nothing is known; ``step`` computes the fact of a
    result from the facts of its operands.
    """

    def __init__(self, unknown: F, step: Callable[[Traversal[K, F], K], F]) -> None:
        self.unknown = unknown
        self.step = step
        self.has_read_uses = False  # whether a step has looked up the readers of a result

    def fact_of(self, graph: Graph, key: K) -> F:
        """Return the fact of a result, or of another key of the analysis."""
        if graph.analysis_results is None:
            return Traversal(graph, self, {}).find_fact(key)
        facts = graph.analysis_results.get(self)
        if facts is None:
            facts = graph.analysis_results[self] = {}
        if key not in facts:
            use_counts = use_index(graph)
            queries_before = use_counts.query_count
            fact = Traversal(graph, self, facts).find_fact(key)
            self.has_read_uses = self.has_read_uses or queries_before != use_counts.query_count
            return fact
        if self.has_read_uses:
            use_index(graph).query_count += 1  # like the step, whose fact depends on readers
        return facts[key]


class Traversal(Generic[K, F]):
    """One traversal of a graph.

    ``stored`` has the facts that hold in every traversal. ``shortened`` has the facts that were
    computed without operands beyond MAX_DEPTH, and the depths; these facts are valid only in this
    traversal, at the same depth or deeper. ``cut`` says whether a step has used such a fact.
    """

    def __init__(self, graph: Graph, analysis: Analysis[K, F], stored: dict[K, F]) -> None:
        self.graph = graph
        self.analysis = analysis
        self.stored = stored
        self.shortened: dict[K, tuple[int, F]] = {}
        self.depth = 0
        self.cut = False

    def find_fact(self, key: K) -> F:
        """Find the fact of a key, which a step needs or `Analysis.fact_of` returns."""
        if key in self.stored:
            return self.stored[key]
        depth, fact = self.shortened.get(key, (MAX_DEPTH, self.analysis.unknown))
        if depth <= self.depth:
            self.cut = True
            return fact
        was_cut, self.cut = self.cut, False
        self.depth += 1
        fact = self.analysis.step(self, key)
        self.depth -= 1
        if self.cut:
            self.shortened[key] = self.depth, fact
        else:
            self.stored[key] = fact
        self.cut = self.cut or was_cut
        return fact


Transfer = Callable[[Traversal[str, F], Node], F]


def make_operator_analysis(
    unknown: F,
    constant: Callable[[Graph, str], F | None],
    transfers: Mapping[str, Transfer[F]],
) -> Analysis[str, F]:
    """Make an analysis that dispatches on the operator of the node that produces a result.

    ``constant`` returns the fact of a result that needs no transfer function, such as a constant,
    else None. ``transfers`` has a transfer function for each operator that the analysis follows.
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
    """Return the fact of the first input: the transfer function of operators that preserve it."""
    return traversal.find_fact(node.inputs[0])
