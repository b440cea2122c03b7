"""`make_node`: names, inference, checks against the ONNX schema, messages."""

from __future__ import annotations

import numpy as np
import pytest

from ortable import GraphBuilder, dtypes
from ortable.errors import BuilderError


@pytest.fixture
def gr():
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, ("a", 3))
    builder.make_tensor_input("d", dtypes.float64, ("a", 3))
    builder.make_tensor_input("i", dtypes.int64, ("a",))
    return builder


def test_automatic_names_are_unique(gr):
    names = [gr.make_node("Relu", ["x"]) for _ in range(3)]
    assert names == ["_onx_relu0", "_onx_relu02", "_onx_relu03"]
    assert [n.name for n in gr.nodes] == ["Relu", "Relu2", "Relu3"]


def test_an_automatic_name_avoids_names_the_user_chose(gr):
    gr.make_node("Relu", ["x"], ["_onx_add0"])
    assert gr.make_node("Add", ["x", "x"]) == "_onx_add02"


def test_several_outputs_and_unused_ones(gr):
    a, b, c = gr.make_node("Split", ["x"], 3, axis=1, num_outputs=3)
    assert [gr.get_shape(n)[1] for n in (a, b, c)] == [1, 1, 1]
    outputs = gr.make_node("MaxPool", [_make_image(gr)], ["", "indices"], kernel_shape=[1, 1])
    assert outputs[1] == "indices"
    assert outputs[0] != ""  # required by the schema of MaxPool
    outputs = gr.make_node("MaxPool", [_make_image(gr)], ["pooled", ""], kernel_shape=[1, 1])
    assert outputs == ("pooled", "")
    assert gr.get_type("indices") == dtypes.int64


def _make_image(gr):
    return gr.make_initializer("", np.zeros((1, 1, 2, 2), dtype=np.float32))


def test_omitted_inputs_are_empty_names_and_trailing_ones_vanish(gr):
    out = gr.make_node("Clip", ["x", None, gr.make_initializer("", np.float32(1)), None])
    assert gr.nodes[-1].inputs[1] == ""
    assert len(gr.nodes[-1].inputs) == 3
    assert gr.get_shape(out) == gr.get_shape("x")


def test_attributes_that_are_none_are_left_out(gr):
    gr.make_node("Softmax", ["x"], axis=None)
    assert gr.nodes[-1].attrs == {}


def test_every_result_has_type_and_shape_when_made(gr):
    shape = gr.make_node("Shape", ["x"])
    assert gr.get_type(shape) == dtypes.int64
    assert [str(d) for d in gr.value_shape(shape)] == ["a", "3"]
    first = gr.make_node("Gather", [shape, gr.make_initializer("", 0)])
    assert str(gr.value_shape(first)) == "a"
    assert gr.get_rank(first) == 0


def test_two_types_for_one_parameter_are_refused_with_both_names(gr):
    with pytest.raises(BuilderError, match=r"inputs 'x' \(float32\) and 'd' \(float64\) must have"):
        gr.make_node("Add", ["x", "d"])


def test_a_type_that_onnx_does_not_allow_is_refused(gr):
    flag = gr.make_node("Greater", ["x", "x"])
    with pytest.raises(BuilderError, match=r"input A \('_onx_greater0'\) is bool, ONNX allows"):
        gr.make_node("Mul", [flag, flag])
    with pytest.raises(BuilderError, match=r"must be int64, not float32"):
        gr.make_node("Reshape", ["x", "x"])


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "message"),
    [
        ("Nonsense", ["x"], {}, "Operator 'Nonsense' does not exist in domain '' at opset 18"),
        ("RMSNormalization", ["x", "x"], {}, "it starts with opset 23"),
        ("Relu", ["x", "x"], {}, "it takes 1 inputs, 2 are given"),
        ("Gemm", ["x", "x"], {"aplha": 1.0}, "it has no attribute 'aplha'; its attributes are"),
        ("Cast", ["x"], {}, "attribute 'to' is required"),
        ("Transpose", ["x"], {"perm": [0, 1, 2]}, "perm [0, 1, 2] is not a permutation"),
        ("Upsample", ["x", "x"], {}, "is deprecated since opset 10; use the operators that"),
        ("Transpose", ["x"], {"perm": 1}, "perm=1) -> _onx_transpose0 must be INTS: 'int' object"),
        ("Transpose", ["x"], {"perm": ["a", "b"]}, "'a' is not an integer"),
        ("Einsum", ["x"], {"equation": 3}, "Attribute equation=3 of node Einsum(x"),
    ],
)
def test_what_the_schema_or_a_rule_refuses(gr, op_type, inputs, attrs, message):
    with pytest.raises(BuilderError) as caught:
        gr.make_node(op_type, inputs, name="here", **attrs)
    text = str(caught.value)
    assert message in text
    assert "x: float32[a, 3]" in text
    assert "name='here'" in text
    assert "--DEBUG--" in text


def test_shapes_that_cannot_broadcast_show_both(gr):
    w = gr.make_initializer("w", np.zeros((4,), dtype=np.float32))
    with pytest.raises(BuilderError, match=r"x: float32\[a, 3\]; w: float32\[4\]"):
        gr.make_node("Add", ["x", w])


