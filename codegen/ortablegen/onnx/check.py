"""Check expressions of specs/onnx and emit them as Python.

In the field ``shape``, ``dtype`` or ``value`` of a rule, an input's name stands for that property
of the input. An omitted attribute has its default.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from ortable import dtypes
from ortablegen.language import kinds
from ortablegen.language.check import CodeChecker
from ortablegen.language.emit import Emitter, Needs
from ortablegen.language.kinds import Kind
from ortablegen.language.narrowing import Value
from ortablegen.language.parse import parse_expression
from ortablegen.language.vocabulary import HelperFunction, inference_helpers
from ortablegen.schemas.onnx import OnnxAttribute, OnnxSchema
from ortablegen.source.diagnostics import Diagnostics, did_you_mean
from ortablegen.source.yaml_source import YScalar

ASPECTS = ("shape", "dtype", "value")
# `info(x)` is the input's record with all aspects, for rules that need its constant content, too.
_ACCESSORS = (*ASPECTS, "info")
# other names that rules may read; `result` is the shape of the output, or all shapes
_FACTS = {"n_outputs": kinds.INT, "opset": kinds.INT, "result": kinds.ANY}
_DTYPES = frozenset(n for n, v in vars(dtypes).items() if type(v) is int and not n.startswith("_"))
_ASPECT_KINDS = {"shape": kinds.SYMINTS, "dtype": kinds.DTYPE}
# constructs that lowerings may use and rules may not: rules call functions instead
_NOT_IN_RULES = {
    ast.ListComp: "list comprehension", ast.Div: "'/'", ast.Mod: "'%'", ast.Pow: "'**'",
    ast.UAdd: "unary '+'", ast.In: "'in'", ast.NotIn: "'not in'",
}  # fmt: skip
_SYNTAX_NOTES = (
    "a rule consists of calls, ternaries, comparisons and integer arithmetic",
    "call a function of ortable.inference, or name one for the whole rule (python: with why:)",
)


@dataclass(frozen=True)
class Expression:
    """Checked Python source over ``inputs``, ``attrs``, ``n_outputs``, ``opset``; its inputs."""

    source: str
    inputs: frozenset[str]


def read_expression(
    scalar: YScalar, versions: tuple[OnnxSchema, ...], aspect: str, diagnostics: Diagnostics
) -> Expression | None:
    """Check the expression of one field of an entry; return None after an error."""
    code = parse_expression(scalar, diagnostics, _SYNTAX_NOTES)
    if code is None:
        return None
    error_count = len(diagnostics.errors)
    checker = RuleCode(code, {}, diagnostics, (0, 0), versions=versions, aspect=aspect)
    if checker.check_constructs():
        checker.infer_value(code.expression)
    if len(diagnostics.errors) > error_count:
        return None
    emitter = _RuleEmitter(versions, aspect)
    tree = ast.parse(ast.unparse(code.expression), mode="eval").body
    return Expression(ast.unparse(emitter.visit(tree)), frozenset(checker.read))


@dataclass
class RuleCode(CodeChecker):
    """The code of a rule, which reads inputs and attributes of all ``versions`` of an operator."""

    versions: tuple[OnnxSchema, ...] = ()
    aspect: str = "shape"
    helpers: Mapping[str, HelperFunction] = field(default_factory=inference_helpers)

    @property
    def schema(self) -> OnnxSchema:
        """The newest version."""
        return self.versions[-1]

    def check_constructs(self) -> bool:
        """Report the first construct that only lowerings may use."""
        for node in ast.walk(self.code.expression):
            operator = getattr(node, "op", None)
            for part in (node, operator, *getattr(node, "ops", ())):
                name = _NOT_IN_RULES.get(type(part))
                if name is not None:
                    self.error(node, f"{name} is outside the language of ONNX rules")
                    return False
        return True

    def _check_constant(self, node: ast.Constant) -> Value:
        if not isinstance(node.value, int | str | None):
            return self.error(
                node, f"a constant is an integer, a string or None, not {node.value!r}"
            )
        return super()._check_constant(node)

    def _check_call(self, node: ast.Call, outputs: int | None) -> Value:
        if not isinstance(node.func, ast.Name):
            return self.error(node, "only a function name can be called")
        name = node.func.id
        if node.keywords:
            return self.error(node, f"'{name}' takes positional arguments only")
        if name in _ACCESSORS:
            return self.resolve_accessor(node, name)
        if name == "same":
            if len(node.args) == 1 and isinstance(node.args[0], ast.Name):
                return self.infer_value(node.args[0])
            return self.error(node, "'same' takes the name of one input")
        if name in self.helpers:
            return self.check_helper(node, self.helpers[name])
        notes = ("rules may call the public functions of ortable/inference/*.py",)
        return self.error(
            node, f"unknown function '{name}'{did_you_mean(name, self.helpers)}", notes
        )

    def resolve_accessor(self, node: ast.Call, aspect: str) -> Value:
        """Check a call such as ``shape(x)`` or ``value(x, default)``."""
        if not 1 <= len(node.args) <= 2 or not isinstance(node.args[0], ast.Name):
            return self.error(
                node,
                f"'{aspect}' takes the name of an input, and a value for when it is omitted",
            )
        default = node.args[1] if len(node.args) == 2 else None
        if default is not None:
            self.infer_value(default)
        return self.resolve_input(node.args[0], aspect, default)

    def _check_name(self, node: ast.Name) -> Value:
        name = node.id
        is_input = any(s.input_index(name) is not None for s in self.versions)
        is_attribute = any(s.attribute(name) for s in self.versions)
        if is_input and is_attribute:
            text = f"'{name}' is an attribute of some versions and an input of others"
            return self.error(node, text, fix="use python:")
        if is_input:
            return self.resolve_input(node, self.aspect, None)
        if is_attribute:
            return self.resolve_attribute(node)
        if name in _FACTS:
            return Value(Kind(_FACTS[name]))
        if name in _DTYPES:
            return Value(Kind(kinds.DTYPE), frozenset({getattr(dtypes, name)}))
        if name == "unknown":
            return Value(Kind(kinds.NONE, True))
        inputs = [f.name for f in self.schema.inputs]
        attributes = [a.name for a in self.schema.attributes]
        notes = [
            f"inputs are {', '.join(inputs) or 'none'}",
            f"attributes are {', '.join(attributes) or 'none'}",
        ]
        hint = did_you_mean(name, [*inputs, *attributes, *_FACTS])
        text = f"{self.schema.key} has no input or attribute '{name}'{hint}"
        return self.error(node, text, notes)

    def resolve_input(self, node: ast.Name, aspect: str, default: ast.expr | None) -> Value:
        """Return an aspect of an input, whose position must be equal in all versions with it."""
        name = node.id
        input_info = _find_input(self.versions, name)
        if input_info is None:
            hint = did_you_mean(name, [f.name for f in self.schema.inputs])
            return self.error(node, f"{self.schema.key} has no input '{name}'{hint}")
        if len({s.input_index(name) for s in self.versions} - {None}) != 1:
            self.error(
                node, f"the position of input '{name}' differs between versions", fix="use python:"
            )
        self.read.add(name)
        if input_info.variadic:
            return Value(Kind(kinds.ANY))
        if input_info.optional and default is None and aspect != "info":
            self.error(
                node,
                f"input '{name}' is optional",
                fix=f"give a value for when it is omitted: {aspect}({name}, ())",
            )
        if not input_info.optional and default is not None:
            self.error(node, f"input '{name}' is never omitted, so it needs no second argument")
        return Value(Kind(_ASPECT_KINDS.get(aspect, kinds.ANY), aspect in _ASPECT_KINDS))

    def resolve_attribute(self, node: ast.Name) -> Value:
        """Return an attribute, whose default must be equal in all versions with it."""
        attributes = _find_attributes(self.versions, node.id)
        if len({repr(a.default) for a in attributes}) > 1:
            self.error(
                node,
                f"the default of attribute '{node.id}' differs between versions",
                fix="use python:",
            )
        return Value(Kind(kinds.ATTRIBUTES.get(attributes[-1].type, kinds.ANY)))


class _RuleEmitter(Emitter):
    """Emits a checked rule: input ``x`` becomes ``x.shape``, function ``f`` ``inference.f``."""

    def __init__(self, versions: tuple[OnnxSchema, ...], aspect: str) -> None:
        super().__init__(Needs(helpers=inference_helpers()))
        self.versions = versions
        self.aspect = aspect

    def visit_Call(self, node: ast.Call) -> ast.expr:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name in (*_ACCESSORS, "same"):
            input_name = node.args[0]
            assert isinstance(input_name, ast.Name)
            if name == "same":
                return self.visit(input_name)
            default = self.visit(node.args[1]) if len(node.args) == 2 else None
            return self.resolve_input(input_name.id, name, default)
        function = ast.Attribute(ast.Name("inference"), name)
        return ast.Call(function, [self.visit(argument) for argument in node.args], [])

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Emit a comparison of attributes and facts, which are never symbolic."""
        comparators = [self.visit(comparator) for comparator in node.comparators]
        return ast.Compare(self.visit(node.left), node.ops, comparators)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if _find_input(self.versions, node.id) is not None:
            return self.resolve_input(node.id, self.aspect, None)
        if _find_attributes(self.versions, node.id):
            return self.resolve_attribute(node.id)
        if node.id in _DTYPES:
            return ast.Attribute(ast.Name("dtypes"), node.id)
        return ast.Constant(None) if node.id == "unknown" else node

    def resolve_input(self, name: str, aspect: str, default: ast.expr | None) -> ast.expr:
        """Emit ``x.shape``, or the value for an omitted input; a list if it is variadic."""
        input_info = _find_input(self.versions, name)
        assert input_info is not None
        if input_info.variadic:
            inputs_text = f"inputs[{input_info.position}:]" if input_info.position else "inputs"
            return _parse_expression(f"[v.{aspect} for v in {inputs_text}]")
        if aspect == "info":
            return ast.Name(name)
        if not input_info.optional:
            return ast.Attribute(ast.Name(name), aspect)
        omitted = ast.unparse(default) if default is not None else None
        return _parse_expression(f"({omitted} if {name} is None else {name}.{aspect})")

    def resolve_attribute(self, name: str) -> ast.expr:
        """Emit the attribute or its default."""
        newest = _find_attributes(self.versions, name)[-1]
        if newest.required:
            return _parse_expression(
                f"inference.required_attribute(attrs, {name!r}, {self.versions[-1].key!r})"
            )
        default = "" if newest.default is None else f", {newest.default!r}"
        return _parse_expression(f"attrs.get({name!r}{default})")


@dataclass(frozen=True)
class _Input:
    """An input over all versions: its smallest position, and whether a version may omit it."""

    position: int
    optional: bool
    variadic: bool


def _find_input(versions: tuple[OnnxSchema, ...], name: str) -> _Input | None:
    positions = [s.input_index(name) for s in versions]
    formal = next((f for s in reversed(versions) for f in s.inputs if f.name == name), None)
    if formal is None:
        return None
    first_position = min(position for position in positions if position is not None)
    return _Input(first_position, formal.optional or None in positions, formal.variadic)


def _find_attributes(versions: tuple[OnnxSchema, ...], name: str) -> list[OnnxAttribute]:
    return [a for a in (s.attribute(name) for s in versions) if a is not None]


def _parse_expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
