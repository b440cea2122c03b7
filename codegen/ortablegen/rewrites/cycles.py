"""Rewrites that undo one another, so that they could go on for ever."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ortablegen.language.emit import conjuncts
from ortablegen.language.vocabulary import CONSTANTS, DTYPES
from ortablegen.source.diagnostics import Diagnostics

from .model import Rewrite
from .names import names_read, opset_range
from .pattern import Pattern, read_patterns
from .terms import Binding, Given, Replacement, fits

_OPPOSITES: dict[type, type] = {
    ast.Eq: ast.NotEq,
    ast.Is: ast.IsNot,
    ast.In: ast.NotIn,
    ast.Lt: ast.GtE,
    ast.Gt: ast.LtE,
}
_OPPOSITES |= {after: before for before, after in _OPPOSITES.items()}
_LONGEST = 4  # rewrites in a cycle


@dataclass
class _Rule:
    """A rewrite, what it makes, and how many nodes more there are afterwards, at most."""

    rewrite: Rewrite
    patterns: tuple[Pattern, ...]
    replacement: Replacement
    conditions: list[ast.expr]

    @property
    def growth(self) -> int:
        return self.replacement.count - min(len(pattern.nodes) for pattern in self.patterns)


def check_cycles(rewrites: tuple[Rewrite, ...], diagnostics: Diagnostics) -> None:
    """Report rewrites whose results have the form of each other's patterns, round in a circle,
    and that do not make the graph smaller on the way.

    A condition about what another rule made is taken to end the circle; one about what it left
    alone does so where the other rule has the opposite condition.
    """
    rules = [
        _Rule(
            rewrite,
            read_patterns(rewrite.pattern, rewrite.traits["commutative"]),
            Replacement(rewrite),
            _conditions(rewrite),
        )
        for rewrite in rewrites
    ]
    by_key: dict[str, list[int]] = {}
    for place, rule in enumerate(rules):
        for key in {pattern.roots()[0].key for pattern in rule.patterns}:
            by_key.setdefault(key, []).append(place)
    edges: dict[int, list[int]] = {}
    for place, rule in enumerate(rules):
        keys = {node.key for node in rule.replacement.nodes}
        others = sorted({other for key in keys for other in by_key.get(key, ())})
        edges[place] = [other for other in others if _leads(rule, rules[other])]
    for start in range(len(rules)):
        _search([start], rules, edges, diagnostics)


def _search(
    path: list[int], rules: list[_Rule], edges: dict[int, list[int]], diagnostics: Diagnostics
) -> None:
    for following in edges[path[-1]]:
        if following == path[0]:
            if sum(rules[place].growth for place in path) >= 0:
                _report([rules[place].rewrite for place in path], diagnostics)
        elif following > path[0] and following not in path and len(path) < _LONGEST:
            _search([*path, following], rules, edges, diagnostics)


def _report(found: list[Rewrite], diagnostics: Diagnostics) -> None:
    last = found[-1]
    if len(found) == 1:
        diagnostics.error(
            last.span,
            f"'{last.name}' fits what it has made, so it never ends",
            fix="add a condition about what the replacement changes",
        )
    elif len(found) == 2:
        diagnostics.error(
            last.span,
            f"'{last.name}' undoes '{found[0].name}'",
            [f"'{found[0].name}' is at {found[0].span}"],
            fix="drop one, or give them conditions that exclude each other: a == b and a != b",
        )
    else:
        names = " -> ".join(f"'{each.name}'" for each in (*found, found[0]))
        diagnostics.error(
            last.span,
            f"these rewrites never end: {names}",
            [f"'{each.name}' is at {each.span}" for each in found[:-1]],
            fix="drop one, or give two of them conditions that exclude each other",
        )


def _leads(first: _Rule, second: _Rule) -> bool:
    """Whether ``second`` fits what ``first`` makes, whatever stands around it."""
    if bool(first.rewrite.off) != bool(second.rewrite.off):
        return False  # who names a rule that is off by default knows what it undoes
    one, other = opset_range(first.rewrite), opset_range(second.rewrite)
    if max(one[0], other[0]) > min(one[1], other[1]):
        return False
    return any(
        _may_hold(first, second, binding)
        for pattern in second.patterns
        for binding in fits(pattern, first.replacement)
    )


def _may_hold(first: _Rule, second: _Rule, binding: Binding) -> bool:
    known = {ast.unparse(condition) for condition in first.conditions}
    computed = {name for name, _ in first.rewrite.let}
    for condition in second.conditions:
        renamed = _renamed(condition, binding, computed)
        if renamed is None or ast.unparse(_opposite(renamed)) in known:
            return False
    return True


def _conditions(rewrite: Rewrite) -> list[ast.expr]:
    """The conditions of a rewrite, with the values of ``let`` written out."""
    if rewrite.when is None:
        return []
    found = conjuncts(rewrite.when.expression)
    for name, code in reversed(rewrite.let):
        found = [_replaced(condition, {name: code.expression}) for condition in found]
    return found


def _renamed(condition: ast.expr, binding: Binding, computed: set[str]) -> ast.expr | None:
    """A condition of one rule in the names of the other; None when it is about what that rule
    made or ``computed``."""
    names: dict[str, ast.expr] = {}
    read = names_read([condition]) - set(DTYPES) - set(CONSTANTS)
    for name in read & set(binding):
        value = binding[name]
        if getattr(value, "name", getattr(value, "id", None)) in computed:
            return None
        if isinstance(value, Given):
            names[name] = ast.Name(value.name, ast.Load())
        elif isinstance(value, ast.Name | ast.Constant):
            names[name] = value
        else:
            return None
    return _replaced(condition, names) if read <= set(binding) else None


def _replaced(node: ast.expr, names: dict[str, ast.expr]) -> ast.expr:
    class Replace(ast.NodeTransformer):
        def visit_Name(self, name: ast.Name) -> ast.expr:
            return names.get(name.id, name)

    copy = ast.parse(ast.unparse(node), mode="eval").body
    found = Replace().visit(copy)
    assert isinstance(found, ast.expr)
    return found


def _opposite(node: ast.expr) -> ast.expr:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPPOSITES:
        return ast.Compare(node.left, [_OPPOSITES[type(node.ops[0])]()], node.comparators)
    return ast.UnaryOp(ast.Not(), node)
