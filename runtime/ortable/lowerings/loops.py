"""Lower torch's scan, map and while_loop to Scan and Loop.

The graph of one step is converted into the body, which reads captured tensors from the outer graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.facts import dim_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.values import as_scalar, cast, consts, unsqueezed

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from ortable.ir import Graph, ResultSpec


def lower_scan(
    graph: Graph,
    res: ResultSpec,
    combine_fn: GraphModule,
    init: Sequence[Any],
    xs: Sequence[str],
    additional_inputs: Sequence[Any],
) -> list[Any]:
    """Lower torch's scan along axis 0; torch has moved the axis there and reversed it if needed."""
    if not xs:
        return list(init)
    return _make_scan(graph, combine_fn, init, xs, additional_inputs)


def map_impl(
    graph: Graph, res: ResultSpec, f: GraphModule, xs: Sequence[str], pos_args: Sequence[Any]
) -> list[Any]:
    """Lower torch's map: a scan without a carry."""
    return _make_scan(graph, f, (), xs, pos_args)


def associative_scan(
    graph: Graph,
    res: ResultSpec,
    combine_fn: GraphModule,
    xs: Sequence[str],
    additional_inputs: Sequence[Any],
) -> list[str]:
    """Lower torch's associative_scan along axis 0, from the first element to the last."""
    op = OpBuilder(graph)
    if dim_of(graph, xs[0], 0) == 0:
        return list(xs)
    zero, one = (consts(graph, [value], dtypes.int64) for value in (0, 1))
    end = consts(graph, [np.iinfo(np.int64).max], dtypes.int64)
    heads = [op.Slice(x, zero, one, zero) for x in xs]
    tails = [op.Slice(x, one, end, zero) for x in xs]
    starts = [op.Squeeze(head, zero) for head in heads]
    result = _make_scan(graph, combine_fn, starts, tails, additional_inputs, stack_carries=True)
    return [
        op.Concat(head, tail, axis=0) for head, tail in zip(heads, result[len(xs) :], strict=True)
    ]


def _make_scan(
    graph: Graph,
    step: GraphModule,
    init: Sequence[Any],
    xs: Sequence[str],
    captured: Sequence[Any],
    stack_carries: bool = False,
) -> list[Any]:
    """Make a Scan; return the last carries, then the stacked results.

    With ``stack_carries``, a step's results are both its carries and its stacked results.
    """
    states = [as_result(graph, value) for value in init]
    body = graph.subgraph("scan_body")
    operands = _declare_inputs(body, step, [*states, *xs])
    arguments, rename = _bind_symbols(body, step, operands)
    step_results = graph.ctx.convert_into(body, step, [*arguments, *captured], rename)
    step_results = [*step_results, *step_results] if stack_carries else step_results
    indices = [index for index, value in enumerate(step_results) if value is not None]
    for index in indices:
        _declare_output(body, step_results[index])
    outputs = OpBuilder(graph).Scan(
        *states, *xs, outputs=len(indices), body=body, num_scan_inputs=len(xs)
    )
    results = dict(zip(indices, [outputs] if isinstance(outputs, str) else outputs, strict=True))
    return [results.get(index) for index in range(len(step_results))]


def while_loop(
    graph: Graph,
    res: ResultSpec,
    cond_fn: GraphModule,
    body_fn: GraphModule,
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any],
) -> list[str]:
    """Lower torch's while_loop: the condition is evaluated before the loop and after each step."""
    starts = [as_result(graph, value) for value in carried_inputs]
    return _make_loop(graph, cond_fn, body_fn, starts, additional_inputs, False)[1]


def while_loop_stack_output(
    graph: Graph,
    res: ResultSpec,
    cond_fn: GraphModule,
    body_fn: GraphModule,
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any],
) -> list[str]:
    """Lower while_loop_stack_output: return the carries of all steps, stacked along axis 0.

    Without any step, the result is the initial carries with a new axis 0.
    """
    starts = [as_result(graph, value) for value in carried_inputs]
    condition, result = _make_loop(graph, cond_fn, body_fn, starts, additional_inputs, True)
    branches = []
    for name, values in (("some_steps", result[len(starts) :]), ("no_step", starts)):
        branch = graph.subgraph(name)
        for value in values:
            _declare_output(
                branch, value if name == "some_steps" else unsqueezed(branch, value, [0])
            )
        branches.append(branch)
    outputs = OpBuilder(graph).If(
        condition, outputs=len(starts), then_branch=branches[0], else_branch=branches[1]
    )
    return [outputs] if isinstance(outputs, str) else list(outputs)


