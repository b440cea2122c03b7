"""Represent the results of a replacement as terms, and match patterns against the terms.

`cycles` asks by these whether a rule matches what another rule makes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ortablegen.language.parse import is_none_literal, onnx_call
from ortablegen.language.vocabulary import rewrite_helpers
from ortablegen.schemas.onnx import key_of

from .model import Rewrite
from .names import attribute_of
from .pattern import (
    Absent,
    Argument,
    AttributeLiteral,
    Capture,
    NodeOutput,
    Number,
    Numbers,
    Pattern,
    PatternNode,
    PatternProblem,
    parse_number,
)

# helpers that may make constants, which are not counted as nodes
_CONSTANTS = ("const", "as_vec", "as_scalar")


@dataclass(frozen=True)
class CapturedResult:
    """A captured result that the replacement reuses."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A literal constant of one element."""

    value: float | bool


@dataclass(frozen=True)
class Constants:
    """A literal constant of rank 1."""

    values: tuple[float | bool, ...]


@dataclass(frozen=True)
class Spread:
    """A captured list of results that the replacement reuses."""

    name: str


@dataclass(eq=False)
class ReplacementNode:
    """A node that the replacement makes."""

    key: str
    arguments: list[Term] = field(default_factory=list)
    attributes: dict[str, ast.expr] = field(default_factory=dict)
    passes_attrs: bool = False


@dataclass(frozen=True)
class Output:
    """A result of a replacement node."""

    node: ReplacementNode
    index: int


@dataclass(eq=False)
class Unknown:
    """A term of unknown content, which only a capture matches."""


Term = CapturedResult | Constant | Constants | Spread | Output | Unknown | None
Binding = dict[str, Any]  # name of a pattern -> Term or attribute expression


class Replacement:
    """The nodes of a replacement block, and the terms of its names."""

    def __init__(self, rewrite: Rewrite) -> None:
        self.nodes: list[ReplacementNode] = []
        self.max_node_count = 0
        self.names: dict[str, Term] = {}
        for statement in rewrite.replace.body:
            assert isinstance(statement, ast.Assign | ast.Return) and statement.value is not None
            value = statement.value
            self.max_node_count += _node_count(value)
            if isinstance(statement, ast.Assign):
                self.add_assignment(statement.targets[0], value)
            else:
                for part in value.elts if isinstance(value, ast.Tuple) else [value]:
                    self.make_term(part)

    def add_assignment(self, target: ast.expr, value: ast.expr) -> None:
        """Bind the target names to the term of a value."""
        term = self.make_term(value)
        if isinstance(target, ast.Name):
            self.names[target.id] = term
            return
        assert isinstance(target, ast.Tuple)
        for index, name in enumerate(target.elts):
            assert isinstance(name, ast.Name)
            node = term.node if isinstance(term, Output) else None
            self.names[name.id] = Output(node, index) if node is not None else Unknown()

    def make_term(self, node: ast.expr) -> Term:
        """Convert an expression to a term; append the nodes that it makes to ``nodes``."""
        if isinstance(node, ast.Name):
            return self.names[node.id] if node.id in self.names else CapturedResult(node.id)
        if is_none_literal(node):
            return None
        if not isinstance(node, ast.Call):
            return Unknown()
        callee = onnx_call(node)
        if callee is not None:
            return self.make_node(node, key_of(callee[1], callee[0]))
        function_name = node.func.id if isinstance(node.func, ast.Name) else ""
        if function_name in ("const", "as_vec") and node.args:
            return _constant_term(node.args[0], function_name == "as_vec")
        if function_name == "cast" and len(node.args) == 2:
            cast = ReplacementNode("Cast", [self.make_term(node.args[0])], {"to": node.args[1]})
            self.nodes.append(cast)
            return Output(cast, 0)
        for part in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.make_term(part)
        return Unknown()

    def make_node(self, node: ast.Call, key: str) -> Output:
        """Convert a call of an ONNX operator to a node, and return the node's first result."""
        arguments: list[Term] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                name = argument.value
                arguments.append(Spread(name.id) if isinstance(name, ast.Name) else Unknown())
            else:
                arguments.append(self.make_term(argument))
        while arguments and arguments[-1] is None:
            arguments.pop()
        attributes = {
            keyword.arg: keyword.value
            for keyword in node.keywords
            if keyword.arg is not None and keyword.arg not in ("outputs", "attrs")
        }
        passes_attrs = any(keyword.arg == "attrs" for keyword in node.keywords)
        replacement_node = ReplacementNode(key, arguments, attributes, passes_attrs)
        self.nodes.append(replacement_node)
        return Output(replacement_node, 0)


