"""Parse the block of ``pattern:`` to graphs of pattern nodes, one for each alternative.

An alternative is one choice for every ``optional`` and ``any_of`` of the block.
"""

from __future__ import annotations

import ast
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ortablegen.language.parse import Code, is_none_literal, onnx_call
from ortablegen.language.vocabulary import DTYPES
from ortablegen.schemas.onnx import key_of


class PatternProblem(Exception):
    """An error in a pattern, and its position."""

    def __init__(self, node: ast.AST, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.node = node
        self.fix = fix


@dataclass(frozen=True)
class Capture:
    """An input that may be any result, bound to ``name`` if given; ``optional``: or absent."""

    name: str | None
    at: ast.AST = field(compare=False, repr=False)
    optional: bool = False


@dataclass(frozen=True)
class Absent:
    """``None`` as an argument: an absent input."""


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
    """All remaining inputs, as a list."""

    name: str | None
    at: ast.AST = field(compare=False, repr=False)


@dataclass(frozen=True)
class NodeOutput:
    """The result of another node of the pattern."""

    node: PatternNode
    index: int


Argument = Capture | Absent | Number | Numbers | NodeOutput


@dataclass(frozen=True)
class AttributeCapture:
    """Any value of an attribute, bound to ``name`` if given."""

    name: str | None


@dataclass(frozen=True)
class AttributeLiteral:
    """A value that an attribute must have; its expression is emitted unchanged."""

    expression: ast.expr


@dataclass(eq=False)
class PatternNode:
    """An ONNX node of a pattern; equal calls are separate nodes."""

    call: ast.Call
    domain: str
    op: str
    arguments: list[Argument]
    rest: Rest | None
    attributes: dict[str, AttributeCapture | AttributeLiteral]
    attrs_name: str | None
    outputs: list[str | None]  # the name of each result, or None
    commutative: bool  # the operator has the trait `commutative`

    @property
    def key(self) -> str:
        """The key of the operator: ``Gemm``, ``com.microsoft::Gelu``."""
        return key_of(self.op, self.domain)

    @property
    def tries_both_orders(self) -> bool:
        """Whether both orders of the inputs are tried."""
        return self.commutative and len(self.arguments) == 2 and self.rest is None

    def input_nodes(self) -> list[PatternNode]:
        """Return the pattern nodes that make inputs of this node."""
        return [a.node for a in self.arguments if isinstance(a, NodeOutput)]


@dataclass(frozen=True)
class Pattern:
    """One alternative of a pattern.

    ``nodes`` are in the order of the text, ``results`` in the order of the return. ``aliases`` are
    assigned names of inputs: the name of an ``optional`` node is one where the node is absent.
    ``body`` holds the statements.
    """

    nodes: tuple[PatternNode, ...]
    results: tuple[NodeOutput, ...]
    aliases: dict[str, Argument]
    body: tuple[ast.stmt, ...]

    def root_nodes(self) -> list[PatternNode]:
        """Return the nodes that make the results; matching begins at the first, the anchor."""
        return list(dict.fromkeys(result.node for result in self.results))

    def captures_by_name(self) -> dict[str, Capture | Rest]:
        """Return the captured inputs by name, in the order of the text."""
        captures: dict[str, Capture | Rest] = {}
        for node in self.nodes:
            for argument in (*node.arguments, *([node.rest] if node.rest else [])):
                if isinstance(argument, Capture | Rest) and argument.name is not None:
                    captures.setdefault(argument.name, argument)
        return captures

    def attribute_names(self) -> dict[str, tuple[PatternNode, str]]:
        """Return captured attributes: name -> node and attribute."""
        captured: dict[str, tuple[PatternNode, str]] = {}
        for node in self.nodes:
            for attribute, constraint in node.attributes.items():
                if isinstance(constraint, AttributeCapture) and constraint.name is not None:
                    captured.setdefault(constraint.name, (node, attribute))
        return captured

    def output_names(self) -> dict[str, NodeOutput]:
        """Return the results of the pattern's nodes by name."""
        return {
            name: NodeOutput(node, index)
            for node in self.nodes
            for index, name in enumerate(node.outputs)
            if name is not None
        }


def find_unreachable(pattern: Pattern) -> PatternNode | None:
    """Return a node that a matcher cannot reach from the anchor, or None."""
    reached: set[int] = set()
    names: set[str] = set()
    stack = [pattern.root_nodes()[0]]
    while stack:
        node = stack.pop()
        if id(node) not in reached:
            reached.add(id(node))
            captures = [a for a in node.arguments if isinstance(a, Capture)]
            names |= {capture.name for capture in captures if capture.name is not None}
            stack += node.input_nodes()
        if not stack:
            reachable = find_reachable_node(pattern, reached, names)
            stack += [reachable[0]] if reachable is not None else []
    return next((unreached for unreached in pattern.nodes if id(unreached) not in reached), None)


def find_reachable_node(
    pattern: Pattern, reached: set[int], names: set[str]
) -> tuple[PatternNode, int] | None:
    """Return an unreached node that reads a reached result, and the index of this input.

    Results of pattern nodes are tried first: a captured result may be a graph input, with many
    readers.
    """
    for kind in (NodeOutput, Capture):
        for node in pattern.nodes:
            if id(node) in reached:
                continue
            for index, argument in enumerate(node.arguments):
                if not isinstance(argument, kind):
                    continue
                if isinstance(argument, NodeOutput):
                    is_reached = id(argument.node) in reached
                else:
                    assert isinstance(argument, Capture)
                    is_reached = argument.name in names and not argument.optional
                if is_reached:
                    return node, index
    return None


def _bounded_power(base: float, exponent: float) -> float:
    """Compute a power if float64 can represent it; `10 ** 10 ** 10` would take hours."""
    try:
        approximate = float(base) ** float(exponent)
    except OverflowError:
        raise ArithmeticError("it is too large") from None
    if isinstance(approximate, complex):
        raise ArithmeticError("it is complex")
    return base**exponent


MAX_ALTERNATIVES = 48
_NUMBERS = {"inf": math.inf, "pi": math.pi}
_ARITHMETIC: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: _bounded_power,
}


