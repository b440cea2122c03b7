"""The public interface of GraphBuilder: help, repr, and dimensions that equal their names."""

from __future__ import annotations

import copy
import pickle
import pydoc
import re
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from ortable import GraphBuilder, dims
from ortable.builder import LargeModel
from ortable.errors import BuilderError

FLOAT = TensorProto.FLOAT
PAGE = Path(__file__).resolve().parents[2] / "docs" / "graph-builder.md"


@pytest.fixture
def gr() -> GraphBuilder:
    graph = GraphBuilder(18)
    graph.make_tensor_input("x", FLOAT, ("a", 3))
    graph.make_initializer("w", np.ones((3, 2), dtype=np.float32))
    graph.make_tensor_output(graph.make_node("MatMul", ["x", "w"], ["y"]))
    return graph


def test_help_is_about_the_builder_and_prints_no_table_of_kernels() -> None:
    text = pydoc.plain(pydoc.render_doc(GraphBuilder))
    assert len(text) < 24_000
    assert max(map(len, text.splitlines())) < 600, "a signature contains a table"
    assert "kernel_table: casts.KernelTable | None = None" in text.replace("'", "")
    for name in ("uses", "replace_uses", "erase", "insert_before", "rename"):
        assert f" {name}(" in text


def test_listed_methods_are_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in ("get_opset", "add_function", "get_attribute", "make_shape_from_results"):
        assert hasattr(GraphBuilder, name) and name in text
    for name in ("value_shape", "constants_", "known_shapes", "uses", "outdate_uses", "rename"):
        assert hasattr(GraphBuilder, name) and re.search(rf"`{name}\b", text)


def test_repr_counts_what_the_graph_has(gr: GraphBuilder) -> None:
    expected = "GraphBuilder(opset 18: 1 input, 1 output, 1 node, 1 initializer)"
    assert repr(gr) == str(gr) == expected
    empty = "GraphBuilder('then', opset 18: 0 inputs, 0 outputs, 0 nodes, 0 initializers)"
    assert repr(gr.subgraph("then")) == empty


def test_repr_of_a_large_model_has_sizes_and_no_bytes(gr: GraphBuilder) -> None:
    large = gr.to_onnx(large_model=True, external_threshold=8)
    assert isinstance(large, LargeModel)
    assert repr(large) == "LargeModel(1 nodes, 1 tensor of 24 bytes outside of the proto)"


def test_shapes_equal_tuples_of_names_and_ints(gr: GraphBuilder) -> None:
    assert gr.get_shape("x") == ("a", 3)
    assert gr.get_shape("y") == ("a", 2)
    assert gr.get_shape("y") == ("a", 2)
    assert gr.get_shape("y") != ("b", 2)
    assert gr.get_shape("y") != ("a", 3)
    assert gr.get_shape("y") != ("a",)
    assert gr.get_shape("y") != ("A", 2)


def test_a_dimension_equals_its_text_from_both_sides_with_one_hash() -> None:
    a, b = dims.make_symbol("a"), dims.make_symbol("b")
    for dim, text in ((a, "a"), (a + b, "a + b"), (2 * a, "2*a"), (a // 2, "a//2")):
        assert str(dim) == text
        assert dim == text and text == dim
        assert (dim != text) is False and (text != dim) is False
        assert hash(dim) == hash(text)
        assert {dim: 1}[text] == 1 and {text: 1}[dim] == 1 and text in {dim} and dim in [text]
    assert a != "b" and a != "b" and a != "" and a != "a " and a not in {"b": 1}
    assert a != 1 and a != 1.0 and a is not None and a != ("a",) and a != b"a"


def test_dimensions_equal_one_another_as_polynomials_only() -> None:
    a, bounded = dims.make_symbol("a"), dims.make_symbol("a", 2)
    assert a == dims.make_symbol("a") and a + 1 == 1 + a and a + 1 != a
    assert str(a) == str(bounded) and a != bounded and bounded == "a"
    assert len({a, bounded}) == 2
    assert {a: 1, bounded: 2}[bounded] == 2
    assert pickle.loads(pickle.dumps(a + 1)) == a + 1 and copy.deepcopy(a) == a


def test_the_algebra_takes_a_dimension_for_no_text() -> None:
    a, b = dims.make_symbol("a"), dims.make_symbol("b")
    for result in (a + b, a * b, a // b, a % b, b // a, b % a):  # fill the caches
        assert result != a
    for operation in (
        lambda: a + "b",
        lambda: a * "b",
        lambda: a // "b",
        lambda: a % "b",
        lambda: "b" + a,
        lambda: "b" // a,
        lambda: a - "b",
    ):
        with pytest.raises(TypeError):
            operation()
    assert dims.floor_div(7, 2) == 3 and dims.floor_mod(7, 4) == 3


def test_a_result_that_has_the_name_of_a_dimension_is_another_thing() -> None:
    graph = GraphBuilder(18)
    graph.make_tensor_input("x", FLOAT, ("n", 3))
    graph.make_tensor_input("n", TensorProto.INT64, (1,))
    graph.make_tensor_output(graph.make_node("Relu", ["x"]))
    size = graph.get_shape("x")[0]
    from_dimension = graph.make_shape_from_results((size, 3))
    from_result = graph.make_shape_from_results(("n", 3))
    assert from_dimension != from_result
    assert graph.make_shape_from_results(("n", 3)) == from_result
    assert graph.value_shape(from_dimension) == ("n", 3)
    assert graph.value_shape(from_result) is None
    with pytest.raises(BuilderError, match="neither a result nor"):
        graph.make_shape_from_results(("zz", 3))
