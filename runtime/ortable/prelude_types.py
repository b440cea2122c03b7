"""Lower-case words of the spec language that answer with a dtype or with sizes computed from other sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortable import dims
from ortable.prelude import (
    Bool,
    Dtype,
    Int,
    Ints,
    Result,
    Results,
    SymInt,
    SymInts,
    dim_of,
    shape_of,
    static,
)
from ortable.promotion import computation_dtype, result_type

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder as Graph


def common_dtype(graph: Graph, values: Results) -> Dtype:
    """``torch.result_type`` of a list of results and numbers."""
    return result_type(graph, values)


def float_dtype(graph: Graph, x: Result) -> Dtype:
    """The dtype in which a float operator computes ``x``: its own, or torch's default float for ints and bool."""
    return computation_dtype(graph, "int_to_float", [x])


def chunk_sizes(graph: Graph, x: Result, axis: Int, size: SymInt, count: Int) -> SymInts:
    """Sizes of ``count`` chunks of ``size`` along ``axis``; the last one holds what is left."""
    return [size] * (count - 1) + [dim_of(graph, x, axis) - size * (count - 1)]


def ceil_div(value: SymInt, divisor: SymInt) -> SymInt:
    """``value / divisor`` rounded up."""
    return dims.ceildiv(value, divisor)


def conv_output_padding(
    graph: Graph,
    wanted: Result,
    source: Result,
    weight: Result,
    strides: Ints,
    pads: Ints,
    dilations: Ints,
) -> Ints:
    """``output_padding`` with which ConvTranspose of ``source`` has the spatial shape of ``wanted``.

    Raises:
        UnsupportedCase: a spatial size is dynamic in a way that leaves the padding unknown.
    """
    want, have, kernel = (shape_of(graph, each)[2:] for each in (wanted, source, weight))
    found = []
    for axis, stride in enumerate(strides):
        reach = (
            (have[axis] - 1) * stride - 2 * pads[axis] + dilations[axis] * (kernel[axis] - 1) + 1
        )
        found.append(static(want[axis] - reach))
    return found


def same_shape(left: SymInts, right: SymInts) -> Bool:
    """True when two shapes are provably the same."""
    return len(left) == len(right) and all(
        dims.same(a, b) for a, b in zip(left, right, strict=True)
    )
