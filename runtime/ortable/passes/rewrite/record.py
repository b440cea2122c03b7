"""Record which rules fired where, how often each was tried, and why it was rejected. Filled by the
engine, read by reports of export and backend and by the command line.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class RuleStatistics:
    """Counts of one rule: ``tried`` calls of its matcher, ``matched`` replacements, ``refused``
    rejections by reason, ``seconds`` in total.
    """

    tried: int = 0
    matched: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


@dataclass(frozen=True)
class RuleFiring:
    """One replacement: the rule, the graph (empty for the main one), the replaced results, the
    nodes that were removed and made, and the origin of the first removed one.
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
        """The counts of a rule."""
        statistics = self.statistics.get(rule)
        if statistics is None:
            statistics = self.statistics[rule] = RuleStatistics()
        return statistics

    def counts(self) -> dict[str, int]:
        """How often each rule fired, the most frequent first."""
        return dict(Counter(fired.rule for fired in self.fired).most_common())

    def refusals(self, rules: int = 50, reasons: int = 3) -> dict[str, dict[str, int]]:
        """Why rules were rejected, most rejections first, with the most frequent reasons.

        A place counts as often as it was tried; rules that fired elsewhere are included.
        """
        refused = {
            name: statistics.refused
            for name, statistics in self.statistics.items()
            if statistics.refused
        }
        names = sorted(refused, key=lambda name: (-refused[name].total(), name))
        return {name: dict(refused[name].most_common(reasons)) for name in names[:rules]}
