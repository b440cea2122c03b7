"""Rules as a decision tree: by the operator of the root, then by the operators on the way from it to
what it is computed from, which rules share as far as they are the same. In come rules, then a node;
out go the rules that may fit there, in the order in which they are tried. Called by the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter

from ortable.ir.node import Node

from .rule import Rule

Placed = tuple[int, Rule]
_first = itemgetter(0)


class Branch:
    """One point of the way: the rules whose path ends here, and where the others go on, by the
    operator that makes an input and the input's place, -1 for any."""

    __slots__ = ("further", "rules")

    def __init__(self) -> None:
        self.rules: list[Placed] = []
        self.further: dict[str, list[tuple[int, Branch]]] = {}

    def grow(self, place: int, key: str) -> Branch:
        """The branch behind an input, a new one if there is none."""
        ways = self.further.setdefault(key, [])
        for at, branch in ways:
            if at == place:
                return branch
        branch = Branch()
        ways.append((place, branch))
        return branch


def grown(rules: Iterable[Rule]) -> dict[str, Branch]:
    """The tree of rules, by the operator of their roots; larger patterns come first, then names."""
    trees: dict[str, Branch] = {}
    for order, rule in enumerate(sorted(rules, key=lambda rule: (-rule.size, rule.name))):
        branch = trees.setdefault(rule.root, Branch())
        for place, key in rule.path:
            branch = branch.grow(place, key)
        branch.rules.append((order, rule))
    return trees


def rules_at(branch: Branch, node: Node, producers: Mapping[str, Node]) -> list[Placed]:
    """The rules whose paths are there above a node, in order, each once."""
    if not branch.further:
        return branch.rules
    found: list[Placed] = []
    _collect(branch, node, producers, found)
    if len(found) > len(branch.rules):
        found = list(dict.fromkeys(sorted(found, key=_first)))
    return found


def _collect(
    branch: Branch, node: Node, producers: Mapping[str, Node], found: list[Placed]
) -> None:
    found += branch.rules
    further = branch.further
    if not further:
        return
    for place, name in enumerate(node.inputs):
        maker = producers.get(name)
        if maker is not None and (ways := further.get(maker.key)):
            for at, inner in ways:
                if at in (-1, place):
                    _collect(inner, maker, producers, found)
