"""Find results with one value everywhere, and masks that are True at index 0 of every row."""

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

from .constants import find_producer, is_number, large_constant, small_constant
from .dataflow import Transfer, Traversal, make_operator_analysis, same_as_input
from .iota import counter_of
from .ranges import adds_last_axis, first_column_bound, lower_bound

_NAN = float("nan")


def uniform_value(graph: Graph, x: str) -> float:
    """Return the value of all elements of a result, 1 and 0 for bools; NaN if they may differ."""
    return _UNIFORM.fact_of(graph, x)


def first_column_is_true(graph: Graph, mask: str) -> bool:
    """Whether every row of a mask is known to be True at its first index."""
    return _FIRST_TRUE.fact_of(graph, mask)


def _mask_constant(graph: Graph, x: str) -> np.ndarray | None:
    """Return the value of a small constant, or of a constant mask of any size, else None."""
    array = small_constant(graph, x)
    if array is not None:
        return array
    stored = graph.initializers_dict.get(x)
    if isinstance(stored, np.ndarray) and stored.dtype == bool:
        return stored
    is_mask = bool(x) and graph.has_type(x) and graph.get_type(x) == dtypes.boolean
    return large_constant(graph, x) if is_mask else None


# -- the same number everywhere


def hides_nothing(mask: np.ndarray) -> bool:
    """Whether an additive attention mask has elements and an axis, but neither -inf nor NaN."""
    return bool(mask.size and mask.ndim and mask.min() > -np.inf)


def _tests_empty_rows(graph: Graph, x: str) -> bool:
    """Whether a result tests for rows of only -inf in a constant mask that has no -inf."""
    node = find_producer(graph, x, "Equal")
    if node is None or not is_number(graph, node.inputs[1], -np.inf):
        return False
    largest = find_producer(graph, node.inputs[0], "ReduceMax")
    if largest is None or not graph.has_type(node.inputs[0]):
        return False
    if graph.get_type(node.inputs[0]) != dtypes.float32:
        return False
    mask = large_constant(graph, largest.inputs[0])
    return mask is not None and hides_nothing(mask)


def _constant_value(graph: Graph, x: str) -> float | None:
    if x and _tests_empty_rows(graph, x):
        return 0.0
    array = _mask_constant(graph, x)
    return None if array is None else _only_value(array)


def _only_value(array: np.ndarray) -> float:
    is_uniform = array.size and array.dtype.kind in "fiub" and bool(np.all(array == array.flat[0]))
    return float(array.flat[0]) if is_uniform else _NAN


def _cast_value(traversal: Traversal[str, float], node: Node) -> float:
    value = traversal.find_fact(node.inputs[0])
    if node.attrs["to"] == dtypes.boolean:
        return value if value != value else float(value != 0)
    return value if value in (0.0, 1.0) else _NAN


def _not_value(traversal: Traversal[str, float], node: Node) -> float:
    return 1 - traversal.find_fact(node.inputs[0])


def _decide_by(decisive: float) -> Transfer[float]:
    """Make the transfer of And, which one False decides, or of Or, which one True decides."""

    def combine_values(traversal: Traversal[str, float], node: Node) -> float:
        values = [traversal.find_fact(name) for name in node.inputs]
        if decisive in values:
            return decisive
        return 1 - decisive if all(value == 1 - decisive for value in values) else _NAN

    return combine_values


def _extreme_value(traversal: Traversal[str, float], node: Node) -> float:
    """Return the value of a maximum or minimum; NaN if the input may be empty."""
    graph, x = traversal.graph, node.inputs[0]
    shape = graph.get_shape(x) if graph.has_shape(x) else (0,)
    is_nonempty = all(type(size) is int and size > 0 for size in shape)
    return traversal.find_fact(x) if is_nonempty else _NAN


def _compare_bounds(traversal: Traversal[str, float], node: Node) -> float:
    """Return 1 (True) if the bounds of two integer results decide a comparison, else NaN."""
    large, small, or_equal = _comparison_sides(node)
    lowest_of_large, small_values = (
        lower_bound(traversal.graph, large),
        _mask_constant(traversal.graph, small),
    )
    if (
        lowest_of_large is None
        or small_values is None
        or not small_values.size
        or small_values.dtype.kind not in "iu"
    ):
        return _NAN
    highest = int(small_values.max())
    return 1.0 if lowest_of_large > highest or (or_equal and lowest_of_large == highest) else _NAN


