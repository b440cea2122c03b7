"""Triangles and counters that analyses see, each against what ONNX's reference computes."""

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
    """A graph with x: float32[n, 4], and the pieces that masks are made of."""

    def __init__(self) -> None:
        self.g = GraphBuilder(18)
        self.g.make_tensor_input("x", dtypes.float32, (N, 4))
        self.size = self.g.op.Shape("x", start=0, end=1)

    def number(self, value: Any, dtype: Any = np.int64) -> str:
        return self.g.make_initializer("", np.array(value, dtype))

    def places(self, start: int = 0) -> str:
        """int64[n]: start, start + 1, ..."""
        size = self.g.op.Squeeze(self.size, self.number([0]))
        return self.shifted(self.g.op.Range(self.number(0), size, self.number(1)), start)

    def shifted(self, x: str, start: int) -> str:
        return self.g.op.Add(x, self.number(start)) if start else x

    def rows(self, start: int = 0) -> str:
        return self.g.op.Unsqueeze(self.places(start), self.number([1]))

    def square(self, value: float, dtype: Any = np.float32) -> str:
        sizes = self.g.op.Concat(self.size, self.size, axis=0)
        return self.g.op.Expand(self.number(value, dtype), sizes)

    def compared(self, op: str, rows_first: bool, start: int = 0) -> str:
        sides = [self.rows(), self.places(start)]
        return self.g.make_node(op, sides if rows_first else sides[::-1])

    def triangle(self, value: float, upper: int, diagonal: int, dtype: Any = np.float32) -> str:
        return self.g.op.Trilu(self.square(value, dtype), self.number(diagonal), upper=upper)

    def computed(self, name: str, n: int) -> np.ndarray:
        self.g.make_tensor_output(name)
        model = self.g.to_onnx()
        return ReferenceEvaluator(model).run(None, {"x": np.ones((n, 4), np.float32)})[0]


Make = Callable[[Masks], str]

FOUND: list[tuple[Make, Triangle]] = [
    (lambda m: m.compared("GreaterOrEqual", True), Triangle(0, 1, 0)),
    (lambda m: m.compared("Greater", True), Triangle(-1, 1, 0)),
    (lambda m: m.compared("LessOrEqual", True), Triangle(-1, 0, 1)),
    (lambda m: m.compared("Less", True), Triangle(0, 0, 1)),
    (lambda m: m.compared("LessOrEqual", False), Triangle(0, 1, 0)),
    (lambda m: m.compared("Greater", False), Triangle(0, 0, 1)),
    (lambda m: m.compared("LessOrEqual", False, 1), Triangle(-1, 1, 0)),
    (lambda m: m.compared("Less", False, -1), Triangle(0, 1, 0)),
    (lambda m: m.g.op.Not(m.compared("Less", True)), Triangle(0, 1, 0)),
    (lambda m: m.triangle(1, 0, 0), Triangle(0, 1, 0)),
    (lambda m: m.triangle(True, 0, 0, bool), Triangle(0, 1, 0)),
    (lambda m: m.triangle(-INF, 1, 1), Triangle(0, 0, -INF)),
    (lambda m: m.g.op.Equal(m.triangle(1, 0, 0), m.number(0, np.float32)), Triangle(0, 0, 1)),
    (lambda m: m.g.op.Cast(m.triangle(2, 1, 1), to=dtypes.boolean), Triangle(0, 0, 1)),
    (
        lambda m: m.g.op.Where(
            m.compared("Less", True), m.number(-INF, np.float32), m.square(0)
        ),
        Triangle(0, 0, -INF),
    ),
    (lambda m: m.g.op.Unsqueeze(m.triangle(1, 0, 0), m.number([0, 1])), Triangle(0, 1, 0)),
    (
        lambda m: m.g.op.Slice(
            m.number(np.tri(9)[None], bool), m.number([0]), m.size, m.number([1]), m.number([1])
        ),
        Triangle(0, 1, 0),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("make", "wanted"), FOUND)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_triangles(make: Make, wanted: Triangle, n: int) -> None:
    masks = Masks()
    name = make(masks)
    assert triangle_of(masks.g, name) == wanted
    found = masks.computed(name, n)
    below = np.tri(*found.shape[-2:], wanted.diagonal, dtype=bool)
    assert (found == np.where(below, wanted.below, wanted.above)).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda m: m.g.op.Less(m.places(), m.places()),
        lambda m: m.g.op.And(m.compared("Less", True), m.compared("Less", False, 3)),
        lambda m: m.g.op.Equal(m.rows(), m.places()),
        lambda m: m.square(1),
        lambda m: m.g.op.Trilu(m.g.op.MatMul("x", m.g.op.Transpose("x", perm=[1, 0])), upper=0),
        lambda m: m.g.op.Greater(m.g.op.Mul(m.rows(), m.number(2)), m.places()),
        lambda m: m.g.op.Transpose(m.triangle(1, 0, 0), perm=[1, 0]),
        lambda m: m.g.op.Slice(m.triangle(1, 0, 0), *map(m.number, ([1], [9], [1], [1]))),
        lambda m: m.number([[1, 0, 1], [1, 1, 0]], bool),
        lambda m: m.number([[1, 0, 0]], bool),
    ],
)
def test_what_is_no_triangle_or_not_seen(make: Make) -> None:
    masks = Masks()
    assert triangle_of(masks.g, make(masks)) is None


def test_counters_that_are_joined_and_cut() -> None:
    m = Masks()
    whole = m.g.op.Unsqueeze(m.places(), m.number([0]))
    later = m.g.op.Slice(whole, *(m.number([value]) for value in (2, 9, 1)))
    found = counter_of(m.g, later)
    assert found is not None and found.start == 2
    ends = [m.number(value) for value in (0, 1, 1)]
    first = m.g.op.Sub(m.g.op.Unsqueeze(m.g.op.Range(*ends), m.number([0])), m.number(1))
    before = m.g.op.Concat(first, whole, axis=1)
    assert counter_of(m.g, before) == Counter(1, N + 1, -1)
    assert counter_of(m.g, m.g.op.Concat(whole, first, axis=1)) is None
    last = [m.number([value]) for value in (0, -1, 1)]
    steps = m.g.op.Sub(whole, m.g.op.Slice(before, *last))
    assert uniform_value(m.g, steps) == 1
    runs = m.g.op.Cast(m.g.op.Not(m.g.op.Equal(steps, m.number(1))), to=dtypes.int64)
    sums = m.g.op.CumSum(runs, m.number(1))
    assert uniform_value(m.g, m.g.op.Equal(sums, m.g.op.Unsqueeze(sums, m.number([0])))) == 1
    assert (m.computed(steps, 4) == 1).all()
