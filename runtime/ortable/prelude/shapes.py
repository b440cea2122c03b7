"""Compute shapes of tensors: sizes of views, permutations, pads, slices, broadcasting.

The functions of the first group return sizes during conversion and add no nodes; those of the
second group return results of the graph.
"""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.dims import SymDim
from ortable.errors import BuilderError
from ortable.inference import normalize_axis
from ortable.ir import Graph

from .complex_value import ComplexValue, by_parts, part_type
from .facts import (
    Dtype,
    Int,
    Ints,
    Result,
    SymInt,
    SymInts,
    Tensor,
    dim_of,
    is_static,
    shape_of,
)
from .metadata import shape_or_none
from .op_builder import OpBuilder
from .values import as_scalar, as_vec, const, consts, reshape_to, unsqueezed

__all__ = [
    "along_axis",
    "as_flat",
    "expanded",
    "expanded_sizes",
    "flat_sizes",
    "iota",
    "moved_axes",
    "other_axes",
    "sliced",
    "torch_pads",
    "wrapped_index",
    "zeros_of",
]


# -- sizes ----------------------------------------------------------------------------------------


def flat_sizes(graph: Graph, x: Result, first: Int, last: Int) -> SymInts:
    """Return the shape of ``x`` with dimensions ``first`` to ``last`` merged; [1] if it is 0-d."""
    shape = list(shape_of(graph, x))
    if not shape:
        return [1]
    start, end = normalize_axis(first, len(shape)), normalize_axis(last, len(shape))
    return [*shape[:start], dims.product_of(shape[start : end + 1]), *shape[end + 1 :]]


def expanded_sizes(graph: Graph, x: Result, sizes: SymInts) -> SymInts:
    """Return ``sizes`` with each -1 replaced by the dimension of ``x``, as in torch.expand."""
    shape = list(shape_of(graph, x))
    new_axis_count = len(sizes) - len(shape)
    if new_axis_count < 0:
        raise BuilderError(
            f"a result of rank {len(shape)} cannot be expanded to {len(sizes)} sizes: {list(sizes)}"
        )
    return [
        shape[axis - new_axis_count] if is_inferred(size) else size
        for axis, size in enumerate(sizes)
    ]


def expand_target(graph: Graph, x: Result, sizes: SymInts) -> SymInts:
    """Return the shape input of an Expand of ``x`` to ``sizes``, with 1 for unchanged sizes."""
    shape = list(shape_of(graph, x))
    new_axis_count = len(sizes) - len(shape)
    return [
        1
        if axis >= new_axis_count and dims.always_equal(shape[axis - new_axis_count], size)
        else size
        for axis, size in enumerate(expanded_sizes(graph, x, sizes))
    ]


def other_axes(rank: Int, axes: Ints) -> Ints:
    """Return the axes of ``rank`` that are not among ``axes``, in order."""
    return [axis for axis in range(rank) if axis not in axes]


def moved_axes(rank: Int, source: Ints, destination: Ints) -> Ints:
    """Return the permutation that moves axes ``source`` to ``destination``, as in torch.movedim.

    The remaining axes keep their order. The permutation is empty for rank 0, for which torch
    accepts the axes 0 and -1.
    """
    if rank == 0:
        return []
    sources = [
        normalize_axis(axis, rank) for axis in ([source] if isinstance(source, int) else source)
    ]
    destinations = [
        normalize_axis(axis, rank)
        for axis in ([destination] if isinstance(destination, int) else destination)
    ]
    remaining = iter(axis for axis in range(rank) if axis not in sources)
    return [
        sources[destinations.index(position)] if position in destinations else next(remaining)
        for position in range(rank)
    ]


