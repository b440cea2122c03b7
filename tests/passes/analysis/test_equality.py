"""Analyses reject similar but unequal results, falling ranges and overflowing positions."""

from __future__ import annotations

import numpy as np
import pytest

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.passes.analysis.equality import same_result
from ortable.passes.analysis.iota import counter_of
from ortable.passes.analysis.ranges import lower_bound
from ortable.passes.analysis.repetition import halves_are_equal


@pytest.fixture
def g() -> GraphBuilder:
    """Return a graph with the inputs x: float32[2, 4] and i: int64."""
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (2, 4))
    builder.make_tensor_input("i", dtypes.int64, ())
    return builder


def scalar(g: GraphBuilder, value: int) -> str:
    return g.make_initializer("", np.array(value, np.int64))


def test_nodes_with_other_attributes_make_other_results(g: GraphBuilder) -> None:
    first, second, third = (g.make_node("Softmax", ["x"], axis=axis) for axis in (0, 1, 1))
    assert not same_result(g, first, second)
    assert same_result(g, second, third)


def test_results_of_one_node_are_not_one(g: GraphBuilder) -> None:
    first = g.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2)
    second = g.make_node("Split", ["x"], ["c", "d"], axis=1, num_outputs=2)
    assert not same_result(g, first[0], first[1]) and not same_result(g, first[0], second[1])
    assert same_result(g, first[1], second[1])


def test_what_is_drawn_twice_is_not_one(g: GraphBuilder) -> None:
    first, second = (g.make_node("RandomNormalLike", ["x"], seed=1.0) for _ in range(2))
    assert not same_result(g, first, second)
    assert same_result(g, first, first)


def test_constants_are_one_when_dtype_and_values_are(g: GraphBuilder) -> None:
    values = np.arange(40, dtype=np.float32)
    other = values.copy()
    other[7] += 1
    names = [g.make_initializer(n, a) for n, a in name_arrays(values, values.copy(), other)]
    assert same_result(g, names[0], names[1]) and not same_result(g, names[0], names[2])
    as_int64 = g.make_initializer("whole", values.astype(np.int64))
    assert not same_result(g, names[0], as_int64)


def name_arrays(*values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [(f"c{index}", value) for index, value in enumerate(values)]


def test_a_range_that_falls_has_no_lower_bound_at_its_start(g: GraphBuilder) -> None:
    start = scalar(g, 5)
    rising = g.make_node("Range", [start, "i", scalar(g, 1)])
    falling = g.make_node("Range", [start, "i", scalar(g, -1)])
    assert lower_bound(g, rising) == 5 and lower_bound(g, falling) is None


def test_counters_with_a_start_that_may_overflow_are_rejected(g: GraphBuilder) -> None:
    for start, is_known in ((2**20, True), (2**62, False)):
        limit = scalar(g, start + 5)
        counter = counter_of(g, g.make_node("Range", [scalar(g, start), limit, scalar(g, 1)]))
        assert (None if counter is None else (counter.start, counter.length)) == (
            (start, 5) if is_known else None
        )


def test_halves_are_those_of_the_last_axis(g: GraphBuilder) -> None:
    last, first = (g.make_node("Concat", ["x", "x"], axis=axis) for axis in (1, 0))
    assert halves_are_equal(g, last) and not halves_are_equal(g, first)
