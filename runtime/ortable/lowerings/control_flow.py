"""Lower control flow: the interpreter (`graph.ctx`) converts the branches to child graphs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.inference import promote_types
from ortable.ir import Graph
from ortable.ir.result import ResultSpec
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.values import as_scalar, cast, const, consts


def lower_cond(
    graph: Graph, res: ResultSpec, pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any]
) -> list[str]:
    """Lower torch.cond to If; the branches use the operands as results of the outer graph."""
    op = OpBuilder(graph)
    if isinstance(pred, bool):
        raise UnsupportedCase(
            "cond on a Python bool: torch.export keeps the taken branch when it is known"
        )
    if graph.get_rank(pred):
        pred = op.Reshape(pred, consts(graph, [], dtypes.int64))
    branches = [
        graph.ctx.convert_subgraph(branch, list(operands), name=name)
        for branch, name in ((true_fn, "then_branch"), (false_fn, "else_branch"))
    ]
    result = op.If(pred, outputs=len(res), then_branch=branches[0], else_branch=branches[1])
    return [result] if isinstance(result, str) else list(result)


def lower_switch(
    graph: Graph, res: ResultSpec, index: Any, branches: Sequence[Any], operands: Sequence[Any]
) -> list[str]:
    """Lower torch.switch (torch 2.15) to a chain of Ifs; torch has clamped ``index``."""
    if not isinstance(index, str):
        index = as_scalar(graph, index)
    elif graph.get_rank(index):
        index = OpBuilder(graph).Reshape(index, consts(graph, [], dtypes.int64))
    result = _chain_ifs(graph.ctx, graph, len(res), index, list(branches), list(operands))
    return [result] if isinstance(result, str) else list(result)


def _chain_ifs(
    ctx: Any, graph: Graph, count: int, index: str, branches: list[Any], operands: list[Any]
) -> Any:
    """Make an If: the first branch for an index <= 0, else the other branches at index - 1."""
    op = OpBuilder(graph)
    dtype = graph.get_type(index)
    pred = op.LessOrEqual(index, 0)
    convert = functools.partial(ctx.convert_subgraph, operands=operands)
    then_graph = convert(branches[0], name="then", child=graph.subgraph("then_branch"))
    else_graph = graph.subgraph("else_branch")
    if len(branches) == 2:
        else_graph = convert(branches[1], name="else", child=else_graph)
    else:
        next_index = else_graph.make_node("Sub", [index, const(else_graph, 1, dtype)])
        results = _chain_ifs(ctx, else_graph, count, next_index, branches[1:], operands)
        for name in [results] if isinstance(results, str) else results:
            else_graph.make_tensor_output(name)
    return op.If(pred, outputs=count, then_branch=then_graph, else_branch=else_graph)


def out_dtype(graph: Graph, res: ResultSpec, op: Any, output_dtype: int, *operands: Any) -> Any:
    """Compute an operator in the common dtype of its operands and ``output_dtype``, then cast."""
    operand_dtypes = [graph.get_type(operand) for operand in operands if isinstance(operand, str)]
    common = functools.reduce(_common_dtype, operand_dtypes, output_dtype)
    promoted = [
        cast(graph, operand, common) if isinstance(operand, str) else operand
        for operand in operands
    ]
    promoted_spec = ResultSpec([graph.unique_name(f"{res.name}_wide")], (common,), res.shapes)
    return cast(graph, _find_converter(graph, op)(graph, promoted_spec, *promoted), output_dtype)


def _common_dtype(left: int, right: int) -> int:
    return promote_types(left, right) or left


# Checks that raise in torch. The lowering drops them, because no ONNX operator can raise.
CHECKS = frozenset({"aten::_linalg_check_errors", "aten::_assert_async.msg"})


def with_effects(
    graph: Graph, res: ResultSpec, token: Any, op: Any, *operands: Any, **options: Any
) -> list[Any]:
    """Lower an operator with side effects, of which only checks are allowed, to its token."""
    refuse_effect(op)
    return [token, None]


def refuse_effect(op: Any) -> None:
    """Raise UnsupportedCase unless the effect of ``op`` is a check of its arguments."""
    if op.name() not in CHECKS:
        raise UnsupportedCase(
            f"with_effects: {op.name()}: prints and other effects have an order in torch, which "
            "one ONNX graph cannot keep; leave them out"
        )


def _find_converter(graph: Graph, op: Any) -> Any:
    """Return the converter of an operator; raise UnsupportedCase if it has none."""
    result = graph.ctx.find_converter(op)
    if result is None:
        raise UnsupportedCase(f"{op.name()}, called by a higher-order operator, has no converter")
    return result
