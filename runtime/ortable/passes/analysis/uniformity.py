"""Results whose elements are all one number, and masks that allow the first index of every row. In
come a graph and a name, out goes the number, NaN where it is not known, or a bool. Called by
rewrite words about masks and slices."""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph, Node, initializers
from ortable.prelude.metadata import shape_or_none
from ortable_generated.onnx.traits import (
    GATHERS,
    IDEMPOTENT_REDUCTION,
    MOVES_ELEMENTS,
    ORDERING,
)

from .constants import is_number, maker_of, small_constant, whole_constant
from .dataflow import Transfer, Traversal, by_operator, same_as_input
from .iota import counter_of
from .ranges import adds_last_axis, first_column_bound, lower_bound

_NAN = float("nan")


def uniform_value(graph: Graph, x: str) -> float:
    """The number that all elements of a result have, 1 and 0 for True and False; NaN if they may
    differ or nobody knows."""
    return _UNIFORM.of(graph, x)


def first_column_is_true(graph: Graph, mask: str) -> bool:
    """Whether every row of a mask is known to be True at its first index."""
    return _FIRST_TRUE.of(graph, mask)


def _mask_constant(graph: Graph, x: str) -> np.ndarray | None:
    """A small constant, or a mask of any size."""
    array = small_constant(graph, x)
    if array is not None:
        return array
    stored = graph.initializers_dict.get(x)
    if isinstance(stored, np.ndarray) and stored.dtype == bool:
        return stored
    is_mask = bool(x) and graph.has_type(x) and graph.get_type(x) == dtypes.boolean
    return whole_constant(graph, x) if is_mask else None


# -- one number everywhere


def hides_nothing(mask: np.ndarray) -> bool:
    """Whether a mask that is added to scores has no -inf and no NaN, and something at all."""
    return bool(mask.size and mask.ndim and mask.min() > -np.inf)


def _finds_empty_rows(graph: Graph, x: str) -> bool:
    """Whether a result asks which rows of a constant mask are -inf throughout, and none is: the
    largest elements of all rows need not be computed for that."""
    node = maker_of(graph, x, "Equal")
    if node is None or not is_number(graph, node.inputs[1], -np.inf):
        return False
    largest = maker_of(graph, node.inputs[0], "ReduceMax")
    if largest is None or not graph.has_type(node.inputs[0]):
        return False
    if graph.get_type(node.inputs[0]) != dtypes.float32:
        return False
    mask = whole_constant(graph, largest.inputs[0])
    return mask is not None and hides_nothing(mask)


def _constant_value(graph: Graph, x: str) -> float | None:
    if x and _finds_empty_rows(graph, x):
        return 0.0
    array = _mask_constant(graph, x)
    return None if array is None else _only_value(array)


def _only_value(array: np.ndarray) -> float:
    same = array.size and array.dtype.kind in "fiub" and bool(np.all(array == array.flat[0]))
    return float(array.flat[0]) if same else _NAN


def _cast(walk: Traversal[str, float], node: Node) -> float:
    value = walk.fact(node.inputs[0])
    if node.attrs["to"] == dtypes.boolean:
        return value if value != value else float(value != 0)
    return value if value in (0.0, 1.0) else _NAN


def _not(walk: Traversal[str, float], node: Node) -> float:
    return 1 - walk.fact(node.inputs[0])


def _junction(decisive: float) -> Transfer[float]:
    """And is decided by one False, Or by one True."""

    def transfer(walk: Traversal[str, float], node: Node) -> float:
        values = [walk.fact(name) for name in node.inputs]
        if decisive in values:
            return decisive
        return 1 - decisive if all(value == 1 - decisive for value in values) else _NAN

    return transfer


def _extreme(walk: Traversal[str, float], node: Node) -> float:
    """The extreme of nothing is another number than those of the input."""
    graph, x = walk.graph, node.inputs[0]
    shape = graph.get_shape(x) if graph.has_shape(x) else (0,)
    full = all(type(size) is int and size > 0 for size in shape)
    return walk.fact(x) if full else _NAN


