"""Helpers that the linear algebra shares: batch dimensions, index results, scaling and Loops.

Matrices are [batch, rows, columns].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.errors import UnsupportedCase
from ortable.inference.shape import broadcast
from ortable.ir import Graph
from ortable.prelude.complex_value import ComplexValue, part_type
from ortable.prelude.facts import Tensor, dim_of, dtype_of, shape_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import expanded, iota, zeros_of
from ortable.prelude.values import as_scalar, cast, const, consts, reshape_to, unsqueezed

Step = Callable[..., Sequence[str]]

# A matrix is scaled if the sum of its absolute values is above 10 ** limit or below 10 ** -limit,
# because rotations and reflectors multiply up to four numbers. As in LAPACK's drivers, other
# matrices are not scaled and keep every digit.
_SCALE_LIMITS = {dtypes.float32: 8, dtypes.float64: 70}
_LARGEST = {dtype: float(np.finfo(dtypes.to_numpy(dtype)).max) for dtype in _SCALE_LIMITS}


def flatten_batch(graph: Graph, x: Tensor, matrix_dims: int = 2) -> Tensor:
    """Flatten all dimensions of ``x`` before the last ``matrix_dims`` into one."""
    shape = list(shape_of(graph, x))
    batch = shape[: len(shape) - matrix_dims]
    return (
        x
        if len(batch) == 1
        else reshape_to(graph, x, [dims.product_of(batch), *shape[len(batch) :]])
    )


def unflatten_batch(graph: Graph, x: Tensor, batch: Sequence[Dim]) -> Tensor:
    """Invert `flatten_batch`: reshape the leading dimension of ``x`` to ``batch``."""
    return reshape_to(graph, x, [*batch, *shape_of(graph, x)[1:]])


def batch_dims(graph: Graph, x: Tensor, matrix_dims: int = 2) -> list[Dim]:
    """Return the leading dimensions of ``x``, before the last ``matrix_dims``."""
    shape = list(shape_of(graph, x))
    return shape[: len(shape) - matrix_dims]


def broadcast_batch_dims(graph: Graph, xs: Sequence[Tensor]) -> list[Dim]:
    """Return the leading dimensions to which the leading dimensions of ``xs`` broadcast."""
    result = broadcast(*(tuple(batch_dims(graph, x)) for x in xs))
    if result is None:
        raise UnsupportedCase("batches whose common shape depends on which dynamic size is 1")
    return list(result)


def broadcast_to_batch(graph: Graph, x: Tensor, batch: Sequence[Dim]) -> Tensor:
    """Broadcast a matrix, or a batch of them, to the leading dimensions ``batch``."""
    return expanded(graph, x, [*batch, *shape_of(graph, x)[-2:]])


def axis_indices(graph: Graph, x: Tensor, axis: int) -> str:
    """Return indices along rows (axis -2) or columns (axis -1), broadcastable against a matrix."""
    result = iota(graph, 0, dim_of(graph, x, axis), 1)
    return unsqueezed(graph, result, [1]) if axis == -2 else result


def overflow_scale(graph: Graph, a: Tensor) -> str:
    """Return divisors [batch, 1, 1]: the sum of absolute values if it is huge or tiny, else 1."""
    op, dtype = OpBuilder(graph), part_type(dtype_of(graph, a))
    matrix_axes = consts(graph, [1, 2], dtypes.int64)
    parts = (a.real, a.imag) if isinstance(a, ComplexValue) else (a,)
    # ReduceL1 of an empty matrix is 0; a maximum would be undefined
    sums = [op.ReduceL1(part, matrix_axes, keepdims=1) for part in parts]
    total = op("Add", sums) if len(sums) > 1 else sums[0]
    total = op.Min(total, const(graph, _LARGEST[dtype], dtype))  # the sum may be infinite
    one, limit = const(graph, 1, dtype), _SCALE_LIMITS[dtype]
    needs_scale = op.Greater(total, const(graph, 10.0**limit, dtype))
    is_small = op.Less(total, const(graph, 10.0**-limit, dtype))
    is_nonzero = op.Greater(total, 0)
    needs_scale = op.Or(needs_scale, op.And(is_small, is_nonzero))
    return op.Where(needs_scale, total, one)


def identity_batch(graph: Graph, like: Tensor, rows: Dim, columns: Dim) -> Tensor:
    """Return identity matrices [batch, rows, columns] in the batch size and dtype of ``like``."""
    row_indices = unsqueezed(graph, iota(graph, 0, rows, 1), [1])
    is_diagonal = OpBuilder(graph).Equal(row_indices, iota(graph, 0, columns, 1))
    shape = [dim_of(graph, like, 0), rows, columns]
    dtype = dtype_of(graph, like)
    identity = expanded(graph, cast(graph, is_diagonal, part_type(dtype)), shape)
    if not dtypes.is_complex_type(dtype):
        return identity
    return ComplexValue(identity, zeros_of(graph, shape, part_type(dtype)), dtype)


def as_index_vector(graph: Graph, x: str) -> str:
    """Return a 0-d integer as a vector of one element: Gather with it keeps the axis, of size 1."""
    return OpBuilder(graph).Unsqueeze(x, consts(graph, [0], dtypes.int64))


def run_loop(
    graph: Graph, trips: Dim | str, states: Sequence[Tensor], step: Step, going: bool = False
) -> list[Tensor]:
    """Run a Loop that carries ``states``; ``step(body, index, *states)`` returns the next states.

    A complex state is carried as its two parts. With ``going``, ``step`` returns the condition for
    another trip before the next states. The final states are returned.
    """
    body = graph.subgraph("loop")
    index = body.make_tensor_input(graph.unique_name("place"), dtypes.int64, ())
    condition = body.make_tensor_input(graph.unique_name("still"), dtypes.boolean, ())
    templates, states = states, _split_parts(states)
    names = [
        body.make_tensor_input(
            graph.unique_name("state"), graph.get_type(state), graph.get_shape(state)
        )
        for state in states
    ]
    outputs = _split_parts(step(body, index, *_join_parts(names, templates)))
    for name in outputs if going else [OpBuilder(body).Identity(condition), *outputs]:
        body.make_tensor_output(name)
    count = trips if isinstance(trips, str) else as_scalar(graph, trips)
    result = OpBuilder(graph).Loop(
        count, const(graph, True, dtypes.boolean), *states, outputs=len(states), body=body
    )
    results = [result] if isinstance(result, str) else list(result)
    for name, state in zip(results, states, strict=True):
        if not graph.has_shape(name):
            graph.set_shape(name, graph.get_shape(state))
    return _join_parts(results, templates)


def _split_parts(values: Sequence[Tensor]) -> list[str]:
    """Replace the complex pairs among ``values`` by their two parts: [r, (a, b)] -> [r, a, b]."""
    parts = [(x.real, x.imag) if x.__class__ is ComplexValue else (x,) for x in values]
    return [part for pair in parts for part in pair]


def _join_parts(names: Sequence[str], templates: Sequence[Tensor]) -> list[Tensor]:
    """Invert `_split_parts`: join two results to a pair where ``templates`` has a pair."""
    remaining = iter(names)
    return [
        ComplexValue(next(remaining), next(remaining), x.dtype)
        if x.__class__ is ComplexValue
        else next(remaining)
        for x in templates
    ]


def sum_of_squares(graph: Graph, x: Tensor) -> str:
    """Return the squared norm of each column: [batch, 1, columns]."""
    if x.__class__ is ComplexValue:
        parts = [sum_of_squares(graph, part) for part in (x.real, x.imag)]
        return graph.make_node("Add", parts)
    return OpBuilder(graph).ReduceSumSquare(x, consts(graph, [1], dtypes.int64), keepdims=1)