@pytest.mark.parametrize("outputs", [0, -1])
def test_a_number_of_outputs_that_cannot_be(gr, outputs):
    with pytest.raises(BuilderError, match=f"Operator 'Relu' cannot have {outputs} outputs"):
        gr.make_node("Relu", ["x"], outputs)


def test_a_failed_node_leaves_the_graph_as_it_was(gr):
    with pytest.raises(BuilderError):
        gr.make_node("Add", ["x", "d"], ["sum"])
    assert gr.nodes == []
    assert not gr.has_name("sum")
    assert gr.make_node("Add", ["x", "x"], ["sum"]) == "sum"


def test_an_output_name_is_used_once(gr):
    gr.make_node("Relu", ["x"], ["y"])
    with pytest.raises(BuilderError, match="Output 'y' of operator 'Relu' is already the name"):
        gr.make_node("Relu", ["x"], ["y"])
    with pytest.raises(BuilderError, match="Output 'x'"):
        gr.make_node("Relu", ["x"], "x")


def test_other_domains_are_opened_and_not_checked(gr):
    out = gr.make_node("Thing", ["x"], domain="my.domain", anything=3)
    assert gr.opsets["my.domain"] == 1
    assert not gr.has_type(out)
    assert gr.make_node("Relu", ["x"], domain="ai.onnx")
    assert "ai.onnx" not in gr.opsets


def test_set_shape_refuses_what_is_provably_another_shape(gr):
    y = gr.make_node("Relu", ["x"], ["y"])
    with pytest.raises(BuilderError, match=r"Shape of 'y' cannot be set to \('a', 4\)"):
        gr.set_shape(y, ("a", 4))
    with pytest.raises(BuilderError, match="its rank is 2"):
        gr.set_shape(y, (3,))
    with pytest.raises(BuilderError, match="'y' is float32: its type cannot be set to int64"):
        gr.set_type(y, dtypes.int64)
    gr.set_shape(y, ("batch", "n"))
    assert [str(d) for d in gr.get_shape(y)] == ["batch", "3"]


def test_questions_about_unknown_results_are_builder_errors(gr):
    for getter in (gr.get_type, gr.get_shape, gr.get_rank, gr.value_shape, gr.has_type):
        with pytest.raises(BuilderError, match="The graph has no result 'nope'"):
            getter("nope")
    out = gr.make_node("Thing", ["x"], domain="my.domain")
    with pytest.raises(BuilderError, match="Type is unknown for result"):
        gr.get_type(out)
    with pytest.raises(BuilderError, match="Rank is unknown for result"):
        gr.get_rank(out)
    for rank in (-1, "2", 2.0):
        with pytest.raises(BuilderError, match=f"{rank!r} is not a valid rank for '{out}'"):
            gr.set_rank(out, rank)
    gr.set_rank(out, 2)
    with pytest.raises(BuilderError, match=f"'{out}' has rank 2: its rank cannot be set to 3"):
        gr.set_rank(out, 3)
    with pytest.raises(AttributeError, match="'Ops' object has no attribute '_relu'"):
        gr.op._relu("x")


def test_op_shortcut_takes_values_and_outputs(gr):
    y = gr.op.Add("x", np.ones((3,), dtype=np.float32), outputs=["y"], name="plus")
    assert y == "y" and gr.nodes[-1].name == "plus"
    values, indices = gr.op.TopK(y, [1], outputs=2)
    assert gr.get_shape(values)[1] == 1 and gr.get_type(indices) == dtypes.int64
    assert gr.op.Fused(y, domain="com.microsoft")


def test_get_attribute_reads_nodes_and_protos(gr):
    gr.make_node("Softmax", ["x"], ["y"], axis=-1)
    gr.make_tensor_output("y")
    proto = gr.to_onnx().graph.node[0]
    assert gr.get_attribute(gr.nodes[0], "axis") == -1
    assert gr.get_attribute(proto, "axis").i == -1
    assert gr.get_attribute(proto, "other", exc=False) is None
    with pytest.raises(BuilderError, match="has no attribute 'other'"):
        gr.get_attribute(proto, "other")


@pytest.mark.parametrize("opsets", [{"": 18, "com.microsoft": 1}, {"com.microsoft": 1}])
def test_opset_dictionary(opsets):
    builder = GraphBuilder(opsets)
    assert builder.opset == 18
    assert builder.get_opset("com.microsoft") == 1
    with pytest.raises(BuilderError, match=r"Domain 'ai.onnx.ml' has no opset in this graph"):
        builder.get_opset("ai.onnx.ml")


def test_opsets_the_target_cannot_run_are_refused_by_name():
    assert GraphBuilder(26, target="onnxruntime").opset == 26
    with pytest.raises(BuilderError, match="Opset 27 cannot run in ONNX Runtime"):
        GraphBuilder(27, target="onnxruntime")
    with pytest.raises(BuilderError, match="Opset 99 is unknown to the installed onnx"):
        GraphBuilder(99)
    with pytest.raises(BuilderError, match="Opset 0 is unknown to the installed onnx"):
        GraphBuilder(0)
    with pytest.raises(BuilderError, match=r"^Opset b.xx.{,99} or a model as a ModelProto\.$"):
        GraphBuilder(b"x" * 9999)
    with pytest.raises(BuilderError, match="Unknown target 'cpu'"):
        GraphBuilder(18, target="cpu")