def _make_loop(
    graph: Graph,
    cond_fn: GraphModule,
    body_fn: GraphModule,
    starts: Sequence[str],
    captured: Sequence[Any],
    stacked: bool,
) -> tuple[str, list[str]]:
    """Return the first condition, and the last carries, then the stacks of all if ``stacked``."""
    condition = _make_condition(graph, cond_fn, starts, captured)
    body = graph.subgraph("loop_body")
    body.make_tensor_input(graph.unique_name("step"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    operands = _declare_inputs(body, body_fn, starts)
    arguments, rename = _bind_symbols(body, body_fn, operands)
    step_results = graph.ctx.convert_into(body, body_fn, [*arguments, *captured], rename)
    next_carries = [as_result(body, value) for value in step_results]
    _declare_output(body, _make_condition(body, cond_fn, next_carries, captured))
    for value in [*next_carries, *next_carries] if stacked else next_carries:
        _declare_output(body, value)
    count = len(starts) * (2 if stacked else 1)
    outputs = OpBuilder(graph).Loop("", condition, *starts, outputs=count, body=body)
    return condition, [outputs] if isinstance(outputs, str) else list(outputs)


def _make_condition(
    graph: Graph, cond_fn: GraphModule, carried: Sequence[str], captured: Sequence[Any]
) -> str:
    """Return the condition of a loop for the ``carried`` values, as a 0-d bool."""
    arguments, rename = _bind_symbols(graph, cond_fn, carried)
    (value,) = graph.ctx.convert_into(graph, cond_fn, [*arguments, *captured], rename)
    return as_result(graph, value)


def as_result(graph: Graph, value: Any) -> str:
    """Return a result unchanged; make a 0-d result of a number or dimension."""
    if isinstance(value, str):
        return value
    if isinstance(value, SymDim):
        return as_scalar(graph, value)
    if not isinstance(value, bool | int | float):
        raise UnsupportedCase(f"a loop over {value!r}, which is neither a tensor nor a number")
    return graph.make_initializer("", np.array(value))


def _declare_inputs(body: Graph, step: GraphModule, outer: Sequence[str]) -> list[str]:
    """Declare an input of the body for each ``outer`` result, named like the inputs of the step.

    Shapes come from the step too, because a Scan passes slices of its inputs.
    """
    names = []
    for node, value in zip(_placeholders(step), outer, strict=False):
        example = node.meta.get("val")
        sizes = getattr(example, "shape", ())
        shape = tuple(dims.from_torch(size, body.rename_dims) for size in sizes)
        dtype = body.get_type(value)
        names.append(body.make_tensor_input(body.unique_name(node.name), dtype, shape))
    return names


def _bind_symbols(
    graph: Graph, step: GraphModule, operands: Sequence[str]
) -> tuple[list[Any], dict[str, str]]:
    """Return the arguments for the graph of a step, and the new names of its symbols by old name.

    An integer input is a symbol of that graph. It becomes a new dimension, whose size is read from
    the operand.
    """
    arguments: list[Any] = list(operands)
    rename = {}
    for index, (node, operand) in enumerate(zip(_placeholders(step), operands, strict=False)):
        sym_node = getattr(node.meta.get("val"), "node", None)
        if sym_node is not None and type(sym_node.expr).__name__ == "Symbol":
            rename[sym_node.expr.name] = dim_name = graph.unique_name(f"dim_{node.name}")
            graph.add_dim_source(dim_name, cast(graph, operand, dtypes.int64), None)
            arguments[index] = dims.make_symbol(dim_name)
    return arguments, rename


def _placeholders(step: GraphModule) -> list[Any]:
    return [node for node in step.graph.nodes if node.op == "placeholder"]


def _declare_output(body: Graph, value: Any) -> None:
    """Declare an output through an Identity: inputs and outer results cannot be outputs."""
    output = OpBuilder(body).Identity(as_result(body, value))
    body.make_tensor_output(output)
