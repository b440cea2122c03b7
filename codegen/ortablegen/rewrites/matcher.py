"""Emit the steps that match one alternative of a pattern.

The steps are loops over candidate nodes, assignments and checks; a check follows as soon as its
names are bound. `automaton` merges the steps of the alternatives (`optional`, `any_of`).
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
from ortablegen.language.parse import is_none_literal
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
    find_reachable_node,
)


class _NodeEmitter:
    """Emits the tests of single nodes, and chooses the names of the matcher's variables."""

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
        self.matcher_name = self.local_name("m")
        self.steps: list[Step] = []
        self.bound: set[str] = set()
        self.variables: dict[int, str] = {}
        self.results: dict[tuple[int, int], str] = {}
        self.reached_inputs: dict[int, int] = {}
        self.counter = itertools.count(1)
        attribute_names = [a.name for n in pattern.nodes for a in n.attributes.values()
                    if isinstance(a, AttributeCapture)]  # fmt: skip
        capture_names = [
            a.name for n in pattern.nodes for a in n.arguments if isinstance(a, Capture)
        ]
        capture_names += [a.name for a in pattern.aliases.values() if isinstance(a, Capture)]
        self.inputs_to_bind = names.read | {
            n for n in capture_names if n and capture_names.count(n) > 1
        }
        self.attributes_to_bind = names.read | {
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
        """Add a step that rejects the candidate if a test is true; ``reason`` is logged."""
        condition = " or ".join(tests)
        if condition:
            self.steps.append(Step("fail_if", condition, reason))

    def add_loop(self, line: str) -> None:
        self.steps.append(Step("loop", line))

    # -- tests of a node ------------------------------------------------------------------------

    def check_arity_and_attributes(self, node: PatternNode, *first_tests: str) -> None:
        """Test ``first_tests``, then the counts of inputs and outputs, then the attributes."""
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
            self.bind_value(node.attrs_name, text, is_literal=False)

    def arity_tests(self, node: PatternNode, variable: str) -> list[str]:
        """Return conditions under which the numbers of inputs or outputs do not match."""
        required = len(node.arguments)
        while required and is_optional_in_pattern(node.arguments[required - 1]):
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
        """Return conditions under which an attribute outside the pattern is not its default."""
        if node.attrs_name is not None:
            return []
        constant = self.default_constant(node)
        if not node.attributes and not constant:
            return [f"{variable}.attrs"]  # an operator whose attributes have no defaults
        arguments = [variable, repr(tuple(node.attributes))]
        if constant:
            arguments.append(constant)
        return [f"not {self.matcher_name}.plain({', '.join(arguments)})"]

    def default_constant(self, node: PatternNode) -> str:
        """Return the name of the constant that holds the operator's defaults, "" if it has none."""
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
                self.bind_value(constraint.name, value, is_literal=True)
            return
        if is_none_literal(constraint.expression):
            self.fail_if([f"{variable}.attrs.get({name!r}) is not None"])
            return
        self.needs.add("ortable.passes.rewrite.matcher", "literal_equals")
        literal = expression_text(constraint.expression, self.needs)
        self.fail_if([f"not literal_equals({value}, {literal})"])

    def bind_value(self, name: str, text: str, is_literal: bool) -> None:
        """Bind a captured attribute, or compare it if it is already bound.

        ``is_literal`` values are compared by `literal_equals`, others (dicts) by ``!=``.
        """
        if name not in self.bound:
            if name in self.attributes_to_bind:
                self.bound.add(name)
                self.add_line(f"{name} = {text}")
            return
        if not is_literal:
            self.fail_if([f"{name} != {text}"])
            return
        temporary = self.new_temporary()
        self.needs.add("ortable.passes.rewrite.matcher", "literal_equals")
        self.add_line(f"{temporary} = {text}")
        self.fail_if([f"{temporary} is not {name} and not literal_equals({temporary}, {name})"])


def is_optional_in_pattern(argument: Argument) -> bool:
    """Whether the pattern allows the input to be missing: ``None`` or ``maybe(x)``."""
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
        self.check_arity_and_attributes(anchor)
        self.visit_nodes(anchor)
        self.bind_aliases()
        self.add_conditions()
        self.make_match()
        return self.steps

    # -- nodes ----------------------------------------------------------------------------------

    def visit_nodes(self, anchor: PatternNode) -> None:
        """Visit inputs depth-first, but put off the inputs of commutative nodes.

        Commutative nodes need a loop over both orders. If these loops come last, the steps after
        the part in which two alternatives differ are equal, and `automaton` can share them.
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
            reachable = find_reachable_node(self.pattern, set(self.variables), self.bound)
            if reachable is None:
                return
            self.add_reader_loop(*reachable)
            pending += self.visit_inputs(reachable[0])

    def visit_inputs(self, node: PatternNode) -> list[PatternNode]:
        """Visit the inputs of a node up to commutative nodes; return the commutative nodes."""
        if node.tries_both_orders:
            return [node]
        return [
            child for producer in self.bind_inputs(node) for child in self.visit_inputs(producer)
        ]

    def add_reader_loop(self, node: PatternNode, index: int) -> None:
        """Add a loop that finds a node among the readers of one of its inputs."""
        variable = self.new_variable()
        name = self.result_text(node.arguments[index])
        index_argument = "" if node.tries_both_orders else f", {index}"
        matched_variables = [
            self.variables[id(other)]
            for other in self.pattern.nodes
            if id(other) in self.variables and other.key == node.key
        ]
        self.add_loop(
            f"for {variable} in {self.matcher_name}.readers({name}, {node.key!r}{index_argument}):"
        )
        self.fail_if(f"{variable} is {other}" for other in matched_variables)
        self.variables[id(node)] = variable
        if not node.tries_both_orders:
            self.reached_inputs[id(node)] = index
        self.check_arity_and_attributes(node)

    # -- inputs ---------------------------------------------------------------------------------

    def bind_inputs(self, node: PatternNode) -> list[PatternNode]:
        """Bind and test the inputs of a node and the nodes that make them; return these nodes."""
        variable = self.variables[id(node)]
        texts, tests, producers = self.plan_inputs(node)
        leading_count = len(texts)
        while leading_count and isinstance(node.arguments[leading_count - 1], Capture) and (
            is_optional_in_pattern(node.arguments[leading_count - 1])
        ):  # fmt: skip
            leading_count -= 1
        leading = texts[:leading_count]
        if node.tries_both_orders and (tests or any(text != "_" for text in leading)):
            self.add_loop(f"for {', '.join(leading)} in {self.matcher_name}.orders({variable}):")
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
        """Return variables for the inputs of a node, tests, and the producers to test next.

        A test that begins with ``=`` is an assignment.
        """
        texts: list[str] = []
        tests: list[str] = []
        producers: list[tuple[NodeOutput, str]] = []
        new_producers: set[int] = set()
        for index, argument in enumerate(node.arguments):
            if self.reached_inputs.get(id(node)) == index:
                texts.append("_")
                continue
            if isinstance(argument, Capture):
                texts.append(self.bind_capture(node, index, argument, tests))
                continue
            if isinstance(argument, NodeOutput):
                key = (id(argument.node), argument.index)
                if (
                    id(argument.node) not in self.variables
                    and id(argument.node) not in new_producers
                ):
                    name = argument.node.outputs[argument.index] or self.new_temporary()
                    texts.append(name)
                    self.results[key] = name
                    new_producers.add(id(argument.node))
                    producers.append((argument, name))
                    continue
                if id(argument.node) in new_producers and key not in self.results:
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
                tests.append(
                    f"not {self.matcher_name}.number({texts[-1]}, {number_text(argument.value)})"
                )
            elif isinstance(argument, Numbers):
                values = ", ".join(number_text(value) for value in argument.values)
                tests.append(f"not {self.matcher_name}.numbers({texts[-1]}, [{values}])")
        return texts, tests, producers

    def bind_capture(
        self, node: PatternNode, index: int, argument: Capture, tests: list[str]
    ) -> str:
        """Return the variable for a captured input; append the tests of the input to ``tests``."""
        is_optional_in_schema = self.is_optional_in_schema(node, index)
        is_trailing = all(is_optional_in_pattern(later) for later in node.arguments[index:])
        if argument.name is None or argument.name not in self.inputs_to_bind:
            if argument.optional or not is_optional_in_schema:
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
        elif is_optional_in_schema:
            tests.append(f"not {argument.name}")
        return argument.name

    def is_optional_in_schema(self, node: PatternNode, index: int) -> bool:
        """Whether the input is optional in the schema of some version of the operator."""
        return any(
            schema.inputs and schema.inputs[min(index, len(schema.inputs) - 1)].optional
            for schema in schemas_of(node, self.opsets)
        )

    def follow_input(self, output: NodeOutput, name: str) -> PatternNode:
        """Bind and test the node that makes an input; return it."""
        node = output.node
        multi_output_schemas = [s for s in schemas_of(node, self.opsets) if s.max_outputs > 1]
        if id(node) not in self.variables:
            variable = self.new_variable()
            self.add_line(f"{variable} = {self.matcher_name}.producer({name}, {node.key!r})")
            self.variables[id(node)] = variable
            self.check_arity_and_attributes(node, f"{variable} is None")
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
        """Bind the names of results that are not bound as inputs, each as early as possible."""
        outputs = self.pattern.output_names()
        lets = {name for name, _ in self.rewrite.let}
        for name in self.names.kinds:
            if name in self.bound or name in lets or name not in self.attributes_to_bind:
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
        """Return the position after the last step that binds a read name, and after its tests."""
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
        """Add the conditions, and each ``let`` value before the first condition that reads it."""
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
        """Add the return of the Match: results, values, and nodes that may have external uses."""
        results = [self.result_text(result) for result in self.pattern.results]
        empty_tests = [
            f"not {text}"
            for text, result in zip(results, self.pattern.results, strict=True)
            if len(result.node.outputs) > 1
        ]
        self.fail_if(empty_tests)
        outputs = self.pattern.output_names()
        shareable = [
            outputs[name].node for name in self.rewrite.allow_external_uses if name in outputs
        ]
        shareable_variables = [self.variables[id(node)] for node in dict.fromkeys(shareable)]
        match_arguments = [
            _tuple_text(results),
            _tuple_text(self.names.values),
            *([_tuple_text(shareable_variables)] if shareable_variables else []),
        ]
        nodes = tuple(self.variables.values())
        self.steps.append(Step("return", ", ".join(match_arguments), nodes=nodes))


def _tuple_text(items: Iterable[str]) -> str:
    texts = list(items)
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
