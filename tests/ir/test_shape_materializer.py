"""Dimensions as results: the emitted nodes compute the same values as Python."""

from __future__ import annotations

import numpy as np
import pytest

from ortable import GraphBuilder, dims, dtypes
from ortable.errors import BuilderError

A, B = dims.make_symbol("a"), dims.make_symbol("b")


def make_builder(opset=18):
    builder = GraphBuilder(opset)
    builder.make_tensor_input("x", dtypes.float32, ("a", "b", 3))
    return builder


def evaluate(ort, builder, name, a=7, b=2):
    builder.make_tensor_output(name)
    return ort(builder, {"x": np.zeros((a, b, 3), dtype=np.float32)})[0].tolist()


EXPRESSIONS = [
    A,
    2 * A,
    A + 1,
    A - B,
    B - A,
    -A,
    5 - A,
    A * B,
    A * A * B - 3,
    A // 2,
    2 * (A // 2),
    (A + 1) // 2,
    (A - 10) // 3,
    (B - A) // B,
    (B - A) % 3,
    A % B,
    A // (B + 1),
    A // (B - 5),
    (A - 20) // (B - 5),
    dims.max_of(A, B, 4),
    dims.min_of(A, B) + 2 * dims.max_of(A - 9, 0),
    dims.ceil_div(A, 4),
]


@pytest.mark.parametrize("opset", [18, 26])
def test_expressions_equal_python(ort, opset):
    builder = make_builder(opset)
    names = [builder.dim_as_vector(dim) for dim in EXPRESSIONS]
    outputs = [builder.make_node("Identity", [n], [f"out_{i}"]) for i, n in enumerate(names)]
    builder.make_tensor_output(outputs)
    for a, b in ((7, 2), (3, 4), (1, 1)):
        results = ort(builder, {"x": np.zeros((a, b, 3), dtype=np.float32)})
        for dim, array in zip(EXPRESSIONS, results, strict=True):
            assert array.tolist() == [dims.evaluate_dim(dim, {"a": a, "b": b})], dim
            assert array.dtype == np.int64


def test_known_contents_of_computed_dimensions():
    builder = make_builder()
    assert builder.value_shape(builder.dim_as_vector(2 * A + B)) == (2 * A + B,)
    assert builder.value_shape(builder.shape_as_vector((A, 4, 2 * B))) == (A, 4, 2 * B)


def test_vectors_and_shapes_are_made_once():
    builder = make_builder()
    first = builder.dim_as_vector(2 * A + 1)
    count = len(builder.nodes)
    assert builder.dim_as_vector(2 * A + 1) == first
    shape = builder.shape_as_vector((A, 2 * A + 1))
    assert builder.shape_as_vector((A, 2 * A + 1)) == shape
    assert builder.dim_as_vector("a") == builder.dim_as_vector(A)
    assert [n.op_type for n in builder.nodes[count:]] == ["Concat"]


def test_all_int_shapes_are_one_initializer():
    builder = make_builder()
    name = builder.shape_as_vector((2, 3))
    assert name == "init7_s2_2_3"
    assert builder.nodes == []
    assert builder.get_constant(name).tolist() == [2, 3]
    assert builder.value_shape(name) == (2, 3)
    assert builder.get_constant(builder.shape_as_vector(())).shape == (0,)
    assert builder.make_shape_from_results((2, -1)) == "init7_s2_2_-1"


def test_adjacent_ints_and_adjacent_axes_are_one_piece(ort):
    builder = make_builder()
    name = builder.shape_as_vector((A, B, 1, 1, A))
    shapes = [n for n in builder.nodes if n.op_type == "Shape"]
    assert [(n.attrs["start"], n.attrs["end"]) for n in shapes] == [(0, 2), (0, 1)]
    assert builder.nodes[-1].op_type == "Concat" and len(builder.nodes[-1].inputs) == 3
    assert evaluate(ort, builder, name) == [7, 2, 1, 1, 7]


def test_make_shape_from_results_mixes_everything(ort):
    builder = make_builder()
    size = builder.make_node("Size", ["x"])
    small = builder.make_node("Cast", [builder.dim_as_vector(B)], to=dtypes.int32)
    name = builder.make_shape_from_results((2, "a", size, A + 1, small, 5, 6))
    assert builder.make_shape_from_results((2, "a", size, A + 1, small, 5, 6)) == name
    assert evaluate(ort, builder, name) == [2, 7, 42, 8, 2, 5, 6]


def test_make_shape_from_results_of_torch_symints(ort):
    import torch

    class Model(torch.nn.Module):
        def forward(self, x):
            return x.reshape(-1)

    dynamic = {"x": {0: torch.export.Dim("rows"), 1: torch.export.Dim("cols")}}
    ep = torch.export.export(Model(), (torch.zeros(4, 5, 3),), dynamic_shapes=dynamic)
    meta = next(n for n in ep.graph.nodes if n.op == "placeholder").meta["val"]
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, meta.shape)
    name = builder.make_shape_from_results((meta.shape[0] * meta.shape[1], 3))
    assert evaluate(ort, builder, name, 7, 2) == [14, 3]


