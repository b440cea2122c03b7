"""Helpers of the rules about views and permutations; views have constant targets and axes."""

from __future__ import annotations

from typing import Any, NamedTuple

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.inference.shape import Shape
from ortable.ir import Graph
from ortable.passes.analysis.constants import small_constant
from ortable.prelude.facts import Bool, Int, Ints, Opaque, Result, SymInts
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.values import consts

__all__ = [
    "apply_view",
    "may_copy_dims",
    "moves_unit_axes_only",
    "perm_of",
    "view_to",
]


class View(NamedTuple):
    """A view node: Unsqueeze or Squeeze with axes, Reshape with a target, or Identity."""

    op: str
    values: list[int]
    allowzero: int | None = None


# -- views


def view_to(graph: Graph, x: Result, sizes: SymInts) -> Opaque:
    """Return a view of ``x`` that has these sizes and a constant target or axes, else None."""
    before, after = shape_or_none(graph, x), tuple(sizes)
    if before is None:
        return None
    if _same_shapes(before, after):
        return View("Identity", [])
    added = _inserted_axes(before, after)
    if added is not None:
        return View("Unsqueeze", added)
    dropped = _inserted_axes(after, before)
    if dropped is not None:
        return View("Squeeze", dropped)
    return _reshape_view(before, after)


def apply_view(graph: Graph, x: Result, view: Opaque) -> Result:
    """Apply a view of `view_to` to ``x``."""
    if view.op == "Identity":
        return x
    parameter = consts(graph, view.values, dtypes.int64)
    return graph.make_node(view.op, [x, parameter], allowzero=view.allowzero)


def may_copy_dims(graph: Graph, target: Result, allowzero: Int) -> Bool:
    """Whether a Reshape target may contain a 0 that copies a dimension of the current input."""
    if allowzero:
        return False
    items = known_entries(graph, target)
    return items is None or not all(map(_is_nonzero, items))


def known_entries(graph: Graph, x: Result) -> Any:
    """Return the content of an integer vector, ints and symbolic ints; None if it is unknown."""
    value = graph.values[x].value
    if isinstance(value, tuple):
        return value
    array = small_constant(graph, x)
    if array is None or array.ndim != 1 or array.dtype.kind not in "iu":
        return None
    return tuple(int(item) for item in array)


def _is_nonzero(size: Dim) -> bool:
    return size != 0 if isinstance(size, int) else dims.always_differ(size, 0)


def _same_shapes(first: Shape, second: Shape) -> bool:
    return len(first) == len(second) and all(map(dims.always_equal, first, second))


def _inserted_axes(before: Shape, after: Shape) -> list[int] | None:
    """Return the axes of size 1 whose insertion turns ``before`` into ``after``, or None."""
    inserted: list[int] = []
    index = 0
    for axis, size in enumerate(after):
        if index < len(before) and dims.always_equal(before[index], size):
            index += 1
        elif isinstance(size, int) and size == 1:
            inserted.append(axis)
        else:
            return None
    return inserted if index == len(before) else None


def _reshape_view(before: Shape, after: Shape) -> View | None:
    """Return a Reshape with a constant target that is correct for all sizes, including 0.

    Returns None if there is no such target. -1 is correct only if no other size can be 0. If
    several sizes are dynamic, those that keep their position are copied (0 in the target).
    """
    symbolic = [axis for axis, size in enumerate(after) if not isinstance(size, int)]
    sizes = [size if isinstance(size, int) else -1 for size in after]
    if not symbolic:
        return View("Reshape", sizes, 1 if 0 in sizes else None)
    if 0 in sizes:
        return None
    if len(symbolic) == 1:
        return View("Reshape", sizes)
    copied = [a for a in symbolic if a < len(before) and dims.always_equal(before[a], after[a])]
    for axis in copied:
        sizes[axis] = 0
    if len(copied) == len(symbolic):
        return View("Reshape", sizes)
    is_safe = len(copied) == len(symbolic) - 1 and all(_is_nonzero(after[axis]) for axis in copied)
    return View("Reshape", sizes) if is_safe else None


# -- permutations


def perm_of(graph: Graph, x: Result, perm: Any) -> Ints:
    """Return the permutation of a Transpose of ``x``, by default reversed; [] if it is unknown."""
    if perm is not None:
        return [int(axis) for axis in perm]
    return list(range(graph.get_rank(x)))[::-1] if graph.has_rank(x) else []


def moves_unit_axes_only(graph: Graph, x: Result, perm: Ints) -> Bool:
    """Whether the axes of ``x`` that are not known to be 1 keep their order."""
    shape = shape_or_none(graph, x)
    if shape is None or len(shape) != len(perm):
        return False
    other_axes = [axis for axis in perm if not (isinstance(shape[axis], int) and shape[axis] == 1)]
    return other_axes == sorted(other_axes)
