"""What a replacement makes, as terms, and whether a pattern fits such a term without its
surroundings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ortablegen.language.parse import onnx_call
from ortablegen.language.vocabulary import rewrite_words
from ortablegen.schemas.onnx import key_of

from .model import Rewrite
from .names import attribute_of
from .pattern import (
    Absent,
    Argument,
    AttributeLiteral,
    Capture,
    Made,
    Number,
    Numbers,
    Pattern,
    PatternNode,
    PatternProblem,
    number,
)

# words that make constants, and no node
_CONSTANTS = ("const", "as_vec", "as_scalar")


@dataclass(frozen=True)
class Given:
    """A result that the replacement takes over."""

    name: str


@dataclass(frozen=True)
class Constant:
    """A constant of one element that is written out."""

    value: float | bool


@dataclass(frozen=True)
class Constants:
    """A constant of rank 1 that is written out."""

    values: tuple[float | bool, ...]


@dataclass(frozen=True)
class Spread:
    """A list of results that the replacement takes over."""

    name: str


@dataclass(eq=False)
class MadeNode:
    """A node that the replacement makes."""

    key: str
    arguments: list[Term] = field(default_factory=list)
    attributes: dict[str, ast.expr] = field(default_factory=dict)
    kept: bool = False


@dataclass(frozen=True)
class Output:
    """A result of such a node."""

    node: MadeNode
    place: int


@dataclass(eq=False)
class Unknown:
    """Anything else."""


Term = Given | Constant | Constants | Spread | Output | Unknown | None
Binding = dict[str, Any]  # name of the pattern -> Term, or expression of an attribute


class Replacement:
    """The terms of a replacement block."""

    def __init__(self, rewrite: Rewrite) -> None:
        self.nodes: list[MadeNode] = []
        self.count = 0
        self.names: dict[str, Term] = {}
        for statement in rewrite.replace.body:
            assert isinstance(statement, ast.Assign | ast.Return) and statement.value is not None
            value = statement.value
            self.count += _node_count(value)
            if isinstance(statement, ast.Assign):
                self.assign(statement.targets[0], value)
            else:
                for part in value.elts if isinstance(value, ast.Tuple) else [value]:
                    self.term(part)

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        found = self.term(value)
        if isinstance(target, ast.Name):
            self.names[target.id] = found
            return
        assert isinstance(target, ast.Tuple)
        for place, name in enumerate(target.elts):
            assert isinstance(name, ast.Name)
            node = found.node if isinstance(found, Output) else None
            self.names[name.id] = Output(node, place) if node is not None else Unknown()

    def term(self, node: ast.expr) -> Term:
        if isinstance(node, ast.Name):
            return self.names[node.id] if node.id in self.names else Given(node.id)
        if isinstance(node, ast.Constant) and node.value is None:
            return None
        if not isinstance(node, ast.Call):
            return Unknown()
        found = onnx_call(node)
        if found is not None:
            return self.made(node, key_of(found[1], found[0]))
        word = node.func.id if isinstance(node.func, ast.Name) else ""
        if word in ("const", "as_vec") and node.args:
            return _constant(node.args[0], word == "as_vec")
        if word == "cast" and len(node.args) == 2:
            made = MadeNode("Cast", [self.term(node.args[0])], {"to": node.args[1]})
            self.nodes.append(made)
            return Output(made, 0)
        for part in (*node.args, *(word.value for word in node.keywords)):
            self.term(part)
        return Unknown()

    def made(self, node: ast.Call, key: str) -> Output:
        arguments: list[Term] = []
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                name = argument.value
                arguments.append(Spread(name.id) if isinstance(name, ast.Name) else Unknown())
            else:
                arguments.append(self.term(argument))
        while arguments and arguments[-1] is None:
            arguments.pop()
        attributes = {
            word.arg: word.value
            for word in node.keywords
            if word.arg is not None and word.arg not in ("outputs", "attrs")
        }
        kept = any(word.arg == "attrs" for word in node.keywords)
        made = MadeNode(key, arguments, attributes, kept)
        self.nodes.append(made)
        return Output(made, 0)


def _constant(node: ast.expr, listed: bool) -> Term:
    """The value of a constant whose numbers are written out."""
    try:
        if isinstance(node, ast.List):
            return Constants(tuple(number(each) for each in node.elts))
        return Constants((number(node),)) if listed else Constant(number(node))
    except PatternProblem:  # it is computed
        return Unknown()


def _node_count(node: ast.expr) -> int:
    """How many nodes an expression makes at most, as far as its text tells."""
    if isinstance(node, ast.IfExp):
        return max(_node_count(node.body), _node_count(node.orelse))
    count = sum(
        _node_count(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
    )
    if isinstance(node, ast.Call):
        count += sum(_node_count(word.value) for word in node.keywords)
        if onnx_call(node) is not None:
            return count + 1
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        word = rewrite_words().get(name)
        if word is not None and word.makes_nodes and name not in _CONSTANTS:
            return count + 1
    return count


def fits(pattern: Pattern, replacement: Replacement) -> Iterator[Binding]:
    """Ways in which the nodes of a replacement alone have the form of a pattern."""
    yield from _roots(list(pattern.results), replacement.nodes, {})


def _roots(results: list[Made], nodes: list[MadeNode], binding: Binding) -> Iterator[Binding]:
    if not results:
        yield binding
        return
    for node in nodes:
        for found in _argument(results[0], Output(node, results[0].place), binding):
            yield from _roots(results[1:], nodes, found)


def _argument(wanted: Argument, term: Term, binding: Binding) -> Iterator[Binding]:
    if isinstance(wanted, Made):
        if isinstance(term, Output) and term.place == wanted.place:
            yield from _node(wanted.node, term.node, binding)
    elif isinstance(wanted, Capture):
        if wanted.name is None or (term is None and wanted.optional):
            yield binding
        elif term is not None and binding.get(wanted.name, term) == term:
            yield {**binding, wanted.name: term}
    elif isinstance(wanted, Absent):
        if term is None:
            yield binding
    elif isinstance(wanted, Numbers) and isinstance(term, Constants):
        if term.values == wanted.values:
            yield binding
    elif isinstance(wanted, Number) and isinstance(term, Constant) and term.value == wanted.value:
        yield binding


def _node(wanted: PatternNode, node: MadeNode, binding: Binding) -> Iterator[Binding]:
    mark = f"node {id(wanted)}"
    if binding.get(mark, node) is not node or wanted.key != node.key:
        return
    found = _attributes(wanted, node, {**binding, mark: node})
    if found is None:
        return
    terms = list(node.arguments)
    count = len(wanted.arguments)
    if len(terms) > count and wanted.rest is None:
        return
    rest = terms[count:]
    spread = rest[0] if len(rest) == 1 else None
    if wanted.rest is not None and wanted.rest.name is not None and isinstance(spread, Spread):
        found[wanted.rest.name] = Given(spread.name)
    terms += [None] * (count - len(terms))
    orders = [terms[:count]]
    if wanted.commutes and len(terms) == 2:
        orders.append(terms[::-1])
    for order in orders:
        yield from _arguments(wanted.arguments, order, found)


def _arguments(wanted: list[Argument], terms: list[Term], binding: Binding) -> Iterator[Binding]:
    if not wanted:
        yield binding
        return
    for found in _argument(wanted[0], terms[0], binding):
        yield from _arguments(wanted[1:], terms[1:], found)


def _attributes(wanted: PatternNode, node: MadeNode, binding: Binding) -> Binding | None:
    """The binding with captured attributes; None where the attributes differ, or may differ."""
    if node.kept and wanted.kept is None:
        return None
    found = dict(binding)
    for name, value in wanted.attributes.items():
        made = node.attributes.get(name) or _default(wanted, name)
        if isinstance(value, AttributeLiteral):
            if made is None or not _same(value.expression, made):
                return None
        elif value.name is not None:
            if value.name in found and not _same(found[value.name], made):
                return None
            found[value.name] = made
    for name, expression in node.attributes.items():
        if name not in wanted.attributes and wanted.kept is None:
            usual = _default(wanted, name)
            if usual is None or not _same(usual, expression):
                return None
    return found


def _default(node: PatternNode, name: str) -> ast.expr | None:
    found = attribute_of(node, name)
    if found is None or found.default is None:
        return None
    return ast.parse(repr(found.default), mode="eval").body


def _same(left: ast.expr | None, right: ast.expr | None) -> bool:
    if left is None or right is None:
        return left is right
    return ast.unparse(left) == ast.unparse(right)
