"""Shared parts of the loops of linear algebra: batches of matrices as [batch, rows, columns], a
Loop over carried results, indices of rows and columns.
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

# How far the sum of a matrix's absolute values may be from 1, as a power of ten, before it is
# scaled: rotations and reflectors multiply up to four numbers. As in LAPACK's drivers, matrices in
# between keep every digit.
_REACH = {dtypes.float32: 8, dtypes.float64: 70}
_LARGEST = {dtype: float(np.finfo(dtypes.to_numpy(dtype)).max) for dtype in _REACH}


def flat_batch(graph: Graph, x: Tensor, matrix_dims: int = 2) -> Tensor:
    """Flatten the leading dimensions of ``x``, before the last ``matrix_dims``."""
    shape = list(shape_of(graph, x))
    batch = shape[: len(shape) - matrix_dims]
    return (
        x
        if len(batch) == 1
        else reshape_to(graph, x, [dims.product_of(batch), *shape[len(batch) :]])
    )


def with_batch(graph: Graph, x: Tensor, batch: Sequence[Dim]) -> Tensor:
    """The inverse of ``flat_batch``: the leading dimension of ``x`` as several, or none."""
    return reshape_to(graph, x, [*batch, *shape_of(graph, x)[1:]])


def batch_of(graph: Graph, x: Tensor, matrix_dims: int = 2) -> list[Dim]:
    """The leading dimensions of ``x``, before the last ``matrix_dims``."""
    shape = list(shape_of(graph, x))
    return shape[: len(shape) - matrix_dims]


def joint_batch(graph: Graph, xs: Sequence[Tensor]) -> list[Dim]:
    """The leading dimensions to which those of ``xs`` broadcast."""
    result = broadcast(*(tuple(batch_of(graph, x)) for x in xs))
    if result is None:
        raise UnsupportedCase("batches whose common shape depends on which dynamic size is 1")
    return list(result)


def in_batch(graph: Graph, x: Tensor, batch: Sequence[Dim]) -> Tensor:
    """A matrix of ``x``, or a batch of them, broadcast to the leading dimensions ``batch``."""
    return expanded(graph, x, [*batch, *shape_of(graph, x)[-2:]])


def axis_indices(graph: Graph, x: Tensor, axis: int) -> str:
    """The indices 0, 1, 2, ... along the rows (axis -2) or columns (axis -1), to compare with an
    index.
    """
    result = iota(graph, 0, dim_of(graph, x, axis), 1)
    return unsqueezed(graph, result, [1]) if axis == -2 else result


def scale_of(graph: Graph, a: Tensor) -> str:
    """[batch, 1, 1]: the divisor of matrices, 1 except for very large and very small ones."""
    op, own = OpBuilder(graph), part_type(dtype_of(graph, a))
    both = consts(graph, [1, 2], dtypes.int64)
    parts = (a.real, a.imag) if isinstance(a, ComplexValue) else (a,)
    # a sum, not a maximum: that of no elements is 0
    sums = [op.ReduceL1(part, both, keepdims=1) for part in parts]
    total = op("Add", sums) if len(sums) > 1 else sums[0]
    total = op.Min(total, const(graph, _LARGEST[own], own))  # it may overflow
    one, reach = const(graph, 1, own), _REACH[own]
    apart = op.Greater(total, const(graph, 10.0**reach, own))
    small = op.Less(total, const(graph, 10.0**-reach, own))
    some = op.Greater(total, 0)
    apart = op.Or(apart, op.And(small, some))
    return op.Where(apart, total, one)


def unit_batch(graph: Graph, like: Tensor, rows: Dim, columns: Dim) -> Tensor:
    """[batch, rows, columns] with ones on the diagonal, for as many matrices as ``like`` has."""
    down = unsqueezed(graph, iota(graph, 0, rows, 1), [1])
    ones = OpBuilder(graph).Equal(down, iota(graph, 0, columns, 1))
    shape = [dim_of(graph, like, 0), rows, columns]
    dtype = dtype_of(graph, like)
    one = expanded(graph, cast(graph, ones, part_type(dtype)), shape)
    if not dtypes.is_complex_type(dtype):
        return one
    return ComplexValue(one, zeros_of(graph, shape, part_type(dtype)), dtype)


def first_axis(graph: Graph, x: str) -> str:
    """An int as a vector of one, to Gather with it and keep the dimension."""
    return OpBuilder(graph).Unsqueeze(x, consts(graph, [0], dtypes.int64))


def run_loop(
    graph: Graph, trips: Dim | str, states: Sequence[Tensor], step: Step, going: bool = False
) -> list[Tensor]:
    """Run a Loop that carries ``states``; ``step(body, index, *states)`` gives the next ones. A
    pair is carried as its parts.

    With ``going`` the first result of ``step`` says whether there is another trip.
    """
    body = graph.subgraph("loop")
    index = body.make_tensor_input(graph.unique_name("place"), dtypes.int64, ())
    still = body.make_tensor_input(graph.unique_name("still"), dtypes.boolean, ())
    templates, states = states, _split_parts(states)
    names = [
        body.make_tensor_input(
            graph.unique_name("state"), graph.get_type(state), graph.get_shape(state)
        )
        for state in states
    ]
    out = _split_parts(step(body, index, *_join_parts(names, templates)))
    for name in out if going else [OpBuilder(body).Identity(still), *out]:
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
    """The results among ``values`` and the parts of the pairs, in order."""
    parts = [(x.real, x.imag) if x.__class__ is ComplexValue else (x,) for x in values]
    return [part for pair in parts for part in pair]


def _join_parts(names: Sequence[str], templates: Sequence[Tensor]) -> list[Tensor]:
    """The inverse of `_split_parts`, with pairs where ``templates`` has them."""
    remaining = iter(names)
    return [
        ComplexValue(next(remaining), next(remaining), x.dtype)
        if x.__class__ is ComplexValue
        else next(remaining)
        for x in templates
    ]


def sum_of_squares(graph: Graph, x: Tensor) -> str:
    """[batch, 1, columns]: the squared length of each column."""
    if x.__class__ is ComplexValue:
        parts = [sum_of_squares(graph, part) for part in (x.real, x.imag)]
        return graph.make_node("Add", parts)
    return OpBuilder(graph).ReduceSumSquare(x, consts(graph, [1], dtypes.int64), keepdims=1)
