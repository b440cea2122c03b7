"""Words of the rules about masks: what a mask holds everywhere, which rows allow nothing, and the
shapes that attention takes. In come masks of a match; out go facts and masks. Called by rules of
masks and of attention."""

from __future__ import annotations

import math

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import is_number, maker_of, small_constant, whole_constant
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


# -- what a mask holds


def uniform_of(graph: Graph, x: Result | None) -> Float:
    """The number that all elements of a result have, 1 and 0 for True and False; NaN if they may
    differ or nobody knows. Moves, casts, logic and comparisons of ranges are followed."""
    return uniform_value(graph, x) if x else _NAN


def rows_have_true(graph: Graph, mask: Result) -> Bool:
    """Whether every row of a mask allows its first position, as causal masks do."""
    return first_column_is_true(graph, mask)


# -- masks of attention


def expanded_mask(graph: Graph, mask: Result, scores: Result) -> Result:
    """The mask at the full length and width of the scores, which the operators do not broadcast,
    with no row of only the lowest number, which they take for one without a key; None for a
    constant that hides nothing."""
    if _hides_nothing(graph, mask):
        return None
    leading = list(shape_of(graph, mask))[:-2]
    given = mask if _is_above_lowest(graph, mask) else above_lowest(graph, mask)
    return expanded(graph, given, [*leading, *shape_of(graph, scores)[-2:]])


def every_row_sees(graph: Graph, mask: Result | None) -> Bool:
    """Whether an added mask is known to leave every row a key that is not at -inf nor at the lowest
    number; True without a mask."""
    if not mask:
        return True
    known = whole_constant(graph, mask)
    if known is None or known.dtype == bool or not known.ndim or not known.shape[-1]:
        return False
    return bool((known.max(axis=-1) > np.finfo(known.dtype).min).all())


def _is_above_lowest(graph: Graph, mask: str) -> bool:
    """Whether a mask is a constant that has the lowest number of its dtype nowhere."""
    known = whole_constant(graph, mask)
    if known is None or known.dtype == bool:
        return False
    return not bool((known == np.finfo(known.dtype).min).any())


def _hides_nothing(graph: Graph, mask: str) -> bool:
    known = whole_constant(graph, mask)
    if known is None:
        return False
    return bool(known.all() if known.dtype == bool else (known == 0).all())


def is_causal_mask(graph: Graph, mask: Result | None, scores: Result, hides: Bool = False) -> Bool:
    """Whether a mask of the sizes of the scores lets every position look at itself and at what is
    before it, and at nothing else, for all heads: of bools, True where it ``hides`` others, or of
    0 and -inf, by its values or by how it is computed."""
    if not mask or not broadcasts_into(graph, mask, scores):
        return False
    is_bool = graph.has_type(mask) and graph.get_type(mask) == dtypes.boolean
    numbers = (0.0, 1.0) if hides else (1.0, 0.0) if is_bool else (0.0, -math.inf)
    sizes = [*shape_of(graph, scores)[-2:], *shape_of(graph, mask)[-2:]]
    if len(sizes) != 4 or not all(dims.always_equal(each, sizes[0]) for each in sizes):
        return False
    if dims.always_equal(sizes[0], 1):
        known = whole_constant(graph, mask)
        return known is not None and bool(known.size and (known == numbers[0]).all())
    return triangle_of(graph, mask) == Triangle(0, *numbers)


# -- rows that see nothing


def empty_rows_are_zero(graph: Graph, mask: Result, attended: Result | None) -> Bool:
    """Whether the output has 0 where the mask hides every key, and is only changed there.

    ``attended``: what a Where reads that puts 0 there; None without one. Either the Where asks the
    mask, or the mask is a constant and the Where agrees with it."""
    known = whole_constant(graph, mask)
    if known is not None:
        rows = _rows_that_see(known)
        if attended is None:
            return bool(rows.all())
        given = whole_constant(graph, attended)
        if given is not None and graph.get_type(mask) != dtypes.boolean:
            given = ~given
        if given is not None:
            return given.shape == rows.shape and bool((given == rows).all())
    if attended is None:
        return False
    if graph.get_type(mask) != dtypes.boolean:
        node = maker_of(graph, attended, "Equal")
        if node is None or not is_number(graph, node.inputs[1], -math.inf):
            return False
        return _is_row_max(graph, node.inputs[0], mask)
    node = maker_of(graph, attended, "Cast")
    node = None if node is None else maker_of(graph, node.inputs[0], "ReduceMax")
    before = None if node is None else maker_of(graph, node.inputs[0], "Cast")
    if node is None or before is None or before.inputs[0] != mask:
        return False
    return _is_row_max(graph, node.outputs[0], before.outputs[0])


def zeroes_only_empty_rows(
    graph: Graph, mask: Result | None, attended: Result | None, masked_out: Result | None
) -> Bool:
    """Whether the Where that puts 0 in rows without a key does nothing beside a causal mask: there
    is none, or it asks the mask. ``attended`` goes with a mask of bools,
    ``masked_out`` with another one."""
    if attended is None and masked_out is None:
        return True
    if mask is None or (masked_out is None) != (graph.get_type(mask) == dtypes.boolean):
        return False
    return empty_rows_are_zero(graph, mask, attended if masked_out is None else masked_out)


def _rows_that_see(mask: np.ndarray) -> np.ndarray:
    if mask.dtype == bool:
        return np.asarray(mask.any(axis=-1, keepdims=True))
    if hides_nothing(mask):  # many times faster than the largest element of each row
        return np.ones((*mask.shape[:-1], 1), dtype=bool)
    return np.asarray(mask.max(axis=-1, keepdims=True) != -np.inf)


def _is_row_max(graph: Graph, x: str, source: str) -> bool:
    """Whether a result is the largest element of each row of another one, as a column."""
    node = maker_of(graph, x, "ReduceMax")
    if node is None or node.inputs[0] != source or not node.attrs.get("keepdims", 1):
        return False
    axes = None if len(node.inputs) < 2 else small_constant(graph, node.inputs[1])
    last = known_rank(graph, source) - 1
    return axes is not None and axes.tolist() in ([-1], [last])
