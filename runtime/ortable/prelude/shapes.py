"""Shapes of tensors: sizes of views, permutations, pads, slices, broadcasting.

The first group of functions answers while converting and adds no node; the second one gives
results of the graph.
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
    """The shape of ``x`` with the dimensions from ``first`` to ``last`` (included) made one; [1]
    for a 0-d result."""
    shape = list(shape_of(graph, x))
    if not shape:
        return [1]
    start, end = normalize_axis(first, len(shape)), normalize_axis(last, len(shape))
    return [*shape[:start], dims.product_of(shape[start : end + 1]), *shape[end + 1 :]]


def expanded_sizes(graph: Graph, x: Result, sizes: SymInts) -> SymInts:
    """The shape that torch.expand gives: ``sizes`` with -1 replaced by that dimension of ``x``."""
    shape = list(shape_of(graph, x))
    lead = len(sizes) - len(shape)
    if lead < 0:
        raise BuilderError(
            f"a result of rank {len(shape)} cannot be expanded to {len(sizes)} sizes: {list(sizes)}"
        )
    return [shape[axis - lead] if is_inferred(size) else size for axis, size in enumerate(sizes)]


def expand_target(graph: Graph, x: Result, sizes: SymInts) -> SymInts:
    """The shape input of an Expand of ``x`` to ``sizes``: 1 where ``x`` has that size already."""
    shape = list(shape_of(graph, x))
    lead = len(sizes) - len(shape)
    return [
        1 if axis >= lead and dims.always_equal(shape[axis - lead], size) else size
        for axis, size in enumerate(expanded_sizes(graph, x, sizes))
    ]


def other_axes(rank: Int, axes: Ints) -> Ints:
    """The axes of ``rank`` that are not among ``axes``, in order."""
    return [axis for axis in range(rank) if axis not in axes]


def moved_axes(rank: Int, source: Ints, destination: Ints) -> Ints:
    """The permutation of torch.movedim: axes ``source`` move to ``destination``, the others keep
    their order; none where there is no axis, whose number may be 0 or -1.
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
    others = iter(axis for axis in range(rank) if axis not in sources)
    return [
        sources[destinations.index(position)] if position in destinations else next(others)
        for position in range(rank)
    ]


def torch_pads(rank: Int, pads: SymInts) -> SymInts:
    """torch's pads, [before, after] of the last axis first, as ONNX's of every axis: all begins,
    then all ends, first axis first.

    Pad has an input ``axes`` that would spare the zeros, but ONNX Runtime's transpose optimizer
    permutes ``pads`` without reading it.
    """
    rest: list[SymInt] = [0] * (rank - len(pads) // 2)
    begins, ends = list(pads[0::2])[::-1], list(pads[1::2])[::-1]
    return [*rest, *begins, *rest, *ends]


# -- results --------------------------------------------------------------------------------------


def iota(graph: Graph, start: SymInt, count: SymInt, step: SymInt) -> Result:
    """The int64 vector start, start + step, ... of ``count`` elements; a constant when all are
    known."""
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
    """``x[start:end:step]`` along one axis, with ONNX's clamping; no node when it takes the whole
    axis."""
    # sys.maxsize and its like mean the end, also of an axis whose size is not known
    is_full = is_open_end(end) or (graph.has_shape(x) and end >= dim_of(graph, x, axis))
    if isinstance(start, int) and start == 0 and isinstance(step, int) and step == 1 and is_full:
        return x
    steps = None if isinstance(step, int) and step == 1 else as_vec(graph, step)
    return OpBuilder(graph).Slice(
        x, as_vec(graph, start), as_vec(graph, end), as_vec(graph, axis), steps
    )


@by_parts
def expanded(graph: Graph, x: Tensor, sizes: SymInts) -> Tensor:
    """``x`` broadcast to ``sizes``; no node when it has them."""
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
    """A vector of values for one axis as a result that broadcasts against others of ``rank``."""
    return unsqueezed(graph, vector, list(range(1, rank - axis)))


@by_parts
def as_flat(graph: Graph, x: Tensor) -> Tensor:
    """``x`` as a 1-d result."""
    return reshape_to(graph, x, flat_sizes(graph, x, 0, -1))


def zeros_of(graph: Graph, sizes: SymInts, dtype: Dtype) -> Result:
    """A result of zeros, or a pair of them."""
    if dtypes.is_complex_type(dtype):
        zeros = zeros_of(graph, sizes, part_type(dtype))
        return ComplexValue(zeros, zeros, dtype)
    if is_static(list(sizes)) and dims.product_of(sizes) == 0:
        return reshape_to(graph, consts(graph, [], dtype), list(sizes))
    zero = const(graph, 0, dtype)
    return zero if not sizes else OpBuilder(graph).Expand(zero, as_vec(graph, list(sizes)))


def is_open_end(end: SymInt) -> bool:
    """True for an end of a slice that is beyond every size: torch writes 2**63 - 1."""
    return isinstance(end, int) and end >= 2**31


def is_inferred(size: SymInt) -> bool:
    """True for a size of -1, which follows from the others."""
    return type(size) is int and size == -1


def wrapped_index(index: SymInt, size: SymInt) -> SymInt:
    """``index`` counted from the front of an axis of ``size``; torch lets a negative one count from
    the end."""
    if index >= 0:
        return index
    return index + size if index <= -1 else index % size