def _constant_term(node: ast.expr, is_vector: bool) -> Term:
    """Return the term of a constant with literal numbers, or `Unknown`."""
    try:
        if isinstance(node, ast.List):
            return Constants(tuple(parse_number(element) for element in node.elts))
        return Constants((parse_number(node),)) if is_vector else Constant(parse_number(node))
    except PatternProblem:  # the value is computed
        return Unknown()


def _node_count(node: ast.expr) -> int:
    """Return an upper bound of the number of nodes that an expression makes."""
    if isinstance(node, ast.IfExp):
        return max(_node_count(node.body), _node_count(node.orelse))
    count = sum(
        _node_count(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
    )
    if isinstance(node, ast.Call):
        count += sum(_node_count(keyword.value) for keyword in node.keywords)
        if onnx_call(node) is not None:
            return count + 1
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        helper = rewrite_helpers().get(name)
        if helper is not None and helper.makes_nodes and name not in _CONSTANTS:
            return count + 1
    return count


def match_terms(pattern: Pattern, replacement: Replacement) -> Iterator[Binding]:
    """Yield each binding of names with which nodes of a replacement match a pattern."""
    yield from _match_results(list(pattern.results), replacement.nodes, {})


def _match_results(
    results: list[NodeOutput], nodes: list[ReplacementNode], binding: Binding
) -> Iterator[Binding]:
    if not results:
        yield binding
        return
    for node in nodes:
        for bound in _match_argument(results[0], Output(node, results[0].index), binding):
            yield from _match_results(results[1:], nodes, bound)


def _match_argument(expected: Argument, term: Term, binding: Binding) -> Iterator[Binding]:
    if isinstance(expected, NodeOutput):
        if isinstance(term, Output) and term.index == expected.index:
            yield from _match_node(expected.node, term.node, binding)
    elif isinstance(expected, Capture):
        if expected.name is None or (term is None and expected.optional):
            yield binding
        elif term is not None and binding.get(expected.name, term) == term:
            yield {**binding, expected.name: term}
    elif isinstance(expected, Absent):
        if term is None:
            yield binding
    elif isinstance(expected, Numbers) and isinstance(term, Constants):
        if term.values == expected.values:
            yield binding
    elif (
        isinstance(expected, Number) and isinstance(term, Constant) and term.value == expected.value
    ):
        yield binding


def _match_node(
    expected: PatternNode, node: ReplacementNode, binding: Binding
) -> Iterator[Binding]:
    node_key = f"node {id(expected)}"
    if binding.get(node_key, node) is not node or expected.key != node.key:
        return
    bound = _match_attributes(expected, node, {**binding, node_key: node})
    if bound is None:
        return
    terms = list(node.arguments)
    count = len(expected.arguments)
    if len(terms) > count and expected.rest is None:
        return
    remaining_terms = terms[count:]
    spread = remaining_terms[0] if len(remaining_terms) == 1 else None
    if expected.rest is not None and expected.rest.name is not None and isinstance(spread, Spread):
        bound[expected.rest.name] = CapturedResult(spread.name)
    terms += [None] * (count - len(terms))
    orders = [terms[:count]]
    if expected.tries_both_orders and len(terms) == 2:
        orders.append(terms[::-1])
    for ordered_terms in orders:
        yield from _match_arguments(expected.arguments, ordered_terms, bound)


def _match_arguments(
    expected: list[Argument], terms: list[Term], binding: Binding
) -> Iterator[Binding]:
    if not expected:
        yield binding
        return
    for bound in _match_argument(expected[0], terms[0], binding):
        yield from _match_arguments(expected[1:], terms[1:], bound)


def _match_attributes(
    expected: PatternNode, node: ReplacementNode, binding: Binding
) -> Binding | None:
    """Bind captured attributes; return None if a required attribute differs or may differ."""
    if node.passes_attrs and expected.attrs_name is None:
        return None
    bound = dict(binding)
    for name, value in expected.attributes.items():
        actual = node.attributes.get(name) or _default_expression(expected, name)
        if isinstance(value, AttributeLiteral):
            if actual is None or not _is_same(value.expression, actual):
                return None
        elif value.name is not None:
            if value.name in bound and not _is_same(bound[value.name], actual):
                return None
            bound[value.name] = actual
    for name, expression in node.attributes.items():
        if name not in expected.attributes and expected.attrs_name is None:
            default = _default_expression(expected, name)
            if default is None or not _is_same(default, expression):
                return None
    return bound


def _default_expression(node: PatternNode, name: str) -> ast.expr | None:
    attribute = attribute_of(node, name)
    if attribute is None or attribute.default is None:
        return None
    return ast.parse(repr(attribute.default), mode="eval").body


def _is_same(left: ast.expr | None, right: ast.expr | None) -> bool:
    if left is None or right is None:
        return left is right
    return ast.unparse(left) == ast.unparse(right)
