"""The block of ``pattern:`` -> graphs of pattern nodes, one for each choice of its alternatives."""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ortablegen.language.parse import Code, onnx_call
from ortablegen.language.vocabulary import DTYPES
from ortablegen.schemas.onnx import key_of


class PatternProblem(Exception):
    """Something that no pattern can say, and the place where it stands."""

    def __init__(self, node: ast.AST, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.node = node
        self.fix = fix


@dataclass(frozen=True)
class Capture:
    """Any result, kept under a name (``None``: not kept); ``optional`` ones may be left out."""

    name: str | None
    at: ast.AST = field(compare=False, repr=False)
    optional: bool = False


@dataclass(frozen=True)
class Absent:
    """``None`` as an argument: an input that is left out."""


@dataclass(frozen=True)
class Number:
    """A constant of one element."""

    value: float | bool


@dataclass(frozen=True)
class Numbers:
    """A constant of rank 1."""

    values: tuple[float | bool, ...]


@dataclass(frozen=True)
class Rest:
    """All inputs that are left, as a list."""

    name: str | None
    at: ast.AST = field(compare=False, repr=False)


@dataclass(frozen=True)
class Made:
    """The result of another node of the pattern."""

    node: PatternNode
    place: int


Argument = Capture | Absent | Number | Numbers | Made


@dataclass(frozen=True)
class AttributeCapture:
    """The value of an attribute, kept under a name (``None``: any value)."""

    name: str | None


@dataclass(frozen=True)
class AttributeLiteral:
    """A value that the attribute must have; its expression is emitted as it stands."""

    expression: ast.expr


@dataclass(eq=False)
class PatternNode:
    """One ONNX node of a pattern; two calls that look alike are two nodes."""

    call: ast.Call
    domain: str
    op: str
    arguments: list[Argument]
    rest: Rest | None
    attributes: dict[str, AttributeCapture | AttributeLiteral]
    kept: str | None
    outputs: list[str | None]  # names of its results, None for one without a name
    commutative: bool  # whether its operator has the trait

    @property
    def key(self) -> str:
        """``Gemm``, ``com.microsoft::Gelu``."""
        return key_of(self.op, self.domain)

    @property
    def commutes(self) -> bool:
        """Whether both orders of the inputs are tried."""
        return self.commutative and len(self.arguments) == 2 and self.rest is None

    def made(self) -> list[PatternNode]:
        """The nodes that make inputs of this one."""
        return [a.node for a in self.arguments if isinstance(a, Made)]


@dataclass(frozen=True)
class Pattern:
    """One alternative: ``nodes`` in the order of the text, ``results`` as returned, ``aliases`` of
    names whose ``optional`` node is left out, ``body`` as statements."""

    nodes: tuple[PatternNode, ...]
    results: tuple[Made, ...]
    aliases: dict[str, Argument]
    body: tuple[ast.stmt, ...]

    def roots(self) -> list[PatternNode]:
        """Nodes that make the results, the anchor first."""
        return list(dict.fromkeys(result.node for result in self.results))

    def captures(self) -> dict[str, Capture | Rest]:
        """Results that come from outside, by name, in the order of the text."""
        found: dict[str, Capture | Rest] = {}
        for node in self.nodes:
            for argument in (*node.arguments, *([node.rest] if node.rest else [])):
                if isinstance(argument, Capture | Rest) and argument.name is not None:
                    found.setdefault(argument.name, argument)
        return found

    def attribute_names(self) -> dict[str, tuple[PatternNode, str]]:
        """Captured attributes: name -> node and attribute."""
        found: dict[str, tuple[PatternNode, str]] = {}
        for node in self.nodes:
            for attribute, wanted in node.attributes.items():
                if isinstance(wanted, AttributeCapture) and wanted.name is not None:
                    found.setdefault(wanted.name, (node, attribute))
        return found

    def made_names(self) -> dict[str, Made]:
        """Results that nodes of the pattern make, by name."""
        return {
            name: Made(node, place)
            for node in self.nodes
            for place, name in enumerate(node.outputs)
            if name is not None
        }


def unreachable(pattern: Pattern) -> PatternNode | None:
    """A node that a matcher cannot find from the anchor; None when it finds all of them."""
    found: set[int] = set()
    names: set[str] = set()
    stack = [pattern.roots()[0]]
    while stack:
        node = stack.pop()
        if id(node) not in found:
            found.add(id(node))
            captures = [a for a in node.arguments if isinstance(a, Capture)]
            names |= {capture.name for capture in captures if capture.name is not None}
            stack += node.made()
        if not stack:
            entry = entrance(pattern, found, names)
            stack += [entry[0]] if entry is not None else []
    return next((root for root in pattern.nodes if id(root) not in found), None)


def entrance(pattern: Pattern, found: set[int], names: set[str]) -> tuple[PatternNode, int] | None:
    """A node that reads a result that is known already, and at which input; the results of nodes
    of the pattern first, since they have fewer readers than what comes from outside."""
    for kind in (Made, Capture):
        for node in pattern.nodes:
            if id(node) in found:
                continue
            for place, argument in enumerate(node.arguments):
                if not isinstance(argument, kind):
                    continue
                if isinstance(argument, Made):
                    known = id(argument.node) in found
                else:
                    assert isinstance(argument, Capture)
                    known = argument.name in names and not argument.optional
                if known:
                    return node, place
    return None


def _power(base: float, exponent: float) -> float:
    """A real number that float64 can hold: `10 ** 10 ** 10` would be computed for hours."""
    try:
        found = float(base) ** float(exponent)
    except OverflowError:
        raise ArithmeticError("it is too large") from None
    if isinstance(found, complex):
        raise ArithmeticError("it is complex")
    return base**exponent


MAX_ALTERNATIVES = 16
_NUMBERS = {"inf": math.inf, "pi": math.pi}
_ARITHMETIC: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: _power,
}


