"""Emit the steps that match one alternative of a pattern.

These are loops over candidates, and checks, each as early as its names are bound. `automaton`
merges the steps of all alternatives.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ortablegen.language.emit import Needs, expression_text, split_conjuncts
from ortablegen.schemas.onnx import DOMAIN_RANGE, versions_between

from .automaton import Step
from .model import Rewrite
from .names import Names, attribute_of, find_names_read, opset_range, schemas_of, source_of
from .pattern import (
    Absent,
    Argument,
    AttributeCapture,
    AttributeLiteral,
    Capture,
    NodeOutput,
    Number,
    Numbers,
    Pattern,
    PatternNode,
    find_entry_node,
)


class _NodeEmitter:
    """Emits steps of a matcher: its names and the tests of single nodes."""

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
        self.m = self.local_name("m")
        self.steps: list[Step] = []
        self.bound: set[str] = set()
        self.variables: dict[int, str] = {}
        self.results: dict[tuple[int, int], str] = {}
        self.entry_inputs: dict[int, int] = {}
        self.counter = itertools.count(1)
        attribute_names = [a.name for n in pattern.nodes for a in n.attributes.values()
                    if isinstance(a, AttributeCapture)]  # fmt: skip
        capture_names = [
            a.name for n in pattern.nodes for a in n.arguments if isinstance(a, Capture)
        ]
        capture_names += [a.name for a in pattern.aliases.values() if isinstance(a, Capture)]
        self.captured = names.read | {n for n in capture_names if n and capture_names.count(n) > 1}
        self.needed = names.read | {
            n for n in attribute_names if n and attribute_names.count(n) > 1
        }

    # -- lines and names ---------------------------------------------------------

    def local_name(self, name: str) -> str:
        """Return a variable name of the matcher that differs from all names of the rewrite."""
        while name in self.names.kinds:
            name += "_"
        return name

    def new_variable(self) -> str:
        return self.local_name(f"n{len(self.variables)}")

    def new_temporary(self) -> str:
        return self.local_name(f"r{next(self.counter)}")

    def add_line(self, line: str) -> None:
        self.steps.append(Step("do", line))

    def fail_if(self, tests: Iterable[str], reason: str = "") -> None:
        """Add a condition that ends the match; ``reason`` is logged."""
        condition = " or ".join(tests)
        if condition:
            self.steps.append(Step("fail_if", condition, reason))

    def add_loop(self, line: str) -> None:
        self.steps.append(Step("loop", line))

    # -- tests of a node ------------------------------------------------------------------------

    def check_header(self, node: PatternNode, *first_tests: str) -> None:
        """Test the input and output counts and the attributes, after ``first_tests``."""
        variable = self.variables[id(node)]
        self.fail_if(
            [*first_tests, *self.arity_tests(node, variable), *self.default_tests(node, variable)]
        )
        for attribute, constraint in node.attributes.items():
            self.check_attribute(node, attribute, constraint)
        if node.attrs_name is not None:
            matched_attributes = tuple(node.attributes)
            text = f"dict({variable}.attrs)"
            if matched_attributes:
                items = f"{variable}.attrs.items()"
                text = f"{{k: v for k, v in {items} if k not in {matched_attributes!r}}}"
            self.bind_value(node.attrs_name, text, compared=False)

    def arity_tests(self, node: PatternNode, variable: str) -> list[str]:
        """Return tests of the numbers of inputs and outputs."""
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

    def default_tests(self, node: PatternNode, variable: str) -> list[str]:
        """Return tests that attributes outside the pattern have their defaults."""
        if node.attrs_name is not None:
            return []
        constant = self.default_constant(node)
        if not node.attributes and not constant:
            return [f"{variable}.attrs"]  # an operator whose attributes have no defaults
        arguments = [variable, repr(tuple(node.attributes))]
        if constant:
            arguments.append(constant)
        return [f"not {self.m}.plain({', '.join(arguments)})"]

    def default_constant(self, node: PatternNode) -> str:
        """Return the name of the constant with the operator's defaults, "" without any."""
        low, high = DOMAIN_RANGE[node.domain]
        values: dict[str, Any] = {}
        differing: set[str] = set()
        for schema in versions_between(node.op, node.domain, low, high):
            for attribute in schema.attributes:
                if attribute.default is None:
                    continue
                if values.setdefault(attribute.name, attribute.default) != attribute.default:
                    differing.add(attribute.name)
        stable = {name: value for name, value in sorted(values.items()) if name not in differing}
        if not stable:
            return ""
        name = "_" + re.sub(r"\W+|(?<=[a-z0-9])(?=[A-Z])", "_", node.key).upper()
        items = ", ".join(f"{key!r}: {default_text(value)}" for key, value in stable.items())
        self.defaults[name] = f"{{{items}}}"
        return name

    def check_attribute(
        self, node: PatternNode, name: str, constraint: AttributeCapture | AttributeLiteral
    ) -> None:
        """Test an attribute against a literal, or bind it."""
        variable = self.variables[id(node)]
        definition = attribute_of(node, name, self.opsets)
        default = definition.default if definition is not None else None
        default_argument = f", {default_text(default)}" if default is not None else ""
        value = f"{variable}.attrs.get({name!r}{default_argument})"
        if isinstance(constraint, AttributeCapture):
            if constraint.name is not None:
                self.bind_value(constraint.name, value, compared=True)
            return
        if isinstance(constraint.expression, ast.Constant) and constraint.expression.value is None:
            self.fail_if([f"{variable}.attrs.get({name!r}) is not None"])
            return
        self.needs.add("ortable.passes.rewrite.matcher", "literal_equals")
        literal = expression_text(constraint.expression, self.needs)
        self.fail_if([f"not literal_equals({value}, {literal})"])

    def bind_value(self, name: str, text: str, compared: bool) -> None:
        """Bind a captured attribute, or compare it if it is already bound."""
        if name not in self.bound:
            if name in self.needed:
                self.bound.add(name)
                self.add_line(f"{name} = {text}")
            return
        if not compared:
            self.fail_if([f"{name} != {text}"])
            return
        temporary = self.new_temporary()
        self.needs.add("ortable.passes.rewrite.matcher", "literal_equals")
        self.add_line(f"{temporary} = {text}")
        self.fail_if([f"{temporary} is not {name} and not literal_equals({temporary}, {name})"])