def read_patterns(code: Code, commutative: frozenset[str]) -> tuple[Pattern, ...]:
    """Expand a pattern to its alternatives, in the order in which the text gives the choices.

    Args:
        code: the block of the pattern.
        commutative: the keys of the operators with the trait `commutative`.

    Raises:
        PatternProblem: the pattern has an error.
    """
    choices = [list(_statement_choices(statement)) for statement in code.body]
    _check_limit(math.prod(len(options) for options in choices), code.body[0])
    return tuple(_Reader(body, commutative).read_pattern() for body in itertools.product(*choices))


# -- alternatives -----------------------------------------------------------------------------


def _statement_choices(statement: ast.stmt) -> Iterator[ast.stmt]:
    if isinstance(statement, ast.Assign):
        for value in _expand_choices(statement.value):
            yield ast.copy_location(ast.Assign(statement.targets, value), statement)
    else:
        assert isinstance(statement, ast.Return) and statement.value is not None
        for value in _expand_choices(statement.value):
            yield ast.copy_location(ast.Return(value), statement)


def _expand_choices(node: ast.expr) -> list[ast.expr]:
    """Expand every ``optional`` and ``any_of`` in an expression."""
    if isinstance(node, ast.Tuple):
        return [
            ast.copy_location(ast.Tuple(list(choice), ast.Load()), node)
            for choice in _combine_choices(node.elts, node)
        ]
    if not isinstance(node, ast.Call):
        return [node]
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "any_of":
        if len(node.args) < 2 or node.keywords:
            raise PatternProblem(node, "any_of needs at least two patterns")
        return [choice for argument in node.args for choice in _expand_choices(argument)]
    if name == "optional":
        inner = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if not isinstance(inner, ast.Call) or onnx_call(inner) is None or not inner.args:
            raise PatternProblem(
                node, "optional takes one node with an input", "write optional(Cast(x, to=kind))"
            )
        choices = [*_expand_choices(inner), *_expand_choices(inner.args[0])]
        _check_limit(len(choices), node)
        return choices
    return [
        ast.copy_location(ast.Call(node.func, list(choice), node.keywords), node)
        for choice in _combine_choices(node.args, node)
    ]