def read_patterns(code: Code, commutative: frozenset[str]) -> tuple[Pattern, ...]:
    """Every alternative of a pattern, in the order of their choices; ``commutative`` has the keys
    of the operators with that trait.

    Raises:
        PatternProblem: for the first thing that is no pattern.
    """
    choices = [list(_statement_choices(statement)) for statement in code.body]
    _limit(math.prod(len(each) for each in choices), code.body[0])
    return tuple(_Reader(body, commutative).pattern() for body in itertools.product(*choices))


# -- alternatives -----------------------------------------------------------------------------


def _statement_choices(statement: ast.stmt) -> Iterator[ast.stmt]:
    if isinstance(statement, ast.Assign):
        for value in _choices(statement.value):
            yield ast.copy_location(ast.Assign(statement.targets, value), statement)
    else:
        assert isinstance(statement, ast.Return) and statement.value is not None
        for value in _choices(statement.value):
            yield ast.copy_location(ast.Return(value), statement)


def _choices(node: ast.expr) -> list[ast.expr]:
    """The expression with every ``optional`` and ``any_of`` in it decided."""
    if isinstance(node, ast.Tuple):
        return [
            ast.copy_location(ast.Tuple(list(each), ast.Load()), node)
            for each in _together(node.elts, node)
        ]
    if not isinstance(node, ast.Call):
        return [node]
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "any_of":
        if len(node.args) < 2 or node.keywords:
            raise PatternProblem(node, "any_of needs two patterns or more")
        return [each for argument in node.args for each in _choices(argument)]
    if name == "optional":
        inner = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if not isinstance(inner, ast.Call) or onnx_call(inner) is None or not inner.args:
            raise PatternProblem(
                node, "optional takes one node with an input", "optional(Cast(x, to=kind))"
            )
        found = [*_choices(inner), *_choices(inner.args[0])]
        _limit(len(found), node)
        return found
    return [
        ast.copy_location(ast.Call(node.func, list(each), node.keywords), node)
        for each in _together(node.args, node)
    ]


def _together(nodes: Sequence[ast.expr], where: ast.expr) -> Iterator[tuple[ast.expr, ...]]:
    """One choice of each of the expressions, in every combination."""
    parts = [_choices(node) for node in nodes]
    _limit(math.prod(len(part) for part in parts), where)
    return itertools.product(*parts)


def _limit(count: int, where: ast.AST) -> None:
    if count > MAX_ALTERNATIVES:
        raise PatternProblem(
            where,
            f"{count} alternatives, at most {MAX_ALTERNATIVES} are allowed",
            "write a second rewrite",
        )


# -- one alternative ----------------------------------------------------------------------------


