"""A builder that starts from a ModelProto preserves the model and infers types and shapes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ortable import GraphBuilder, dtypes
from ortable.errors import BuilderError
from ortable.ir import constants

FLOAT = onnx.TensorProto.FLOAT


def make_model(nodes, inputs, outputs, initializers=(), opset=18, **options):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 2)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, **options)


def info(name, dtype=FLOAT, shape=("n", 3)):
    return helper.make_tensor_value_info(name, dtype, shape)


@pytest.fixture
def model():
    weight = numpy_helper.from_array(np.eye(3, dtype=np.float32), "w")
    then = helper.make_graph([helper.make_node("Neg", ["h"], ["t"])], "then", [], [info("t")])
    other = helper.make_graph([helper.make_node("Abs", ["h"], ["e"])], "else", [], [info("e")])
    node = helper.make_node("Gemm", ["x", "w"], ["h"], name="gemm", alpha=2.0)
    node.metadata_props.add(key="fx", value="addmm")
    nodes = [
        node,
        helper.make_node("If", ["c"], ["i"], then_branch=then, else_branch=other),
        helper.make_node("Thing", ["i"], ["k"], domain="mine", mode="fast", sizes=[1, 2]),
        helper.make_node("plus", ["k"], ["y"], domain="mine"),
    ]
    function = helper.make_function(
        "mine", "plus", ["a"], ["r"], [helper.make_node("Relu", ["a"], ["r"])],
        [helper.make_opsetid("", 18)],
    )  # fmt: skip
    inputs = [info("x"), info("c", onnx.TensorProto.BOOL, ())]
    result = make_model(nodes, inputs, [info("y")], [weight], functions=[function])
    result.graph.value_info.append(info("k", shape=("n", 7)))
    return result


def test_round_trip_keeps_everything(model):
    written = GraphBuilder(model).to_onnx(optimize=False)
    assert written.graph.node == model.graph.node
    assert written.graph.input == model.graph.input
    assert written.graph.output == model.graph.output
    assert written.graph.initializer == model.graph.initializer
    assert written.opset_import == model.opset_import
    assert written.functions == model.functions
    assert written.ir_version == model.ir_version


def test_types_and_shapes_are_inferred_and_read(model):
    gr = GraphBuilder(model)
    assert gr.known_shapes["h"] == ("n", 3)
    assert gr.known_shapes["k"] == ("n", 7)
    assert gr.get_type("k") == dtypes.float32
    assert gr.is_constant("w") and not gr.is_constant("h")
    assert gr.get_constant("w").shape == (3, 3)
    assert gr.nodes[0].attrs["alpha"] == 2.0
    assert gr.nodes[2].attrs == {"mode": "fast", "sizes": [1, 2]}


def test_names_captured_by_subgraphs_count_as_used(model):
    gr = GraphBuilder(model)
    gr.optimize()
    assert [n.op_type for n in gr.nodes] == ["Gemm", "If", "Thing", "plus"]


def test_reading_casts_nothing_and_new_nodes_can_follow(ort):
    nodes = [helper.make_node("Tanh", ["x"], ["y"])]
    bf16 = onnx.TensorProto.BFLOAT16
    gr = GraphBuilder(make_model(nodes, [info("x", bf16)], [info("y", bf16)]))
    assert [n.op_type for n in gr.nodes] == ["Tanh"]
    gr.make_tensor_output(gr.make_node("Cast", ["y"], ["z"], to=FLOAT))
    assert gr.get_shape("z") == gr.get_shape("x")
    assert gr.unique_name("y") == "y2"


def test_an_initializer_that_is_an_input_is_only_a_default():
    default = numpy_helper.from_array(np.ones(3, dtype=np.float32), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    gr = GraphBuilder(make_model(nodes, [info("x"), info("w", shape=(3,))], [info("y")], [default]))
    assert not gr.is_constant("w")
    model = gr.to_onnx()
    assert [i.name for i in model.graph.input] == ["x", "w"]
    assert [i.name for i in model.graph.initializer] == ["w"]
    x = np.zeros((1, 3), dtype=np.float32)
    assert ReferenceEvaluator(model).run(None, {"x": x})[0].tolist() == [[1, 1, 1]]


def test_sequences_and_empty_lists_are_written_as_they_were():
    sequence = helper.make_value_info(
        "s", helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    )
    nodes = [helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0)]
    custom = helper.make_node("Op", ["y"], ["z"], domain="mine")
    custom.attribute.append(helper.make_attribute("empty", [], attr_type=onnx.AttributeProto.INTS))
    model = make_model([*nodes, custom], [sequence], [info("z")])
    written = GraphBuilder(model).to_onnx(optimize=False)
    assert written.graph.input == model.graph.input
    assert written.graph.node == model.graph.node


def test_sizes_without_a_name_are_told_apart_and_stay_unnamed():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    model = make_model(nodes, [info("x", shape=(None, None))], [info("y", shape=(None, None))])
    gr = GraphBuilder(model)
    first, second = gr.get_shape("x")
    assert first is not second
    assert gr.to_onnx().graph.input == model.graph.input


def test_a_size_below_0_is_an_unknown_one():
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    gr = GraphBuilder(make_model(nodes, [info("x", shape=(-1, 3))], [info("y", shape=(-1, 3))]))
    assert not isinstance(gr.get_shape("x")[0], int)
    assert gr.get_shape("y") == gr.get_shape("x")


def test_parts_of_the_last_axis_have_the_other_sizes():
    nodes = [helper.make_node("Split", ["x", "sizes"], ["first", "second"], axis=-1)]
    sizes = info("sizes", onnx.TensorProto.INT64, (2,))
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("first", "second")]
    gr = GraphBuilder(make_model(nodes, [info("x"), sizes], outputs))
    for name in ("first", "second"):
        rows, columns = gr.get_shape(name)
        assert rows == gr.get_shape("x")[0] and not isinstance(columns, int)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([("Relu", ["z"], ["y"])], "Input 'z' of node .* is not computed by a node before it"),
        ([("Relu", ["x"], ["y"]), ("Neg", ["x"], ["y"])], "two results called 'y'"),
        ([("Relu", ["x"], ["other"])], "output 'y' is not computed by any node"),
    ],
)
def test_models_that_are_no_graphs_are_refused(nodes, message):
    with pytest.raises(BuilderError, match=message):
        GraphBuilder(make_model([helper.make_node(*n) for n in nodes], [info("x")], [info("y")]))


def test_inputs_and_initializers_without_a_name_are_refused():
    for inputs, values in (([info("")], []), ([info("x")], [onnx.TensorProto(data_type=1)])):
        model = make_model([helper.make_node("Relu", ["x"], ["y"])], inputs, [info("y")])
        model.graph.initializer.extend(values)
        with pytest.raises(BuilderError, match="an input or initializer without a name"):
            GraphBuilder(model)


def test_a_model_of_other_domains_gets_the_main_one():
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=1.0)
    graph = helper.make_graph([node], "graph", [info("x")], [info("y")])
    imports = [helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    written = GraphBuilder(model).to_onnx()
    assert {i.domain: i.version for i in written.opset_import} == {"ai.onnx.ml": 1, "": 18}
    assert [n.op_type for n in written.graph.node] == ["Binarizer"]
    onnx.checker.check_model(written, full_check=True)


def old_model(nodes, outputs, opset, ir_version=3, dims=(2, 3, 4)):
    graph = helper.make_graph(nodes, "graph", [info("x", shape=dims)], outputs)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=ir_version)


def test_what_was_an_attribute_is_an_input_to_the_rules():
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Unsqueeze", ["mean"], ["wide"], axes=[0, 3]),
        helper.make_node("Squeeze", ["wide"], ["narrow"], axes=[0]),
        helper.make_node("Pad", ["narrow"], ["padded"], pads=[1, 0, 0, 1, 0, 2]),
        helper.make_node("Split", ["padded"], ["first", "second"], axis=1, split=[1, 3]),
    ]
    builder = GraphBuilder(old_model(nodes, [helper.make_empty_tensor_value_info("second")], 6))
    shapes = {name: builder.get_shape(name) for name in ("mean", "wide", "narrow", "padded")}
    assert shapes == {
        "mean": (2, 4),
        "wide": (1, 2, 4, 1),
        "narrow": (2, 4, 1),
        "padded": (4, 4, 3),
    }
    assert builder.get_shape("second") == (4, 3, 3)


def test_types_of_operators_that_are_newer_than_the_rules():
    if onnx.defs.onnx_opset_version() < 28:
        pytest.skip("this onnx has no Celu of halves")
    half = onnx.TensorProto.FLOAT16
    graph = helper.make_graph(
        [helper.make_node("Celu", ["x"], ["y"])],
        "graph", [info("x", half)], [helper.make_empty_tensor_value_info("y")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)])
    assert GraphBuilder(model).get_type("y") == half


def test_constants_are_folded_as_the_opset_of_the_model_says():
    # at opset 11, Squeeze's axes are an attribute, and Softmax flattens all axes from `axis` on,
    # which onnx.reference does not implement
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.zeros((2, 2, 2)))),
        helper.make_node("Unsqueeze", ["c"], ["u"], axes=[0, 1]),
        helper.make_node("Squeeze", ["u"], ["v"], axes=[0]),
        helper.make_node("Softmax", ["v"], ["s"], axis=2),
        helper.make_node("Mul", ["s", "s"], ["y"]),
    ]
    double = onnx.TensorProto.DOUBLE
    model = old_model(nodes, [info("y", double, (1, 2, 2, 2))], 11, 6)
    builder = GraphBuilder(model)
    builder.optimize(folding=True)
    assert [node.op_type for node in builder.nodes] == ["Softmax", "Mul"]
    assert builder.get_constant("v").shape == (1, 2, 2, 2)


def test_a_sequence_of_constants_stays_a_sequence():
    nodes = [
        helper.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0]),
        helper.make_node("Constant", [], ["one"], value_int=1),
        helper.make_node("SequenceConstruct", ["c", "c"], ["s"]),
        helper.make_node("SequenceAt", ["s", "one"], ["a"]),
        helper.make_node("Neg", ["a"], ["y"]),
    ]
    builder = GraphBuilder(old_model(nodes, [info("y", shape=(2,))], 18, 8))
    builder.optimize(folding=True)
    written = builder.to_onnx()
    onnx.checker.check_model(written, full_check=True)
    assert [n.op_type for n in written.graph.node] == ["SequenceConstruct", "SequenceAt", "Neg"]
    (result,) = ReferenceEvaluator(written).run(None, {"x": np.zeros((2, 3, 4), np.float32)})
    np.testing.assert_array_equal(result, [-1.0, -2.0])


def test_constants_that_have_no_value_here():
    builder = GraphBuilder(18)
    ones = builder.make_initializer("ones", np.ones(2, np.float32))
    sequence = builder.make_node("SequenceConstruct", [ones, ones])
    with pytest.raises(
        BuilderError, match="is a sequence or an optional, not a tensor: SequenceConst"
    ):
        builder.get_constant(sequence)
    negative = builder.make_node("Neg", [ones])
    node = builder.nodes[-1]
    assert constants.compute_node(builder, node, [np.float32(3)]) == -3
    with pytest.raises(
        BuilderError, match=rf"Neg\(ones\) -> {negative} cannot be computed by onnx"
    ):
        constants.compute_node(builder, node, [None])


def test_an_initializer_of_ours_needs_ir_version_4():
    tensor = numpy_helper.from_array(np.ones(4, np.float32))
    nodes = [
        helper.make_node("Constant", [], ["c"], value=tensor),
        helper.make_node("Neg", ["c"], ["n"]),
        helper.make_node("Add", ["x", "n"], ["y"]),
    ]
    builder = GraphBuilder(old_model(nodes, [info("y", shape=(2, 3, 4))], 8))
    builder.optimize(folding=True)
    written = builder.to_onnx()
    onnx.checker.check_model(written)
    assert written.ir_version == 4
    assert written.graph.initializer
