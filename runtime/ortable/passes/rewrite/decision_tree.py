"""Rules as a decision tree: by the operator of the root, then by the operators on the way from it
to what it is computed from, which rules share as far as they are the same. In come rules, then a
node; out go the rules that may fit there, in the order in which they are tried. Called by the
engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from ortable.ir.node import Node

from .rule import CONSTANT, Rule

Placed = tuple[int, Rule]
Further = dict[str, list[tuple[int, "Branch"]]]
_first = itemgetter(0)


class Branch:
    """One point of the way: the rules whose path ends here, and where the others go on, by the
    operator that makes an input and the input's place, -1 for any."""

    __slots__ = ("alone", "further", "merged", "rules")

    def __init__(self) -> None:
        self.rules: list[Placed] = []
        self.further: Further = {}
        self.alone: list[Rule] = []  # the same in order, without their places
        self.merged: dict[tuple[Branch, ...], list[Rule]] = {}  # of a root: rules of branches

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
        for path in rule.paths:
            branch = trees.setdefault(rule.root, Branch())
            for place, key in path:
                branch = branch.grow(place, key)
            branch.rules.append((order, rule))
            branch.alone.append(rule)
    return trees


def rules_at(
    branch: Branch, node: Node, producers: Mapping[str, Node], values: Mapping[str, Any]
) -> list[Rule]:
    """The rules whose paths are there above a node, in order, each once. ``values``: what is known
    of results by name."""
    reached: list[Branch] = []
    if branch.further:
        _climb(branch.further, node, producers, values, reached)
    if not reached:
        return branch.alone
    key = tuple(reached)
    found = branch.merged.get(key)
    if found is None:
        placed = {placed for each in (branch, *key) for placed in each.rules}
        found = branch.merged[key] = [rule for _, rule in sorted(placed, key=_first)]
    return found


def _climb(
    further: Further,
    node: Node,
    producers: Mapping[str, Node],
    values: Mapping[str, Any],
    reached: list[Branch],
) -> None:
    numbers = further.get(CONSTANT)
    for place, name in enumerate(node.inputs):
        maker = producers.get(name)
        if maker is not None:
            for at, branch in further.get(maker.key, ()):
                if at < 0 or at == place:
                    if branch.rules:
                        reached.append(branch)
                    if branch.further:
                        _climb(branch.further, maker, producers, values, reached)
        if numbers is not None:
            info = values.get(name)
            if info is not None and info.constant is not None:
                reached += [branch for at, branch in numbers if at < 0 or at == place]
