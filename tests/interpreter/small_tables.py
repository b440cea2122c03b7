"""Small converter tables, so that tests of the interpreter do not depend on generated code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ortable.interpreter.tables import ConverterTables


class Call(NamedTuple):
    """A call target with the fields of the generated CallTarget."""

    packet: str
    fixed: dict[str, Any]
    pack: str | None


def make_unary(op_type: str) -> Any:
    def convert(graph: Any, res: Any, self: str) -> Any:
        return graph.make_node(op_type, [self], res.outputs)

    return convert


def convert_number(graph: Any, value: Any, like: str) -> str:
    """Return a tensor of the type of ``like`` for a tensor, a number or a dimension."""
    if isinstance(value, str):
        return value
    dtype = graph.get_type(like)
    if isinstance(value, (int, float)):
        numpy_type = np.float32 if dtype == 1 else np.int64
        return graph.make_initializer("", np.array(value, dtype=numpy_type))
    vector = graph.dim_as_vector(value)
    return graph.make_node("Cast", [vector], to=dtype) if dtype != 7 else vector


def make_binary(op_type: str) -> Any:
    def convert(graph: Any, res: Any, self: str, other: Any, *, alpha: int = 1) -> Any:
        assert alpha == 1
        return graph.make_node(op_type, [self, convert_number(graph, other, self)], res.outputs)

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
    result = graph.make_node(
        "If", [pred], len(res), then_branch=branches[0], else_branch=branches[1]
    )
    return [result] if isinstance(result, str) else list(result)


def infer_same(graph: Any, self: str, *args: Any, **kwargs: Any) -> Any:
    info = graph.values[self]
    return ((info.dtype, info.shape),)


def return_input(graph: Any, res: Any, self: str, *args: Any, **kwargs: Any) -> str:
    return self


CONVERTERS: dict[str, Any] = {
    "aten::add.Tensor": make_binary("Add"),
    "aten::clone": return_input,
    "aten::cos": make_unary("Cos"),
    "aten::detach": return_input,
    "aten::gt.Scalar": make_binary("Greater"),
    "aten::item": return_input,
    "aten::lift_fresh_copy": return_input,
    "aten::linear": linear,
    "aten::mul.Tensor": make_binary("Mul"),
    "aten::relu": make_unary("Relu"),
    "aten::sigmoid": make_unary("Sigmoid"),
    "aten::sin": make_unary("Sin"),
    "aten::split.Tensor": split,
    "aten::sum": sum_all,
    "aten::zeros": lambda graph, res, size, **kwargs: graph.make_node(
        "ConstantOfShape", [graph.shape_as_vector(size)], res.outputs
    ),
}

TABLES = ConverterTables(
    converters=CONVERTERS,
    rules={"aten::relu": infer_same, "aten::sigmoid": infer_same},
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
