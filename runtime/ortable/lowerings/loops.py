"""torch's scan, map and while_loop as Scan and Loop. The graph of one step is converted into the
body, which reads captured tensors as results of the outer graph.
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
    """torch's scan along axis 0; the caller of the operator has moved and reversed the axis."""
    if not xs:
        return list(init)
    return _make_scan(graph, combine_fn, init, xs, additional_inputs)


def map_impl(
    graph: Graph, res: ResultSpec, f: GraphModule, xs: Sequence[str], pos_args: Sequence[Any]
) -> list[Any]:
    """torch's map: a scan without a carry."""
    return _make_scan(graph, f, (), xs, pos_args)


def associative_scan(
    graph: Graph,
    res: ResultSpec,
    combine_fn: GraphModule,
    xs: Sequence[str],
    additional_inputs: Sequence[Any],
) -> list[str]:
    """torch's associative_scan along axis 0, from the first element to the last."""
    op = OpBuilder(graph)
    if dim_of(graph, xs[0], 0) == 0:
        return list(xs)
    zero, one = (consts(graph, [value], dtypes.int64) for value in (0, 1))
    end = consts(graph, [np.iinfo(np.int64).max], dtypes.int64)
    heads = [op.Slice(x, zero, one, zero) for x in xs]
    rest = [op.Slice(x, one, end, zero) for x in xs]
    starts = [op.Squeeze(head, zero) for head in heads]
    result = _make_scan(graph, combine_fn, starts, rest, additional_inputs, twice=True)
    return [
        op.Concat(head, tail, axis=0) for head, tail in zip(heads, result[len(xs) :], strict=True)
    ]


def _make_scan(
    graph: Graph,
    step: GraphModule,
    init: Sequence[Any],
    xs: Sequence[str],
    captured: Sequence[Any],
    twice: bool = False,
) -> list[Any]:
    """Append a Scan: returns the last carries, then the stacked results; ``twice``: a step's
    results are both.
    """
    states = [as_result(graph, value) for value in init]
    body = graph.subgraph("scan_body")
    operands = _declare_inputs(body, step, [*states, *xs])
    seen, rename = _bind_symbols(body, step, operands)
    result = graph.ctx.convert_into(body, step, [*seen, *captured], rename)
    result = [*result, *result] if twice else result
    indices = [index for index, value in enumerate(result) if value is not None]
    for index in indices:
        _declare_output(body, result[index])
    outputs = OpBuilder(graph).Scan(
        *states, *xs, outputs=len(indices), body=body, num_scan_inputs=len(xs)
    )
    results = dict(zip(indices, [outputs] if isinstance(outputs, str) else outputs, strict=True))
    return [results.get(index) for index in range(len(result))]


def while_loop(
    graph: Graph,
    res: ResultSpec,
    cond_fn: GraphModule,
    body_fn: GraphModule,
    carried_inputs: Sequence[Any],
    additional_inputs: Sequence[Any],
) -> list[str]:
    """torch's while_loop: the condition is computed before the loop and at the end of a step."""
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
    """The carries of every step, stacked; the initial ones, when there is no step."""
    starts = [as_result(graph, value) for value in carried_inputs]
    first, result = _make_loop(graph, cond_fn, body_fn, starts, additional_inputs, True)
    branches = []
    for name, values in (("some_steps", result[len(starts) :]), ("no_step", starts)):
        branch = graph.subgraph(name)
        for value in values:
            _declare_output(
                branch, value if name == "some_steps" else unsqueezed(branch, value, [0])
            )
        branches.append(branch)
    outputs = OpBuilder(graph).If(
        first, outputs=len(starts), then_branch=branches[0], else_branch=branches[1]
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
    """The condition before the first step, and the results of Loop: the last carries, then, if
    ``stacked``, those of every step.
    """
    first = _make_condition(graph, cond_fn, starts, captured)
    body = graph.subgraph("loop_body")
    body.make_tensor_input(graph.unique_name("step"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    operands = _declare_inputs(body, body_fn, starts)
    seen, rename = _bind_symbols(body, body_fn, operands)
    result = graph.ctx.convert_into(body, body_fn, [*seen, *captured], rename)
    after = [as_result(body, value) for value in result]
    _declare_output(body, _make_condition(body, cond_fn, after, captured))
    for value in [*after, *after] if stacked else after:
        _declare_output(body, value)
    count = len(starts) * (2 if stacked else 1)
    outputs = OpBuilder(graph).Loop("", first, *starts, outputs=count, body=body)
    return first, [outputs] if isinstance(outputs, str) else list(outputs)


def _make_condition(
    graph: Graph, cond_fn: GraphModule, carried: Sequence[str], captured: Sequence[Any]
) -> str:
    """The condition of a loop for these carries, as a 0-d bool."""
    seen, rename = _bind_symbols(graph, cond_fn, carried)
    (value,) = graph.ctx.convert_into(graph, cond_fn, [*seen, *captured], rename)
    return as_result(graph, value)


def as_result(graph: Graph, value: Any) -> str:
    """Return a result; turn a number or dimension into a 0-d result.

    Raises:
        UnsupportedCase: a value that is neither a tensor nor a number.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, SymDim):
        return as_scalar(graph, value)
    if not isinstance(value, bool | int | float):
        raise UnsupportedCase(f"a loop over {value!r}, which is neither a tensor nor a number")
    return graph.make_initializer("", np.array(value))


def _declare_inputs(body: Graph, step: GraphModule, outer: Sequence[str]) -> list[str]:
    """The inputs of a body, one for each of the first inputs of the graph of a step."""
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
    """The operands for the graph of a step. Its integer inputs are symbols of that graph, so each
    becomes a dimension with a name of its own, which is read from the operand.
    """
    seen: list[Any] = list(operands)
    rename = {}
    for index, (node, operand) in enumerate(zip(_placeholders(step), operands, strict=False)):
        sym_node = getattr(node.meta.get("val"), "node", None)
        if sym_node is not None and type(sym_node.expr).__name__ == "Symbol":
            rename[sym_node.expr.name] = own = graph.unique_name(f"dim_{node.name}")
            graph.add_dim_source(own, cast(graph, operand, dtypes.int64), None)
            seen[index] = dims.make_symbol(own)
    return seen, rename


def _placeholders(step: GraphModule) -> list[Any]:
    return [node for node in step.graph.nodes if node.op == "placeholder"]


def _declare_output(body: Graph, value: Any) -> None:
    """Declare an output of a body, through an Identity: neither inputs nor outer results may be
    outputs.
    """
    own = OpBuilder(body).Identity(as_result(body, value))
    body.make_tensor_output(own)
