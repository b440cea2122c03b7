"""Run rewrite rules over a graph until none matches.

A worklist supplies the nodes, a decision tree the rules. Every replacement is checked for dtype
and shape. Called by `passes.pipeline`; the backend and weight quantization run a few rules
directly.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any

from ortable.compat.bisector import Application, is_disabled
from ortable.errors import BuilderError, OrtableError, RewriteError
from ortable.ir import editing
from ortable.ir.captures import find_subgraphs
from ortable.ir.node import Node
from ortable.ir.state import GraphState

from .decision_tree import Branch, build_tree, rules_at
from .index import GraphIndex
from .record import RewriteRecord, RuleFiring, RuleStatistics
from .replace import Replacement, ReplacementRejected
from .rule import STAGES, Match, Rule
from .worklist import Worklist

_MIN_FIRING_LIMIT = 1000  # a graph allows this many replacements, or 20 per node if more
_MAX_REVISIT_DEPTH = 12  # levels of readers below a change that are visited again

Trees = dict[str, Branch]


def rewrite_graph(
    graph: Any, rules: Iterable[Rule], record: RewriteRecord | None = None
) -> RewriteRecord:
    """Apply rules to a graph and its subgraphs, in place.

    The rules of a stage run until none of them matches, then those of the next stage run. Within a
    stage, larger patterns are tried first, then rules in the order of their names; nodes are
    visited in graph order. Names of inputs and outputs do not change.

    Raises:
        RewriteError: rules undo one another without end.
    """
    record = RewriteRecord() if record is None else record
    begin = time.perf_counter()
    _rewrite_with_subgraphs(
        graph, "", _build_stages(tuple(rules), graph.target, graph.opset), record
    )
    record.seconds += time.perf_counter() - begin
    return record


@lru_cache(maxsize=64)
def _build_stages(
    rules: tuple[Rule, ...], target: str | None, opset: int
) -> list[tuple[Trees, int]]:
    """Return the result of `_build_stage` for each stage, with the rules for target and opset."""
    applicable = [
        rule
        for rule in rules
        if rule.target in ("", target) and rule.opsets[0] <= opset <= rule.opsets[1]
    ]
    stages = [
        _build_stage([rule for rule in applicable if rule.stage == stage]) for stage in STAGES
    ]
    return [stage for stage in stages if stage[0]]


def _build_stage(rules: list[Rule]) -> tuple[Trees, int]:
    """Return the decision tree of rules, and how far below a change their patterns may match.

    No pattern is deeper than its number of nodes, ``size``.
    """
    return build_tree(rules), min(max((rule.size for rule in rules), default=0), _MAX_REVISIT_DEPTH)


def _rewrite_with_subgraphs(
    graph: Any, path: str, stages: list[tuple[Trees, int]], record: RewriteRecord
) -> None:
    for node in graph.nodes:
        for index, inner in enumerate(find_subgraphs(node) if node.attrs else ()):
            if isinstance(inner, GraphState):
                _rewrite_with_subgraphs(inner, f"{path}{node.name}.{index}/", stages, record)
    if not any(node.key in trees for node in graph.nodes for trees, _ in stages):
        return
    run = _GraphRewrite(graph, path, record)
    try:
        for trees, depth in stages:
            run.run_stage(trees, depth)
    finally:
        run.restore_nodes()


def _describe_application(rule: Rule, match: Match) -> Application:
    """Describe a match of a rule to the bisector."""
    first = match.nodes[0]
    return Application(rule.name, rule.file, match.results, rule, first.origin)


class _GraphRewrite:
    """The state of rewriting one graph."""

    def __init__(self, graph: Any, path: str, record: RewriteRecord) -> None:
        self.graph = graph
        self.path = path
        self.record = record
        self.index = GraphIndex(graph)
        self.max_fired = max(_MIN_FIRING_LIMIT, 20 * len(graph.nodes))
        self.fired = 0
        self.rejected = 0  # matches whose replacement was rejected
        self.statistics: dict[Rule, RuleStatistics] = {}
        graph.brief_errors = True  # `_try_rules` reads only the first line of an error

    def run_stage(self, trees: Trees, depth: int) -> None:
        """Run the rules of a stage in passes until a pass changes nothing."""
        index, values = self.index, self.graph.values
        keys, uses, producers = index.keys, index.uses, index.matcher.producers
        worklist = Worklist(index, index.select_nodes(trees))
        while True:
            fired_before = self.fired
            while (node := worklist.pop_node()) is not None:
                tree = trees[node.key]
                while node in keys:
                    queries_before, rejected_before = uses.query_count, self.rejected
                    rules = rules_at(tree, node, producers, values)
                    change = self._try_rules(node, rules) if rules else None
                    if change is None:
                        worklist.mark_visited(
                            node,
                            queries_before != uses.query_count or rejected_before != self.rejected,
                        )
                        break
                    worklist.add_changed(*change, depth, trees)
            if fired_before == self.fired:
                return
            worklist = worklist.next_pass(trees)

    def _try_rules(self, node: Node, rules: list[Rule]) -> tuple[list[Node], list[Node]] | None:
        """Replace the first match rooted at the node; return nodes around it and new nodes."""
        matcher = self.index.matcher
        begin = time.perf_counter()
        for rule in rules:
            statistics = self.statistics.get(rule)
            if statistics is None:
                statistics = self.statistics[rule] = self.record.statistics_of(rule.name)
            statistics.tried += 1
            match = change = None
            try:
                match = rule.match(matcher, node)
                if match is not None and is_disabled(
                    "rewrites", partial(_describe_application, rule, match)
                ):
                    match = None  # disabled by the bisector
                if match is not None:
                    change = Replacement(self.index, rule, match).run()
            except ReplacementRejected as rejection:
                self.rejected += 1
                statistics.refused[str(rejection)] += 1
            except BuilderError as error:  # a helper needs an unknown fact
                statistics.refused[f"not known: {str(error).splitlines()[0]}"] += 1
            except OrtableError as error:
                statistics.refused[str(error).splitlines()[0]] += 1
            else:
                if match is None and matcher.reasons:
                    for reason in dict.fromkeys(matcher.reasons):
                        statistics.refused[reason] += 1
            if matcher.reasons:
                matcher.reasons.clear()
            end = time.perf_counter()
            statistics.seconds += end - begin
            begin = end
            if match is not None and change is not None:
                statistics.matched += 1
                self._record_firing(rule, match, change[1])
                return change
        return None

    def _record_firing(self, rule: Rule, match: Match, new_nodes: list[Node]) -> None:
        self.fired += 1
        removed = tuple(node.name for node in match.nodes)
        new_names = tuple(node.name for node in new_nodes)
        origin = match.nodes[0].origin
        self.record.fired.append(
            RuleFiring(rule.name, self.path, match.results, removed, new_names, origin)
        )
        if self.fired > self.max_fired:
            last_rules = sorted({fired.rule for fired in self.record.fired[-50:]})
            raise RewriteError(
                f"{self.max_fired} replacements in graph {self.graph.name!r} without an end: rules "
                f"{', '.join(last_rules)} undo one another. Switch one off: rewrites=['default', "
                f"'-{last_rules[0]}']"
            )

    def restore_nodes(self) -> None:
        """Put the nodes back into the graph, in order."""
        self.graph.brief_errors = False
        self.graph.nodes[:] = self.index.ordered_nodes()
        self.graph.use_index = None
        self.graph.analysis_results = None
        self.graph.outdate_uses()
        if self.fired:
            self.graph.successors.update(self.index.aliases)
            editing.drop_dead_results(self.graph)
