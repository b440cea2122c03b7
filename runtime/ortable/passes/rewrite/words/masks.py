"""Words of the rules about masks and rotary embeddings: what a computed mask holds everywhere, and
what a computed table repeats."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.rewrite.matcher import small_constant
from ortable.prelude.facts import Bool, Float, Int, Result
from ortable.prelude.values import as_vec, consts

__all__ = [
    "half_table",
    "is_half",
    "is_one",
    "is_turning",
    "repeats_half",
    "rows_have_true",
    "uniform_of",
]

_DEEP = 12  # nodes that are followed from a mask to what it is computed from
_NAN = float("nan")
_MOVES = frozenset({"Expand", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"})
_PICKS = _MOVES | {"Gather", "GatherElements", "GatherND"}
_COMPARES = {
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
}


def _node(graph: Any, x: str) -> Any:
    """The node of the main domain that makes a result, or None."""
    info = graph.values.get(x) if x else None
    node = None if info is None else info.producer
    return node if node is not None and not node.domain else None


# -- masks


def uniform_of(graph: Graph, x: Result | None) -> Float:
    """The number that all elements of a result have, 1 and 0 for True and False; NaN if they may
    differ or nobody knows. Moves, casts, logic and comparisons of ranges are followed."""
    return _uniform(graph, x, _DEEP) if x else _NAN


def _uniform(graph: Any, x: str, deep: int) -> float:
    array = _array(graph, x)
    if array is not None:
        same = array.size and array.dtype.kind in "fiub" and bool(np.all(array == array.flat[0]))
        return float(array.flat[0]) if same else _NAN
    node = _node(graph, x)
    if node is None or not deep:
        return _NAN
    op, inputs = node.op_type, node.inputs
    if op in _PICKS:
        return _uniform(graph, inputs[0], deep - 1)
    if op == "Cast":
        return _cast(_uniform(graph, inputs[0], deep - 1), node.attrs["to"])
    if op == "Not":
        return 1 - _uniform(graph, inputs[0], deep - 1)
    if op in ("And", "Or"):
        return _logic(op, [_uniform(graph, each, deep - 1) for each in inputs])
    if op in ("ReduceMax", "ReduceMin") and _never_empty(graph, inputs[0]):
        return _uniform(graph, inputs[0], deep - 1)
    if op in _COMPARES:
        return _compared(graph, op, inputs[0], inputs[1])
    return _NAN


def _array(graph: Any, x: str) -> np.ndarray | None:
    array = small_constant(graph, x)
    if array is None:
        stored = graph.initializers_dict.get(x)
        if isinstance(stored, np.ndarray) and stored.dtype == bool:
            return stored
    return array


def _cast(value: float, to: int) -> float:
    if to == dtypes.boolean:
        return value if value != value else float(value != 0)
    return value if value in (0.0, 1.0) else _NAN


def _logic(op: str, values: list[float]) -> float:
    decisive = 0.0 if op == "And" else 1.0
    if decisive in values:
        return decisive
    return 1 - decisive if all(value == 1 - decisive for value in values) else _NAN


def _never_empty(graph: Any, x: str) -> bool:
    shape = graph.get_shape(x) if graph.has_shape(x) else (0,)
    return all(type(size) is int and size > 0 for size in shape)


def _compared(graph: Any, op: str, a: str, b: str) -> float:
    """True where the bounds of two integers decide a comparison."""
    if op in ("Greater", "GreaterOrEqual"):
        low, high = _lowest(graph, a, _DEEP), _array(graph, b)
        known = low is not None and high is not None and high.size and high.dtype.kind in "iu"
        return 1.0 if known and _COMPARES[op](low, high.max()) else _NAN  # type: ignore[union-attr]
    return _compared(graph, {"Less": "Greater", "LessOrEqual": "GreaterOrEqual"}[op], b, a)


def _lowest(graph: Any, x: str, deep: int) -> int | None:
    """A number that no element of an integer result is below."""
    array = small_constant(graph, x)
    if array is not None:
        return int(array.min()) if array.size and array.dtype.kind in "iu" else None
    node = _node(graph, x)
    if node is None or not deep:
        return None
    if node.op_type == "Range":
        return _first(graph, x)
    if node.op_type in _MOVES:
        return _lowest(graph, node.inputs[0], deep - 1)
    if node.op_type == "Shape":
        return 0
    if node.op_type == "Add":
        parts = [_lowest(graph, each, deep - 1) for each in node.inputs]
        return None if None in parts else sum(parts)  # type: ignore[arg-type]
    return None


def _first(graph: Any, x: str) -> int | None:
    """Where a Range that goes up begins, if that is known."""
    node = _node(graph, x)
    start, step = (small_constant(graph, node.inputs[place]) for place in (0, 2))
    if start is None or step is None or start.dtype.kind not in "iu" or step.flat[0] <= 0:
        return None
    return int(start.flat[0])


def rows_have_true(graph: Graph, mask: Result) -> Bool:
    """Whether every row of a mask allows its first position, as causal masks do."""
    return _first_true(graph, mask, _DEEP)


def _first_true(graph: Any, mask: str, deep: int) -> bool:
    array = _array(graph, mask)
    if array is not None:
        return array.ndim > 0 and array.shape[-1] > 0 and bool(np.all(array[..., 0]))
    if _uniform(graph, mask, deep) == 1:
        return True
    node = _node(graph, mask)
    if node is None or not deep:
        return False
    op, inputs = node.op_type, node.inputs
    if op == "Expand":
        return bool(graph.has_rank(inputs[0]) and graph.get_rank(inputs[0])) and _first_true(
            graph, inputs[0], deep - 1
        )
    if op == "Unsqueeze":
        return not _adds_last(graph, node) and _first_true(graph, inputs[0], deep - 1)
    if op in ("And", "Or"):
        each = [_first_true(graph, part, deep - 1) for part in inputs]
        return all(each) if op == "And" else any(each)
    if op in _COMPARES:
        small, large = inputs if op.startswith("Less") else inputs[::-1]
        high, low = _first_place(graph, small, _DEEP), _lowest(graph, large, _DEEP)
        return high is not None and low is not None and (high < low or (high == low and "Or" in op))
    return False


def _first_place(graph: Any, x: str, deep: int) -> int | None:
    """A number that no element at the first place of the last axis is above."""
    array = small_constant(graph, x)
    if array is not None:
        known = array.size and array.dtype.kind in "iu"
        return int(array.max() if array.ndim == 0 else array[..., 0].max()) if known else None
    node = _node(graph, x)
    if node is None or not deep:
        return None
    if node.op_type == "Range":
        return _first(graph, x)
    if node.op_type in ("Expand", "Identity"):
        return _first_place(graph, node.inputs[0], deep - 1)
    if node.op_type == "Unsqueeze" and not _adds_last(graph, node):
        return _first_place(graph, node.inputs[0], deep - 1)
    if node.op_type == "Add":
        parts = [_first_place(graph, each, deep - 1) for each in node.inputs]
        return None if None in parts else sum(parts)  # type: ignore[arg-type]
    return None


def _adds_last(graph: Any, node: Any) -> bool:
    """Whether an Unsqueeze puts an axis behind the others."""
    axes = small_constant(graph, node.inputs[1])
    if axes is None or not graph.has_rank(node.outputs[0]):
        return True
    rank = graph.get_rank(node.outputs[0])
    return any(int(axis) % rank == rank - 1 for axis in axes.reshape(-1))


# -- rotary embeddings


def is_half(graph: Graph, begin: Result, end: Result, axes: Result, x: Result, which: Int) -> Bool:
    """Whether bounds and axis of a Slice, all constant, are those of the first (0) or second (1)
    half of the last axis of ``x``."""
    if not graph.has_shape(x):
        return False
    shape = graph.get_shape(x)
    size = shape[-1] if shape else 1
    given = [small_constant(graph, each) for each in (begin, end, axes)]
    if type(size) is not int or size % 2 or any(a is None or a.size != 1 for a in given):
        return False
    first, last, axis = (int(a.reshape(-1)[0]) for a in given)  # type: ignore[union-attr]
    if axis % len(shape) != len(shape) - 1:
        return False
    first, last = (value + size if value < 0 else min(value, size) for value in (first, last))
    return (first, last) == (which * size // 2, (1 + which) * size // 2)


def repeats_half(graph: Graph, x: Result) -> Bool:
    """Whether the second half of the last axis of a result is the first half once more."""
    return _repeats(graph, x, _DEEP)


def _repeats(graph: Any, x: str, deep: int) -> bool:
    array = small_constant(graph, x)
    if array is not None:
        half = array.shape[-1] // 2 if array.ndim else 0
        same = np.array_equal(array[..., :half], array[..., half:], equal_nan=True)
        return bool(half) and array.dtype.kind == "f" and same
    node = _node(graph, x)
    if node is None or not deep or not graph.has_rank(x):
        return False
    op, inputs, rank = node.op_type, node.inputs, graph.get_rank(x)
    if op == "Concat":
        last = node.attrs["axis"] % rank == rank - 1
        return last and len(inputs) == 2 and inputs[0] == inputs[1]
    if op == "Unsqueeze" and _adds_last(graph, node):
        return False
    if op in ("Cast", "Cos", "Sin", "Unsqueeze", "Identity"):
        return _repeats(graph, inputs[0], deep - 1)
    if op in ("Mul", "Add"):
        numbers = [small_constant(graph, each) for each in inputs]
        for number, other in zip(numbers, reversed(inputs), strict=True):
            if number is not None and number.size == 1:
                return _repeats(graph, other, deep - 1)
    return False


def is_turning(graph: Graph, table: Result, x: Result) -> Bool:
    """Whether a table of cosines or sines of rank 4 has a row for each position of ``x``, one
    for all heads, with equal halves."""
    if not (graph.has_shape(table) and graph.has_shape(x)):
        return False
    own, wanted = graph.get_shape(table), graph.get_shape(x)
    if len(own) != 4 or len(wanted) != 4 or own[1] != 1:
        return False
    batch = dims.same(own[0], 1) or dims.same(own[0], wanted[0])
    same = all(map(dims.same, own[2:], wanted[2:]))
    return batch and same and repeats_half(graph, table)


def half_table(graph: Graph, table: Result, x: Result) -> Result:
    """The first half of a table of rank 4 without its axis for heads, one for each sample of
    ``x``: a cache of RotaryEmbedding."""
    shape = graph.get_shape(x)
    half = shape[-1] // 2
    bounds = [consts(graph, [value], dtypes.int64) for value in (0, half, 3)]
    cut = graph.make_node("Slice", [table, *bounds])
    flat = graph.make_node("Squeeze", [cut, consts(graph, [1], dtypes.int64)])
    if dims.same(graph.get_shape(table)[0], shape[0]):
        return flat
    return graph.make_node("Expand", [flat, as_vec(graph, [shape[0], shape[2], half])])


def is_one(graph: Graph, step: Result | None) -> Bool:
    """Whether the steps of a Slice are left out or all 1."""
    return not step or uniform_of(graph, step) == 1
