"""Words of the rules about networks: which constants are weights that may be computed anew, which
vary along one axis only, and what stands there then."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph, initializers
from ortable.ir.constants import is_constant as _is_constant
from ortable.passes.rewrite.matcher import small_constant
from ortable.prelude.facts import Bool, Float, Int, Ints, Result, Results, is_wide
from ortable.prelude.values import consts

__all__ = [
    "added_pads",
    "along_axis",
    "are_usual",
    "are_weights",
    "as_channels",
    "as_line",
    "divided",
    "fits_gemm",
    "is_channels",
    "is_filled",
    "is_groups",
    "is_near",
    "is_sizes_from",
    "is_weight",
    "last_axes",
    "moved_bias",
    "no_pads",
    "one_axis",
    "ones",
    "pads_itself",
    "scaled_weight",
    "sizes_from",
    "small_epsilon",
    "smaller_pads",
    "spatial_axes",
    "usual_number",
    "varies_last",
    "zero_pads",
    "zeros",
]

_SMALL = 4096  # elements of a constant that may be stored once more for another reader
_DEEP = 16  # nodes between a constant and the initializers that it is computed from


# -- weights


def is_weight(graph: Graph, x: Result | None) -> Bool:
    """Whether a constant may be replaced by one that is computed from it, which is stored then:
    of float32 or float64 down to the initializers, and read by one node if it is large. True for
    an input that is left out."""
    if x is None or not x:
        return True
    top: Any = graph
    while top.parent is not None:
        top = top.parent
    return bool(top.stores_weights) and _is_weight(graph, x, _DEEP)


def are_weights(graph: Graph, xs: Results) -> Bool:
    """Whether each result is a constant that may be replaced, or left out: see `is_weight`."""
    return all(is_weight(graph, x) for x in xs)


def _is_weight(graph: Any, x: str, deep: int) -> bool:
    if not deep or not _is_constant(graph, x) or not graph.has_type(x) or not graph.has_shape(x):
        return False
    size = dims.prod(graph.get_shape(x))
    if type(size) is not int or not (is_wide(graph, x) or graph.get_type(x) == dtypes.int64):
        return False
    if size > _SMALL and len(graph.uses(x)) > 1:
        return False
    stored = graph.initializers_dict.get(x)
    if stored is not None:
        return initializers.is_readable(stored)
    producer = graph.values[x].producer
    if producer is not None and producer.op_type == "Transpose":
        return False  # of a weight that others read as it is: folding leaves it alone
    if producer is None:
        return small_constant(graph, x) is not None
    return all(_is_weight(graph, each, deep - 1) for each in producer.inputs if each)


# -- constants that vary along one axis


def along_axis(graph: Graph, c: Result, x: Result, axis: Int) -> Bool:
    """Whether a constant that meets ``x`` in a broadcast is one number, or one for each place along
    an axis of ``x``, and does not make the result larger than ``x``."""
    if not (is_weight(graph, c) and graph.has_shape(x) and graph.has_shape(c)):
        return False
    own, other = list(graph.get_shape(x)), list(graph.get_shape(c))
    if len(other) > len(own):
        return False
    full = [1] * (len(own) - len(other)) + other
    place = axis % len(own) if own else 0
    for at, (size, wanted) in enumerate(zip(full, own, strict=True)):
        if not dims.same(size, 1) and not (at == place and dims.same(size, wanted)):
            return False
    return True


def as_line(graph: Graph, c: Result, count: Int) -> Result:
    """A constant with ``count`` elements along one axis, or one element, as one of rank 1 with
    ``count`` elements."""
    known = small_constant(graph, c)
    if known is not None:
        line = np.broadcast_to(known.reshape(-1), (count,))
        return graph.make_initializer("", np.ascontiguousarray(line))
    size = dims.prod(graph.get_shape(c))
    flat = c
    if graph.get_rank(c) != 1:
        flat = graph.make_node("Reshape", [c, consts(graph, [-1], dtypes.int64)])
    if size == count:
        return flat
    return graph.make_node("Expand", [flat, consts(graph, [count], dtypes.int64)])


def scaled_weight(graph: Graph, w: Result, factor: Result, axis: Int) -> Result:
    """The weight times a factor of rank 1 along one of its axes, ``<name>_scaled``."""
    behind = graph.get_rank(w) - 1 - axis
    if behind and graph.get_shape(factor) != (1,):
        known = small_constant(graph, factor) if factor in graph.initializers_dict else None
        if known is not None:
            factor = graph.make_initializer("", known.reshape(-1, *[1] * behind))
        else:
            axes = consts(graph, list(range(1, behind + 1)), dtypes.int64)
            factor = graph.make_node("Unsqueeze", [factor, axes])
    return graph.make_node("Mul", [w, factor], [_called(graph, w, "_scaled")])


def moved_bias(graph: Graph, b: Result, factor: Result | None, shift: Result | None) -> Result:
    """The bias times a factor plus a shift, either of which may be left out: ``<name>_moved``."""
    if factor and shift:
        b = graph.make_node("Mul", [b, factor])
    op, other = ("Add", shift) if shift else ("Mul", factor)
    return graph.make_node(op, [b, other], [_called(graph, shift or b, "_moved")])


def _called(graph: Graph, name: str, suffix: str) -> str:
    """A name for what is computed of a weight, so that people find it again in the file."""
    return graph.unique_name(name if name.endswith(suffix) else f"{name}{suffix}")


def ones(graph: Graph, count: Ints, like: Result) -> Result:
    """A constant of ones with these sizes, of the type of ``like``."""
    kind = dtypes.to_numpy(graph.get_type(like))
    return graph.make_initializer("", np.ones(tuple(count), kind))


def zeros(graph: Graph, count: Ints, like: Result) -> Result:
    """A constant of zeros with these sizes, of the type of ``like``."""
    kind = dtypes.to_numpy(graph.get_type(like))
    return graph.make_initializer("", np.zeros(tuple(count), kind))


# -- axes


def last_axes(graph: Graph, axes: Result, x: Result) -> Int:
    """The first of the axes that a constant names, counted from the end, if they are all axes of
    ``x`` from there on with known sizes; 0 otherwise."""
    named = small_constant(graph, axes)
    if named is None or named.ndim > 1 or not graph.has_shape(x):
        return 0
    shape = graph.get_shape(x)
    found = sorted(int(axis) % len(shape) for axis in named.reshape(-1)) if shape else []
    if not found or found != list(range(found[0], len(shape))):
        return 0
    known = all(type(size) is int and size > 0 for size in shape[found[0] :])
    return found[0] - len(shape) if known else 0


def spatial_axes(graph: Graph, axes: Result, x: Result) -> Bool:
    """Whether a constant names all axes of ``x`` but the first two."""
    return graph.has_rank(x) and last_axes(graph, axes, x) == 2 - graph.get_rank(x)


def sizes_from(graph: Graph, x: Result, axis: Int) -> Ints:
    """The sizes of the last axes, from ``axis`` (negative) on."""
    return list(graph.get_shape(x)[axis:]) if axis < 0 and graph.has_shape(x) else []


def small_epsilon(value: Float) -> Bool:
    """Whether a number is a positive one that a float32 attribute holds."""
    return value > 0 and math.isfinite(value) and bool(np.float32(value) > 0)


# -- borders


def zero_pads(
    graph: Graph, x: Result, borders: Result, value: Result | None, axes: Result | None
) -> Ints:
    """How many zeros a Pad with constant borders adds before and after each axis but the first
    two, in the order of the attribute ``pads``; empty if it does anything else."""
    given = small_constant(graph, borders)
    if given is None or given.ndim != 1 or not graph.has_rank(x):
        return []
    if value:
        filled = small_constant(graph, value)
        if filled is None or np.any(filled != 0):
            return []
    rank = graph.get_rank(x)
    places = list(range(rank))
    if axes:
        named = small_constant(graph, axes)
        if named is None:
            return []
        places = [int(axis) % rank for axis in named.reshape(-1)]
    if len(given) != 2 * len(places):
        return []
    full = [0] * (2 * rank)
    for at, place in enumerate(places):
        full[place] += int(given[at])
        full[rank + place] += int(given[len(places) + at])
    sides = full[2:rank] + full[rank + 2 :]
    if min(full, default=0) < 0 or any((*full[:2], *full[rank : rank + 2])):
        return []
    return sides


def added_pads(pads: Ints | None, sides: Ints) -> Ints:
    """The attribute ``pads`` with more on every side; empty if there is nothing to add."""
    if not sides:
        return []
    return [a + b for a, b in zip(pads or [0] * len(sides), sides, strict=True)]


def no_pads(pads: Ints | None) -> Bool:
    """Whether the attribute ``pads`` is absent or all zero."""
    return not any(pads or ())


def smaller_pads(pads: Ints, window: Ints) -> Bool:
    """Whether pads stay smaller than the window of a pool, as kernels want it."""
    return all(a < b for a, b in zip(pads, [*window, *window], strict=True))


def pads_itself(kept: Any) -> Bool:
    """Whether the attributes of a convolution or a pool say its pads in numbers."""
    return kept.get("auto_pad", "NOTSET") in ("NOTSET", b"NOTSET") and not kept.get("ceil_mode")


# -- products


def fits_gemm(graph: Graph, c: Result, product: Result) -> Bool:
    """Whether Gemm takes a result as its third input: it stretches to the product, never the
    product to it."""
    if not (graph.has_shape(c) and graph.has_shape(product)) or graph.get_rank(c) > 2:
        return False
    own, wanted = graph.get_shape(c), graph.get_shape(product)
    behind = wanted[len(wanted) - len(own) :]
    return all(dims.same(a, 1) or dims.same(a, b) for a, b in zip(own, behind, strict=True))


def varies_last(graph: Graph, cs: Results, x: Result) -> Bool:
    """Whether constants are numbers, or have one for each place along the last axis of ``x``."""
    return all(along_axis(graph, c, x, -1) for c in cs)


def are_usual(graph: Graph, c: Result) -> Bool:
    """Whether every number of a constant is usual, see usual_number; False for one of more than
    4,096 numbers, which is not looked at."""
    known = small_constant(graph, c)
    if known is None:
        return False
    sizes = np.abs(known.astype(np.float64))
    return bool(np.all((sizes > 1e-30) & (sizes < 1e30)))


def usual_number(value: Float) -> Bool:
    """Whether a number is finite, not zero, and such that float32 holds it: neither products with
    it nor quotients become infinite or lose digits by themselves."""
    return math.isfinite(value) and 1e-30 < abs(value) < 1e30


def divided(a: Float, b: Float) -> Float:
    """A quotient; NaN for a division by zero."""
    return a / b if b else float("nan")


# -- normalisations


def is_sizes_from(graph: Graph, c: Result, x: Result, axis: Int) -> Bool:
    """Whether a result has exactly the sizes of ``x`` from an axis on."""
    if not (graph.has_shape(c) and graph.has_shape(x)):
        return False
    own, wanted = graph.get_shape(c), graph.get_shape(x)
    behind = wanted[axis % len(wanted) :] if wanted else ()
    return len(own) == len(behind) and all(map(dims.same, own, behind))


def is_filled(graph: Graph, c: Result, value: Int) -> Bool:
    """Whether a constant is one number everywhere."""
    array = small_constant(graph, c)
    if array is None:
        stored = graph.initializers_dict.get(c)
        if not isinstance(stored, np.ndarray):
            return False
        array = stored
    return bool(array.size) and bool(np.all(array == value))


def is_channels(graph: Graph, c: Result, x: Result) -> Bool:
    """Whether a result that meets ``x`` in a broadcast has one element for each place along axis
    1 of ``x``, whose size is known."""
    if not (graph.has_shape(c) and graph.has_shape(x)) or graph.get_rank(x) < 2:
        return False
    own, wanted = list(graph.get_shape(c)), graph.get_shape(x)
    full = [1] * (len(wanted) - len(own)) + own
    others = [full[0], *full[2:]]
    fits = len(full) == len(wanted) and type(wanted[1]) is int and full[1] == wanted[1]
    return fits and all(dims.same(size, 1) for size in others)


def is_groups(graph: Graph, x: Result, rows: Result) -> Bool:
    """Whether ``rows`` has the first axis of ``x``, the channels in groups, and all the rest."""
    if not (graph.has_shape(x) and graph.has_shape(rows)):
        return False
    own, shape = graph.get_shape(rows), graph.get_shape(x)
    if len(own) != 3 or len(shape) < 3 or not dims.same(own[0], shape[0]):
        return False
    return type(own[1]) is int and type(shape[1]) is int and shape[1] % own[1] == 0


def as_channels(graph: Graph, c: Result, count: Int) -> Result:
    """A result with ``count`` elements as one of rank 1."""
    if graph.get_rank(c) == 1:
        return c
    return graph.make_node("Reshape", [c, consts(graph, [count], dtypes.int64)])


# -- activations


def one_axis(graph: Graph, axes: Result, x: Result) -> Int:
    """The axis, counted from the front, if a constant names a single one; -1 otherwise."""
    named = small_constant(graph, axes)
    if named is None or named.size != 1 or not graph.has_rank(x):
        return -1
    return int(named.reshape(-1)[0]) % max(graph.get_rank(x), 1)


def is_near(a: Float, b: Float) -> Bool:
    """Whether two numbers are the same but for the last digits that float32 has: constants of
    formulas are written with ten digits at times."""
    return math.isclose(a, b, rel_tol=1e-6)
