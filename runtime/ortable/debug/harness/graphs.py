"""The graph that a case of a rewrite starts from: its pattern, or its own block, evaluated node by
node."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.debug.arrays import to_numpy
from ortable.ir.schemas import find_schema
from ortablegen.language.parse import onnx_call
from ortablegen.language.samples import TensorSample
from ortablegen.rewrites.model import Rewrite, RewriteCase

from .values import Operand, attribute, draw, literal, operand, symbolic_shape

_INTEGERS = frozenset({dtypes.int32, dtypes.int64})


class CaseProblem(Exception):
    """A case that no graph can be made of."""


@dataclass
class Built:
    """A graph under construction and the samples of its inputs, by name."""

    builder: GraphBuilder
    inputs: dict[str, TensorSample] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Number:
    """A literal among the inputs of a node; its dtype is known when the others are."""

    value: Any


def build(rewrite: Rewrite, case: RewriteCase, opset: int, target: str | None) -> Built:
    """The graph of a case, nothing cast for kernels: what the pattern says is what is there."""
    builder = GraphBuilder(opset, target=target, kernel_table={}, name=rewrite.name)
    code = case.graph or rewrite.pattern
    maker = _Maker(builder, dict(case.values))
    maker.run(code.body, case.also)
    return maker.built


class _Maker:
    def __init__(self, builder: GraphBuilder, values: Mapping[str, object]) -> None:
        self.builder = builder
        self.values = values
        self.built = Built(builder)
        self.made: dict[str, Any] = {}  # results by name: a name, a list of names, None
        self.generator = torch.Generator().manual_seed(1)
        for value in values.values():
            for found in _operands(value):
                self.built.symbols.update(found.symbols)

    def run(self, body: Sequence[ast.stmt], also: Sequence[str]) -> None:
        attributes = _keyword_names(body)
        for name, value in self.values.items():
            if name not in attributes and _operands(value):
                self.capture(name)
        outputs: list[str] = []
        for statement in body:
            if isinstance(statement, ast.Assign):
                self.assign(statement)
            elif isinstance(statement, ast.Return):
                outputs = self.returned(statement)
        for name in (*outputs, *also):
            if name not in self.builder.known_types:
                raise CaseProblem(f"'{name}' has no element type and cannot be an output")
            self.builder.make_tensor_output(name)

    # -- statements

    def assign(self, statement: ast.Assign) -> None:
        target = statement.targets[0]
        each = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [n.id for n in each if isinstance(n, ast.Name)]
        found = self.node(statement.value, ["" if name == "_" else name for name in names])
        results = found if isinstance(found, list) else [found]
        for name, result in zip(names, results, strict=True):
            self.made[name] = result

    def returned(self, statement: ast.Return) -> list[str]:
        assert statement.value is not None
        value = statement.value
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        names: list[str] = []
        for place, item in enumerate(items):
            wanted = f"result{place}" if len(items) > 1 else "result"
            found = self.node(item, [wanted]) if isinstance(item, ast.Call) else self.argument(item)
            assert isinstance(found, str)
            known = any(found == info.name for info in self.builder.inputs)
            if known or found in names or found in self.builder.initializers_dict:
                found = self.builder.make_node("Identity", [found], [wanted])
            names.append(found)
        return names

    # -- values

    def capture(self, name: str) -> Any:
        """The result or results that a capture stands for; made when it is first read."""
        if name in self.made:
            return self.made[name]
        if name not in self.values:
            return None
        value = self.values[name]
        if isinstance(value, (list, tuple)):
            found: Any = [self.tensor(f"{name}_{i}", text) for i, text in enumerate(value)]
        else:
            found = self.tensor(name, value)
        self.made[name] = found
        return found

    def tensor(self, name: str, text: object) -> str | None:
        if text is None or str(text).strip() in ("None", ""):
            return None
        found = operand(text)
        if found is None:
            raise CaseProblem(f"'{text}' of '{name}' is no tensor")
        sample = found.sample
        if found.constant:
            value = draw(sample, sample.shape, self.generator)
            array = to_numpy(value)
            return self.builder.make_initializer(name, array)
        shape = symbolic_shape(sample, self.built.symbols)
        self.built.inputs[name] = sample
        dtype = dtypes.from_torch(getattr(torch, sample.dtype))
        return self.builder.make_tensor_input(name, dtype, shape)

    def given(self, name: str) -> bool:
        """Whether the case says what the capture is."""
        return name in self.made or self.values.get(name) is not None

    def argument(self, tree: ast.expr) -> Any:
        """A result, several, None, or a Number."""
        if isinstance(tree, ast.Name):
            if tree.id == "None":
                return None
            if tree.id in self.made or tree.id in self.values:
                return self.capture(tree.id)
            if tree.id in ("inf", "nan"):
                return Number(literal(tree))
            raise CaseProblem(f"the case says nothing of '{tree.id}'")
        if isinstance(tree, ast.Starred):
            return self.argument(tree.value)
        if isinstance(tree, ast.Call):
            return self.node(tree, None)
        if isinstance(tree, ast.Constant) and tree.value is None:
            return None
        return Number(literal(tree))

    # -- nodes

    def node(self, tree: ast.expr, outputs: list[str] | None) -> Any:
        """The result of a call, or a list of them when there are several."""
        if not isinstance(tree, ast.Call):
            return self.argument(tree)
        word = tree.func.id if isinstance(tree.func, ast.Name) else ""
        if word == "maybe":
            assert isinstance(tree.args[0], ast.Name)
            return self.capture(tree.args[0].id)
        if word == "optional":
            inner = tree.args[0]
            assert isinstance(inner, ast.Call)
            through = inner.args[0]
            own = _names(inner) - _names(through)
            if all(map(self.given, own)):
                return self.node(inner, outputs)
            return self.node(through, outputs)
        if word == "any_of":
            for choice in tree.args:
                if all(map(self.given, _names(choice))):
                    return self.node(choice, outputs)
            raise CaseProblem("the case gives the captures of no alternative of any_of")
        if onnx_call(tree) is None:
            raise CaseProblem(f"'{ast.unparse(tree)}' is no node")
        return self.make(tree, outputs)

    def make(self, tree: ast.Call, outputs: list[str] | None) -> Any:
        domain, op = onnx_call(tree) or ("", "")
        inputs: list[Any] = []
        for argument in tree.args:
            found = self.argument(argument)
            inputs.extend(found) if isinstance(found, list) else inputs.append(found)
        attrs: dict[str, Any] = {}
        count: Any = outputs
        for keyword in tree.keywords:
            value = self.attribute(keyword.value)
            if keyword.arg == "outputs":
                count = count or value
            elif keyword.arg == "attrs" or keyword.arg is None:
                attrs.update(value or {})
            else:
                attrs[keyword.arg] = value
        names = self.with_numbers(op, domain, inputs)
        if isinstance(count, list) and len(count) == 1 and not count[0]:
            count = None
        found = self.builder.make_node(op, names, count, domain=domain, **attrs)
        return list(found) if isinstance(found, tuple) else found

    def attribute(self, tree: ast.expr) -> Any:
        """An attribute that is written out, or the case's value of the capture."""
        if isinstance(tree, ast.Name) and tree.id in self.values:
            return attribute(self.values[tree.id])
        if isinstance(tree, ast.Name):
            value = literal(tree)
            return None if value == tree.id else value  # a capture that the case leaves out
        return literal(tree)

    def with_numbers(self, op: str, domain: str, inputs: list[Any]) -> list[str | None]:
        """Literals become constants of the dtype that the operator needs."""
        found = [x if x is None or isinstance(x, str) else None for x in inputs]
        for place, each in enumerate(inputs):
            if isinstance(each, Number):
                dtype = self.natural(op, domain, found, place, each.value)
                array = np.asarray(each.value).astype(dtypes.to_numpy(dtype))
                found[place] = self.builder.make_initializer("", array)
        return found

    def natural(
        self, op: str, domain: str, names: Sequence[str | None], place: int, value: Any
    ) -> int:
        """The fixed type of the input, the type that another input of the same parameter has, or
        what the number looks like."""
        others = [self.builder.values[n].dtype if n else None for n in names]
        version = self.builder.domain_version(domain)
        schema = find_schema(op, domain, version)
        if schema is not None:
            formal = schema.formal_input(place)
            if formal.param is None and formal.dtype:
                return formal.dtype
            for index, dtype in enumerate(others):
                if dtype and schema.formal_input(index).param == formal.param:
                    return dtype
            legal = schema.legal.get(formal.param or "", frozenset())
            if legal and legal <= _INTEGERS:
                return dtypes.int64
        first = next((dtype for dtype in others if dtype and dtype != dtypes.boolean), None)
        whole = np.asarray(value).dtype.kind
        if first is not None:
            return first
        return {"b": dtypes.boolean, "i": dtypes.int64}.get(whole, dtypes.float32)


def _operands(value: object) -> list[Operand]:
    texts = value if isinstance(value, (list, tuple)) else [value]
    found = [operand(text) for text in texts if isinstance(text, str)]
    return [each for each in found if each is not None]


def _names(tree: ast.AST) -> set[str]:
    """Captures in a part of a pattern, those of attributes too."""
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    names = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called]
    return {name for name in names if literal(ast.Name(name, ast.Load())) == name} - {"ms", "ml"}


def _keyword_names(body: Sequence[ast.stmt]) -> set[str]:
    """Names that are attributes, and so no tensors of the graph."""
    return {
        keyword.value.id
        for statement in body
        for call in ast.walk(statement)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if isinstance(keyword.value, ast.Name)
    }
