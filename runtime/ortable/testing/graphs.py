"""Build the graph of a rewrite's sample by evaluating the pattern, or `graph:` of the sample."""

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
from ortablegen.language.samples import SampleProblem, TensorSample
from ortablegen.rewrites.model import Rewrite, RewriteSample

from .values import (
    Operand,
    draw_tensor,
    evaluate_literal,
    parse_attribute,
    parse_operand,
    symbolic_shape,
)

_INTEGERS = frozenset({dtypes.int32, dtypes.int64})


@dataclass
class SampleGraph:
    """A graph under construction, the samples of its inputs, and example sizes of its symbols."""

    builder: GraphBuilder
    inputs: dict[str, TensorSample] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Number:
    """A literal among the inputs of a node; its dtype follows from the other inputs."""

    value: Any


def build_graph(
    rewrite: Rewrite, sample: RewriteSample, opset: int, target: str | None
) -> SampleGraph:
    """Build the graph of a sample, without casts for missing kernels."""
    builder = GraphBuilder(opset, target=target, kernel_table={}, name=rewrite.name)
    code = sample.graph or rewrite.pattern
    maker = _GraphMaker(builder, dict(sample.values))
    maker.run(code.body, sample.extra_outputs)
    return maker.built


class _GraphMaker:
    def __init__(self, builder: GraphBuilder, values: Mapping[str, object]) -> None:
        self.builder = builder
        self.values = values
        self.built = SampleGraph(builder)
        self.results: dict[str, Any] = {}  # by variable: a result name, a list of names, or None
        self.generator = torch.Generator().manual_seed(1)
        for value in values.values():
            for operand in _parse_operands(value):
                self.built.symbols.update(operand.symbols)

    def run(self, body: Sequence[ast.stmt], extra_outputs: Sequence[str]) -> None:
        attributes = _keyword_names(body)
        for name, value in self.values.items():
            if name not in attributes and _parse_operands(value):
                self.make_capture(name)
        outputs: list[str] = []
        for statement in body:
            if isinstance(statement, ast.Assign):
                self.run_assignment(statement)
            elif isinstance(statement, ast.Return):
                outputs = self.run_return(statement)
        for name in (*outputs, *extra_outputs):
            if name not in self.builder.known_types:
                raise SampleProblem(f"'{name}' has no element type and cannot be an output")
            self.builder.make_tensor_output(name)

    # -- statements

    def run_assignment(self, statement: ast.Assign) -> None:
        target = statement.targets[0]
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        names = [element.id for element in targets if isinstance(element, ast.Name)]
        value = self.evaluate_node(statement.value, ["" if name == "_" else name for name in names])
        results = value if isinstance(value, list) else [value]
        for name, result in zip(names, results, strict=True):
            self.results[name] = result

    def run_return(self, statement: ast.Return) -> list[str]:
        assert statement.value is not None
        value = statement.value
        items = value.elts if isinstance(value, ast.Tuple) else [value]
        names: list[str] = []
        for index, item in enumerate(items):
            output_name = f"result{index}" if len(items) > 1 else "result"
            name = (
                self.evaluate_node(item, [output_name])
                if isinstance(item, ast.Call)
                else self.evaluate_argument(item)
            )
            assert isinstance(name, str)
            is_input = any(name == info.name for info in self.builder.inputs)
            if is_input or name in names or name in self.builder.initializers_dict:
                name = self.builder.make_node("Identity", [name], [output_name])
            names.append(name)
        return names

    # -- values

    def make_capture(self, name: str) -> Any:
        """Return the result or results of a capture, and make them at the first use."""
        if name in self.results:
            return self.results[name]
        if name not in self.values:
            return None
        value = self.values[name]
        if isinstance(value, (list, tuple)):
            capture_value: Any = [
                self.make_tensor(f"{name}_{i}", text) for i, text in enumerate(value)
            ]
        else:
            capture_value = self.make_tensor(name, value)
        self.results[name] = capture_value
        return capture_value

    def make_tensor(self, name: str, text: object) -> str | None:
        if text is None or str(text).strip() in ("None", ""):
            return None
        parsed = parse_operand(text)
        if parsed is None:
            raise SampleProblem(f"'{text}' of '{name}' is not a tensor")
        sample = parsed.sample
        if parsed.constant:
            value = draw_tensor(sample, sample.shape, self.generator)
            array = to_numpy(value)
            return self.builder.make_initializer(name, array)
        shape = symbolic_shape(sample, self.built.symbols)
        self.built.inputs[name] = sample
        dtype = dtypes.from_torch(getattr(torch, sample.dtype))
        return self.builder.make_tensor_input(name, dtype, shape)

    def is_given(self, name: str) -> bool:
        """Whether the sample defines the capture."""
        return name in self.results or self.values.get(name) is not None

    def evaluate_argument(self, tree: ast.expr) -> Any:
        """Evaluate an argument to a result name, a list of names, None, or a Number."""
        if isinstance(tree, ast.Name):
            if tree.id == "None":
                return None
            if tree.id in self.results or tree.id in self.values:
                return self.make_capture(tree.id)
            if tree.id in ("inf", "nan"):
                return Number(evaluate_literal(tree))
            raise SampleProblem(f"the sample does not define '{tree.id}'")
        if isinstance(tree, ast.Starred):
            return self.evaluate_argument(tree.value)
        if isinstance(tree, ast.Call):
            return self.evaluate_node(tree, None)
        if isinstance(tree, ast.Constant) and tree.value is None:
            return None
        return Number(evaluate_literal(tree))

    # -- nodes

    def evaluate_node(self, tree: ast.expr, outputs: list[str] | None) -> Any:
        """Evaluate a call to its result name, or to a list of names."""
        if not isinstance(tree, ast.Call):
            return self.evaluate_argument(tree)
        function = tree.func.id if isinstance(tree.func, ast.Name) else ""
        if function == "maybe":
            assert isinstance(tree.args[0], ast.Name)
            return self.make_capture(tree.args[0].id)
        if function == "optional":
            optional_node = tree.args[0]
            assert isinstance(optional_node, ast.Call)
            operand = optional_node.args[0]
            captures = _capture_names(optional_node) - _capture_names(operand)
            if all(map(self.is_given, captures)):
                return self.evaluate_node(optional_node, outputs)
            return self.evaluate_node(operand, outputs)
        if function == "any_of":
            for choice in tree.args:
                if all(map(self.is_given, _capture_names(choice))):
                    return self.evaluate_node(choice, outputs)
            raise SampleProblem(
                "the sample does not define all captures of an alternative of any_of"
            )
        if onnx_call(tree) is None:
            raise SampleProblem(f"'{ast.unparse(tree)}' is not a node")
        return self.make_node_of_call(tree, outputs)

    def make_node_of_call(self, tree: ast.Call, outputs: list[str] | None) -> Any:
        domain, op = onnx_call(tree) or ("", "")
        inputs: list[Any] = []
        for argument in tree.args:
            result = self.evaluate_argument(argument)
            inputs.extend(result) if isinstance(result, list) else inputs.append(result)
        attrs: dict[str, Any] = {}
        output_spec: Any = outputs  # names, a number, or None
        for keyword in tree.keywords:
            value = self.evaluate_attribute(keyword.value)
            if keyword.arg == "outputs":
                output_spec = output_spec or value
            elif keyword.arg == "attrs" or keyword.arg is None:
                attrs.update(value or {})
            else:
                attrs[keyword.arg] = value
        names = self.make_constants(op, domain, inputs)
        if isinstance(output_spec, list) and len(output_spec) == 1 and not output_spec[0]:
            output_spec = None
        result = self.builder.make_node(op, names, output_spec, domain=domain, **attrs)
        return list(result) if isinstance(result, tuple) else result

    def evaluate_attribute(self, tree: ast.expr) -> Any:
        """Evaluate an attribute: a literal, or a capture by its value in the sample."""
        if isinstance(tree, ast.Name) and tree.id in self.values:
            return parse_attribute(self.values[tree.id])
        if isinstance(tree, ast.Name):
            value = evaluate_literal(tree)
            return None if value == tree.id else value  # None: a capture that the sample omits
        return evaluate_literal(tree)

    def make_constants(self, op: str, domain: str, inputs: list[Any]) -> list[str | None]:
        """Convert literals to constants of the dtype that the operator needs."""
        names = [x if x is None or isinstance(x, str) else None for x in inputs]
        for index, item in enumerate(inputs):
            if isinstance(item, Number):
                dtype = self.infer_dtype(op, domain, names, index, item.value)
                array = np.asarray(item.value).astype(dtypes.to_numpy(dtype))
                names[index] = self.builder.make_initializer("", array)
        return names

    def infer_dtype(
        self, op: str, domain: str, names: Sequence[str | None], position: int, value: Any
    ) -> int:
        """Infer the dtype of a literal.

        The dtype is the fixed dtype of the input in the schema, the dtype of another input with the
        same type parameter, int64 if the schema allows only int32 and int64, the dtype of the first
        input that is not bool, or that of the literal: the first of these that exists.
        """
        input_dtypes = [self.builder.values[name].dtype if name else None for name in names]
        version = self.builder.domain_version(domain)
        schema = find_schema(op, domain, version)
        if schema is not None:
            formal = schema.formal_input(position)
            if formal.param is None and formal.dtype:
                return formal.dtype
            for index, dtype in enumerate(input_dtypes):
                if dtype and schema.formal_input(index).param == formal.param:
                    return dtype
            legal = schema.legal.get(formal.param or "", frozenset())
            if legal and legal <= _INTEGERS:
                return dtypes.int64
        first_dtype = next(
            (dtype for dtype in input_dtypes if dtype and dtype != dtypes.boolean), None
        )
        value_kind = np.asarray(value).dtype.kind
        if first_dtype is not None:
            return first_dtype
        return {"b": dtypes.boolean, "i": dtypes.int64}.get(value_kind, dtypes.float32)


def _parse_operands(value: object) -> list[Operand]:
    texts = value if isinstance(value, (list, tuple)) else [value]
    operands = [parse_operand(text) for text in texts if isinstance(text, str)]
    return [item for item in operands if item is not None]


def _capture_names(tree: ast.AST) -> set[str]:
    """Return the names of the captures in a part of a pattern, including attributes."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = [
        node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called
    ]
    # without the prefixes of operators, the keys of DOMAINS
    return {name for name in names if evaluate_literal(ast.Name(name, ast.Load())) == name} - {
        "ms",
        "ml",
    }


def _keyword_names(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names of captures that are attributes of nodes, and so are not tensors."""
    return {
        keyword.value.id
        for statement in body
        for call in ast.walk(statement)
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if isinstance(keyword.value, ast.Name)
    }