def may_be_absent(argument: Argument) -> bool:
    """Whether the input may be missing: ``None`` or ``maybe(x)``."""
    return isinstance(argument, Absent) or (isinstance(argument, Capture) and argument.optional)


def number_text(value: float | bool) -> str:
    """Format a number as Python, including infinities."""
    return (
        f"float({str(value)!r})" if isinstance(value, float) and math.isinf(value) else repr(value)
    )


def default_text(value: Any) -> str:
    """Format the default of a schema; float32 values are as short as possible."""
    if isinstance(value, list):
        return f"[{', '.join(default_text(item) for item in value)}]"
    if isinstance(value, float):
        return number_text(float(str(np.float32(value))))
    return repr(value)


class MatcherEmitter(_NodeEmitter):
    """Emits the steps of one alternative of a pattern."""

    def all_steps(self) -> list[Step]:
        """Return all steps, from the root of the pattern to the Match."""
        anchor = self.pattern.root_nodes()[0]
        self.variables[id(anchor)] = self.local_name("root")
        self.check_header(anchor)
        self.visit_nodes(anchor)
        self.bind_aliases()
        self.add_conditions()
        self.make_match()
        return self.steps

    # -- nodes ----------------------------------------------------------------------------------

    def visit_nodes(self, anchor: PatternNode) -> None:
        """Visit the inputs of nodes depth-first, but of commutative nodes last.

        So loops begin late, and alternatives that differ in one part have equal steps after that
        part.
        """
        pending = self.visit_inputs(anchor)
        while True:
            if pending:
                node = pending.pop(0)
                producers = self.bind_inputs(node)
                pending += [
                    child for producer in producers for child in self.visit_inputs(producer)
                ]
                continue
            entry = find_entry_node(self.pattern, set(self.variables), self.bound)
            if entry is None:
                return
            self.enter_node(*entry)
            pending += self.visit_inputs(entry[0])

    def visit_inputs(self, node: PatternNode) -> list[PatternNode]:
        """Visit the inputs of a node up to commutative nodes, and return these."""
        if node.tries_both_orders:
            return [node]
        return [
            child for producer in self.bind_inputs(node) for child in self.visit_inputs(producer)
        ]

    def enter_node(self, node: PatternNode, index: int) -> None:
        """Add a loop that finds a node among the readers of one of its inputs."""
        variable = self.new_variable()
        name = self.result_text(node.arguments[index])
        index_argument = "" if node.tries_both_orders else f", {index}"
        matched_variables = [
            self.variables[id(other)]
            for other in self.pattern.nodes
            if id(other) in self.variables and other.key == node.key
        ]
        self.add_loop(f"for {variable} in {self.m}.readers({name}, {node.key!r}{index_argument}):")
        self.fail_if(f"{variable} is {other}" for other in matched_variables)
        self.variables[id(node)] = variable
        if not node.tries_both_orders:
            self.entry_inputs[id(node)] = index
        self.check_header(node)

    # -- inputs ---------------------------------------------------------------------------------

    def bind_inputs(self, node: PatternNode) -> list[PatternNode]:
        """Bind, compare and follow the inputs of a node; return the nodes that make them."""
        variable = self.variables[id(node)]
        texts, tests, producers = self.plan_inputs(node)
        leading_count = len(texts)
        while leading_count and isinstance(node.arguments[leading_count - 1], Capture) and (
            may_be_absent(node.arguments[leading_count - 1])
        ):  # fmt: skip
            leading_count -= 1
        leading = texts[:leading_count]
        if node.tries_both_orders and (tests or any(text != "_" for text in leading)):
            self.add_loop(f"for {', '.join(leading)} in {self.m}.orders({variable}):")
        elif any(text != "_" for text in leading):
            all_inputs = f"{variable}.inputs"
            if len(leading) == 1:
                self.add_line(f"{leading[0]} = {all_inputs}[0]")
            else:
                has_all = leading_count == len(texts) and node.rest is None
                self.add_line(
                    f"{', '.join(leading)} = {all_inputs}{'' if has_all else f'[:{leading_count}]'}"
                )
        for index in range(leading_count, len(texts)):
            if texts[index] != "_":
                text = f"{variable}.inputs[{index}] or None if len({variable}.inputs) > {index}"
                self.add_line(f"{texts[index]} = {text} else None")
        if node.rest is not None and node.rest.name in self.names.read:
            self.add_line(f"{node.rest.name} = {variable}.inputs[{len(texts)}:]")
            self.bound.add(node.rest.name)
        for line in tests:
            if line.startswith("="):
                self.add_line(line[1:])
            else:
                self.fail_if([line])
        return list(dict.fromkeys(self.follow_input(output, name) for output, name in producers))

    def plan_inputs(
        self, node: PatternNode
    ) -> tuple[list[str], list[str], list[tuple[NodeOutput, str]]]:
        """Return variables for the inputs of a node, tests, and nodes to follow.

        A test that begins with ``=`` is an assignment.
        """
        texts: list[str] = []
        tests: list[str] = []
        producers: list[tuple[NodeOutput, str]] = []
        entered_nodes: set[int] = set()
        for index, argument in enumerate(node.arguments):
            if self.entry_inputs.get(id(node)) == index:
                texts.append("_")
                continue
            if isinstance(argument, Capture):
                texts.append(self.bind_capture(node, index, argument, tests))
                continue
            if isinstance(argument, NodeOutput):
                key = (id(argument.node), argument.index)
                if (
                    id(argument.node) not in self.variables
                    and id(argument.node) not in entered_nodes
                ):
                    name = argument.node.outputs[argument.index] or self.new_temporary()
                    texts.append(name)
                    self.results[key] = name
                    entered_nodes.add(id(argument.node))
                    producers.append((argument, name))
                    continue
                if id(argument.node) in entered_nodes and key not in self.results:
                    # both inputs are outputs of one node
                    texts.append(argument.node.outputs[argument.index] or self.new_temporary())
                    self.results[key] = texts[-1]
                    producers.append((argument, texts[-1]))
                else:
                    texts.append(self.new_temporary())
                    tests.append(f"{texts[-1]} != {self.result_text(argument)}")
                continue
            texts.append(self.new_temporary())
            if isinstance(argument, Absent):
                tests.append(texts[-1])
            elif isinstance(argument, Number):
                tests.append(f"not {self.m}.number({texts[-1]}, {number_text(argument.value)})")
            elif isinstance(argument, Numbers):
                values = ", ".join(number_text(value) for value in argument.values)
                tests.append(f"not {self.m}.numbers({texts[-1]}, [{values}])")
        return texts, tests, producers

    def bind_capture(
        self, node: PatternNode, index: int, argument: Capture, tests: list[str]
    ) -> str:
        """Return the variable for a captured input; add its tests."""
        may_be_empty = self.may_be_empty(node, index)
        is_trailing = all(may_be_absent(later) for later in node.arguments[index:])
        if argument.name is None or argument.name not in self.captured:
            if argument.optional or not may_be_empty:
                return "_"
            name = self.new_temporary()
            tests.append(f"not {name}")
            return name
        if argument.name in self.bound:
            temporary = self.new_temporary()
            tests.append(f"{temporary} != {argument.name}")
            if argument.optional and not is_trailing:
                tests[-1] = f"({temporary} or None) != {argument.name}"
            return temporary
        self.bound.add(argument.name)
        if argument.optional:
            if not is_trailing:
                tests.append(f"={argument.name} = {argument.name} or None")
        elif may_be_empty:
            tests.append(f"not {argument.name}")
        return argument.name

    def may_be_empty(self, node: PatternNode, index: int) -> bool:
        """Whether the input is optional in some version of the operator."""
        return any(
            schema.inputs and schema.inputs[min(index, len(schema.inputs) - 1)].optional
            for schema in schemas_of(node, self.opsets)
        )

    def follow_input(self, output: NodeOutput, name: str) -> PatternNode:
        """Bind and test the node that makes an input."""
        node = output.node
        multi_output_schemas = [s for s in schemas_of(node, self.opsets) if s.max_outputs > 1]
        if id(node) not in self.variables:
            variable = self.new_variable()
            self.add_line(f"{variable} = {self.m}.producer({name}, {node.key!r})")
            self.variables[id(node)] = variable
            self.check_header(node, f"{variable} is None")
        variable = self.variables[id(node)]
        if multi_output_schemas:
            self.fail_if([f"{variable}.outputs[{output.index}] != {name}"])
        return node

    def result_text(self, argument: Argument) -> str:
        """Return the Python expression of a result."""
        if isinstance(argument, NodeOutput):
            key = (id(argument.node), argument.index)
            return self.results.get(
                key, f"{self.variables[id(argument.node)]}.outputs[{argument.index}]"
            )
        if isinstance(argument, Capture) and argument.name is not None:
            return argument.name
        return "None"

    # -- conditions and the match ---------------------------------------------------------------

    def bind_aliases(self) -> None:
        """Bind names of results that no input has bound, each as early as possible."""
        outputs = self.pattern.output_names()
        lets = {name for name, _ in self.rewrite.let}
        for name in self.names.kinds:
            if name in self.bound or name in lets or name not in self.needed:
                continue
            if name in outputs:
                text = self.result_text(outputs[name])
            elif name in self.pattern.aliases:
                text = self.result_text(self.pattern.aliases[name])
            else:
                continue  # the name stays None in this alternative
            if text != name:
                self.steps.insert(self.find_earliest_step(text), Step("do", f"{name} = {text}"))

    def find_earliest_step(self, text: str) -> int:
        """Return the position after the last binding of an expression's names, and its tests."""
        names = find_names_read([ast.parse(text)])
        positions = [
            position + 1
            for position, step in enumerate(self.steps)
            if names & set(step.bound_names)
        ]
        position = max(positions, default=0)
        while position < len(self.steps) and self.steps[position].kind == "fail_if":
            position += 1
        return position

    def add_conditions(self) -> None:
        """Add the conditions, with ``let`` values before the first condition that reads them."""
        pending = [(name, code) for name, code in self.rewrite.let if name in self.names.read]
        when = self.rewrite.when
        for condition in split_conjuncts(when.expression) if when is not None else []:
            assert when is not None
            condition_names = find_names_read([condition])
            while condition_names & {name for name, _ in pending}:
                name, code = pending.pop(0)
                self.add_line(f"{name} = {expression_text(code.expression, self.needs)}")
            test = ast.parse(expression_text(condition, self.needs), mode="eval").body
            opposite = ast.unparse(ast.UnaryOp(ast.Not(), test))
            self.fail_if([opposite], source_of(when, condition))
        for name, code in pending:
            self.add_line(f"{name} = {expression_text(code.expression, self.needs)}")

    def make_match(self) -> None:
        """Add the return of the Match: results, values, and nodes with external uses."""
        results = [self.result_text(result) for result in self.pattern.results]
        empty_tests = [
            f"not {text}"
            for text, result in zip(results, self.pattern.results, strict=True)
            if len(result.node.outputs) > 1
        ]
        self.fail_if(empty_tests)
        outputs = self.pattern.output_names()
        shared = [
            outputs[name].node for name in self.rewrite.allow_external_uses if name in outputs
        ]
        shared_nodes = [self.variables[id(node)] for node in dict.fromkeys(shared)]
        parts = [
            _tuple_text(results),
            _tuple_text(self.names.values),
            *([_tuple_text(shared_nodes)] if shared_nodes else []),
        ]
        nodes = tuple(self.variables.values())
        self.steps.append(Step("return", ", ".join(parts), nodes=nodes))


def _tuple_text(items: Iterable[str]) -> str:
    texts = list(items)
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
