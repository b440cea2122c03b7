"""Helpers of the rules about prequantized models.

They turn weights that the graph computes from codes (integers) into DequantizeLinear nodes with the
same values. Called by rules of ort_codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph
from ortable.ir.constants import get_constant, is_constant
from ortable.passes.analysis.dequantization import (
    GroupedWeight,
    WeightParts,
    drop_large_constants,
    find_weight_parts,
    read_integer_weight,
    to_grouped_weight,
)
from ortable.prelude.facts import Bool, Opaque, Result
from ortable.prelude.values import consts

from .quantized_weights import accuracy_level

__all__ = [
    "make_dequantize",
    "quantized_weight_of",
    "scaled_codes",
    "with_shifts",
]

# The largest difference between 8-bit codes (True) and 4-bit codes (False) minus zero points.
_MAX_SPREAD = {True: 511, False: 31}


def quantized_weight_of(graph: Graph, w: Result, last: Bool, table: Bool = False) -> Opaque:
    """Return a weight, [N, K] if ``last`` else [K, N], that is computed from codes, else None.

    Returns None if kernels do not support the weight: they support 8-bit codes only if activations
    may be rounded, and embedding tables (``table``) only with rows of whole groups and no shifts.
    """
    if not _is_computed_matrix(graph, w):
        return None
    eight_bits = accuracy_level(graph) == 4

    def make_weight() -> GroupedWeight | None:
        parts = find_weight_parts(graph, w, _MAX_SPREAD[eight_bits])
        return None if parts is None else to_grouped_weight(parts, last, eight_bits)

    weight = _without_caching(graph, make_weight)
    if weight is None or not table:
        return weight
    has_whole_groups = weight.codes.shape[1] % (weight.group or 128) == 0
    return weight if weight.shifts is None and has_whole_groups else None


def scaled_codes(graph: Graph, w: Result, scales: Result, product: Result) -> Opaque:
    """Return the weight with codes ``w`` [K, N] and the N scales of a product, else None."""
    if (
        not _is_computed_matrix(graph, w)
        or not is_constant(graph, scales)
        or not graph.has_shape(scales)
    ):
        return None
    outer = graph.get_shape(w)[1]
    scale_sizes = [size for size in graph.get_shape(scales) if size != 1]
    if scale_sizes != [outer] or graph.get_shape(scales)[-1] != outer:
        return None
    if not graph.has_shape(product) or graph.get_rank(scales) > graph.get_rank(product):
        return None
    if graph.get_shape(product)[-1] != outer:
        return None
    eight_bits = accuracy_level(graph) == 4

    def compute_weight() -> GroupedWeight | None:
        numbers = read_integer_weight(graph, w, _MAX_SPREAD[eight_bits])
        if numbers is None:
            return None
        return to_grouped_weight(
            WeightParts(numbers, get_constant(graph, scales).reshape(1, -1)), False, eight_bits
        )

    return _without_caching(graph, compute_weight)


def make_dequantize(graph: Graph, weight: Opaque) -> Result:
    """Return a weight [N, K] as DequantizeLinear, with groups along K or one scale for each row."""
    parts = (("codes", weight.codes), ("scales", weight.scales), ("zeros", weight.zeros))
    inputs = [None if part is None else _add_initializer(graph, role, part) for role, part in parts]
    axis = 1 if weight.group else 0
    return graph.make_node("DequantizeLinear", inputs, axis=axis, block_size=int(weight.group))


def with_shifts(graph: Graph, rows: Result, x: Result, weight: Opaque) -> Result:
    """Add the shifts of a weight to ``rows``, its product with ``x`` [..., K].

    A shift is added to every number of a group, so its contribution is the shift times the sum of
    ``x`` over the group.
    """
    if weight.shifts is None:
        return rows
    group_count = weight.shifts.shape[0]
    shape = [0] * (graph.get_rank(x) - 1) + [group_count, weight.codes.shape[1] // group_count]
    grouped = graph.make_node("Reshape", [x, consts(graph, shape, dtypes.int64)])
    axes = consts(graph, [-1], dtypes.int64)
    sums = graph.make_node("ReduceSum", [grouped, axes], keepdims=0)
    shifts = _add_initializer(graph, "shifts", weight.shifts)
    return graph.make_node("Add", [rows, graph.make_node("MatMul", [sums, shifts])])


# -- private helpers


def _is_computed_matrix(graph: Graph, w: Result) -> bool:
    """Whether ``w`` is a float32 constant matrix that nodes compute."""
    info = graph.values.get(w)
    if info is None or info.producer is None or not is_constant(graph, w):
        return False
    if not graph.has_type(w) or graph.get_type(w) != dtypes.float32 or not graph.has_shape(w):
        return False
    shape = graph.get_shape(w)
    return len(shape) == 2 and all(isinstance(size, int) for size in shape)


def _without_caching(graph: Any, compute_weight: Any) -> GroupedWeight | None:
    """Return the weight and drop its intermediate constants; None if a value is missing."""
    cached_before = set(graph.computed_constants)
    try:
        weight: GroupedWeight | None = compute_weight()
    except BuilderError:
        weight = None
    drop_large_constants(graph, cached_before)
    return weight


def _add_initializer(graph: Any, name: str, array: np.ndarray) -> str:
    stored: str = graph.make_initializer(graph.unique_name(name), np.ascontiguousarray(array))
    return stored
