"""Helpers of the rules about masks.

They find uniform and causal masks and rows without a visible key, and make masks in the shapes that
attention operators support. Called by rules of masks and attention.
"""

from __future__ import annotations

import math

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import (
    find_producer,
    is_number,
    large_constant,
    small_constant,
)
from ortable.passes.analysis.triangles import Triangle, triangle_of
from ortable.passes.analysis.uniformity import first_column_is_true, hides_nothing, uniform_value
from ortable.prelude.facts import Bool, Float, Result, shape_of
from ortable.prelude.scores import above_lowest
from ortable.prelude.shapes import expanded

from .shapes import broadcasts_into, known_rank

__all__ = [
    "empty_rows_are_zero",
    "every_row_sees",
    "expanded_mask",
    "is_causal_mask",
    "rows_have_true",
    "uniform_of",
    "zeroes_only_empty_rows",
]

_NAN = float("nan")


# -- values of masks


def uniform_of(graph: Graph, x: Result | None) -> Float:
    """Return the value of all elements of a result, 1 and 0 for True and False.

    Returns NaN if they may differ or are unknown. The analysis follows moves, casts, logic and
    comparisons of ranges.
    """
    return uniform_value(graph, x) if x else _NAN


def rows_have_true(graph: Graph, mask: Result) -> Bool:
    """Whether every row of a mask is True at its first position, as in causal masks."""
    return first_column_is_true(graph, mask)


# -- masks of attention


def expanded_mask(graph: Graph, mask: Result, scores: Result) -> Result:
    """Expand a mask to the length and width of the scores; operators do not broadcast these axes.

    Rows that contain only the lowest float are raised, because the operators would treat such rows
    as rows without a key. Returns None for a constant mask that masks nothing.
    """
    if _is_constant_true(graph, mask):
        return None
    leading = list(shape_of(graph, mask))[:-2]
    raised = mask if _is_above_lowest(graph, mask) else above_lowest(graph, mask)
    return expanded(graph, raised, [*leading, *shape_of(graph, scores)[-2:]])


def every_row_sees(graph: Graph, mask: Result | None) -> Bool:
    """Whether there is no mask, or each row of it has a key above -inf and the lowest float."""
    if not mask:
        return True
    values = large_constant(graph, mask)
    if values is None or values.dtype == bool or not values.ndim or not values.shape[-1]:
        return False
    return bool((values.max(axis=-1) > np.finfo(values.dtype).min).all())


def _is_above_lowest(graph: Graph, mask: str) -> bool:
    """Whether a mask is a constant that does not contain the lowest number of its dtype."""
    values = large_constant(graph, mask)
    if values is None or values.dtype == bool:
        return False
    return not bool((values == np.finfo(values.dtype).min).any())


def _is_constant_true(graph: Graph, mask: str) -> bool:
    values = large_constant(graph, mask)
    if values is None:
        return False
    return bool(values.all() if values.dtype == bool else (values == 0).all())


def is_causal_mask(graph: Graph, mask: Result | None, scores: Result, hides: Bool = False) -> Bool:
    """Whether a mask of the scores' sizes hides later positions and no others.

    The mask is the same for all heads. The mask holds 0 and -inf, or bools that are True for
    visible positions. With ``hides``, it holds 0 for visible and 1 (True) for masked positions. Its
    values or its producers must prove that.
    """
    if not mask or not broadcasts_into(graph, mask, scores):
        return False
    is_bool = graph.has_type(mask) and graph.get_type(mask) == dtypes.boolean
    visible_and_masked = (0.0, 1.0) if hides else (1.0, 0.0) if is_bool else (0.0, -math.inf)
    sizes = [*shape_of(graph, scores)[-2:], *shape_of(graph, mask)[-2:]]
    if len(sizes) != 4 or not all(dims.always_equal(size, sizes[0]) for size in sizes):
        return False
    if dims.always_equal(sizes[0], 1):
        values = large_constant(graph, mask)
        return values is not None and bool(values.size and (values == visible_and_masked[0]).all())
    return triangle_of(graph, mask) == Triangle(0, *visible_and_masked)


# -- rows without a visible key


def empty_rows_are_zero(graph: Graph, mask: Result, attended: Result | None) -> Bool:
    """Whether the output is 0 in rows whose mask hides every key, and unchanged elsewhere.

    ``attended`` is the condition of the Where that writes the 0, or None: it is True for rows with
    a key if the mask is bool, and for rows without a key otherwise. The condition is computed from
    the mask, or both are constants that agree.
    """
    values = large_constant(graph, mask)
    if values is not None:
        has_key = _rows_with_key(values)
        if attended is None:
            return bool(has_key.all())
        attended_rows = large_constant(graph, attended)
        if attended_rows is not None and graph.get_type(mask) != dtypes.boolean:
            attended_rows = ~attended_rows
        if attended_rows is not None:
            return attended_rows.shape == has_key.shape and bool((attended_rows == has_key).all())
    if attended is None:
        return False
    if graph.get_type(mask) != dtypes.boolean:
        node = find_producer(graph, attended, "Equal")
        if node is None or not is_number(graph, node.inputs[1], -math.inf):
            return False
        return _is_row_max(graph, node.inputs[0], mask)
    node = find_producer(graph, attended, "Cast")
    node = None if node is None else find_producer(graph, node.inputs[0], "ReduceMax")
    mask_cast = None if node is None else find_producer(graph, node.inputs[0], "Cast")
    if node is None or mask_cast is None or mask_cast.inputs[0] != mask:
        return False
    return _is_row_max(graph, node.outputs[0], mask_cast.outputs[0])


def zeroes_only_empty_rows(
    graph: Graph, mask: Result | None, attended: Result | None, masked_out: Result | None
) -> Bool:
    """Whether the Where that zeroes rows without a key is absent or computed from the mask.

    With a causal mask, a Where that is computed from the mask has no effect. ``attended`` is the
    condition of the Where for a bool mask, ``masked_out`` for other masks.
    """
    if attended is None and masked_out is None:
        return True
    if mask is None or (masked_out is None) != (graph.get_type(mask) == dtypes.boolean):
        return False
    return empty_rows_are_zero(graph, mask, attended if masked_out is None else masked_out)


def _rows_with_key(mask: np.ndarray) -> np.ndarray:
    if mask.dtype == bool:
        return np.asarray(mask.any(axis=-1, keepdims=True))
    if hides_nothing(mask):  # much faster than the maximum of each row
        return np.ones((*mask.shape[:-1], 1), dtype=bool)
    return np.asarray(mask.max(axis=-1, keepdims=True) != -np.inf)


def _is_row_max(graph: Graph, x: str, source: str) -> bool:
    """Whether ``x`` is the maximum of each row of ``source``, as a column."""
    node = find_producer(graph, x, "ReduceMax")
    if node is None or node.inputs[0] != source or not node.attrs.get("keepdims", 1):
        return False
    axes = None if len(node.inputs) < 2 else small_constant(graph, node.inputs[1])
    last_axis = known_rank(graph, source) - 1
    return axes is not None and axes.tolist() in ([-1], [last_axis])
