"""A handful of converters written for the tests, so that they judge the interpreter and not the
generated code. The keys and the calls are those of the generated tables."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ortable.interpreter.tables import ConverterTables


class Call(NamedTuple):
    """As the generated CallTarget."""

    packet: str
    fixed: dict[str, Any]
    pack: str | None


def unary(op_type: str) -> Any:
    def convert(graph: Any, res: Any, self: str) -> Any:
        return graph.make_node(op_type, [self], res.outputs)

    return convert


def number(graph: Any, value: Any, like: str) -> str:
    """A tensor argument that may be a number or a dimension, in the type of ``like``."""
    if isinstance(value, str):
        return value
    dtype = graph.get_type(like)
    if isinstance(value, (int, float)):
        kind = np.float32 if dtype == 1 else np.int64
        return graph.make_initializer("", np.array(value, dtype=kind))
    vector = graph.dim_as_vector(value)
    return graph.make_node("Cast", [vector], to=dtype) if dtype != 7 else vector


def binary(op_type: str) -> Any:
    def convert(graph: Any, res: Any, self: str, other: Any, *, alpha: int = 1) -> Any:
        assert alpha == 1
        return graph.make_node(op_type, [self, number(graph, other, self)], res.outputs)

    return convert


def linear(graph: Any, res: Any, input: str, weight: str, bias: str | None = None) -> Any:
    return graph.make_node("Gemm", [input, weight, bias], res.outputs, transB=1)


def split(graph: Any, res: Any, self: str, split_size: int, dim: int = 0) -> Any:
    sizes = graph.make_initializer("", np.array([split_size] * len(res), dtype=np.int64))
    return graph.make_node("Split", [self, sizes], res.outputs, axis=dim)


def sum_all(graph: Any, res: Any, self: str, *, dtype: int | None = None) -> Any:
    return graph.make_node("ReduceSum", [self], res.outputs, keepdims=0)


def cond(graph: Any, res: Any, pred: str, true_fn: Any, false_fn: Any, operands: Any) -> Any:
    branches = [graph.convert_subgraph(g, list(operands)) for g in (true_fn, false_fn)]
    found = graph.make_node(
        "If", [pred], len(res), then_branch=branches[0], else_branch=branches[1]
    )
    return [found] if isinstance(found, str) else list(found)


def same_as_self(graph: Any, self: str, *args: Any, **kwargs: Any) -> Any:
    info = graph.values[self]
    return ((info.dtype, info.shape),)


def passes_through(graph: Any, res: Any, self: str, *args: Any, **kwargs: Any) -> str:
    return self


CONVERTERS: dict[str, Any] = {
    "aten::add.Tensor": binary("Add"),
    "aten::clone": passes_through,
    "aten::cos": unary("Cos"),
    "aten::detach": passes_through,
    "aten::gt.Scalar": binary("Greater"),
    "aten::item": passes_through,
    "aten::lift_fresh_copy": passes_through,
    "aten::linear": linear,
    "aten::mul.Tensor": binary("Mul"),
    "aten::relu": unary("Relu"),
    "aten::sigmoid": unary("Sigmoid"),
    "aten::sin": unary("Sin"),
    "aten::split.Tensor": split,
    "aten::sum": sum_all,
    "aten::zeros": lambda graph, res, size, **kwargs: graph.make_node(
        "ConstantOfShape", [graph.shape_as_vector(size)], res.outputs
    ),
}

TABLES = ConverterTables(
    converters=CONVERTERS,
    rules={"aten::relu": same_as_self, "aten::sigmoid": same_as_self},
    callables={
        "torch.nn.functional.linear": Call("aten::linear", {}, None),
        "torch.relu": Call("aten::relu", {}, None),
        "torch.nn.functional.relu": Call("aten::relu", {}, None),
        "operator.add": Call("aten::add", {}, None),
    },
    methods={"sigmoid": Call("aten::sigmoid", {}, None), "add": Call("aten::add", {}, None)},
    hops={"cond": cond},
    mutates={"aten::batch_norm": "training"},
    spec_files={"aten::relu": "specs/aten/activation.yaml"},
)
