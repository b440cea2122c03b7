"""The GraphBuilder examples of the custom exporter's page give its results, names and messages."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from ortable import GraphBuilder
from ortable.errors import BuilderError

ROW = np.array([[0.4, 0.5, 0.6]], dtype=np.float32)


def start_graph(name="N1"):
    gr = GraphBuilder(18, ir_version=9)
    gr.make_tensor_input("X", TensorProto.FLOAT, ("a", "b"), is_dimension=False)
    weight = gr.make_initializer("", ROW.T)
    bias = gr.make_initializer("", ROW)
    mm = gr.make_node("MatMul", ["X", weight], name=name)
    return gr, mm, bias


def finish_graph(gr, out):
    with pytest.warns(UserWarning, match=r"declared with shape \('a',\), but the graph computes"):
        gr.make_tensor_output(out, TensorProto.FLOAT, ("a",), indexed=False, is_dimension=False)
    return gr.to_onnx()


def describe(onx):
    """Return the graph as on the page: names of results, without values."""
    nodes = [f"{n.op_type}({', '.join(n.input)}) -> {', '.join(n.output)}" for n in onx.graph.node]
    inits = [(i.name, tuple(i.dims)) for i in onx.graph.initializer]
    dims = [d.dim_param for d in onx.graph.output[0].type.tensor_type.shape.dim]
    return nodes, inits, (onx.graph.output[0].name, dims)


def run(onx, x):
    return ReferenceEvaluator(onx).run(None, {"X": x})[0]


def test_first_example():
    gr, mm, bias = start_graph("n")
    out = gr.make_node("Add", [mm, bias], ["Y"], name="n")
    onx = finish_graph(gr, out)
    x = np.random.rand(5, 3).astype(np.float32)
    np.testing.assert_allclose(run(onx, x), x @ ROW.T + ROW, rtol=1e-6)
    nodes, inits, output = describe(onx)
    assert nodes == [
        "MatMul(X, init1_s3x1_) -> _onx_matmul0",
        "Add(_onx_matmul0, init1_s1x3_) -> Y",
    ]
    assert inits == [("init1_s3x1_", (3, 1)), ("init1_s1x3_", (1, 3))]
    assert output == ("Y", ["a"])
    assert onx.doc_string == "large_model=False, inline=False, external_threshold=1024"
    assert [(x.domain, x.version) for x in onx.opset_import] == [("", 18)]
    assert onx.ir_version == 9
    dims = onx.graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param for d in dims] == ["a", "b"]


def test_first_example_views():
    gr, mm, bias = start_graph("n")
    finish_graph(gr, gr.make_node("Add", [mm, bias], ["Y"], name="n"))
    assert gr._known_shapes == {
        "X": ("a", "b"),
        "init1_s3x1_": (3, 1),
        "init1_s1x3_": (1, 3),
        "_onx_matmul0": ("a", 1),
        "Y": ("a", 3),
    }
    assert gr.constants_ == {"init1_s3x1_": None, "init1_s1x3_": None}
    assert list(gr.initializers_dict) == ["init1_s3x1_", "init1_s1x3_"]
    assert gr.initializers_dict["init1_s3x1_"].tolist() == ROW.T.tolist()
    assert gr._known_types == dict.fromkeys(gr._known_shapes, TensorProto.FLOAT)
    assert gr._known_ranks == {}


def split_message(error):
    """Return the lines of a message, with the tag of the builder replaced."""
    return [line.replace(find_builder_tag(error), "XYZ") for line in str(error).split("\n")]


def find_builder_tag(error):
    return str(error).split("[GraphBuilder-", 1)[1][:3]


def test_missing_input_names_the_node_and_shows_the_graph():
    gr, mm, _ = start_graph()
    with pytest.raises(BuilderError) as caught:
        gr.make_node("Add", [mm, "bias"], ["Y"], name="N2")
    lines = split_message(caught.value)
    assert lines[0] == (
        "Input 'bias' does not exist for operator 'Add', inputs=['_onx_matmul0', 'bias'], "
        "outputs=['Y'], name='N2' (XYZ)"
    )
    assert lines[1] == "--DEBUG--"
    assert lines[2].startswith(
        "[GraphBuilder-XYZ] Message starts, there are 2 initializers, 1 nodes"
    )
    assert "[GraphBuilder-XYZ.make_tensor_input] X[1:axb]" in lines
    assert (
        "[GraphBuilder-XYZ.make_initializer] "
        "init1_s3x1_[float32:float32:[0.4000000059604645, 0.5, 0.6000000238418579]]"
    ) in lines
    assert (
        "[GraphBuilder-XYZ.make_node] N1 [##:#] MatMul:['X', 'init1_s3x1_']->['_onx_matmul0']"
    ) in lines
    assert "_known_types={'X': 1, '_onx_matmul0': 1, 'init1_s1x3_': 1, 'init1_s3x1_': 1}" in lines
    assert lines[-1].startswith("[GraphBuilder-XYZ] Message completed")


def test_missing_input_after_set_type():
    gr, mm, _ = start_graph()
    gr.set_type(mm, TensorProto.FLOAT)
    with pytest.raises(BuilderError, match=r"Input 'bias' does not exist for operator 'Add'"):
        gr.make_node("Add", [mm, "bias"], ["Y"], name="N2")


def test_flags_say_what_is_known():
    gr = GraphBuilder(18)
    gr.make_tensor_input("X", TensorProto.FLOAT, ("a", "b"))
    unknown, ranked, typed = gr.make_node("Custom", ["X"], 3, domain="mine", name="N1")
    gr.set_type(ranked, TensorProto.FLOAT)
    gr.set_rank(ranked, 2)
    gr.set_type(typed, TensorProto.FLOAT)
    gr.make_node("Custom", [unknown, ranked, "X"], domain="mine", name="N2")
    message = gr.get_debug_msg()
    assert "N1 [#:-U-] mine::Custom:['X']->" in message
    assert "N2 [-U#:-] mine::Custom:" in message


def test_simplified_api():
    gr = GraphBuilder(18, ir_version=9)
    gr.make_tensor_input("X", TensorProto.FLOAT, ("a", "b"), is_dimension=False)
    mm = gr.op.MatMul("X", ROW.T)
    out = gr.op.Add(mm, ROW[0], outputs=["Y"])
    onx = finish_graph(gr, out)
    x = np.random.rand(5, 3).astype(np.float32)
    np.testing.assert_allclose(run(onx, x), x @ ROW.T + ROW, rtol=1e-6)
    nodes, inits, _ = describe(onx)
    assert nodes == ["MatMul(X, init1_s3x1_) -> _onx_matmul0", "Add(_onx_matmul0, init1_s3_) -> Y"]
    assert inits == [("init1_s3x1_", (3, 1)), ("init1_s3_", (3,))]


def test_a_converting_function_of_the_page():
    """Gemm takes output names and a name, as aten_addmm on the page passes them."""
    gr = GraphBuilder(18)
    for name, shape in (("a", (3,)), ("b", ("n", 4)), ("c", (4, 3))):
        gr.make_tensor_input(name, TensorProto.FLOAT, shape)
    res = gr.op.Gemm("b", "c", "a", alpha=2.0, beta=0.5, outputs=["addmm"], name="addmm")
    assert res == "addmm"
    gr.set_type(res, gr.get_type("b"))
    gr.set_rank(res, 2)
    assert gr._known_shapes["addmm"] == ("n", 3)
    assert gr.nodes[0].name == "addmm"


def test_copy_of_the_page_is_removed_or_cast():
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", TensorProto.FLOAT, (2,))
    gr.make_tensor_input("src", TensorProto.FLOAT16, (2,))
    same = gr.op.Identity("x", name="copy")
    cast = gr.op.CastLike("src", "x", name="copy")
    gr.make_tensor_output(gr.op.Add(same, cast, outputs=["y"]))
    onx = gr.to_onnx()
    assert [n.op_type for n in onx.graph.node] == ["CastLike", "Add"]
    assert list(onx.graph.node[1].input) == ["x", cast]


def test_the_public_views_follow_the_api_of_the_page():
    gr, mm, _ = start_graph()
    assert gr.get_opset("") == 18
    assert gr.has_type(mm) and gr.get_type(mm) == TensorProto.FLOAT
    assert gr.has_shape(mm) and gr.get_shape(mm)[1] == 1
    assert gr.has_rank(mm) and gr.get_rank(mm) == 2
    assert gr.is_constant("init1_s3x1_") and not gr.is_constant(mm)
    np.testing.assert_array_equal(gr.get_constant("init1_s3x1_"), ROW.T)