def test_a_symbol_nothing_has_is_named_with_the_remedy():
    builder = make_builder()
    with pytest.raises(
        BuilderError, match=r"No result of the graph has dimension 'zz' \(known: a, b\)"
    ):
        builder.dim_as_vector(dims.make_symbol("zz") + 1)
    with pytest.raises(
        BuilderError, match=r"'zz' in shape .* is neither a result nor a known dimension"
    ):
        builder.make_shape_from_results(("zz", 2))
    with pytest.raises(BuilderError, match="add_dim_source"):
        builder.shape_as_vector((dims.make_symbol("zz"),))


def test_dimension_inputs_hold_their_symbol(ort):
    builder = GraphBuilder(18)
    builder.make_tensor_input("n", dtypes.int64, (1,), is_dimension=True)
    builder.make_tensor_input("m_input", dtypes.int64, (dims.make_symbol("m"),), is_dimension=True)
    builder.make_tensor_input("s", dtypes.int64, (), is_dimension=True)
    name = builder.shape_as_vector(
        (dims.make_symbol("n"), dims.make_symbol("m") + 1, dims.make_symbol("s"))
    )
    builder.make_tensor_output(name)
    feeds = {"n": np.array([3]), "m_input": np.array([4]), "s": np.array(5)}
    assert ort(builder, feeds)[0].tolist() == [3, 5, 5]
    with pytest.raises(BuilderError, match="is a dimension: its type must be int64, not float32"):
        builder.make_tensor_input("f", dtypes.float32, (1,), is_dimension=True)
    with pytest.raises(BuilderError, match=r"its shape must be \(1,\) or \(\), not \(1, 1\)"):
        builder.make_tensor_input("g", dtypes.int64, (1, 1), is_dimension=True)
    result = builder.make_node("Cast", ["n"], to=dtypes.float32)
    with pytest.raises(BuilderError, match="is a dimension: its type must be int64"):
        builder.make_tensor_output(result, is_dimension=True)


def test_a_symbol_seen_only_inside_an_expression_is_solved(ort):
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (2 * A + 1,))
    name = builder.shape_as_vector((A, 2 * A + 1, A * A))
    builder.make_tensor_output(name)
    assert ort(builder, {"x": np.zeros(9, dtype=np.float32)})[0].tolist() == [4, 9, 16]


def test_the_content_of_a_result_is_a_source(ort):
    builder = make_builder()
    count = builder.make_node("Cast", [builder.make_node("ReduceSum", ["x"], keepdims=0)], to=7)
    builder.add_dim_source("u0", count, None)
    name = builder.dim_as_vector(dims.make_symbol("u0") + 1)
    assert evaluate(ort, builder, name) == [1]
    other = builder.make_node("Size", ["x"])
    builder.set_value_shape(other, dims.make_symbol("u1"))
    assert builder.get_rank(builder.dim_as_vector("u1")) == 1


def test_sizes_of_a_result_that_set_shape_names_can_be_read(ort):
    builder = make_builder()
    picked = builder.make_node(
        "Compress", ["x", builder.make_initializer("", [True, False])], axis=0
    )
    builder.set_shape(picked, ("u2", "b", 3))
    assert evaluate(ort, builder, builder.dim_as_vector("u2")) == [1]


@pytest.mark.parametrize(
    ("result", "axis", "description"),
    [
        ("x", 3, r"axis 3 of x: float32\["),
        ("x", -1, r"axis -1 of x: float32\["),
        ("x", None, r"the content of x: float32\["),
        ("two", None, r"the content of two: int64\[2\] = \(1, 2\)"),
        ("half", None, r"the content of half: int32\[\]"),
    ],
)
def test_what_cannot_hold_a_dimension(result: str, axis: int | None, description: str) -> None:
    builder = make_builder()
    builder.make_initializer("two", [1, 2])
    builder.make_initializer("half", np.int32(1))
    with pytest.raises(BuilderError, match=f"^Dimension 'q' cannot be {description}"):
        builder.add_dim_source("q", result, axis)
    with pytest.raises(BuilderError, match="No result of the graph has dimension 'q'"):
        builder.dim_as_vector("q")


@pytest.mark.parametrize("axis", [0, 7, None])
def test_a_result_of_unknown_type_may_hold_a_dimension(axis: int | None) -> None:
    builder = make_builder()
    builder.add_dim_source("q", builder.make_node("Thing", ["x"], domain="mine"), axis)
    assert builder.has_name(builder.dim_as_vector("q"))


def test_a_number_of_another_type_is_no_size() -> None:
    builder = GraphBuilder(18)
    for name, dtype in (("n", dtypes.int64), ("m", dtypes.int32)):
        builder.make_tensor_input(name, dtype, ())
        builder.materializer.add_source(name, name, None)
    assert builder.materializer.find_scalar(dims.make_symbol("n")) == "n"
    assert builder.materializer.find_scalar(dims.make_symbol("m")) is None
