"""Find rewrites that trigger one another in a cycle, so that rewriting would not end."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ortablegen.language.emit import split_conjuncts
from ortablegen.language.vocabulary import CONSTANTS, DTYPES
from ortablegen.source.diagnostics import Diagnostics

from .model import Rewrite
from .names import find_names_read, opset_range
from .pattern import Pattern, read_patterns
from .terms import Binding, CapturedResult, Replacement, match_terms

_OPPOSITES: dict[type, type] = {
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
}
_OPPOSITES |= {after: before for before, after in _OPPOSITES.items()}
_MAX_CYCLE_LENGTH = 4


@dataclass
class _Rule:
    """A rewrite, its replacement, and its conditions."""

    rewrite: Rewrite
    patterns: tuple[Pattern, ...]
    replacement: Replacement
    conditions: list[ast.expr]

    @property
    def node_growth(self) -> int:
        """An estimate of the nodes that the rule adds; each helper function counts as one."""
        return self.replacement.max_node_count - min(
            len(pattern.nodes) for pattern in self.patterns
        )


def check_cycles(rewrites: tuple[Rewrite, ...], diagnostics: Diagnostics) -> None:
    """Report cycles of rewrites that match each other's results and may not shrink the graph.

    A condition on a node that the previous rule of a cycle makes is assumed to end the cycle. A
    condition on a result that this rule captured ends the cycle only if the rule has the opposite
    condition.
    """
    rules = [
        _Rule(
            rewrite,
            read_patterns(rewrite.pattern, rewrite.traits["commutative"]),
            Replacement(rewrite),
            _expand_conditions(rewrite),
        )
        for rewrite in rewrites
    ]
    by_key: dict[str, list[int]] = {}
    for index, rule in enumerate(rules):
        for key in {pattern.root_nodes()[0].key for pattern in rule.patterns}:
            by_key.setdefault(key, []).append(index)
    edges: dict[int, list[int]] = {}
    for index, rule in enumerate(rules):
        keys = {node.key for node in rule.replacement.nodes}
        candidates = sorted({candidate for key in keys for candidate in by_key.get(key, ())})
        edges[index] = [
            candidate for candidate in candidates if _can_trigger(rule, rules[candidate])
        ]
    for start in range(len(rules)):
        _find_cycles([start], rules, edges, diagnostics)


def _find_cycles(
    path: list[int], rules: list[_Rule], edges: dict[int, list[int]], diagnostics: Diagnostics
) -> None:
    for following in edges[path[-1]]:
        if following == path[0]:
            if sum(rules[index].node_growth for index in path) >= 0:
                _report_cycle([rules[index].rewrite for index in path], diagnostics)
        elif following > path[0] and following not in path and len(path) < _MAX_CYCLE_LENGTH:
            _find_cycles([*path, following], rules, edges, diagnostics)


def _report_cycle(cycle: list[Rewrite], diagnostics: Diagnostics) -> None:
    last_rewrite = cycle[-1]
    if len(cycle) == 1:
        diagnostics.error(
            last_rewrite.span,
            f"'{last_rewrite.name}' matches its own replacement, so it never ends",
            fix="add a condition that the replacement makes false",
        )
    elif len(cycle) == 2:
        diagnostics.error(
            last_rewrite.span,
            f"'{last_rewrite.name}' undoes '{cycle[0].name}'",
            [f"'{cycle[0].name}' is at {cycle[0].span}"],
            fix="remove one, or give them conditions that exclude each other: a == b and a != b",
        )
    else:
        names = " -> ".join(f"'{rewrite.name}'" for rewrite in (*cycle, cycle[0]))
        diagnostics.error(
            last_rewrite.span,
            f"these rewrites never end: {names}",
            [f"'{rewrite.name}' is at {rewrite.span}" for rewrite in cycle[:-1]],
            fix="remove one, or give two of them conditions that exclude each other",
        )


def _can_trigger(first: _Rule, second: _Rule) -> bool:
    """Whether ``second`` matches nodes that ``first`` makes, in any context."""
    if bool(first.rewrite.off_reason) != bool(second.rewrite.off_reason):
        return False  # users enable such a rule by name, in place of the rules that it undoes
    first_opsets, second_opsets = opset_range(first.rewrite), opset_range(second.rewrite)
    if max(first_opsets[0], second_opsets[0]) > min(first_opsets[1], second_opsets[1]):
        return False
    return any(
        _can_hold(first, second, binding)
        for pattern in second.patterns
        for binding in match_terms(pattern, first.replacement)
    )


def _can_hold(first: _Rule, second: _Rule, binding: Binding) -> bool:
    first_conditions = {ast.unparse(condition) for condition in first.conditions}
    first_lets = {name for name, _ in first.rewrite.let}
    for condition in second.conditions:
        renamed = _rename_condition(condition, binding, first_lets)
        if renamed is None or ast.unparse(_negate_condition(renamed)) in first_conditions:
            return False
    return True


def _expand_conditions(rewrite: Rewrite) -> list[ast.expr]:
    """Return the conditions of a rewrite, with the values of ``let`` substituted."""
    if rewrite.when is None:
        return []
    conditions = split_conjuncts(rewrite.when.expression)
    for name, code in reversed(rewrite.let):
        conditions = [
            _replace_names(condition, {name: code.expression}) for condition in conditions
        ]
    return conditions


def _rename_condition(
    condition: ast.expr, binding: Binding, let_names: set[str]
) -> ast.expr | None:
    """Express a condition of the second rule in the names of the first; None if impossible."""
    names: dict[str, ast.expr] = {}
    names_read = find_names_read([condition]) - set(DTYPES) - set(CONSTANTS)
    for name in names_read & set(binding):
        value = binding[name]
        if getattr(value, "name", getattr(value, "id", None)) in let_names:
            return None
        if isinstance(value, CapturedResult):
            names[name] = ast.Name(value.name, ast.Load())
        elif isinstance(value, ast.Name | ast.Constant):
            names[name] = value
        else:
            return None
    return _replace_names(condition, names) if names_read <= set(binding) else None


def _replace_names(node: ast.expr, names: dict[str, ast.expr]) -> ast.expr:
    class Replace(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return names.get(name.id, name)

    copy = ast.parse(ast.unparse(node), mode="eval").body
    replaced = Replace().visit(copy)
    assert isinstance(replaced, ast.expr)
    return replaced


def _negate_condition(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITES:
        return ast.Compare(node.left, [_OPPOSITES[type(node.ops[0])]()], node.comparators)
    return ast.UnaryOp(ast.Not(), node)
