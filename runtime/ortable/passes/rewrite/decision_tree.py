"""A decision tree of rules, which the engine uses to find the rules that may match at a node.

The first level of the tree is the operator of the root; further levels are the operators along
the paths to its producers. Rules share common prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any

from ortable.ir.node import Node

from .rule import CONSTANT, Rule

OrderedRule = tuple[int, Rule]
Children = dict[str, list[tuple[int, "Branch"]]]
_get_order = itemgetter(0)


class Branch:
    """A node of the tree: the rules whose path ends here, and child branches.

    A child is selected by the operator that produces an input and by the index of this input; index
    -1 stands for any input.
    """

    __slots__ = ("children", "merged_rules", "rules", "sorted_rules")

    def __init__(self) -> None:
        self.rules: list[OrderedRule] = []
        self.children: Children = {}
        self.sorted_rules: list[Rule] = []  # ``rules`` without their order
        # For a root: the sorted rules of it and of the branches in the key, which a node reached.
        self.merged_rules: dict[tuple[Branch, ...], list[Rule]] = {}

    def add_branch(self, input_index: int, key: str) -> Branch:
        """Return the branch of an input index and an operator; add it if it is missing."""
        branches = self.children.setdefault(key, [])
        for index, branch in branches:
            if index == input_index:
                return branch
        branch = Branch()
        branches.append((input_index, branch))
        return branch


def build_tree(rules: Iterable[Rule]) -> dict[str, Branch]:
    """Build the decision tree by root operator; larger patterns come first, then names."""
    trees: dict[str, Branch] = {}
    for order, rule in enumerate(sorted(rules, key=lambda rule: (-rule.size, rule.name))):
        for path in rule.paths:
            branch = trees.setdefault(rule.root, Branch())
            for input_index, key in path:
                branch = branch.add_branch(input_index, key)
            branch.rules.append((order, rule))
            branch.sorted_rules.append(rule)
    return trees


def rules_at(
    branch: Branch, node: Node, producers: Mapping[str, Node], values: Mapping[str, Any]
) -> list[Rule]:
    """Return the rules that may match at a node, in order, without duplicates."""
    reached: list[Branch] = []
    if branch.children:
        _collect_branches(branch.children, node, producers, values, reached)
    if not reached:
        return branch.sorted_rules
    key = tuple(reached)
    rules = branch.merged_rules.get(key)
    if rules is None:
        ordered_rules = {
            ordered for reached_branch in (branch, *key) for ordered in reached_branch.rules
        }
        rules = branch.merged_rules[key] = [
            rule for _, rule in sorted(ordered_rules, key=_get_order)
        ]
    return rules


def _collect_branches(
    children: Children,
    node: Node,
    producers: Mapping[str, Node],
    values: Mapping[str, Any],
    reached: list[Branch],
) -> None:
    constants = children.get(CONSTANT)
    for input_index, name in enumerate(node.inputs):
        producer = producers.get(name)
        if producer is not None:
            for index, branch in children.get(producer.key, ()):
                if index < 0 or index == input_index:
                    if branch.rules:
                        reached.append(branch)
                    if branch.children:
                        _collect_branches(branch.children, producer, producers, values, reached)
        if constants is not None:
            info = values.get(name)
            if info is not None and info.constant is not None:
                reached += [
                    branch for index, branch in constants if index < 0 or index == input_index
                ]
