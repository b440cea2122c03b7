"""Runs rules over a graph until none fits: a worklist of nodes, rules found by the operators of a
node and of what it is computed from, every replacement checked for dtype and shape.

In come a graph and rules, out goes the same graph, changed in place, and a record of what was done.
Called by `passes.pipeline`; the backend and rounded weights
apply a few rules alone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any

from ortable.compat.bisector import Application, disabled
from ortable.errors import BuilderError, OrtableError, RewriteError
from ortable.ir import editing
from ortable.ir.captures import find_subgraphs
from ortable.ir.node import Node
from ortable.ir.state import GraphState

from .decision_tree import Branch, grown, rules_at
from .index import GraphIndex
from .record import Fired, RewriteRecord, RuleStatistics
from .replace import Replacement, ReplacementRejected
from .rule import STAGES, Match, Rule
from .worklist import Worklist

_LEAST_LIMIT = 1000  # replacements in a graph, however small; 20 for each node of a larger one
_DEEP = 12  # how far below a change a pattern may begin, at most

Trees = dict[str, Branch]


def rewrite(
    graph: Any, rules: Iterable[Rule], record: RewriteRecord | None = None
) -> RewriteRecord:
    """Applies rules to a graph and the graphs inside its nodes, in place.

    Rules of one stage run until none of them fits, then those of the next; in a stage, larger
    patterns are tried first, then by name, and nodes are visited in the order of the graph. Names
    of inputs and outputs are kept.

    Raises RewriteError when rules undo one another without end.
    """
    record = RewriteRecord() if record is None else record
    begin = time.perf_counter()
    _rewrite_graph(graph, "", _stages(tuple(rules), graph.target, graph.opset), record)
    record.seconds += time.perf_counter() - begin
    return record


@lru_cache(maxsize=64)
def _stages(rules: tuple[Rule, ...], target: str | None, opset: int) -> list[tuple[Trees, int]]:
    """The rules for graphs of a target and opset, stage by stage."""
    chosen = [
        rule
        for rule in rules
        if rule.target in ("", target) and rule.opsets[0] <= opset <= rule.opsets[1]
    ]
    stages = [_grown([rule for rule in chosen if rule.stage == stage]) for stage in STAGES]
    return [stage for stage in stages if stage[0]]


def _grown(rules: list[Rule]) -> tuple[Trees, int]:
    """The tree of rules, and how many levels the patterns have at most."""
    return grown(rules), min(max((rule.size for rule in rules), default=0), _DEEP)


def _rewrite_graph(
    graph: Any, path: str, stages: list[tuple[Trees, int]], record: RewriteRecord
) -> None:
    for node in graph.nodes:
        for place, inner in enumerate(find_subgraphs(node) if node.attrs else ()):
            if isinstance(inner, GraphState):
                _rewrite_graph(inner, f"{path}{node.name}.{place}/", stages, record)
    if not any(node.key in trees for node in graph.nodes for trees, _ in stages):
        return
    run = _Run(graph, path, record)
    try:
        for trees, depth in stages:
            run.stage(trees, depth)
    finally:
        run.finish()


def _application(rule: Rule, match: Match) -> Application:
    """What a search for a fault is told of a rule at a place."""
    first = match.nodes[0]
    return Application(rule.name, rule.file, match.results, rule, first.origin)


class _Run:
    """Rewriting of one graph."""

    def __init__(self, graph: Any, path: str, record: RewriteRecord) -> None:
        self.graph = graph
        self.path = path
        self.record = record
        self.index = GraphIndex(graph)
        self.limit = max(_LEAST_LIMIT, 20 * len(graph.nodes))
        self.fired = 0
        self.refused = 0  # places where a pattern fits and its replacement does not
        self.statistics: dict[Rule, RuleStatistics] = {}
        graph.brief_errors = True  # `_try` reads their first line

    def stage(self, trees: Trees, depth: int) -> None:
        """Runs the rules of a stage to their fixpoint: a walk over the graph, then over the nodes
        around what it changed; and again over the nodes for which that may have changed something
        that is not around them, as long as a walk changes something."""
        index, values = self.index, self.graph.values
        keys, uses, producers = index.keys, index.uses, index.matcher.producers
        walk = Worklist(index, index.chosen(trees))
        while True:
            before = self.fired
            while (node := walk.take()) is not None:
                tree = trees[node.key]
                while node in keys:
                    asked, refused = uses.query_count, self.refused
                    rules = rules_at(tree, node, producers, values)
                    done = self._try(node, rules) if rules else None
                    if done is None:
                        walk.looked(node, asked != uses.query_count or refused != self.refused)
                        break
                    walk.changed(*done, depth, trees)
            if before == self.fired:
                return
            walk = walk.following(trees)

    def _try(self, node: Node, rules: list[Rule]) -> tuple[list[Node], list[Node]] | None:
        """Replaces a pattern that ends in the node; the nodes around the change and those that
        were made, or None."""
        matcher = self.index.matcher
        begin = time.perf_counter()
        for rule in rules:
            statistics = self.statistics.get(rule)
            if statistics is None:
                statistics = self.statistics[rule] = self.record.of(rule.name)
            statistics.tried += 1
            match = done = None
            try:
                match = rule.match(matcher, node)
                if match is not None and disabled("rewrites", partial(_application, rule, match)):
                    match = None  # a search for a fault has switched this place off
                if match is not None:
                    done = Replacement(self.index, rule, match).run()
            except ReplacementRejected as refusal:
                self.refused += 1
                statistics.refused[str(refusal)] += 1
            except BuilderError as error:  # a word asked for a rank, a type or a constant
                statistics.refused[f"not known: {str(error).splitlines()[0]}"] += 1
            except OrtableError as error:
                statistics.refused[str(error).splitlines()[0]] += 1
            else:
                if match is None and matcher.reasons:
                    for reason in dict.fromkeys(matcher.reasons):
                        statistics.refused[reason] += 1
            if matcher.reasons:
                matcher.reasons.clear()
            now = time.perf_counter()
            statistics.seconds += now - begin
            begin = now
            if match is not None and done is not None:
                statistics.matched += 1
                self._note(rule, match, done[1])
                return done
        return None

    def _note(self, rule: Rule, match: Match, made: list[Node]) -> None:
        self.fired += 1
        removed = tuple(node.name for node in match.nodes)
        names = tuple(node.name for node in made)
        origin = match.nodes[0].origin
        self.record.fired.append(Fired(rule.name, self.path, match.results, removed, names, origin))
        if self.fired > self.limit:
            last = sorted({fired.rule for fired in self.record.fired[-50:]})
            raise RewriteError(
                f"{self.limit} replacements in graph {self.graph.name!r} without an end: rules "
                f"{', '.join(last)} undo one another. Switch one off: rewrites=['default', "
                f"'-{last[0]}']"
            )

    def finish(self) -> None:
        """Puts the nodes back into the graph, in order."""
        self.graph.brief_errors = False
        self.graph.nodes[:] = self.index.in_order()
        self.graph.use_index = None
        self.graph.analysed = None
        self.graph.outdate_uses()
        if self.fired:
            self.graph.successors.update(self.index.aliases)
            editing.drop_dead_results(self.graph)