def _ordered(walk: Traversal[str, float], node: Node) -> float:
    """True where the bounds of two integers decide a comparison."""
    large, small, or_equal = _sides(node)
    low, high = lower_bound(walk.graph, large), _mask_constant(walk.graph, small)
    if low is None or high is None or not high.size or high.dtype.kind not in "iu":
        return _NAN
    most = int(high.max())
    return 1.0 if low > most or (or_equal and low == most) else _NAN


def _sides(node: Node) -> tuple[str, str, bool]:
    """Of a comparison: what must be larger, what must be smaller, whether equals count."""
    first, second = node.inputs
    or_equal = node.key.endswith("OrEqual")
    return (
        (first, second, or_equal) if node.key.startswith("Greater") else (second, first, or_equal)
    )


def _equal(walk: Traversal[str, float], node: Node) -> float:
    """Two numbers; beyond 2**53 the analysis does not tell neighbours apart."""
    values = [walk.fact(name) for name in node.inputs]
    exact = all(abs(value) < 2.0**53 for value in values)
    return float(values[0] == values[1]) if exact else _NAN


def _running_sum(walk: Traversal[str, float], node: Node) -> float:
    return 0.0 if walk.fact(node.inputs[0]) == 0 else _NAN


def _difference(walk: Traversal[str, float], node: Node) -> float:
    """Two results that count along the same axis."""
    shape = shape_or_none(walk.graph, node.outputs[0])
    counters = [counter_of(walk.graph, name) for name in node.inputs]
    if shape is None:
        return _NAN
    starts = []
    for name, found in zip(node.inputs, counters, strict=True):
        if found is None:
            return _NAN
        axis = found.axis - walk.graph.get_rank(name)
        starts.append((axis, found.start))
        if not dims.always_equal(found.length, shape[axis]):
            return _NAN
    return float(starts[0][1] - starts[1][1]) if starts[0][0] == starts[1][0] else _NAN


def _fill(walk: Traversal[str, float], node: Node) -> float:
    value = node.attrs.get("value")
    if value is None:
        return 0.0
    try:
        return _only_value(np.asarray(initializers.to_numpy(value, node.outputs[0])))
    except (BuilderError, AttributeError, TypeError):
        return _NAN


_UNIFORM_TRANSFERS: dict[str, Transfer[float]] = {
    **dict.fromkeys(MOVES_ELEMENTS | GATHERS, same_as_input),
    **dict.fromkeys(IDEMPOTENT_REDUCTION, _extreme),
    **dict.fromkeys(ORDERING, _ordered),
    "And": _junction(0.0),
    "Cast": _cast,
    "ConstantOfShape": _fill,
    "CumSum": _running_sum,
    "Equal": _equal,
    "Not": _not,
    "Or": _junction(1.0),
    "Sub": _difference,
}
_UNIFORM = by_operator(_NAN, _constant_value, _UNIFORM_TRANSFERS)

# -- True at the first index of every row


def _known_first(graph: Graph, mask: str) -> bool | None:
    array = _mask_constant(graph, mask)
    if array is not None:
        return array.ndim > 0 and array.shape[-1] > 0 and bool(np.all(array[..., 0]))
    return True if uniform_value(graph, mask) == 1 else None


def _expanded(walk: Traversal[str, bool], node: Node) -> bool:
    graph, x = walk.graph, node.inputs[0]
    return bool(graph.has_rank(x) and graph.get_rank(x)) and walk.fact(x)


def _unsqueezed(walk: Traversal[str, bool], node: Node) -> bool:
    return not adds_last_axis(walk.graph, node) and walk.fact(node.inputs[0])


def _first_ordered(walk: Traversal[str, bool], node: Node) -> bool:
    large, small, or_equal = _sides(node)
    high, low = first_column_bound(walk.graph, small), lower_bound(walk.graph, large)
    return high is not None and low is not None and (high < low or (or_equal and high == low))


_FIRST_TRUE_TRANSFERS: dict[str, Transfer[bool]] = {
    **dict.fromkeys(ORDERING, _first_ordered),
    "And": lambda walk, node: all(map(walk.fact, node.inputs)),
    "Expand": _expanded,
    "Or": lambda walk, node: any(map(walk.fact, node.inputs)),
    "Unsqueeze": _unsqueezed,
}
_FIRST_TRUE = by_operator(False, _known_first, _FIRST_TRUE_TRANSFERS)