@pytest.mark.parametrize("version", ["18", 17.5, None, -1])
def test_a_version_that_is_none_is_refused_with_its_domain(version):
    with pytest.raises(BuilderError, match="domain '' is not a version: give an integer"):
        GraphBuilder(version)
    with pytest.raises(BuilderError, match=f"^Opset {version!r} of domain 'mine' is not a version"):
        GraphBuilder({"mine": version})


def test_the_main_domain_has_two_names_and_one_version():
    builder = GraphBuilder({"ai.onnx": 20})
    assert builder.opset == builder.get_opset("ai.onnx") == 20
    builder.make_tensor_input("x", dtypes.float32, (2,))
    builder.make_tensor_output(builder.make_node("Relu", ["x"]))
    (imported,) = builder.to_onnx().opset_import
    assert (imported.domain, imported.version) == ("", 20)
    assert GraphBuilder({"": 20, "ai.onnx": 20}).opsets == {"": 20}
    with pytest.raises(
        BuilderError, match=r"has the opsets 18 and 20 .*the same domain.*: give only one"
    ):
        GraphBuilder({"": 18, "ai.onnx": 20})
    with pytest.raises(BuilderError, match="Opset 99 is unknown to the installed onnx"):
        GraphBuilder({"ai.onnx": 99})


def test_inputs_with_unknown_sizes_ranks_and_indexed_names():
    builder = GraphBuilder(18)
    builder.make_tensor_input("input_0", dtypes.float32, (None, 3), indexed=True)
    builder.make_tensor_input("input_1", dtypes.float32, None, indexed=True)
    assert builder.get_rank("input_0") == 2
    assert not builder.has_rank("input_1")
    with pytest.raises(BuilderError, match="its name must end in '_<number>'"):
        builder.make_tensor_input("input", dtypes.float32, (1,), indexed=True)
    with pytest.raises(BuilderError, match="the graph already has a result of this name"):
        builder.make_tensor_input("input_0", dtypes.float32, (1,))
    with pytest.raises(BuilderError, match="-1 is not a size"):
        builder.make_tensor_input("z", dtypes.float32, (-1,))
    for name in ("", 3):
        with pytest.raises(BuilderError, match=f"must be a non-empty str, not {name!r}"):
            builder.make_tensor_input(name, dtypes.float32, (1,))
    for shape in ("ab", 3):
        with pytest.raises(BuilderError, match=f"{shape!r} is not a valid shape for 'z': give"):
            builder.make_tensor_input("z", dtypes.float32, shape)
    with pytest.raises(BuilderError, match="its type must be int64, not float32"):
        builder.make_tensor_input("z", dtypes.float32, (1,), is_dimension=True)
    assert [info.name for info in builder.inputs] == ["input_0", "input_1"]


@pytest.mark.parametrize("dtype", [99, -1, 1.0, True, "float", np.float32])
def test_types_that_are_none_of_onnx_are_refused(gr, dtype):
    result = gr.make_node("Thing", ["x"], domain="my.domain")
    message = "is not a valid type for '{}': give a number of onnx.TensorProto"
    with pytest.raises(BuilderError, match=message.format("z")):
        gr.make_tensor_input("z", dtype, (1,))
    for declare in (gr.make_tensor_output, gr.set_type):
        with pytest.raises(BuilderError, match=message.format(result)):
            declare(result, dtype)
    assert not gr.has_name("z") and not gr.has_type(result) and gr.outputs == []


def test_outputs_are_declared_once_with_a_type(gr):
    y = gr.make_node("Relu", ["x"], ["y"])
    gr.make_tensor_output(y)
    with pytest.raises(BuilderError, match="'y' is already an output"):
        gr.make_tensor_output(y)
    with pytest.raises(BuilderError, match="The graph has no result 'zz'"):
        gr.make_tensor_output("zz")
    untyped = gr.make_node("Thing", ["x"], domain="my.domain")
    with pytest.raises(BuilderError, match="Type is unknown for output"):
        gr.make_tensor_output(untyped)
    with pytest.raises(BuilderError, match=f"3 is not a valid shape for '{untyped}'"):
        gr.make_tensor_output(untyped, dtypes.float32, 3)
    assert gr.make_tensor_output([untyped], dtypes.float32) == [untyped]


def test_an_unwanted_output_that_is_not_optional_gets_a_name() -> None:
    builder = GraphBuilder(18)
    builder.make_tensor_input("X", dtypes.float32, (4, 2))
    sizes = builder.make_initializer("", np.array([2, 2], dtype=np.int64))
    builder.make_node("Split", ["X", sizes], ["", "Y"], axis=0)
    builder.make_tensor_output("Y")
    (node,) = builder.to_onnx().graph.node
    assert node.output[0] != ""
    assert node.output[1] == "Y"
