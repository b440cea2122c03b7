"""Lower-case words of rewrites about gradients: one-hot choices, padded pieces, factors that are
cheaper elsewhere.

They answer for all values of the symbols.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.inference.shape import normalize_axis
from ortable.ir import Graph, initializers
from ortable.ir.constants import get_constant
from ortable.ir.constants import is_constant as _is_constant
from ortable.passes.rewrite.matcher import small_constant
from ortable.prelude.facts import Bool, Int, Opaque, Result
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.values import consts

__all__ = [
    "are_axes",
    "chooses_from",
    "class_count",
    "counted_axis",
    "is_along",
    "is_finite",
    "is_one_element",
    "is_real",
    "is_side",
    "is_stretched",
    "is_zero_fill",
    "laid",
    "side_by_side",
    "stretches_in",
    "without_kept",
]

_MANY = 1 << 20  # classes that are compared with 0, 1, 2, ...


# -- one-hot choices ------------------------------------------------------------------------------


def counted_axis(graph: Graph, classes: Result, places: Result) -> Int:
    """The axis of ``places`` along which the constant ``classes`` is 0, 1, 2, ... while ``places``
    has one element there; -1 when there is none."""
    shape, wide = shape_or_none(graph, places), shape_or_none(graph, classes)
    if shape is None or wide is None or len(wide) > len(shape):
        return -1
    long = [axis for axis, size in enumerate(wide) if not dims.same(size, 1)]
    if len(long) != 1:
        return -1
    axis = long[0] - len(wide) + len(shape)
    return axis if dims.same(shape[axis], 1) and _counts(graph, classes, wide) else -1


def _counts(graph: Graph, x: str, shape: tuple[Dim, ...]) -> bool:
    """Whether a constant is 0, 1, 2, ..."""
    size = dims.prod(shape)
    if not isinstance(size, int) or size > _MANY or not _is_constant(graph, x):
        return False
    stored = graph.initializers_dict.get(x)
    if stored is not None and not initializers.is_readable(stored):
        return False
    values = np.asarray(get_constant(graph, x)).reshape(-1)
    return values.dtype.kind == "i" and bool((values == np.arange(size)).all())


def is_along(graph: Graph, axes: Result, axis: Int, x: Result) -> Bool:
    """Whether a constant of axes of ``x`` names this one alone."""
    given, shape = small_constant(graph, axes), shape_or_none(graph, x)
    if given is None or given.size != 1 or shape is None:
        return False
    return normalize_axis(int(given.reshape(-1)[0]), len(shape)) == axis


def chooses_from(graph: Graph, x: Result, classes: Result, places: Result, axis: Int) -> Bool:
    """Whether ``x`` has one element for each class along the axis, and elsewhere the sizes of
    ``places``."""
    shape, where = shape_or_none(graph, x), shape_or_none(graph, places)
    if shape is None or where is None or len(shape) != len(where):
        return False
    if not dims.same(shape[axis], _count(graph, classes)):
        return False
    pairs = enumerate(zip(shape, where, strict=True))
    return all(place == axis or dims.same(*pair) for place, pair in pairs)


def _count(graph: Graph, x: str) -> Dim:
    return dims.prod(shape_or_none(graph, x) or ())


def class_count(graph: Graph, classes: Result) -> Int:
    """How many classes a constant counts."""
    count = _count(graph, classes)
    assert isinstance(count, int)
    return count


def stretches_in(graph: Graph, x: Result, y: Result) -> Bool:
    """Whether broadcasting ``x`` and ``y`` gives the shape of ``y``."""
    shape, wide = shape_or_none(graph, x), shape_or_none(graph, y)
    if shape is None or wide is None or len(shape) > len(wide):
        return False
    pairs = zip(shape, wide[len(wide) - len(shape) :], strict=True)
    return all(dims.same(size, 1) or dims.same(size, full) for size, full in pairs)


# -- factors --------------------------------------------------------------------------------------


def is_real(graph: Graph, x: Result) -> Bool:
    """Whether a result is of float32 or float64, whose range is wide enough that the order of
    factors does not matter."""
    return graph.has_type(x) and graph.get_type(x) in (dtypes.float32, dtypes.float64)


def is_finite(value: Any) -> Bool:
    """Whether a number is neither infinite nor NaN."""
    return bool(np.isfinite(value))


def is_one_element(graph: Graph, x: Result, like: Result) -> Bool:
    """Whether a result has one element and no more axes than ``like``, so that no operator gives
    more than ``like`` for it."""
    shape, wide = shape_or_none(graph, x), shape_or_none(graph, like)
    if shape is None or wide is None or len(shape) > len(wide):
        return False
    return all(dims.same(size, 1) for size in shape)


def is_stretched(graph: Graph, x: Result, y: Result) -> Bool:
    """Whether ``x`` has fewer elements than ``y``, to whose shape it is broadcast."""
    shape, wide = shape_or_none(graph, x), shape_or_none(graph, y)
    if shape is None or wide is None or not stretches_in(graph, x, y):
        return False
    tail = wide[len(wide) - len(shape) :]
    known = [full for full in wide[: len(wide) - len(shape)] if not dims.same(full, 1)]
    known += [full for size, full in zip(shape, tail, strict=True) if not dims.same(size, full)]
    return bool(known)


# -- sums -----------------------------------------------------------------------------------------


def are_axes(graph: Graph, x: Result, axes: Result, gone: Result) -> Bool:
    """Whether two constants name the same axes of ``x``."""
    shape = shape_or_none(graph, x)
    given = [small_constant(graph, each) for each in (axes, gone)]
    if shape is None or any(each is None for each in given):
        return False
    first, second = (
        {normalize_axis(int(axis), len(shape)) for axis in each.reshape(-1)}
        for each in given
        if each is not None
    )
    return first == second and bool(first)


def without_kept(graph: Graph, total: Result) -> Result:
    """The reduction that makes ``total`` again, without the axes of size 1 that it keeps."""
    node = graph.values[total].producer
    attributes = {**node.attrs, "keepdims": 0}
    return graph.make_node(node.op_type, list(node.inputs), domain=node.domain, **attributes)


# -- padded pieces --------------------------------------------------------------------------------


class Side(NamedTuple):
    """Two padded tensors that lie side by side along an axis: whether the second one comes first,
    and the zeros before and after both."""

    axis: int
    swapped: bool
    before: int
    after: int


def side_by_side(
    graph: Graph,
    first: Result,
    pads: Result,
    axes: Result | None,
    second: Result,
    more: Result,
    others: Result | None,
) -> Opaque:
    """How two tensors lie whose pads leave room for one another; None when they overlap, do not
    touch, or that is not known."""
    shape, other = shape_or_none(graph, first), shape_or_none(graph, second)
    one, two = _padded(graph, shape, pads, axes), _padded(graph, other, more, others)
    if shape is None or other is None or one is None or two is None or len(shape) != len(other):
        return None
    long = sorted({*one, *two})
    if len(long) != 1:
        return None
    axis = long[0]
    for place, pair in enumerate(zip(shape, other, strict=True)):
        if place != axis and not dims.same(*pair):
            return None
    sizes = shape[axis], other[axis]
    (low, high), (begin, end) = one.get(axis, (0, 0)), two.get(axis, (0, 0))
    if not (isinstance(sizes[0], int) and isinstance(sizes[1], int)):
        return None
    if low + sizes[0] + high != begin + sizes[1] + end:
        return None
    if low + sizes[0] == begin:
        return Side(axis, False, low, end)
    return Side(axis, True, begin, high) if begin + sizes[1] == low else None


def _padded(
    graph: Graph, shape: tuple[Dim, ...] | None, pads: str, axes: str | None
) -> dict[int, tuple[int, int]] | None:
    """Zeros before and after by axis, without axes that have none; None where elements are cut."""
    amounts = small_constant(graph, pads)
    if shape is None or amounts is None:
        return None
    which = np.arange(len(shape)) if axes is None else small_constant(graph, axes)
    if which is None or amounts.size != 2 * which.size or (amounts < 0).any():
        return None
    places = [normalize_axis(int(axis), len(shape)) for axis in which.reshape(-1)]
    low, high = amounts.reshape(2, -1).tolist()
    found = zip(places, low, high, strict=True)
    return {axis: (before, after) for axis, before, after in found if before or after}


def is_side(side: Opaque) -> Bool:
    """Whether a word has found how two tensors lie."""
    return side is not None


def laid(graph: Graph, first: Result, second: Result, side: Opaque) -> Result:
    """Two tensors side by side, with the zeros around them."""
    parts = [second, first] if side.swapped else [first, second]
    both = graph.make_node("Concat", parts, axis=side.axis)
    if not (side.before or side.after):
        return both
    rank = graph.get_rank(first)
    around = [0] * (2 * rank)
    around[side.axis], around[rank + side.axis] = side.before, side.after
    return graph.make_node("Pad", [both, consts(graph, around, dtypes.int64)])


def is_zero_fill(graph: Graph, x: Result | None) -> Bool:
    """Whether the value of a Pad is left out, or 0."""
    array = None if x is None else small_constant(graph, x)
    return x is None or (array is not None and array.size == 1 and not array.any())
