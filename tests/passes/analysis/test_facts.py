"""Analyses find correct facts; some tests compare them with values of onnx.reference."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from ortable import dims, dtypes
from ortable.builder import GraphBuilder
from ortable.passes.analysis.equality import same_result
from ortable.passes.analysis.iota import iota_of
from ortable.passes.analysis.ranges import first_column_bound, lower_bound, upper_bound
from ortable.passes.analysis.repetition import halves_are_equal
from ortable.passes.analysis.uniformity import first_column_is_true, uniform_value
from ortable.passes.analysis.weights import is_weight

N = dims.make_symbol("n")


@pytest.fixture
def g() -> GraphBuilder:
    """Return a graph with the inputs x: float32[n, 4] and mask: bool[n, 4]."""
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (N, 4))
    builder.make_tensor_input("mask", dtypes.boolean, (N, 4))
    return builder


def ints(g: GraphBuilder, *values: int) -> str:
    return g.make_initializer("", np.array(values, np.int64))


def const(g: GraphBuilder, value: Any, dtype: Any = np.int64) -> str:
    return g.make_initializer("", np.array(value, dtype))


def positions(g: GraphBuilder, start: int = 0) -> str:
    """Add a result Range(start, n), int64, where n is the number of rows of x."""
    size = g.op.Squeeze(g.op.Shape("x", start=0, end=1), ints(g, 0))
    return g.op.Range(const(g, start), size, const(g, 1))


def evaluate(g: GraphBuilder, name: str, n: int = 3) -> np.ndarray:
    g.make_tensor_output(name)
    feeds = {"x": np.ones((n, 4), np.float32), "mask": np.zeros((n, 4), bool)}
    model = g.to_onnx()
    return ReferenceEvaluator(model).run(None, {i.name: feeds[i.name] for i in model.graph.input})[
        0
    ]


@pytest.mark.parametrize("start", [-2, 0, 5])
def test_bounds_of_ranges_and_sums(g: GraphBuilder, start: int) -> None:
    column = g.op.Unsqueeze(positions(g, start), ints(g, 1))
    sums = g.op.Add(g.op.Unsqueeze(positions(g), ints(g, 0)), column)
    assert lower_bound(g, sums) == start
    assert first_column_bound(g, column) is None  # the last axis has size one
    assert first_column_bound(g, g.op.Unsqueeze(positions(g, start), ints(g, 0))) == start
    assert evaluate(g, sums, 7).min() >= start


def test_positions_and_casts_of_bools_are_bounded(g: GraphBuilder) -> None:
    values, positions = g.make_node("TopK", ["x", ints(g, 2)], 2, axis=1)
    row_index = g.op.ArgMax("x", axis=0)
    integers = g.op.Cast("mask", to=dtypes.int64)
    assert (lower_bound(g, positions), upper_bound(g, positions)) == (0, 3)
    assert (lower_bound(g, row_index), upper_bound(g, row_index)) == (0, N - 1)
    assert (lower_bound(g, integers), upper_bound(g, integers)) == (0, 1)
    selected = g.make_node("Where", ["mask", integers, const(g, 7)])
    assert (lower_bound(g, selected), upper_bound(g, selected)) == (0, 7)
    assert upper_bound(g, g.op.Range(const(g, 2), const(g, 9), const(g, 1))) == 8
    assert upper_bound(g, g.op.Range(const(g, 2), const(g, 9), const(g, 2))) == 8
    start = g.op.Squeeze(g.op.Shape("x", start=0, end=1), ints(g, 0))
    assert upper_bound(g, g.op.Range(start, const(g, 9), const(g, 1))) == 8
    assert upper_bound(g, g.op.Range(start, const(g, 9), const(g, 2))) is None
    assert upper_bound(g, values) is None and lower_bound(g, values) is None


def test_bounds_that_nobody_knows(g: GraphBuilder) -> None:
    falling = g.op.Range(const(g, 4), const(g, 0), const(g, -1))
    float_range = g.op.Range(
        const(g, 0.0, np.float32), const(g, 2.0, np.float32), const(g, 1, np.float32)
    )
    for name in ("x", float_range, g.op.Add(falling, g.op.Cast("x", to=dtypes.int64)), "mask"):
        assert lower_bound(g, name) is None
    assert lower_bound(g, g.op.Shape("x")) == 0


@pytest.mark.parametrize("value", [0, 1])
def test_logic_and_moves_keep_one_number(g: GraphBuilder, value: int) -> None:
    all_same = const(g, [[value] * 4], bool)
    moved = g.op.Expand(all_same, g.op.Shape("x"))
    joined = g.op.And(moved, "mask") if value == 0 else g.op.Or("mask", moved)
    assert uniform_value(g, joined) == value
    flipped = g.op.Not(joined)
    assert uniform_value(g, flipped) == 1 - value
    assert uniform_value(g, g.op.Cast(flipped, to=dtypes.float32)) == 1 - value
    assert math.isnan(uniform_value(g, g.op.And("mask", "mask")))
    assert (evaluate(g, flipped) == 1 - value).all()


def test_a_fill_is_one_number(g: GraphBuilder) -> None:
    zeros = g.op.ConstantOfShape(g.op.Shape("x"))
    assert uniform_value(g, zeros) == 0
    ones = g.op.ConstantOfShape(g.op.Shape("x"), value=np.array([True]))
    assert uniform_value(g, g.op.Reshape(ones, ints(g, -1))) == 1
    assert evaluate(g, ones).all()


def test_an_extreme_of_rows_that_may_be_empty_is_not_known(g: GraphBuilder) -> None:
    ones = g.op.Expand(const(g, 1, np.uint8), g.op.Shape("x"))
    assert math.isnan(uniform_value(g, g.op.ReduceMax(ones, ints(g, 0), keepdims=0)))
    fixed = g.op.Expand(const(g, 1, np.uint8), ints(g, 2, 4))
    assert uniform_value(g, g.op.ReduceMax(fixed, ints(g, 0), keepdims=0)) == 1


@pytest.mark.parametrize(
    ("op", "start", "bound", "expected"),
    [
        ("GreaterOrEqual", 0, 0, 1),
        ("Greater", 0, 0, None),
        ("Greater", 1, 0, 1),
        ("Less", 0, 1, None),
        ("LessOrEqual", 3, 3, None),
    ],
)
def test_comparisons_of_ranges(
    g: GraphBuilder, op: str, start: int, bound: int, expected: Any
) -> None:
    value = uniform_value(g, g.make_node(op, [positions(g, start), const(g, bound)]))
    assert value == expected or (expected is None and math.isnan(value))
    mirrored = {"Greater": "Less", "GreaterOrEqual": "LessOrEqual"}.get(op)
    if mirrored:
        value = uniform_value(g, g.make_node(mirrored, [const(g, bound), positions(g, start)]))
        assert value == expected or (expected is None and math.isnan(value))


def test_a_causal_mask_allows_the_first_position(g: GraphBuilder) -> None:
    cols, rows = g.op.Unsqueeze(positions(g), ints(g, 0)), g.op.Unsqueeze(positions(g), ints(g, 1))
    causal = g.op.LessOrEqual(cols, rows)
    assert first_column_is_true(g, causal)
    assert first_column_is_true(g, g.op.GreaterOrEqual(rows, cols))
    assert not first_column_is_true(g, g.op.Less(cols, rows))
    assert first_column_is_true(g, g.op.Or(causal, causal))
    assert not first_column_is_true(g, g.op.And(causal, "mask"))
    assert evaluate(g, causal)[:, 0].all()


def test_halves_that_are_equal(g: GraphBuilder) -> None:
    angles = g.op.Unsqueeze(g.op.Cast(positions(g), to=dtypes.float32), ints(g, 0))
    repeated = g.op.Concat(angles, angles, axis=-1)
    table = g.op.Mul(g.op.Cos(g.op.Unsqueeze(repeated, ints(g, 0))), const(g, 2.0, np.float32))
    assert halves_are_equal(g, table)
    assert halves_are_equal(g, g.op.Sub(table, g.op.Sin(table)))
    assert not halves_are_equal(g, g.op.Mul(table, g.op.Concat(angles, g.op.Neg(angles), axis=-1)))
    assert not halves_are_equal(g, angles)
    assert not halves_are_equal(g, g.op.Concat(angles, g.op.Neg(angles), axis=-1))
    assert not halves_are_equal(g, g.op.Concat(angles, angles, axis=0))
    assert not halves_are_equal(g, g.op.Unsqueeze(repeated, ints(g, -1)))
    assert halves_are_equal(g, const(g, [[1, 2, 1, 2]], np.float32))
    assert not halves_are_equal(g, const(g, [[1, 2, 1]], np.float32))
    table_values = evaluate(g, table)
    assert np.array_equal(table_values[..., :3], table_values[..., 3:])


@pytest.mark.parametrize(
    ("row", "equal"),
    [([1.0, -0.0, 1.0, -0.0], True), ([np.nan, 2.0, np.nan, 2.0], True), ([1.0, 2.0, 1.0], False),
     ([0.0, 2.0, -0.0, 2.0], False)],
)  # fmt: skip
def test_halves_of_constants_are_equal_with_their_signs(row: list[float], equal: bool) -> None:
    g = GraphBuilder(18)
    assert halves_are_equal(g, g.make_initializer("", np.array([row], dtype=np.float32))) is equal


def test_a_result_that_counts_along_an_axis(g: GraphBuilder) -> None:
    column = g.op.Unsqueeze(positions(g), ints(g, 1))
    assert iota_of(g, column) == (0, N)
    assert iota_of(g, g.op.Unsqueeze(column, ints(g, 0, -1))) == (1, N)
    assert iota_of(g, positions(g, 1)) is None
    assert iota_of(g, g.op.Add(column, const(g, 0))) == (0, N)
    assert iota_of(g, g.op.Add(column, const(g, 1))) is None


def test_results_that_are_computed_alike(g: GraphBuilder) -> None:
    def make_cosines(factor: float) -> str:
        return g.op.Cos(g.op.Mul(g.op.Exp("x"), const(g, factor, np.float32)))

    assert same_result(g, make_cosines(2), make_cosines(2))
    assert not same_result(g, make_cosines(2), make_cosines(3))
    shape = ints(g, 4)
    draws = [g.make_node("RandomNormal", [], shape=[4]) for _ in range(2)]
    assert not same_result(g, *draws)
    assert same_result(g, shape, ints(g, 4))


def test_weights_that_may_be_computed_anew(g: GraphBuilder) -> None:
    weight = g.make_initializer("w", np.ones((3, 4), np.float32))
    half = g.make_initializer("h", np.ones(3, np.float16))
    assert is_weight(g, weight) and not is_weight(g, half) and not is_weight(g, "x")
    assert is_weight(g, g.op.Mul(weight, weight))
    assert not is_weight(g, g.op.Transpose(weight, perm=[1, 0]))
    assert not is_weight(g, g.op.Neg(g.op.Cast(half, to=dtypes.float32)))
    large = g.make_initializer("large", np.ones((100, 100), np.float32))
    g.op.Neg(large)
    assert is_weight(g, large)
    g.op.Abs(large)
    assert not is_weight(g, large)  # the large weight would be stored twice