def _comparison_sides(node: Node) -> tuple[str, str, bool]:
    """Return the operand that is larger if the comparison holds, the other, and "or equal"."""
    first, second = node.inputs
    or_equal = node.key.endswith("OrEqual")
    return (
        (first, second, or_equal) if node.key.startswith("Greater") else (second, first, or_equal)
    )


def _equal_value(traversal: Traversal[str, float], node: Node) -> float:
    """Return 1 if two numbers are equal, else 0; NaN above 2**53, where floats are not exact."""
    values = [traversal.find_fact(name) for name in node.inputs]
    exact = all(abs(value) < 2.0**53 for value in values)
    return float(values[0] == values[1]) if exact else _NAN


def _running_sum(traversal: Traversal[str, float], node: Node) -> float:
    return 0.0 if traversal.find_fact(node.inputs[0]) == 0 else _NAN


def _counter_difference(traversal: Traversal[str, float], node: Node) -> float:
    """Return the difference of two counters along the same axis."""
    shape = shape_or_none(traversal.graph, node.outputs[0])
    counters = [counter_of(traversal.graph, name) for name in node.inputs]
    if shape is None:
        return _NAN
    starts = []
    for name, counter in zip(node.inputs, counters, strict=True):
        if counter is None:
            return _NAN
        axis = counter.axis - traversal.graph.get_rank(name)
        starts.append((axis, counter.start))
        if not dims.always_equal(counter.length, shape[axis]):
            return _NAN
    return float(starts[0][1] - starts[1][1]) if starts[0][0] == starts[1][0] else _NAN


def _fill_value(traversal: Traversal[str, float], node: Node) -> float:
    value = node.attrs.get("value")
    if value is None:
        return 0.0
    try:
        return _only_value(np.asarray(initializers.to_numpy(value, node.outputs[0])))
    except (BuilderError, AttributeError, TypeError):
        return _NAN


_UNIFORM_TRANSFERS: dict[str, Transfer[float]] = {
    **dict.fromkeys(MOVES_ELEMENTS | GATHERS, same_as_input),
    **dict.fromkeys(IDEMPOTENT_REDUCTION, _extreme_value),
    **dict.fromkeys(ORDERING, _compare_bounds),
    "And": _decide_by(0.0),
    "Cast": _cast_value,
    "ConstantOfShape": _fill_value,
    "CumSum": _running_sum,
    "Equal": _equal_value,
    "Not": _not_value,
    "Or": _decide_by(1.0),
    "Sub": _counter_difference,
}
_UNIFORM = make_operator_analysis(_NAN, _constant_value, _UNIFORM_TRANSFERS)

# -- masks that are True at the first index of every row


def _known_first(graph: Graph, mask: str) -> bool | None:
    array = _mask_constant(graph, mask)
    if array is not None:
        return array.ndim > 0 and array.shape[-1] > 0 and bool(np.all(array[..., 0]))
    return True if uniform_value(graph, mask) == 1 else None


def _expand_first(traversal: Traversal[str, bool], node: Node) -> bool:
    graph, x = traversal.graph, node.inputs[0]
    return bool(graph.has_rank(x) and graph.get_rank(x)) and traversal.find_fact(x)


def _unsqueeze_first(traversal: Traversal[str, bool], node: Node) -> bool:
    return not adds_last_axis(traversal.graph, node) and traversal.find_fact(node.inputs[0])


def _compare_first_bounds(traversal: Traversal[str, bool], node: Node) -> bool:
    large, small, or_equal = _comparison_sides(node)
    high, low = first_column_bound(traversal.graph, small), lower_bound(traversal.graph, large)
    return high is not None and low is not None and (high < low or (or_equal and high == low))


_FIRST_TRUE_TRANSFERS: dict[str, Transfer[bool]] = {
    **dict.fromkeys(ORDERING, _compare_first_bounds),
    "And": lambda traversal, node: all(map(traversal.find_fact, node.inputs)),
    "Expand": _expand_first,
    "Or": lambda traversal, node: any(map(traversal.find_fact, node.inputs)),
    "Unsqueeze": _unsqueeze_first,
}
_FIRST_TRUE = make_operator_analysis(False, _known_first, _FIRST_TRUE_TRANSFERS)