def _combine_choices(
    nodes: Sequence[ast.expr], location: ast.expr
) -> Iterator[tuple[ast.expr, ...]]:
    """Yield every combination of one choice for each expression."""
    choice_lists = [_expand_choices(node) for node in nodes]
    _check_limit(math.prod(len(choice_list) for choice_list in choice_lists), location)
    return itertools.product(*choice_lists)


def _check_limit(count: int, location: ast.AST) -> None:
    if count > MAX_ALTERNATIVES:
        raise PatternProblem(
            location,
            f"{count} alternatives, at most {MAX_ALTERNATIVES} are allowed",
            "split the rewrite into two",
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

    def read_pattern(self) -> Pattern:
        results: list[NodeOutput] = []
        for statement in self.body:
            if isinstance(statement, ast.Assign):
                self.read_assignment(statement)
            elif isinstance(statement, ast.Return) and statement.value is not None:
                value = statement.value
                returned_values = value.elts if isinstance(value, ast.Tuple) else [value]
                results = [self.read_result(returned_value) for returned_value in returned_values]
        self.check_used(results)
        return Pattern(tuple(self.nodes), tuple(results), self.aliases, self.body)

    def read_assignment(self, statement: ast.Assign) -> None:
        target = statement.targets[0]
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        value = statement.value
        if onnx_call(value) is None and len(names) == 1:
            name = self.free_name(names[0])
            self.names[name] = self.aliases[name] = self.read_argument(value)
            return
        pattern_node = self.read_node(value)
        for index, target_name in enumerate(names):
            assert isinstance(target_name, ast.Name)
            if target_name.id == "_":
                continue
            name = self.free_name(target_name)
            self.names[name] = NodeOutput(pattern_node, index)
            while len(pattern_node.outputs) <= index:
                pattern_node.outputs.append(None)
            pattern_node.outputs[index] = name
        while len(pattern_node.outputs) < len(names):
            pattern_node.outputs.append(None)

    def free_name(self, target: ast.expr) -> str:
        assert isinstance(target, ast.Name)
        if target.id in self.used or target.id in self.names or target.id in self.attributes:
            raise PatternProblem(target, f"the name '{target.id}' is already in use")
        return target.id

    def read_result(self, value: ast.expr) -> NodeOutput:
        result = self.read_argument(value)
        if not isinstance(result, NodeOutput):
            raise PatternProblem(
                value, "a pattern must return results of its nodes", "write return Relu(x)"
            )
        return result

    def read_argument(self, node: ast.expr) -> Argument:
        if isinstance(node, ast.Name):
            return self.read_name(node)
        if is_none_literal(node):
            return Absent()
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "maybe":
                return self.read_maybe(node)
            return NodeOutput(self.read_node(node), 0)
        if isinstance(node, ast.List):
            return Numbers(tuple(parse_number(element) for element in node.elts))
        return Number(parse_number(node))

    def read_maybe(self, node: ast.Call) -> Capture:
        inner = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if not isinstance(inner, ast.Name) or inner.id in self.names:
            raise PatternProblem(node, "maybe takes the name of an input", "write maybe(bias)")
        capture = self.read_name(inner)
        assert isinstance(capture, Capture)
        return Capture(capture.name, inner, True)

    def read_name(self, node: ast.Name) -> Argument:
        if node.id == "_":
            return Capture(None, node)
        if node.id in _NUMBERS:
            return Number(_NUMBERS[node.id])
        if node.id in self.attributes:
            raise PatternProblem(node, f"'{node.id}' is an attribute, not a result")
        self.used.add(node.id)
        return self.names.get(node.id, Capture(node.id, node))

    def read_node(self, node: ast.expr) -> PatternNode:
        callee = onnx_call(node)
        if callee is None or not isinstance(node, ast.Call):
            text = ast.unparse(node)
            raise PatternProblem(
                node,
                f"'{text}' is not a node of a pattern",
                "write a node as its operator: MatMul(a, b); write conditions into when:",
            )
        domain, op = callee
        arguments: list[Argument] = []
        rest: Rest | None = None
        for index, argument in enumerate(node.args):
            if not isinstance(argument, ast.Starred):
                arguments.append(self.read_argument(argument))
                continue
            if index != len(node.args) - 1 or not isinstance(argument.value, ast.Name):
                raise PatternProblem(
                    argument, "'*' takes a name, and must be the last input", "write Concat(x, *xs)"
                )
            if argument.value.id in self.names or argument.value.id in self.used:
                raise PatternProblem(argument, f"the name '{argument.value.id}' is already in use")
            name = None if argument.value.id == "_" else argument.value.id
            if name is not None:
                self.used.add(name)
            rest = Rest(name, argument)
        while arguments and isinstance(arguments[-1], Absent) and rest is None:
            arguments.pop()
        commutes = key_of(op, domain) in self.commutative
        pattern_node = PatternNode(node, domain, op, arguments, rest, {}, None, [None], commutes)
        for keyword in node.keywords:
            self.read_attribute(pattern_node, keyword)
        self.nodes.append(pattern_node)
        return pattern_node

    def read_attribute(self, pattern_node: PatternNode, keyword: ast.keyword) -> None:
        assert keyword.arg is not None
        value = keyword.value
        if not isinstance(value, ast.Name) or value.id in (*DTYPES, *_NUMBERS):
            if keyword.arg == "attrs":
                raise PatternProblem(value, "attrs= takes a name", "write attrs=kept")
            check_literal(value)
            pattern_node.attributes[keyword.arg] = AttributeLiteral(value)
            return
        if value.id in self.used or value.id in self.names:
            raise PatternProblem(value, f"'{value.id}' is a result, not an attribute")
        if keyword.arg == "attrs":
            pattern_node.attrs_name = value.id
        else:
            pattern_node.attributes[keyword.arg] = AttributeCapture(
                None if value.id == "_" else value.id
            )
        if value.id != "_":
            self.attributes.add(value.id)

    def check_used(self, results: list[NodeOutput]) -> None:
        """Raise `PatternProblem` if there is a node on which no result depends."""
        reached: set[int] = set()
        stack = [result.node for result in results]
        while stack:
            node = stack.pop()
            if id(node) not in reached:
                reached.add(id(node))
                stack.extend(node.input_nodes())
        for node in self.nodes:
            if id(node) not in reached:
                raise PatternProblem(node.call, f"no returned result depends on this {node.key}")


def parse_number(node: ast.expr) -> float | bool:
    """Evaluate an expression of literal numbers, ``inf`` and ``pi``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.Name) and node.id in _NUMBERS:
        return _NUMBERS[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -parse_number(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        try:
            return _ARITHMETIC[type(node.op)](parse_number(node.left), parse_number(node.right))
        except (ArithmeticError, TypeError) as error:
            fix = "write a finite number, or inf"
            raise PatternProblem(node, f"cannot compute this number: {error}", fix) from None
    raise PatternProblem(
        node, f"'{ast.unparse(node)}' is neither a result nor a number", "write a name or a literal"
    )


def check_literal(node: ast.expr) -> None:
    """Raise unless a node is a number, text, a dtype, None, or a list of these."""
    if isinstance(node, ast.List):
        for element in node.elts:
            check_literal(element)
        return
    if isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id in DTYPES):
        return
    parse_number(node)
