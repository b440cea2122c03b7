"""Record which rules fired where, how often each was tried, and why it was rejected.

The engine fills the record; the reports of export and backend and the command line read it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class RuleStatistics:
    """Counts of one rule: calls of the matcher, replacements, rejections by reason, and seconds."""

    tried: int = 0
    matched: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


@dataclass(frozen=True)
class RuleFiring:
    """One replacement by a rule.

    ``graph`` is the path of the subgraph, empty for the main graph; ``results`` are the replaced
    results; ``removed`` and ``made`` are the names of the removed and the new nodes; ``origin`` is
    that of the first removed node.
    """

    rule: str
    graph: str
    results: tuple[str, ...]
    removed: tuple[str, ...]
    made: tuple[str, ...]
    origin: object = None


@dataclass
class RewriteRecord:
    """The record of rewriting one model, in the order in which rules fired."""

    fired: list[RuleFiring] = field(default_factory=list)
    statistics: dict[str, RuleStatistics] = field(default_factory=dict)
    seconds: float = 0.0

    def statistics_of(self, rule: str) -> RuleStatistics:
        """Return the counts of a rule; add them if they are missing."""
        statistics = self.statistics.get(rule)
        if statistics is None:
            statistics = self.statistics[rule] = RuleStatistics()
        return statistics

    def counts(self) -> dict[str, int]:
        """Return how often each rule fired, the most frequent first."""
        return dict(Counter(fired.rule for fired in self.fired).most_common())

    def refusals(self, rules: int = 50, reasons: int = 3) -> dict[str, dict[str, int]]:
        """Return why matches were rejected: the most rejected rules, each with its top reasons.

        A match that is rejected several times counts several times. Rules that fired elsewhere in
        the graph are included.
        """
        refused = {
            name: statistics.refused
            for name, statistics in self.statistics.items()
            if statistics.refused
        }
        names = sorted(refused, key=lambda name: (-refused[name].total(), name))
        return {name: dict(refused[name].most_common(reasons)) for name in names[:rules]}
