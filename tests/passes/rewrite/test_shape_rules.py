"""Rules about shapes: proofs for all values of the symbols, and graphs at sizes of 1 and 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ortable import dims, dtypes
from ortable.builder import GraphBuilder
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.helpers import attention, shapes, slices, views
from ortable.testing.runs import ModelRunner, check_same_values, make_checked_model

N, M = dims.make_symbol("n"), dims.make_symbol("m")
SHAPES = ["none", "reshape", "transpose", "slice", "concat", "gather", "expand", "dims"]


def make_graph(**shapes: tuple[Any, ...]) -> GraphBuilder:
    builder = GraphBuilder(18)
    for name, shape in shapes.items():
        builder.make_tensor_input(name, dtypes.float32, shape)
    return builder


def test_sizes_side_by_side_are_a_run_and_indices_beyond_the_axes_are_none() -> None:
    graph = make_graph(x=(N, 3, M, 5))
    assert shapes.shape_run(graph, "x", 0, None, [1, 2]) == [1, 3]
    assert shapes.shape_run(graph, "x", 1, None, [-1]) == [3, 4]
    assert shapes.shape_run(graph, "x", 1, 3, [0, 1]) == [1, 3]
    for indices in ([2, 1], [0, 2], [1, 1], [4], [-5], [0, 4], []):
        assert shapes.shape_run(graph, "x", 0, None, indices) == [], indices
    assert shapes.shape_run(graph, "x", 1, 3, [2]) == []


def test_heads_share_keys_where_their_number_is_a_multiple() -> None:
    graph = make_graph(q=(N, 6, 4, 8), three=(N, 3, 4, 8), four=(N, 4, 4, 8), other=(M, 3, 4, 8))
    assert attention.head_groups(graph, "q", "three") == 2
    assert attention.head_groups(graph, "q", "q") == 1
    for keys in ("four", "other"):
        assert attention.head_groups(graph, "q", keys) == 0, keys


@pytest.mark.parametrize(
    ("shape", "axis", "expanded", "merged", "is_repeat"),
    [
        ((N, 2, M, 8), 2, (-1, -1, 3, -1, -1), (0, 6, -1, 8), True),
        ((N, 2, M, 8), 1, (-1, 2, -1, -1, -1), (0, 4, -1, 8), False),  # heads are tiled
        ((1, 2, M, 8), 2, (3, -1, 2, -1, -1), (3, 4, -1, 8), False),
        ((N, 2, 4, 8), 2, (-1, -1, 3, -1, -1), (0, 3, 8, 8), False),
        ((N, 2, 8), 2, (-1, -1, 3, -1), (0, 6, 8), False),
    ],
)
def test_heads_are_repeated_one_after_another(
    shape: Any, axis: int, expanded: Any, merged: Any, is_repeat: bool
) -> None:
    graph = make_graph(x=shape)
    copies = graph.make_node("Unsqueeze", ["x", ints(graph, axis)])
    copies = graph.make_node("Expand", [copies, ints(graph, *(max(d, 1) for d in expanded))])
    heads = graph.make_node("Reshape", [copies, ints(graph, *merged)])
    assert attention.heads_before_repeat(graph, heads) == ("x" if is_repeat else heads)


def ops(builder: GraphBuilder) -> list[str]:
    return [node.op_type for node in builder.nodes]


def apply_rules(builder: GraphBuilder) -> None:
    rewrite_graph(builder, rule_selection.select_rules(SHAPES))
    builder.remove_unused()


def ints(builder: GraphBuilder, *values: int) -> str:
    return builder.make_initializer("", np.array(values, dtype=np.int64))


@pytest.mark.parametrize(
    ("before", "after", "view"),
    [
        ((N, 12), (N, 12), ("Identity", [], None)),
        ((N, 12), (N, 3, 4), ("Reshape", [-1, 3, 4], None)),
        ((N, M, 12), (N, M, 3, 4), ("Reshape", [0, 0, 3, 4], None)),
        ((N, M), (1, N, M, 1), ("Unsqueeze", [0, 3], None)),
        ((1, N, M, 1), (N, M, 1), ("Squeeze", [0], None)),
        ((0, 3), (3, 0), ("Reshape", [3, 0], 1)),
        ((2, 6), (3, 4), ("Reshape", [3, 4], None)),
        ((2 * N, 3), (N, 6), ("Reshape", [-1, 6], None)),
    ],
    ids=str,
)
def test_a_view_that_needs_no_sizes_at_run_time(before, after, view) -> None:
    graph = make_graph(x=before, y=after)
    assert views.view_to(graph, "x", graph.get_shape("y")) == view


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((N, M), (M, N)),  # neither size stays in its position
        ((N, 4, M), (N, 2, 2, M)),  # n may be 0, and then -1 is not m
        ((N, M, 0), (N, 0, M)),  # 0 would mean both an empty axis and a copied size
    ],
    ids=str,
)
def test_a_view_that_needs_sizes_at_run_time(before, after) -> None:
    graph = make_graph(x=before, y=after)
    assert views.view_to(graph, "x", graph.get_shape("y")) is None


def test_a_size_of_one_or_more_may_stand_beside_a_hole() -> None:
    batch = dims.make_symbol("batch", 1)
    graph = make_graph(x=(batch, 4, M), y=(batch, 2, 2, M))
    assert views.view_to(graph, "x", graph.get_shape("y")) == ("Reshape", [0, 2, 2, -1], None)


def test_half_of_a_size_twice_is_not_the_size() -> None:
    even_size = 2 * (N // 2)
    graph = make_graph(x=(N,), y=(even_size,))
    assert views.view_to(graph, "x", graph.get_shape("y")) != ("Identity", [], None)
    sliced = graph.op.Slice("x", ints(graph, 0), graph.dim_as_vector(even_size), ints(graph, 0))
    graph.make_tensor_output(graph.op.Neg(sliced))
    apply_rules(graph)
    assert "Slice" in ops(graph)
    assert ModelRunner(make_checked_model(graph))({"x": torch.ones(7), "y": torch.ones(6)})[
        0
    ].shape == (6,)


def test_targets_that_may_copy() -> None:
    graph = make_graph(x=(N, M))
    copies = views.may_copy_dims
    assert not copies(graph, ints(graph, 2, -1), 0)
    assert copies(graph, ints(graph, 0, 2), 0)
    assert not copies(graph, ints(graph, 0, 2), 1)
    assert copies(graph, graph.op.Shape("x"), 0)
    assert not copies(graph, graph.op.Shape("x"), 1)


@pytest.mark.parametrize("size", [0, 1, 2, 5, 9])
def test_spans_inside_spans_are_what_python_cuts(size: int) -> None:
    """Compare with Python's slices, on static axes and on dynamic ones with a known answer."""
    row = list(range(size))
    last = slices._AXIS_END
    dynamic_count = 0
    for first in ((0, last), (1, last), (2, 4), (0, -1), (1, -2), (-3, last), (-3, -1)):
        for second in ((0, 2), (1, last), (0, -1), (-2, last), (3, 1)):
            outer, inner = slices.Span(*first), slices.Span(*second)
            expected = row[slice(*first)][slice(*second)]
            composed = slices._compose_spans(outer, inner, size)
            assert composed is not None and row[slice(*composed)] == expected
            dynamic = slices._compose_spans(outer, inner, N)
            if dynamic is not None:
                assert row[slice(*dynamic)] == expected, (first, second)
                dynamic_count += 1
    assert dynamic_count > 8