class _Reader:
    def __init__(self, body: tuple[ast.stmt, ...], commutative: frozenset[str]) -> None:
        self.body = body
        self.commutative = commutative
        self.nodes: list[PatternNode] = []
        self.names: dict[str, Argument] = {}
        self.aliases: dict[str, Argument] = {}
        self.used: set[str] = set()
        self.attributes: set[str] = set()

    def pattern(self) -> Pattern:
        results: list[Made] = []
        for statement in self.body:
            if isinstance(statement, ast.Assign):
                self.assign(statement)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                value = statement.value
                parts = value.elts if isinstance(value, ast.Tuple) else [value]
                results = [self.result(part) for part in parts]
        self.check_used(results)
        return Pattern(tuple(self.nodes), tuple(results), self.aliases, self.body)

    def assign(self, statement: ast.Assign) -> None:
        target = statement.targets[0]
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        value = statement.value
        if onnx_call(value) is None and len(names) == 1:
            name = self.free_name(names[0])
            self.names[name] = self.aliases[name] = self.argument(value)
            return
        made = self.node(value)
        for place, each in enumerate(names):
            assert isinstance(each, ast.Name)
            if each.id == "_":
                continue
            name = self.free_name(each)
            self.names[name] = Made(made, place)
            while len(made.outputs) <= place:
                made.outputs.append(None)
            made.outputs[place] = name
        while len(made.outputs) < len(names):
            made.outputs.append(None)

    def free_name(self, target: ast.expr) -> str:
        assert isinstance(target, ast.Name)
        if target.id in self.used or target.id in self.names or target.id in self.attributes:
            raise PatternProblem(target, f"'{target.id}' has a meaning already")
        return target.id

    def result(self, value: ast.expr) -> Made:
        found = self.argument(value)
        if not isinstance(found, Made):
            raise PatternProblem(value, "a pattern returns results of its nodes", "return Relu(x)")
        return found

    def argument(self, node: ast.expr) -> Argument:
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Constant) and node.value is None:
            return Absent()
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "maybe":
                return self.maybe(node)
            return Made(self.node(node), 0)
        if isinstance(node, ast.List):
            return Numbers(tuple(number(each) for each in node.elts))
        return Number(number(node))

    def maybe(self, node: ast.Call) -> Capture:
        inner = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if not isinstance(inner, ast.Name) or inner.id in self.names:
            raise PatternProblem(node, "maybe takes the name of an input", "maybe(bias)")
        found = self.name(inner)
        assert isinstance(found, Capture)
        return Capture(found.name, inner, True)

    def name(self, node: ast.Name) -> Argument:
        if node.id == "_":
            return Capture(None, node)
        if node.id in _NUMBERS:
            return Number(_NUMBERS[node.id])
        if node.id in self.attributes:
            raise PatternProblem(node, f"'{node.id}' is an attribute, and no result")
        self.used.add(node.id)
        return self.names.get(node.id, Capture(node.id, node))

    def node(self, node: ast.expr) -> PatternNode:
        found = onnx_call(node)
        if found is None or not isinstance(node, ast.Call):
            text = ast.unparse(node)
            raise PatternProblem(
                node,
                f"'{text}' is no node of a pattern",
                "a node is written as its operator: MatMul(a, b); conditions go to when:",
            )
        domain, op = found
        arguments: list[Argument] = []
        rest: Rest | None = None
        for place, argument in enumerate(node.args):
            if not isinstance(argument, ast.Starred):
                arguments.append(self.argument(argument))
                continue
            if place != len(node.args) - 1 or not isinstance(argument.value, ast.Name):
                raise PatternProblem(
                    argument, "'*' takes a name, and stands last", "Concat(x, *xs)"
                )
            if argument.value.id in self.names or argument.value.id in self.used:
                raise PatternProblem(argument, f"'{argument.value.id}' has a meaning already")
            name = None if argument.value.id == "_" else argument.value.id
            if name is not None:
                self.used.add(name)
            rest = Rest(name, argument)
        while arguments and isinstance(arguments[-1], Absent) and rest is None:
            arguments.pop()
        commutes = key_of(op, domain) in self.commutative
        made = PatternNode(node, domain, op, arguments, rest, {}, None, [None], commutes)
        for keyword in node.keywords:
            self.attribute(made, keyword)
        self.nodes.append(made)
        return made

    def attribute(self, made: PatternNode, keyword: ast.keyword) -> None:
        assert keyword.arg is not None
        value = keyword.value
        if not isinstance(value, ast.Name) or value.id in (*DTYPES, *_NUMBERS):
            if keyword.arg == "attrs":
                raise PatternProblem(value, "attrs= takes a name", "attrs=kept")
            check_literal(value)
            made.attributes[keyword.arg] = AttributeLiteral(value)
            return
        if value.id in self.used or value.id in self.names:
            raise PatternProblem(value, f"'{value.id}' is a result, and no attribute")
        if keyword.arg == "attrs":
            made.kept = value.id
        else:
            made.attributes[keyword.arg] = AttributeCapture(None if value.id == "_" else value.id)
        if value.id != "_":
            self.attributes.add(value.id)

    def check_used(self, results: list[Made]) -> None:
        """Every node is below a result, so that a matcher can find it."""
        reached: set[int] = set()
        stack = [result.node for result in results]
        while stack:
            node = stack.pop()
            if id(node) not in reached:
                reached.add(id(node))
                stack.extend(node.made())
        for node in self.nodes:
            if id(node) not in reached:
                raise PatternProblem(
                    node.call, f"this {node.key} is below no result that the pattern returns"
                )


def number(node: ast.expr) -> float | bool:
    """The number that an expression without names stands for."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name) and node.id in _NUMBERS:
        return _NUMBERS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -number(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        try:
            return _ARITHMETIC[type(node.op)](number(node.left), number(node.right))
        except (ArithmeticError, TypeError) as error:
            fix = "a finite number, or inf"
            raise PatternProblem(node, f"cannot compute this number: {error}", fix) from None
    raise PatternProblem(
        node, f"'{ast.unparse(node)}' is neither a result nor a number", "a name, or a literal"
    )


def check_literal(node: ast.expr) -> None:
    """An attribute is compared with a literal: a number, text, a dtype, None, or a list of
    these."""
    if isinstance(node, ast.List):
        for each in node.elts:
            check_literal(each)
        return
    if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in DTYPES):
        return
    number(node)