def torch_pads(rank: Int, pads: SymInts) -> SymInts:
    """Convert torch's pads to the pads of ONNX.

    torch lists [before, after] of the last axis first; ONNX lists all begins, then all ends, first
    axis first. The input ``axes`` of Pad would make the zeros unnecessary, but ONNX Runtime's
    transpose optimizer permutes ``pads`` without considering ``axes``.
    """
    rest: list[SymInt] = [0] * (rank - len(pads) // 2)
    begins, ends = list(pads[0::2])[::-1], list(pads[1::2])[::-1]
    return [*rest, *begins, *rest, *ends]


# -- results --------------------------------------------------------------------------------------


def iota(graph: Graph, start: SymInt, count: SymInt, step: SymInt) -> Result:
    """Return the int64 vector start, start + step, ..., a constant if all arguments are known."""
    op = OpBuilder(graph)
    if isinstance(count, int) and is_static([start, step]):
        return consts(graph, [start + index * step for index in range(count)], dtypes.int64)
    ramp = graph.make_node("Range", [as_scalar(graph, value) for value in (0, count, 1)])
    if step != 1 or isinstance(step, SymDim):
        ramp = op.Mul(ramp, as_vec(graph, step))
    return ramp if isinstance(start, int) and start == 0 else op.Add(ramp, as_vec(graph, start))


@by_parts
def sliced(
    graph: Graph, x: Tensor, axis: Int, start: SymInt, end: SymInt, step: SymInt = 1
) -> Tensor:
    """Return ``x[start:end:step]`` along one axis, clamped as in ONNX; no node for a full slice."""
    # a huge number such as sys.maxsize is the end, even if the size of the axis is not known
    is_full = is_open_end(end) or (graph.has_shape(x) and end >= dim_of(graph, x, axis))
    if isinstance(start, int) and start == 0 and isinstance(step, int) and step == 1 and is_full:
        return x
    steps = None if isinstance(step, int) and step == 1 else as_vec(graph, step)
    return OpBuilder(graph).Slice(
        x, as_vec(graph, start), as_vec(graph, end), as_vec(graph, axis), steps
    )


@by_parts
def expanded(graph: Graph, x: Tensor, sizes: SymInts) -> Tensor:
    """Broadcast ``x`` to ``sizes``; no node if it has them."""
    shape = shape_or_none(graph, x)
    if shape is not None and len(shape) == len(sizes) and all(map(dims.always_equal, shape, sizes)):
        return x
    if any(type(size) is int and size == 0 for size in sizes):
        # ONNX Runtime's optimizer drops an Expand to a constant size of 0
        return zeros_of(graph, sizes, graph.get_type(x))
    result = OpBuilder(graph).Expand(x, as_vec(graph, expand_target(graph, x, sizes)))
    graph.set_shape(result, tuple(sizes))
    return result


def along_axis(graph: Graph, vector: Result, axis: Int, rank: Int) -> Result:
    """Reshape a vector of values for one axis so that it broadcasts against results of ``rank``."""
    return unsqueezed(graph, vector, list(range(1, rank - axis)))


@by_parts
def as_flat(graph: Graph, x: Tensor) -> Tensor:
    """Flatten ``x`` to a 1-d result."""
    return reshape_to(graph, x, flat_sizes(graph, x, 0, -1))


def zeros_of(graph: Graph, sizes: SymInts, dtype: Dtype) -> Result:
    """Return zeros of this shape and dtype; a pair for a complex dtype."""
    if dtypes.is_complex_type(dtype):
        zeros = zeros_of(graph, sizes, part_type(dtype))
        return ComplexValue(zeros, zeros, dtype)
    if is_static(list(sizes)) and dims.product_of(sizes) == 0:
        return reshape_to(graph, consts(graph, [], dtype), list(sizes))
    zero = const(graph, 0, dtype)
    return zero if not sizes else OpBuilder(graph).Expand(zero, as_vec(graph, list(sizes)))


def is_open_end(end: SymInt) -> bool:
    """Whether the end of a slice is beyond every size; torch writes 2**63 - 1."""
    return isinstance(end, int) and end >= 2**31


def is_inferred(size: SymInt) -> bool:
    """Whether a size is -1, which stands for a size to infer."""
    return type(size) is int and size == -1


def wrapped_index(index: SymInt, size: SymInt) -> SymInt:
    """Return ``index`` counted from the front of an axis of ``size``, also if it is negative."""
    if index >= 0:
        return index
    return index + size if index <= -1 else index % size