def test_bounds_that_may_lie_outside_a_dynamic_axis_are_not_known() -> None:
    bounds = slices._known_bounds
    last = slices._AXIS_END
    assert bounds(slices.Span(0, last), N) == (0, N)
    assert bounds(slices.Span(0, 3), N) is None
    assert bounds(slices.Span(1, last), N) is None
    assert bounds(slices.Span(1, last), N + 1) == (1, N + 1)
    assert bounds(slices.Span(0, -1), N + 1) == (0, N)
    assert bounds(slices.Span(4, 2), 8) == (4, 4)


def test_one_place_is_not_taken_where_there_may_be_none() -> None:
    """Slice clamps its bounds, while Gather rejects an index out of range."""
    graph = make_graph(x=(N, 2))
    sliced = graph.op.Slice("x", ints(graph, 0), ints(graph, 1), ints(graph, 0))
    graph.set_shape(sliced, (1, 2))
    graph.make_tensor_output(graph.op.Squeeze(sliced, ints(graph, 0)))
    apply_rules(graph)
    assert ops(graph) == ["Slice", "Squeeze"]


def test_broadcasting_is_proved_not_assumed() -> None:
    broadcast_gives = shapes._broadcast_gives
    assert broadcast_gives([(1, 3), (N, 1)], (N, 3))
    assert not broadcast_gives([(1, 3), (M, 1)], (N, 3))  # m may be n or 1
    assert not broadcast_gives([(3,), (3,)], (1, 3))
    assert not broadcast_gives([(1, 3)], (N, 3))


