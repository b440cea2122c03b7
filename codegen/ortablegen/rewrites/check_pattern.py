"""Checks the nodes of patterns: operators, numbers of inputs and outputs, attributes, dtypes."""

from __future__ import annotations

import ast

from ortablegen.language import kinds
from ortablegen.language.check import CodeChecker
from ortablegen.language.kinds import Kind
from ortablegen.language.narrowing import Value
from ortablegen.language.onnx_calls import OnnxCall, check_onnx_call
from ortablegen.language.parse import Code, onnx_call
from ortablegen.schemas.onnx import operators, versions_between
from ortablegen.source.diagnostics import Diagnostics

from .model import Rewrite
from .names import schemas_of, written_dtype
from .nodes import (
    Absent,
    AttributeLiteral,
    Capture,
    Made,
    Pattern,
    PatternNode,
)


def check_nodes(
    code: Code, patterns: tuple[Pattern, ...], opsets: tuple[int, int], diagnostics: Diagnostics
) -> list[list[Value]]:
    """Report what no graph can have; returns the classes of the results of every alternative."""
    return [_Checker(code, opsets, diagnostics).results(pattern) for pattern in patterns]


class _Checker:
    def __init__(self, code: Code, opsets: tuple[int, int], diagnostics: Diagnostics) -> None:
        self.code = code
        self.opsets = opsets
        self.diagnostics = diagnostics
        self.values: dict[int, Value] = {}
        self.literals = CodeChecker(code, {}, diagnostics, opsets)

    def results(self, pattern: Pattern) -> list[Value]:
        for node in pattern.nodes:
            self.values[id(node)] = self.node(node)
        return [self.result(made) for made in pattern.results]

    def result(self, made: Made) -> Value:
        value = self.values[id(made.node)]
        if value.parts is None:
            return value if made.place == 0 else Value(Kind(kinds.RESULT))
        return value.parts[made.place]

    def node(self, node: PatternNode) -> Value:
        inputs = []
        for place, _ in enumerate(node.call.args):
            if place >= len(node.arguments):
                is_rest = node.rest is not None
                inputs.append(Value(Kind(kinds.RESULTS if is_rest else kinds.NONE, not is_rest)))
                continue
            argument = node.arguments[place]
            if isinstance(argument, Made):
                inputs.append(self.result(argument))
            elif isinstance(argument, Absent):
                inputs.append(Value(Kind(kinds.NONE, True)))
            else:
                optional = isinstance(argument, Capture) and argument.optional
                inputs.append(Value(Kind(kinds.RESULT, optional)))
        attributes = {
            name: self.literals.value(wanted.expression)
            if isinstance(wanted, AttributeLiteral)
            else Value(Kind(kinds.ANY))
            for name, wanted in node.attributes.items()
        }
        call = OnnxCall(
            _without_kept(node.call) if node.kept is not None else node.call,
            inputs,
            attributes,
            len(node.outputs),
            self.range_of(node),
            "onnxruntime",
            node.kept is not None,
            "rewrite",
        )
        value = check_onnx_call(call, self.literals.error)
        told = _cast_type(node)
        return Value(value.kind, told) if told is not None else value

    def range_of(self, node: PatternNode) -> tuple[int, int]:
        """The opsets of the rule in which the operator exists: elsewhere nothing matches."""
        low, high = self.opsets
        if node.domain == "" and node.op in operators():
            low = max(low, versions_between(node.op)[0].since)
        return min(low, high), high


def _without_kept(call: ast.Call) -> ast.Call:
    keywords = [word for word in call.keywords if word.arg != "attrs"]
    return ast.copy_location(ast.Call(call.func, call.args, keywords), call)


def _cast_type(node: PatternNode) -> frozenset[int] | None:
    wanted = node.attributes.get("to") if node.key == "Cast" else None
    return written_dtype(wanted.expression) if isinstance(wanted, AttributeLiteral) else None


def check_kept(
    rewrite: Rewrite,
    patterns: tuple[Pattern, ...],
    opsets: tuple[int, int],
    diagnostics: Diagnostics,
) -> None:
    """What ``attrs=kept`` passes on is known to the operator that gets it, and given once."""
    code = rewrite.replace
    for call in (n for statement in code.body for n in ast.walk(statement)):
        found = onnx_call(call)
        if found is None or not isinstance(call, ast.Call) or found[1] not in operators(found[0]):
            continue
        given = {word.arg: word for word in call.keywords if word.arg is not None}
        spread = given.pop("attrs", None)
        if spread is None or not isinstance(spread.value, ast.Name):
            continue
        taken = {a.name for s in versions_between(found[1], found[0]) for a in s.attributes}
        for node in (n for p in patterns for n in p.nodes if n.kept == spread.value.id):
            held = {a.name for s in schemas_of(node, opsets) for a in s.attributes}
            for name in sorted(held - set(node.attributes)):
                if name in given:
                    diagnostics.error(
                        code.at(given[name]),
                        f"'{spread.value.id}' may hold '{name}' too",
                        fix=f"mention it in the pattern: {node.op}(..., {name}=_)",
                    )
                elif name not in taken:
                    diagnostics.error(
                        code.at(spread),
                        f"'{spread.value.id}' may hold '{name}', which {found[1]} does not have",
                        fix=f"mention it in the pattern: {node.op}(..., {name}=...)",
                    )
