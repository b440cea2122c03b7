"""Expressions of specs/onnx: parsed by Python's ast, checked against a small language, turned into
source text.
A bare input name means its shape, dtype or known content, after the field it stands in; attributes
bring their defaults."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ortable import dtypes
from ortablegen.schemas.onnx import OnnxSchema
from ortablegen.source.diagnostics import Diagnostics, Span

ASPECTS = ("shape", "dtype", "value")
# `info(x)` is the whole record of an input, for rules that also need its constant content.
_ACCESSORS = (*ASPECTS, "info")
_FACTS = ("n_outputs", "opset", "result")
_DTYPES = frozenset(n for n, v in vars(dtypes).items() if type(v) is int and not n.startswith("_"))
_ALLOWED = (
    ast.Expression, ast.Name, ast.Load, ast.Constant, ast.Call, ast.Tuple, ast.List, ast.Starred,
    ast.IfExp, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is,
    ast.IsNot, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add,
    ast.Sub, ast.Mult, ast.FloorDiv, ast.Subscript, ast.Slice, ast.keyword,
)  # fmt: skip


@dataclass(frozen=True)
class Word:
    """A word of rules: how many positional arguments it needs and accepts (None: any
    number)."""

    name: str
    least: int
    most: int | None


@cache
def rule_words() -> Mapping[str, Word]:
    """The public functions of ``ortable/inference/*.py``, read without importing them."""
    found: dict[str, Word] = {}
    for path in sorted((Path(dtypes.__file__).parent / "inference").glob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                arguments = [*node.args.posonlyargs, *node.args.args]
                most = None if node.args.vararg else len(arguments)
                found[node.name] = Word(node.name, len(arguments) - len(node.args.defaults), most)
    return found


@dataclass(frozen=True)
class Expression:
    """A checked expression: Python source over ``inputs``, ``attrs``, ``n_outputs``, ``opset``,
    and what it reads."""

    source: str
    inputs: frozenset[str]


def suggestion(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


class ExpressionReader:
    """Checks and translates the expressions of one operator; problems go to the diagnostics with
    their position."""

    def __init__(self, versions: tuple[OnnxSchema, ...], diagnostics: Diagnostics) -> None:
        self.versions = versions
        self.schema = versions[-1]
        self.diagnostics = diagnostics
        self.aspect = "shape"
        self.start = Span("", 1, 1)
        self.used: set[str] = set()
        self.failed = False

    def read(self, text: str, span: Span, aspect: str) -> Expression | None:
        """The expression, or None after an error."""
        self.aspect, self.start, self.used, self.failed = aspect, span, set(), False
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError as error:
            self._error(None, f"not an expression: {error.msg}")
            return None
        for node in ast.walk(tree):
            if not isinstance(node, _ALLOWED):
                self._error(node, f"{type(node).__name__} is outside the language of ONNX rules")
                break  # what stands inside it is outside too
        if self.failed:
            return None
        translated = self._translate(tree.body)
        return None if self.failed else Expression(ast.unparse(translated), frozenset(self.used))

    def _error(
        self, node: ast.AST | None, message: str, notes: Iterable[str] = (), fix: str | None = None
    ) -> None:
        column = self.start.column + getattr(node, "col_offset", 0)
        self.diagnostics.error(Span(self.start.file, self.start.line, column), message, notes, fix)
        self.failed = True

    def _translate(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Name):
            return self._name(node)
        if isinstance(node, ast.Constant) and not isinstance(node.value, (int, str, type(None))):
            self._error(node, f"a constant is an integer, a string or None, not {node.value!r}")
        for field, child in ast.iter_fields(node):
            if isinstance(child, ast.expr):
                setattr(node, field, self._translate(child))
            elif isinstance(child, list) and child and isinstance(child[0], ast.expr):
                setattr(node, field, [self._translate(c) for c in child])
        return node

    def _call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name):
            self._error(node, "only words can be called")
            return node
        name = node.func.id
        if node.keywords:
            self._error(node, f"'{name}' takes its arguments by position")
        if name in _ACCESSORS:
            return self._accessor(node, name)
        if name == "same":
            return self._same(node)
        word = rule_words().get(name)
        if word is None:
            notes = ("words are the public functions of ortable/inference/*.py",)
            self._error(node, f"unknown word '{name}'{suggestion(name, rule_words())}", notes)
            return node
        count = len(node.args)
        starred = any(isinstance(a, ast.Starred) for a in node.args)
        if not starred and (count < word.least or (word.most is not None and count > word.most)):
            wanted = (
                str(word.least)
                if word.least == word.most
                else f"{word.least} to {word.most or 'any number'}"
            )
            self._error(node, f"'{name}' takes {wanted} arguments, not {count}")
        arguments = [self._translate(a) for a in node.args]
        return ast.Call(_attribute(ast.Name("inference"), name), arguments, [])

    def _same(self, node: ast.Call) -> ast.expr:
        if len(node.args) != 1 or not isinstance(node.args[0], ast.Name):
            self._error(node, "'same' takes the name of one input")
            return node
        return self._name(node.args[0])

    def _accessor(self, node: ast.Call, aspect: str) -> ast.expr:
        if not 1 <= len(node.args) <= 2 or not isinstance(node.args[0], ast.Name):
            self._error(
                node,
                f"'{aspect}' takes the name of an input, and what stands for it when it is omitted",
            )
            return node
        default = self._translate(node.args[1]) if len(node.args) == 2 else None
        return self._input(node.args[0], aspect, default)

    def _name(self, node: ast.Name) -> ast.expr:
        name = node.id
        is_input = any(s.input_index(name) is not None for s in self.versions)
        is_attribute = any(s.attribute(name) for s in self.versions)
        if is_input and is_attribute:
            self._error(
                node,
                f"'{name}' is an attribute of some versions and an input of others",
                fix="use python:",
            )
        elif is_input:
            return self._input(node, self.aspect, None)
        elif is_attribute:
            return self._attribute(node)
        elif name in _FACTS:
            return ast.Name(name)
        elif name in _DTYPES:
            return _attribute(ast.Name("dtypes"), name)
        elif name == "unknown":
            return ast.Constant(None)
        else:
            inputs = [f.name for f in self.schema.inputs]
            attributes = [a.name for a in self.schema.attributes]
            notes = [
                f"inputs are {', '.join(inputs) or 'none'}",
                f"attributes are {', '.join(attributes) or 'none'}",
            ]
            close = suggestion(name, [*inputs, *attributes, *_FACTS])
            self._error(node, f"{self.schema.key} has no input or attribute '{name}'{close}", notes)
        return node

    def _input(self, node: ast.Name, aspect: str, default: ast.expr | None) -> ast.expr:
        name = node.id
        places = {s.input_index(name) for s in self.versions} - {None}
        formal = next(
            (f for s in reversed(self.versions) for f in s.inputs if f.name == name), None
        )
        if formal is None:
            close = suggestion(name, [f.name for f in self.schema.inputs])
            self._error(node, f"{self.schema.key} has no input '{name}'{close}")
            return node
        if len(places) != 1:
            self._error(
                node, f"input '{name}' has another position in other versions", fix="use python:"
            )
        missing = any(s.input_index(name) is None for s in self.versions)
        self.used.add(name)
        if formal.variadic:
            return _parse(
                f"[v.{aspect} for v in {_rest(name, min(p for p in places if p is not None))}]"
            )
        optional = formal.optional or missing
        if optional and default is None and aspect != "info":
            self._error(
                node,
                f"input '{name}' is optional",
                fix=f"say what stands for it when it is omitted: {aspect}({name}, ())",
            )
        if not optional and default is not None:
            self._error(node, f"input '{name}' is never omitted, so it needs no second argument")
        if aspect == "info":
            return ast.Name(name)
        if not optional:
            return _attribute(ast.Name(name), aspect)
        assert default is None or isinstance(default, ast.expr)
        return _parse(
            f"({ast.unparse(default) if default else None} if {name} is None else {name}.{aspect})"
        )

    def _attribute(self, node: ast.Name) -> ast.expr:
        name = node.id
        attributes = [a for a in (s.attribute(name) for s in self.versions) if a is not None]
        defaults = {repr(a.default) for a in attributes}
        if len(defaults) > 1:
            self._error(
                node, f"attribute '{name}' has other defaults in other versions", fix="use python:"
            )
        if attributes[-1].required:
            return _parse(f"inference.required(attrs, {name!r}, {self.schema.key!r})")
        default = attributes[-1].default
        return _parse(
            f"attrs.get({name!r})" if default is None else f"attrs.get({name!r}, {default!r})"
        )


def _attribute(value: ast.expr, name: str) -> ast.expr:
    return ast.Attribute(value, name)


def _parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _rest(name: str, start: int) -> str:
    return f"inputs[{start}:]" if start else "inputs"
