"""Analyses recognize triangular masks and counters; onnx.reference gives the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from ortable import dims, dtypes
from ortable.builder import GraphBuilder
from ortable.passes.analysis.iota import Counter, counter_of
from ortable.passes.analysis.triangles import Triangle, triangle_of
from ortable.passes.analysis.uniformity import uniform_value

N = dims.make_symbol("n")
INF = float("inf")


class Masks:
    """Helpers that add parts of masks to a graph with the input x: float32[n, 4]."""

    def __init__(self) -> None:
        self.g = GraphBuilder(18)
        self.g.make_tensor_input("x", dtypes.float32, (N, 4))
        self.size = self.g.op.Shape("x", start=0, end=1)

    def const(self, value: Any, dtype: Any = np.int64) -> str:
        return self.g.make_initializer("", np.array(value, dtype))

    def positions(self, start: int = 0) -> str:
        """Add the result start, start + 1, ... of n elements, int64."""
        size = self.g.op.Squeeze(self.size, self.const([0]))
        return self.add_offset(self.g.op.Range(self.const(0), size, self.const(1)), start)

    def add_offset(self, x: str, start: int) -> str:
        return self.g.op.Add(x, self.const(start)) if start else x

    def rows(self, start: int = 0) -> str:
        return self.g.op.Unsqueeze(self.positions(start), self.const([1]))

    def square(self, value: float, dtype: Any = np.float32) -> str:
        sizes = self.g.op.Concat(self.size, self.size, axis=0)
        return self.g.op.Expand(self.const(value, dtype), sizes)

    def compare(self, op: str, rows_first: bool, start: int = 0) -> str:
        sides = [self.rows(), self.positions(start)]
        return self.g.make_node(op, sides if rows_first else sides[::-1])

    def triangle(self, value: float, upper: int, diagonal: int, dtype: Any = np.float32) -> str:
        return self.g.op.Trilu(self.square(value, dtype), self.const(diagonal), upper=upper)

    def compute(self, name: str, n: int) -> np.ndarray:
        self.g.make_tensor_output(name)
        model = self.g.to_onnx()
        return ReferenceEvaluator(model).run(None, {"x": np.ones((n, 4), np.float32)})[0]


MakeMask = Callable[[Masks], str]

TRIANGLES: list[tuple[MakeMask, Triangle]] = [
    (lambda m: m.compare("GreaterOrEqual", True), Triangle(0, 1, 0)),
    (lambda m: m.compare("Greater", True), Triangle(-1, 1, 0)),
    (lambda m: m.compare("LessOrEqual", True), Triangle(-1, 0, 1)),
    (lambda m: m.compare("Less", True), Triangle(0, 0, 1)),
    (lambda m: m.compare("LessOrEqual", False), Triangle(0, 1, 0)),
    (lambda m: m.compare("Greater", False), Triangle(0, 0, 1)),
    (lambda m: m.compare("LessOrEqual", False, 1), Triangle(-1, 1, 0)),
    (lambda m: m.compare("Less", False, -1), Triangle(0, 1, 0)),
    (lambda m: m.g.op.Not(m.compare("Less", True)), Triangle(0, 1, 0)),
    (lambda m: m.triangle(1, 0, 0), Triangle(0, 1, 0)),
    (lambda m: m.triangle(True, 0, 0, bool), Triangle(0, 1, 0)),
    (lambda m: m.triangle(-INF, 1, 1), Triangle(0, 0, -INF)),
    (lambda m: m.g.op.Equal(m.triangle(1, 0, 0), m.const(0, np.float32)), Triangle(0, 0, 1)),
    (lambda m: m.g.op.Cast(m.triangle(2, 1, 1), to=dtypes.boolean), Triangle(0, 0, 1)),
    (
        lambda m: m.g.op.Where(
            m.compare("Less", True), m.const(-INF, np.float32), m.square(0)
        ),
        Triangle(0, 0, -INF),
    ),
    (lambda m: m.g.op.Unsqueeze(m.triangle(1, 0, 0), m.const([0, 1])), Triangle(0, 1, 0)),
    (
        lambda m: m.g.op.Slice(
            m.const(np.tri(9)[None], bool), m.const([0]), m.size, m.const([1]), m.const([1])
        ),
        Triangle(0, 1, 0),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "expected"), TRIANGLES)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_triangles(make: MakeMask, expected: Triangle, n: int) -> None:
    masks = Masks()
    name = make(masks)
    assert triangle_of(masks.g, name) == expected
    mask = masks.compute(name, n)
    is_below = np.tri(*mask.shape[-2:], expected.diagonal, dtype=bool)
    assert (mask == np.where(is_below, expected.below, expected.above)).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.g.op.Less(m.positions(), m.positions()),
        lambda m: m.g.op.And(m.compare("Less", True), m.compare("Less", False, 3)),
        lambda m: m.g.op.Equal(m.rows(), m.positions()),
        lambda m: m.square(1),
        lambda m: m.g.op.Trilu(m.g.op.MatMul("x", m.g.op.Transpose("x", perm=[1, 0])), upper=0),
        lambda m: m.g.op.Greater(m.g.op.Mul(m.rows(), m.const(2)), m.positions()),
        lambda m: m.g.op.Transpose(m.triangle(1, 0, 0), perm=[1, 0]),
        lambda m: m.g.op.Slice(m.triangle(1, 0, 0), *map(m.const, ([1], [9], [1], [1]))),
        lambda m: m.const([[1, 0, 1], [1, 1, 0]], bool),
        lambda m: m.const([[1, 0, 0]], bool),
    ],
)
def test_what_is_no_triangle_or_not_seen(make: MakeMask) -> None:
    masks = Masks()
    assert triangle_of(masks.g, make(masks)) is None


def test_counters_that_are_joined_and_cut() -> None:
    m = Masks()
    positions = m.g.op.Unsqueeze(m.positions(), m.const([0]))
    sliced = m.g.op.Slice(positions, *(m.const([value]) for value in (2, 9, 1)))
    counter = counter_of(m.g, sliced)
    assert counter is not None and counter.start == 2
    bounds = [m.const(value) for value in (0, 1, 1)]
    negative_one = m.g.op.Sub(m.g.op.Unsqueeze(m.g.op.Range(*bounds), m.const([0])), m.const(1))
    extended = m.g.op.Concat(negative_one, positions, axis=1)
    assert counter_of(m.g, extended) == Counter(1, N + 1, -1)
    assert counter_of(m.g, m.g.op.Concat(positions, negative_one, axis=1)) is None
    slice_bounds = [m.const([value]) for value in (0, -1, 1)]
    differences = m.g.op.Sub(positions, m.g.op.Slice(extended, *slice_bounds))
    assert uniform_value(m.g, differences) == 1
    run_starts = m.g.op.Cast(m.g.op.Not(m.g.op.Equal(differences, m.const(1))), to=dtypes.int64)
    run_ids = m.g.op.CumSum(run_starts, m.const(1))
    assert uniform_value(m.g, m.g.op.Equal(run_ids, m.g.op.Unsqueeze(run_ids, m.const([0])))) == 1
    assert (m.compute(differences, 4) == 1).all()
