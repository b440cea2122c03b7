"""Results that look alike and are not one, ranges that fall, positions that wrap around: one thing
at a time."""

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
    """x: float32[2, 4]; i: int64."""
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (2, 4))
    builder.make_tensor_input("i", dtypes.int64, ())
    return builder


def number(g: GraphBuilder, value: int) -> str:
    return g.make_initializer("", np.array(value, np.int64))


def test_nodes_with_other_attributes_make_other_results(g: GraphBuilder) -> None:
    first, second, third = (g.make_node("Softmax", ["x"], axis=axis) for axis in (0, 1, 1))
    assert not same_result(g, first, second)
    assert same_result(g, second, third)


def test_results_of_one_node_are_not_one(g: GraphBuilder) -> None:
    once = g.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2)
    again = g.make_node("Split", ["x"], ["c", "d"], axis=1, num_outputs=2)
    assert not same_result(g, once[0], once[1]) and not same_result(g, once[0], again[1])
    assert same_result(g, once[1], again[1])


def test_what_is_drawn_twice_is_not_one(g: GraphBuilder) -> None:
    first, second = (g.make_node("RandomNormalLike", ["x"], seed=1.0) for _ in range(2))
    assert not same_result(g, first, second)
    assert same_result(g, first, first)


def test_constants_are_one_when_dtype_and_values_are(g: GraphBuilder) -> None:
    values = np.arange(40, dtype=np.float32)
    other = values.copy()
    other[7] += 1
    made = [g.make_initializer(n, v) for n, v in enumerate_names(values, values.copy(), other)]
    assert same_result(g, made[0], made[1]) and not same_result(g, made[0], made[2])
    whole = g.make_initializer("whole", values.astype(np.int64))
    assert not same_result(g, made[0], whole)


def enumerate_names(*values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    return [(f"c{place}", value) for place, value in enumerate(values)]


def test_a_range_that_falls_has_no_lower_bound_at_its_start(g: GraphBuilder) -> None:
    start = number(g, 5)
    rising = g.make_node("Range", [start, "i", number(g, 1)])
    falling = g.make_node("Range", [start, "i", number(g, -1)])
    assert lower_bound(g, rising) == 5 and lower_bound(g, falling) is None


def test_positions_that_may_wrap_around_are_no_positions(g: GraphBuilder) -> None:
    for start, known in ((2**20, True), (2**62, False)):
        limit = number(g, start + 5)
        found = counter_of(g, g.make_node("Range", [number(g, start), limit, number(g, 1)]))
        assert (None if found is None else (found.start, found.length)) == (
            (start, 5) if known else None
        )


def test_halves_are_those_of_the_last_axis(g: GraphBuilder) -> None:
    last, first = (g.make_node("Concat", ["x", "x"], axis=axis) for axis in (1, 0))
    assert halves_are_equal(g, last) and not halves_are_equal(g, first)
