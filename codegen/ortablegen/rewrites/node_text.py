"""The first half of a matcher's text: what a node must be before its inputs are looked at."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ortablegen.language.emit import Needs, expression_text
from ortablegen.schemas.onnx import DOMAIN_RANGE, versions_between

from .model import Rewrite
from .names import Names, attribute_of, opset_range, schemas_of
from .nodes import (
    Absent,
    Argument,
    AttributeCapture,
    AttributeLiteral,
    Capture,
    Pattern,
    PatternNode,
)


class NodeText:
    """Lines of a matcher, the names in it, and the tests of single nodes."""

    def __init__(
        self,
        rewrite: Rewrite,
        pattern: Pattern,
        names: Names,
        needs: Needs,
        defaults: dict[str, str],
    ) -> None:
        self.rewrite = rewrite
        self.pattern = pattern
        self.names = names
        self.needs = needs
        self.defaults = defaults
        self.opsets = opset_range(rewrite)
        self.m = self.own("m")
        self.text: list[str] = []
        self.depth = 0
        self.bound: set[str] = set()
        self.variables: dict[int, str] = {}
        self.results: dict[tuple[int, int], str] = {}
        self.known: dict[int, int] = {}
        self.counter = itertools.count(1)
        repeated = [a.name for n in pattern.nodes for a in n.attributes.values()
                    if isinstance(a, AttributeCapture)]  # fmt: skip
        seen = [a.name for n in pattern.nodes for a in n.arguments if isinstance(a, Capture)]
        seen += [a.name for a in pattern.aliases.values() if isinstance(a, Capture)]
        self.captured = names.read | {n for n in seen if n and seen.count(n) > 1}
        self.wanted = names.read | {n for n in repeated if n and repeated.count(n) > 1}

    # -- lines and names ---------------------------------------------------------

    def own(self, name: str) -> str:
        """A name of the matcher itself, which no name of the rewrite hides."""
        while name in self.names.kinds:
            name += "_"
        return name

    def variable(self) -> str:
        return self.own(f"n{len(self.variables)}")

    def temporary(self) -> str:
        return self.own(f"r{next(self.counter)}")

    def add(self, line: str) -> None:
        self.text.append("    " * (self.depth + 1) + line)

    def fail_if(self, tests: Iterable[str]) -> None:
        condition = " or ".join(tests)
        if condition:
            self.add(f"if {condition}:")
            self.add("    " + self.fail())

    def fail(self) -> str:
        return "continue" if self.depth else "return None"

    def loop(self, line: str) -> None:
        self.add(line)
        self.depth += 1

    # -- a node -----------------------------------------------------------------

    def header(self, node: PatternNode, *found: str) -> None:
        """Number of inputs and outputs, attributes; ``found``: a test that comes first."""
        variable = self.variables[id(node)]
        self.fail_if([*found, *self.arity(node, variable), *self.plain(node, variable)])
        for attribute, wanted in node.attributes.items():
            self.attribute(node, attribute, wanted)
        if node.kept is not None:
            mentioned = tuple(node.attributes)
            text = f"dict({variable}.attrs)"
            if mentioned:
                items = f"{variable}.attrs.items()"
                text = f"{{k: v for k, v in {items} if k not in {mentioned!r}}}"
            self.bind_value(node.kept, text, compared=False)

    def arity(self, node: PatternNode, variable: str) -> list[str]:
        required = len(node.arguments)
        while required and may_be_absent(node.arguments[required - 1]):
            required -= 1
        count = len(node.arguments)
        inputs = f"len({variable}.inputs)"
        if node.rest is not None:
            tests = [f"{inputs} < {required}"] if required else []
        elif required == count:
            tests = [f"{inputs} != {count}"]
        else:
            tests = [f"not {required} <= {inputs} <= {count}"]
        newest = schemas_of(node, self.opsets)[-1:]
        if newest and newest[0].outputs and newest[0].outputs[-1].variadic:
            tests.append(f"len({variable}.outputs) != {len(node.outputs)}")
        elif len(node.outputs) > 1:
            tests.append(f"len({variable}.outputs) < {len(node.outputs)}")
        return tests

    def plain(self, node: PatternNode, variable: str) -> list[str]:
        """A test that what the pattern does not mention has its default."""
        if node.kept is not None:
            return []
        arguments = [variable]
        constant = self.default_constant(node)
        if node.attributes or constant:
            arguments.append(repr(tuple(node.attributes)))
        if constant:
            arguments.append(constant)
        return [f"not {self.m}.plain({', '.join(arguments)})"]

    def default_constant(self, node: PatternNode) -> str:
        """Name of the constant with the defaults of the operator; empty when it has none."""
        low, high = DOMAIN_RANGE[node.domain]
        values: dict[str, Any] = {}
        differing: set[str] = set()
        for schema in versions_between(node.op, node.domain, low, high):
            for attribute in schema.attributes:
                if attribute.default is None:
                    continue
                if values.setdefault(attribute.name, attribute.default) != attribute.default:
                    differing.add(attribute.name)
        kept = {name: value for name, value in sorted(values.items()) if name not in differing}
        if not kept:
            return ""
        name = "_" + re.sub(r"\W+|(?<=[a-z0-9])(?=[A-Z])", "_", node.key).upper()
        items = ", ".join(f"{key!r}: {default_text(value)}" for key, value in kept.items())
        self.defaults[name] = f"{{{items}}}"
        return name

    def attribute(
        self, node: PatternNode, name: str, wanted: AttributeCapture | AttributeLiteral
    ) -> None:
        variable = self.variables[id(node)]
        found = attribute_of(node, name, self.opsets)
        default = found.default if found is not None else None
        usual = f", {default_text(default)}" if default is not None else ""
        value = f"{variable}.attrs.get({name!r}{usual})"
        if isinstance(wanted, AttributeCapture):
            if wanted.name is not None:
                self.bind_value(wanted.name, value, compared=True)
            return
        if isinstance(wanted.expression, ast.Constant) and wanted.expression.value is None:
            self.fail_if([f"{variable}.attrs.get({name!r}) is not None"])
            return
        self.needs.add("ortable.passes.rewrite.matcher", "literal_equals")
        literal = expression_text(wanted.expression, self.needs)
        self.fail_if([f"not literal_equals({value}, {literal})"])

    def bind_value(self, name: str, text: str, compared: bool) -> None:
        """A captured attribute: bound once, compared where it comes again."""
        if name not in self.bound:
            if name in self.wanted:
                self.bound.add(name)
                self.add(f"{name} = {text}")
            return
        if not compared:
            self.fail_if([f"{name} != {text}"])
            return
        again = self.temporary()
        self.needs.add("ortable.passes.rewrite.matcher", "literal_equals")
        self.add(f"{again} = {text}")
        self.fail_if([f"{again} is not {name} and not literal_equals({again}, {name})"])


def may_be_absent(argument: Argument) -> bool:
    return isinstance(argument, Absent) or (isinstance(argument, Capture) and argument.optional)


def number_text(value: float | bool) -> str:
    """A number as Python text, infinities too."""
    return (
        f"float({str(value)!r})" if isinstance(value, float) and math.isinf(value) else repr(value)
    )


def default_text(value: Any) -> str:
    """A default of a schema; floats are float32 there, and shown as short as they can be."""
    if isinstance(value, list):
        return f"[{', '.join(default_text(each) for each in value)}]"
    if isinstance(value, float):
        return number_text(float(str(np.float32(value))))
    return repr(value)
