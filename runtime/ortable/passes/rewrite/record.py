"""What rewriting did: which rule fired where, how often each was tried, and why it was refused. In
come the notes of the engine, out go counts, for reports of export and backend and for the shell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class RuleStatistics:
    """Counts of one rule: ``tried`` calls of its matcher, ``matched`` replacements, ``refused``
    places by reason, ``seconds`` altogether."""

    tried: int = 0
    matched: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0


@dataclass(frozen=True)
class Fired:
    """One replacement: the rule, the graph (empty for the main one), the results that were
    replaced, the nodes that went and those that came, and what the first of them was made for."""

    rule: str
    graph: str
    results: tuple[str, ...]
    removed: tuple[str, ...]
    made: tuple[str, ...]
    origin: object = None


@dataclass
class RewriteRecord:
    """The account of the rewriting of one model, in the order in which rules fired."""

    fired: list[Fired] = field(default_factory=list)
    statistics: dict[str, RuleStatistics] = field(default_factory=dict)
    seconds: float = 0.0

    def of(self, rule: str) -> RuleStatistics:
        """The counts of a rule."""
        found = self.statistics.get(rule)
        if found is None:
            found = self.statistics[rule] = RuleStatistics()
        return found

    def counts(self) -> dict[str, int]:
        """How often each rule fired, the most frequent first."""
        return dict(Counter(fired.rule for fired in self.fired).most_common())

    def refusals(self, rules: int = 50, reasons: int = 3) -> dict[str, dict[str, int]]:
        """Why rules were refused, those refused most first, with the most frequent reasons.

        A place counts as often as it was tried; a rule that fired elsewhere is among them.
        """
        found = {name: each.refused for name, each in self.statistics.items() if each.refused}
        names = sorted(found, key=lambda name: (-found[name].total(), name))
        return {name: dict(found[name].most_common(reasons)) for name in names[:rules]}
