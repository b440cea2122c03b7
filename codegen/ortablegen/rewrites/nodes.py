"""What a pattern is once it is read: nodes, what their inputs and attributes must be, results."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ortablegen.schemas.onnx import key_of

COMMUTATIVE = frozenset(
    {
        "Add", "Mul", "Min", "Max", "Sum", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr",
        "BitwiseXor",
    }
)  # fmt: skip


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

    @property
    def key(self) -> str:
        """``Gemm``, ``com.microsoft::Gelu``."""
        return key_of(self.op, self.domain)

    @property
    def commutes(self) -> bool:
        """Whether both orders of the inputs are tried."""
        return (
            not self.domain
            and self.op in COMMUTATIVE
            and len(self.arguments) == 2
            and self.rest is None
        )

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
