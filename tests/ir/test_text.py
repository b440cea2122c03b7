"""`pretty_onnx` prints one line per object, in the format of the documentation pages."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortable import pretty_onnx

_INTEGERS = helper.make_tensor_type_proto(TensorProto.INT64, None)


def _value(name, shape, elem_type=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, elem_type, shape)


def _model(nodes, inputs, outputs, initializers=(), **kwargs):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], **kwargs)


def test_forward_graph_reads_as_on_the_page():
    model = _model(
        [
            helper.make_node(
                "Gemm", ["x", "w", "b"], ["addmm"], transA=0, transB=1, alpha=1.0, beta=1.0
            ),
            helper.make_node("Relu", ["addmm"], ["r"]),
            helper.make_node("Gemm", ["r", "v"], ["output_0"], transB=1),
            helper.make_node("Transpose", ["v"], ["output_3"], perm=[1, 0]),
        ],
        [_value("x", [5, 10]), _value("w", [32, 10]), _value("b", [32]), _value("v", ["s0", 32])],
        [_value("output_0", [5, 1]), _value("output_3", None)],
        doc_string="large_model=False, inline=False, external_threshold=1024",
    )
    assert pretty_onnx(model).splitlines() == [
        "opset: domain='' version=18",
        "doc_string: large_model=False, inline=False, external_threshold=102...",
        "input: name='x' type=dtype('float32') shape=[5, 10]",
        "input: name='w' type=dtype('float32') shape=[32, 10]",
        "input: name='b' type=dtype('float32') shape=[32]",
        "input: name='v' type=dtype('float32') shape=['s0', 32]",
        "Gemm(x, w, b, alpha=1.00, beta=1.00, transA=0, transB=1) -> addmm",
        "  Relu(addmm) -> r",
        "    Gemm(r, v, transB=1) -> output_0",
        "Transpose(v, perm=[1,0]) -> output_3",
        "output: name='output_0' type=dtype('float32') shape=[5, 1]",
        "output: name='output_3' type=dtype('float32') shape=None",
    ]


def test_initializers_show_values_when_small():
    model = _model(
        [helper.make_node("Add", ["x", "c"], ["y"])],
        [_value("x", [1])],
        [_value("y", [1])],
        [
            numpy_helper.from_array(np.array([0], dtype=np.int64), "init7_s1_0"),
            numpy_helper.from_array(np.array([[0.4], [0.5], [0.6]], dtype=np.float32), "c"),
            numpy_helper.from_array(np.zeros((11,), dtype=np.float32), "big"),
        ],
    )
    lines = pretty_onnx(model).splitlines()
    assert "init: name='init7_s1_0' type=dtype('int64') shape=(1,) -- array([0])" in lines
    assert (
        "init: name='c' type=dtype('float32') shape=(3, 1) -- array([0.4, 0.5, 0.6], dtype=float32)"
        in lines
    )
    assert "init: name='big' type=dtype('float32') shape=(11,)" in lines
    assert "array([0., 0.," in pretty_onnx(model, shorten=False)


def test_only_consuming_the_line_above_indents():
    model = _model(
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Abs", ["a"], ["b"]),
            helper.make_node("Neg", ["a"], ["c"]),
        ],
        [_value("x", [1])],
        [_value("b", [1]), _value("c", [1])],
    )
    assert pretty_onnx(model).splitlines()[2:5] == [
        "Relu(x) -> a",
        "  Abs(a) -> b",
        "Neg(a) -> c",
    ]


@pytest.mark.parametrize(
    ("value_type", "text"),
    [
        (
            helper.make_tensor_type_proto(1, ["n", None, 0]),
            "type=dtype('float32') shape=['n', '?', 0]",
        ),
        (helper.make_tensor_type_proto(0, []), "type=None shape=[]"),
        (helper.make_optional_type_proto(_INTEGERS), "optional(type=dtype('int64') shape=None)"),
        (helper.make_sequence_type_proto(_INTEGERS), "sequence(type=dtype('int64') shape=None)"),
        (helper.make_map_type_proto(7, _INTEGERS), "type=map_type"),
    ],
)
def test_the_type_of_a_value_is_shown(value_type, text):
    assert pretty_onnx(helper.make_value_info("v", value_type)) == f"v: {text}"


def test_floats_keep_their_value():
    node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.001)
    assert pretty_onnx(node) == "LeakyRelu(x, alpha=0.001) -> y"


def test_attributes_can_be_left_out():
    node = helper.make_node("Gemm", ["a", "b"], ["y"], transB=1)
    assert pretty_onnx(node, with_attributes=False) == "Gemm(a, b) -> y"


def test_functions_and_subgraphs_have_sections():
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "b", [], [_value("n", [1])])
    function = helper.make_function(
        "local",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 18)],
    )
    model = _model(
        [
            helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
            helper.make_node("Twice", ["y"], ["z"], domain="local"),
        ],
        [_value("x", [1]), _value("c", [], TensorProto.BOOL)],
        [_value("z", [1])],
        functions=[function],
    )
    lines = pretty_onnx(model).splitlines()
    assert "If(c, else_branch=graph[1], then_branch=graph[1]) -> y" in lines
    assert "  ----- subgraph of If, attribute then_branch" in lines
    assert "  Neg(x) -> n" in lines
    assert "----- function name=Twice domain=local" in lines
    assert "  local.Twice(y) -> z" in lines


@pytest.mark.parametrize("form", ["bytes", "path"])
def test_bytes_and_paths_are_read(form, tmp_path):
    model = _model([helper.make_node("Relu", ["x"], ["y"])], [_value("x", [1])], [_value("y", [1])])
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    source = path if form == "path" else model.SerializeToString()
    assert pretty_onnx(source) == pretty_onnx(model)


def test_other_objects_are_refused_by_name():
    with pytest.raises(TypeError, match="int"):
        pretty_onnx(3)