def test_numbers_that_wrap_around_are_no_sizes() -> None:
    graph = make_graph(x=(2**20, 2**20))
    size = graph.op.Cast(graph.op.Shape("x", start=0, end=1), to=dtypes.int32)
    graph.make_tensor_output(graph.op.Mul(size, size))
    apply_rules(graph)
    assert ops(graph) == ["Mul"]  # the square is 2**40, which is no int32; 2**20 is a constant


def add_attention_heads(builder: GraphBuilder) -> None:
    """Add a Gemm over rows, then split and merge heads, as in the attention of GPT-2."""
    shape = builder.op.Shape("x", start=0, end=2)
    rows = builder.op.Reshape("x", ints(builder, -1, 4))
    weight = builder.make_initializer("w", np.arange(24, dtype=np.float32).reshape(4, 6))
    bias = builder.make_initializer("b", np.arange(6, dtype=np.float32))
    product = builder.op.Gemm(rows, weight, bias)
    target = builder.op.Concat(shape, ints(builder, 6), axis=0)
    linear = builder.op.Reshape(product, target, allowzero=1)
    split = builder.op.Concat(shape, ints(builder, 2, 3), axis=0)
    heads = builder.op.Transpose(builder.op.Reshape(linear, split, allowzero=1), perm=[0, 2, 1, 3])
    restored = builder.op.Transpose(builder.op.Relu(heads), perm=[0, 2, 1, 3])
    builder.make_tensor_output(builder.op.Reshape(restored, target, allowzero=1, outputs=["y"]))


@pytest.mark.parametrize("sizes", [(2, 3), (1, 1), (1, 5), (0, 3), (2, 0)], ids=str)
def test_heads_apart_and_together_at_any_size(sizes: tuple[int, int]) -> None:
    before, after = make_graph(x=(N, M, 4)), make_graph(x=(N, M, 4))
    add_attention_heads(before)
    add_attention_heads(after)
    apply_rules(after)
    assert ops(after) == ["MatMul", "Add", "Relu"]
    x = torch.randn(*sizes, 4)
    results = ModelRunner(make_checked_model(after))({"x": x})
    assert results[0].shape == (*sizes, 6)
    if 0 not in sizes:  # some versions reject a Gemm without rows
        check_same_values(ModelRunner(make_checked_model(before))({"x": x}), results, 1e-5)
    weight, bias = torch.arange(24.0).reshape(4, 6), torch.arange(6.0)
    expected = torch.relu(x @ weight + bias)
    torch.testing.assert_close(results[0], expected, rtol=1e-5, atol=1e-4)
