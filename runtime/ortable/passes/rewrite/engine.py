"""Runs rules over a graph until none fits: a worklist of nodes, rules found by the operators of a
node and of what it reads, every replacement checked for dtype and shape.

In come a graph and rules, out goes the same graph, changed in place, and a record of what was done.
Called by `passes.pipeline`."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Any

from ortable.errors import BuilderError, OrtableError, RewriteError
from ortable.ir import editing
from ortable.ir.captures import subgraphs
from ortable.ir.node import Node
from ortable.ir.state import GraphState

from .index import GraphIndex
from .record import Fired, RewriteRecord
from .replace import Refused, Replacement
from .rule import STAGES, Match, Rule

_LEAST_LIMIT = 1000  # replacements in a graph, however small; 20 for each node of a larger one
_DEEP = 12  # how far below a change a pattern may begin, at most

Candidates = dict[str, dict[str, list[tuple[int, Rule]]]]
_NO_RULES: list[tuple[int, Rule]] = []
_place = itemgetter(0)


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
def _stages(
    rules: tuple[Rule, ...], target: str | None, opset: int
) -> list[tuple[Candidates, int]]:
    """The rules for graphs of a target and opset, stage by stage."""
    chosen = [
        rule
        for rule in rules
        if rule.target in ("", target) and rule.opsets[0] <= opset <= rule.opsets[1]
    ]
    stages = [_index([rule for rule in chosen if rule.stage == stage]) for stage in STAGES]
    return [stage for stage in stages if stage[0]]


def _index(rules: list[Rule]) -> tuple[Candidates, int]:
    """Rules by operator of the root, then by the operator that one of its inputs must come from;
    and how many levels the patterns have at most."""
    found: Candidates = {}
    for place, rule in enumerate(sorted(rules, key=lambda rule: (-rule.size, rule.name))):
        found.setdefault(rule.root, {}).setdefault(rule.child, []).append((place, rule))
    return found, min(max((rule.size for rule in rules), default=0), _DEEP)


def _rewrite_graph(
    graph: Any, path: str, stages: list[tuple[Candidates, int]], record: RewriteRecord
) -> None:
    for node in graph.nodes:
        for place, inner in enumerate(subgraphs(node) if node.attrs else ()):
            if isinstance(inner, GraphState):
                _rewrite_graph(inner, f"{path}{node.name}.{place}/", stages, record)
    if not any(node.key in candidates for node in graph.nodes for candidates, _ in stages):
        return
    run = _Run(graph, path, record)
    try:
        for candidates, depth in stages:
            run.stage(candidates, depth)
    finally:
        run.finish()


class _Run:
    """Rewriting of one graph."""

    def __init__(self, graph: Any, path: str, record: RewriteRecord) -> None:
        self.graph = graph
        self.path = path
        self.record = record
        self.index = GraphIndex(graph)
        self.limit = max(_LEAST_LIMIT, 20 * len(graph.nodes))
        self.fired = 0

    def stage(self, candidates: Candidates, depth: int) -> None:
        """Runs the rules of a stage to their fixpoint: a walk over the graph, then over the nodes
        around what it changed; as often as a walk changes something."""
        before = -1
        while before < self.fired:
            before = self.fired
            queue = deque(node for node in self.index.in_order() if node.key in candidates)
            waiting = set(queue)
            while queue:
                node = queue.popleft()
                waiting.discard(node)
                while (
                    node in self.index.keys and (touched := self._try(node, candidates)) is not None
                ):
                    for each in self.index.around(touched, depth):
                        if each not in waiting and each.key in candidates:
                            waiting.add(each)
                            queue.append(each)

    def _try(self, node: Node, candidates: Candidates) -> list[Node] | None:
        """Replaces a pattern that ends in the node; the nodes around the change, or None."""
        by_child = candidates.get(node.key)
        if by_child is None:
            return None
        found = by_child.get("", _NO_RULES)
        if len(by_child) > 1 or not found:
            producers = self.index.matcher.producers
            makers = {producers[name].key for name in node.inputs if name in producers}
            others = [rules for key in makers if (rules := by_child.get(key))]
            if others:
                found = sorted(itertools.chain(found, *others), key=_place)
        for _, rule in found:
            touched = self._apply(rule, node)
            if touched is not None:
                return touched
        return None

    def _apply(self, rule: Rule, node: Node) -> list[Node] | None:
        statistics = self.record.of(rule.name)
        statistics.tried += 1
        begin = time.perf_counter()
        try:
            match = self._match(rule, node)
            if match is None:
                for reason in dict.fromkeys(self.index.matcher.reasons):
                    statistics.refused[reason] += 1
                return None
            touched, made = Replacement(self.index, rule, match).run()
        except Refused as refusal:
            statistics.refused[str(refusal)] += 1
            return None
        finally:
            statistics.seconds += time.perf_counter() - begin
        statistics.matched += 1
        self._note(rule, match, made)
        return touched

    def _match(self, rule: Rule, node: Node) -> Match | None:
        matcher = self.index.matcher
        matcher.reasons.clear()
        try:
            return rule.match(matcher, node)
        except BuilderError as error:  # a word asked for a rank, a type or a constant
            raise Refused(f"not known: {str(error).splitlines()[0]}") from None
        except OrtableError as error:
            raise Refused(str(error).splitlines()[0]) from None

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
        self.graph.nodes[:] = self.index.in_order()
        self.graph.use_index = None
        self.graph.analysed = None
        self.graph.outdate_uses()
        if self.fired:
            self.graph.successors.update(self.index.aliases)
            editing.forget(self.graph)
