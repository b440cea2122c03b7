"""The steps that match one alternative of a pattern: loops over what it leaves open, checks in
between, every check as early as its names allow. `automaton` merges those of all alternatives."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from ortablegen.language.emit import Needs, conjuncts, expression_text
from ortablegen.schemas.onnx import DOMAIN_RANGE, versions_between

from .automaton import Step
from .model import Rewrite
from .names import Names, attribute_of, names_read, opset_range, schemas_of, source_of
from .pattern import (
    Absent,
    Argument,
    AttributeCapture,
    AttributeLiteral,
    Capture,
    Made,
    Number,
    Numbers,
    Pattern,
    PatternNode,
    entrance,
)


class NodeText:
    """Steps of a matcher, the names in them, and the tests of single nodes."""

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
        self.steps: list[Step] = []
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
        self.steps.append(Step("do", line))

    def fail_if(self, tests: Iterable[str], reason: str = "") -> None:
        condition = " or ".join(tests)
        if condition:
            self.steps.append(Step("fail_if", condition, reason))

    def loop(self, line: str) -> None:
        self.steps.append(Step("loop", line))

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
        constant = self.default_constant(node)
        if not node.attributes and not constant:
            return [f"{variable}.attrs"]  # an operator whose attributes have no defaults
        arguments = [variable, repr(tuple(node.attributes))]
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


class MatcherText(NodeText):
    """Lists the steps of one alternative of a pattern."""

    def all_steps(self) -> list[Step]:
        """The steps, the last of which makes the Match; the root of the pattern is known."""
        anchor = self.pattern.roots()[0]
        self.variables[id(anchor)] = self.own("root")
        self.header(anchor)
        self.walk(anchor)
        self.alias_names()
        self.check_conditions()
        self.make_match()
        return self.steps

    # -- nodes ----------------------------------------------------------------------------------

    def walk(self, anchor: PatternNode) -> None:
        """Visits inputs of nodes, in depth; those of nodes with two orders last, so that loops
        begin late. So alternatives that differ in one part have the same steps behind it."""
        waiting = self.descend(anchor)
        while True:
            if waiting:
                node = waiting.pop(0)
                made = self.inputs(node)
                waiting += [each for one in made for each in self.descend(one)]
                continue
            entry = entrance(self.pattern, set(self.variables), self.bound)
            if entry is None:
                return
            self.enter(*entry)
            waiting += self.descend(entry[0])

    def descend(self, node: PatternNode) -> list[PatternNode]:
        """Visits what a node is computed from, up to nodes with two orders, which it returns."""
        if node.commutes:
            return [node]
        return [each for made in self.inputs(node) for each in self.descend(made)]

    def enter(self, node: PatternNode, place: int) -> None:
        """Finds a node among the readers of what it reads."""
        variable = self.variable()
        name = self.text_of(node.arguments[place])
        at = "" if node.commutes else f", {place}"
        same = [
            self.variables[id(other)]
            for other in self.pattern.nodes
            if id(other) in self.variables and other.key == node.key
        ]
        self.loop(f"for {variable} in {self.m}.readers({name}, {node.key!r}{at}):")
        self.fail_if(f"{variable} is {other}" for other in same)
        self.variables[id(node)] = variable
        if not node.commutes:
            self.known[id(node)] = place
        self.header(node)

    # -- inputs ---------------------------------------------------------------------------------

    def inputs(self, node: PatternNode) -> list[PatternNode]:
        """Binds, compares and follows the inputs of a node; returns the nodes that make them."""
        variable = self.variables[id(node)]
        texts, tests, follow = self.targets(node)
        last = len(texts)
        while last and isinstance(node.arguments[last - 1], Capture) and (
            may_be_absent(node.arguments[last - 1])
        ):  # fmt: skip
            last -= 1
        taken = texts[:last]
        if node.commutes and (tests or any(text != "_" for text in taken)):
            self.loop(f"for {', '.join(taken)} in {self.m}.orders({variable}):")
        elif any(text != "_" for text in taken):
            whole = f"{variable}.inputs"
            if len(taken) == 1:
                self.add(f"{taken[0]} = {whole}[0]")
            else:
                every = last == len(texts) and node.rest is None
                self.add(f"{', '.join(taken)} = {whole}{'' if every else f'[:{last}]'}")
        for place in range(last, len(texts)):
            if texts[place] != "_":
                text = f"{variable}.inputs[{place}] or None if len({variable}.inputs) > {place}"
                self.add(f"{texts[place]} = {text} else None")
        if node.rest is not None and node.rest.name in self.names.read:
            self.add(f"{node.rest.name} = {variable}.inputs[{len(texts)}:]")
            self.bound.add(node.rest.name)
        for line in tests:
            if line.startswith("="):
                self.add(line[1:])
            else:
                self.fail_if([line])
        return list(dict.fromkeys(self.follow(made, name) for made, name in follow))

    def targets(self, node: PatternNode) -> tuple[list[str], list[str], list[tuple[Made, str]]]:
        """For the inputs of a node: names that take them, tests (or ``=`` and an assignment), and
        nodes to follow."""
        texts: list[str] = []
        tests: list[str] = []
        follow: list[tuple[Made, str]] = []
        started: set[int] = set()
        for place, argument in enumerate(node.arguments):
            if self.known.get(id(node)) == place:
                texts.append("_")
                continue
            if isinstance(argument, Capture):
                texts.append(self.capture(node, place, argument, tests))
                continue
            if isinstance(argument, Made):
                key = (id(argument.node), argument.place)
                if id(argument.node) not in self.variables and id(argument.node) not in started:
                    name = argument.node.outputs[argument.place] or self.temporary()
                    texts.append(name)
                    self.results[key] = name
                    started.add(id(argument.node))
                    follow.append((argument, name))
                    continue
                if id(argument.node) in started and key not in self.results:
                    # both inputs come from one node, at different outputs
                    texts.append(argument.node.outputs[argument.place] or self.temporary())
                    self.results[key] = texts[-1]
                    follow.append((argument, texts[-1]))
                else:
                    texts.append(self.temporary())
                    tests.append(f"{texts[-1]} != {self.text_of(argument)}")
                continue
            texts.append(self.temporary())
            if isinstance(argument, Absent):
                tests.append(texts[-1])
            elif isinstance(argument, Number):
                tests.append(f"not {self.m}.number({texts[-1]}, {number_text(argument.value)})")
            elif isinstance(argument, Numbers):
                values = ", ".join(number_text(value) for value in argument.values)
                tests.append(f"not {self.m}.numbers({texts[-1]}, [{values}])")
        return texts, tests, follow

    def capture(self, node: PatternNode, place: int, argument: Capture, tests: list[str]) -> str:
        absent = self.may_be_empty(node, place)
        trailing = all(may_be_absent(each) for each in node.arguments[place:])
        if argument.name is None or argument.name not in self.captured:
            if argument.optional or not absent:
                return "_"
            name = self.temporary()
            tests.append(f"not {name}")
            return name
        if argument.name in self.bound:
            again = self.temporary()
            tests.append(f"{again} != {argument.name}")
            if argument.optional and not trailing:
                tests[-1] = f"({again} or None) != {argument.name}"
            return again
        self.bound.add(argument.name)
        if argument.optional:
            if not trailing:
                tests.append(f"={argument.name} = {argument.name} or None")
        elif absent:
            tests.append(f"not {argument.name}")
        return argument.name

    def may_be_empty(self, node: PatternNode, place: int) -> bool:
        """Whether some version of the operator lets the input out."""
        return any(
            schema.inputs and schema.inputs[min(place, len(schema.inputs) - 1)].optional
            for schema in schemas_of(node, self.opsets)
        )

    def follow(self, made: Made, name: str) -> PatternNode:
        """The node that makes an input."""
        node = made.node
        several = [s for s in schemas_of(node, self.opsets) if s.max_outputs > 1]
        if id(node) not in self.variables:
            variable = self.variable()
            self.add(f"{variable} = {self.m}.producer({name}, {node.key!r})")
            self.variables[id(node)] = variable
            self.header(node, f"{variable} is None")
        variable = self.variables[id(node)]
        if several:
            self.fail_if([f"{variable}.outputs[{made.place}] != {name}"])
        return node

    def text_of(self, argument: Argument) -> str:
        """The name of a result as Python text."""
        if isinstance(argument, Made):
            key = (id(argument.node), argument.place)
            return self.results.get(
                key, f"{self.variables[id(argument.node)]}.outputs[{argument.place}]"
            )
        if isinstance(argument, Capture) and argument.name is not None:
            return argument.name
        return "None"

    # -- the end --------------------------------------------------------------------------------

    def alias_names(self) -> None:
        """Binds names of results that no input has bound, each as soon as it can be."""
        made = self.pattern.made_names()
        lets = {name for name, _ in self.rewrite.let}
        for name in self.names.kinds:
            if name in self.bound or name in lets or name not in self.wanted:
                continue
            if name in made:
                text = self.text_of(made[name])
            elif name in self.pattern.aliases:
                text = self.text_of(self.pattern.aliases[name])
            else:
                continue  # None: no step binds it
            if text != name:
                self.steps.insert(self.earliest(text), Step("do", f"{name} = {text}"))

    def earliest(self, text: str) -> int:
        """Behind the step that binds the last name of an expression, and the tests of that."""
        read = names_read([ast.parse(text)])
        places = [place + 1 for place, step in enumerate(self.steps) if read & set(step.binds)]
        place = max(places, default=0)
        while place < len(self.steps) and self.steps[place].kind == "fail_if":
            place += 1
        return place

    def check_conditions(self) -> None:
        """``let`` values, each before the first condition that reads it, and conditions."""
        waiting = [(name, code) for name, code in self.rewrite.let if name in self.names.read]
        when = self.rewrite.when
        for condition in conjuncts(when.expression) if when is not None else []:
            assert when is not None
            wanted = names_read([condition])
            while wanted & {name for name, _ in waiting}:
                name, code = waiting.pop(0)
                self.add(f"{name} = {expression_text(code.expression, self.needs)}")
            test = ast.parse(expression_text(condition, self.needs), mode="eval").body
            opposite = ast.unparse(ast.UnaryOp(ast.Not(), test))
            self.fail_if([opposite], source_of(when, condition))
        for name, code in waiting:
            self.add(f"{name} = {expression_text(code.expression, self.needs)}")

    def make_match(self) -> None:
        results = [self.text_of(result) for result in self.pattern.results]
        empty = [
            f"not {text}"
            for text, result in zip(results, self.pattern.results, strict=True)
            if len(result.node.outputs) > 1
        ]
        self.fail_if(empty)
        made = self.pattern.made_names()
        shared = [made[name].node for name in self.rewrite.shared if name in made]
        kept = [self.variables[id(node)] for node in dict.fromkeys(shared)]
        parts = [_tuple(results), _tuple(self.names.values), *([_tuple(kept)] if kept else [])]
        nodes = tuple(self.variables.values())
        self.steps.append(Step("return", ", ".join(parts), nodes=nodes))


def _tuple(parts: Iterable[str]) -> str:
    listed = list(parts)
    return f"({listed[0]},)" if len(listed) == 1 else f"({', '.join(listed)})"
