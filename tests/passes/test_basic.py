"""The basic passes preserve results and the names of graph inputs and outputs."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from ortable import GraphBuilder, dtypes
from ortable.errors import BuilderError
from ortable.passes.folding import constant_folding

X = np.array([-1.0, 2.0], dtype=np.float32)


@pytest.fixture
def gr():
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, ("n",))
    return builder


def ops(builder):
    return [n.op_type for n in builder.nodes]


def test_identity_between_nodes_is_removed(gr, ort):
    gr.make_tensor_output(gr.op.Neg(gr.op.Identity(gr.op.Identity(gr.op.Relu("x"))), outputs=["y"]))
    assert gr.remove_identity_nodes() == 2
    assert ops(gr) == ["Relu", "Neg"]
    assert ort(gr, {"x": X})[0].tolist() == [0, -2]


def test_identity_of_a_node_into_an_output_gives_the_node_the_output_name(gr, ort):
    hidden = gr.op.Relu("x")
    gr.op.Identity(hidden, outputs=["y"])
    gr.make_tensor_output("y")
    gr.make_tensor_output(gr.op.Neg(hidden, outputs=["z"]))
    assert gr.remove_identity_nodes() == 1
    assert [(n.op_type, n.inputs, n.outputs) for n in gr.nodes] == [
        ("Relu", ["x"], ["y"]),
        ("Neg", ["y"], ["z"]),
    ]
    assert [info.name for info in gr.outputs] == ["y", "z"]
    assert not gr.has_name(hidden)
    assert [a.tolist() for a in ort(gr, {"x": X})] == [[0, 2], [0, -2]]


def test_outputs_that_copy_inputs_constants_or_outputs_stay(gr, ort):
    gr.make_initializer("w", X)
    relu = gr.op.Relu("x", outputs=["relu"])
    for source, name in (("x", "a"), ("w", "b"), (relu, "c"), (relu, "d")):
        gr.make_tensor_output(gr.op.Identity(source, outputs=[name]))
    gr.make_tensor_output(relu)
    gr.remove_identity_nodes()
    assert ops(gr) == ["Relu", *["Identity"] * 4]
    assert [info.name for info in gr.outputs] == ["a", "b", "c", "d", "relu"]
    results = ort(gr, {"x": X})
    assert [a.tolist() for a in results] == [[-1, 2], [-1, 2], [0, 2], [0, 2], [0, 2]]


def test_two_outputs_of_one_result_keep_both_names(gr, ort):
    relu = gr.op.Relu("x")
    gr.make_tensor_output(gr.op.Identity(relu, outputs=["a"]))
    gr.make_tensor_output(gr.op.Identity(relu, outputs=["b"]))
    assert gr.remove_identity_nodes() == 1
    assert [n.outputs for n in gr.nodes] == [["a"], ["b"]]
    assert [a.tolist() for a in ort(gr, {"x": X})] == [[0, 2], [0, 2]]


def test_a_declared_output_shape_survives_the_change_of_name(gr):
    gr.op.Identity(gr.op.Relu("x"), outputs=["y"])
    gr.make_tensor_output("y", dtypes.float32, ("rows",))
    model = gr.to_onnx()
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    assert ops(gr) == ["Relu"]


def test_what_is_known_of_a_copy_is_kept(gr):
    hidden = gr.make_node("Thing", ["x"], domain="mine")
    copy = gr.op.Identity(hidden)
    gr.set_type(copy, dtypes.float32)
    gr.set_shape(copy, (4,))
    gr.make_tensor_output(gr.op.Relu(copy, outputs=["y"]))
    gr.remove_identity_nodes()
    assert gr.get_shape(hidden) == (4,)


def test_names_read_inside_a_graph_proto_stay(gr):
    copy = gr.op.Identity(gr.op.Relu("x"))
    body = helper.make_graph(
        [helper.make_node("Neg", [copy], ["inner"])],
        "then",
        [],
        [helper.make_tensor_value_info("inner", dtypes.float32, None)],
    )
    cond = gr.make_initializer("", True)
    gr.make_tensor_output(gr.make_node("If", [cond], ["y"], then_branch=body, else_branch=body))
    gr.optimize()
    assert ops(gr) == ["Relu", "Identity", "If"]
    with pytest.raises(BuilderError, match="a subgraph given as GraphProto reads it"):
        gr.rename({copy: "other"})


def test_unused_nodes_and_initializers_are_removed(gr):
    gr.make_initializer("unused", X)
    gr.op.Add(gr.op.Neg("x"), X)
    gr.make_tensor_output(gr.op.Relu("x", outputs=["y"]))
    assert gr.remove_unused() == 4
    assert ops(gr) == ["Relu"]
    assert gr.initializers_dict == {}
    assert list(gr.values) == ["x", "y"]
    assert "make_initializer] unused" not in gr.get_debug_msg()


def test_unused_inputs_stay(gr):
    gr.make_tensor_input("z", dtypes.float32, (1,))
    gr.make_tensor_output(gr.op.Relu("x"))
    assert [i.name for i in gr.to_onnx().graph.input] == ["x", "z"]


def test_one_used_output_keeps_its_node(gr):
    _, indices = gr.op.TopK("x", [1], outputs=2)
    gr.make_tensor_output(indices)
    gr.remove_unused()
    assert ops(gr) == ["TopK"]


def test_a_removed_result_is_no_longer_a_source_or_a_cache(gr):
    length = gr.dim_as_vector("n")
    assert gr.op.Relu("x", outputs=["y"])
    gr.make_tensor_output("y")
    gr.remove_unused()
    assert not gr.has_name(length)
    new_length = gr.dim_as_vector("n")
    assert gr.has_name(new_length)
    assert gr.make_initializer("", [3]) and gr.make_initializer("", [3]) == "init7_s1_3"


def test_constant_folding_replaces_what_is_small(gr, ort):
    shape = gr.op.Concat(gr.make_initializer("", [1]), gr.make_initializer("", [-1]), axis=0)
    gr.make_tensor_output(gr.op.Reshape("x", shape, outputs=["y"]))
    assert gr.is_constant(shape)
    assert gr.constant_folding() == 1
    assert ops(gr) == ["Reshape"]
    assert gr.get_constant(shape).tolist() == [1, -1]
    gr.remove_unused()
    assert list(gr.initializers_dict) == [shape]
    assert ort(gr, {"x": X})[0].shape == (1, 2)


def test_constant_folding_respects_the_cap_and_random_operators(gr):
    large = gr.op.Expand(np.float32(1), np.array([1000, 1000], dtype=np.int64))
    noise = gr.op.RandomNormal(shape=[2], dtype=dtypes.float32)
    uniform = gr.op.RandomUniformLike(np.ones(2, dtype=np.float32))
    dropout = gr.op.Dropout(np.ones(2, dtype=np.float32), np.float32(0.5), True)
    assert gr.is_constant(large)
    assert not any(gr.is_constant(name) for name in (noise, uniform, dropout))
    total = gr.op.Add(gr.op.Add(noise, uniform), dropout)
    gr.make_tensor_output(gr.op.Add(gr.op.ReduceSum(large, keepdims=0), total))
    assert gr.constant_folding(max_bytes=1000) == 1
    assert "Expand" in ops(gr) and "ReduceSum" not in ops(gr)


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 4), (np.float64, 8), (np.bool_, 1)])
def test_the_cap_of_constant_folding_counts_bytes(gr, dtype, size):
    large = gr.op.Expand(dtype(1), np.array([10]))
    gr.make_tensor_output(gr.op.Identity(large))
    assert gr.constant_folding(max_bytes=10 * size - 1) == 0
    assert gr.constants_[large] is None, "a result that is too large is not computed"
    assert gr.constant_folding(max_bytes=10 * size) == 1


def test_constants_that_are_outputs_are_not_folded_away(gr):
    gr.make_tensor_output(gr.op.Add(np.ones(2, dtype=np.float32), X, outputs=["y"]))
    assert gr.constant_folding() == 0
    assert ops(gr) == ["Add"]


def test_get_constant_computes_chains_on_demand_and_keeps_them(gr):
    name = gr.make_initializer("", np.zeros(3, dtype=np.float32))
    for _ in range(1500):  # deeper than Python's recursion limit
        name = gr.op.Add(name, np.float32(1))
    assert gr.get_constant(name).tolist() == [1500.0] * 3
    assert gr.constants_[name] is not None
    with pytest.raises(BuilderError, match="'x' is not a constant"):
        gr.get_constant("x")


def test_constant_nodes_are_constants(gr):
    name = gr.op.Constant(value=onnx.numpy_helper.from_array(X))
    assert gr.get_constant(name).tolist() == [-1, 2]
    gr.make_tensor_output(gr.op.Add("x", name, outputs=["y"]))
    assert gr.constant_folding() == 1
    assert ops(gr) == ["Add"]


def test_rename_result_reaches_readers_outputs_and_subgraphs(gr, ort):
    hidden = gr.op.Relu("x")
    then = gr.subgraph("then")
    then.make_tensor_output(then.op.Neg(hidden))
    orelse = gr.subgraph("else")
    orelse.make_tensor_output(orelse.op.Abs(hidden))
    gr.op.If(gr.make_initializer("", True), then_branch=then, else_branch=orelse, outputs=["y"])
    gr.make_tensor_output("y")
    gr.rename({hidden: "relu", "y": "result"})
    assert then.nodes[0].inputs == ["relu"]
    assert [info.name for info in gr.outputs] == ["result"]
    assert ort(gr, {"x": X})[0].tolist() == [0, -2]
    with pytest.raises(BuilderError, match="cannot be renamed to 'x'"):
        gr.rename({"relu": "x"})
    with pytest.raises(BuilderError, match="no result 'zzz'"):
        gr.rename({"zzz": "y"})


def test_optimize_says_what_it_removed(gr):
    gr.op.Neg("x")
    gr.make_tensor_output(gr.op.Relu(gr.op.Identity("x")))
    assert gr.optimize(folding=True) == {
        "remove_identity_nodes": 1,
        "constant_folding": 0,
        "merge_equal_nodes": 0,
        "remove_unused": 1,
    }


def test_equal_nodes_become_one_also_for_subgraphs_that_read_them(gr, ort):
    first, second = gr.op.Relu("x"), gr.op.Relu("x")
    then_branch = gr.subgraph("then")
    then_branch.make_tensor_output(then_branch.make_node("Neg", [second]))
    else_branch = gr.subgraph("else")
    else_branch.make_tensor_output(else_branch.make_node("Exp", [first]))
    if_result = gr.op.If(np.array(True), then_branch=then_branch, else_branch=else_branch)
    gr.make_tensor_output(gr.op.Add(first, if_result, outputs=["y"]))
    assert gr.merge_equal_nodes() == 1
    assert ops(gr) == ["Relu", "If", "Add"]
    assert ort(gr, {"x": X})[0].tolist() == [0, 0]


def test_the_order_of_attributes_does_not_matter(gr):
    gr.make_tensor_output(
        gr.op.Add(gr.op.Shape("x", start=0, end=1), gr.op.Shape("x", end=1, start=0))
    )
    assert gr.merge_equal_nodes() == 1


def test_nodes_that_differ_or_draw_or_are_outputs_stay(gr):
    gr.make_tensor_output(gr.op.LeakyRelu("x", alpha=0.1))
    gr.make_tensor_output(gr.op.LeakyRelu("x", alpha=0.2))
    gr.make_tensor_output(gr.op.Add(gr.op.RandomUniformLike("x"), gr.op.RandomUniformLike("x")))
    gr.op.Neg("x", outputs=["y"])
    gr.op.Neg("x", outputs=["z"])
    gr.make_tensor_output("y")
    gr.make_tensor_output("z")
    assert gr.merge_equal_nodes() == 0
    assert [info.name for info in gr.outputs][-2:] == ["y", "z"]


def test_a_weight_that_is_only_read_transposed_is_turned_without_a_copy(gr, ort):
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    gr.make_initializer("w", weight)
    gr.make_initializer("both", weight + 1)
    rows = gr.op.Unsqueeze("x", np.array([0]))
    for name in ("w", "w", "both"):
        gr.make_tensor_output(gr.op.MatMul(rows, gr.op.Transpose(name, perm=[1, 0])))
    gr.make_tensor_output(gr.op.MatMul("both", "x"))
    expected = ort(gr, {"x": X})
    assert gr.optimize(weight_transposes=True)["fold_weight_transposes"] == 1  # merged by to_onnx
    assert np.shares_memory(gr.initializers_dict["w_transposed"], weight)
    assert "w" not in gr.initializers_dict
    assert "both" in gr.initializers_dict
    for result, expected_result in zip(ort(gr, {"x": X}), expected, strict=True):
        assert result.tolist() == expected_result.tolist()


def test_a_weight_whose_transpose_says_no_axes_stays(gr, ort):
    """A Transpose without perm would be foldable too, but no exporter emits it."""
    gr.make_initializer("w", np.arange(6, dtype=np.float32).reshape(3, 2))
    rows = gr.op.Unsqueeze("x", np.array([0]))
    gr.make_tensor_output(gr.op.MatMul(rows, gr.op.Transpose("w")))
    expected = ort(gr, {"x": X})
    gr.optimize(weight_transposes=True)
    assert "Transpose" in ops(gr)
    assert ort(gr, {"x": X})[0].tolist() == expected[0].tolist()


def test_folding_stores_neither_quantised_weights_as_floats_nor_a_weight_twice(gr):
    gr.make_initializer("q", np.arange(6, dtype=np.int8).reshape(2, 3))
    gr.make_initializer("w", np.arange(6, dtype=np.float32).reshape(2, 3))
    scale = gr.make_initializer("scale", np.float32(0.5))
    cast_weight = gr.op.Mul(gr.op.Cast("q", to=dtypes.float32), scale)
    dequantized = gr.op.DequantizeLinear("q", scale)
    transposed_weight = gr.op.Mul(gr.op.Transpose("w", perm=[1, 0]), scale)
    for name in (cast_weight, dequantized, transposed_weight, gr.op.Mul("w", scale)):
        gr.make_tensor_output(gr.op.Neg(name))
    gr.make_tensor_output(gr.op.Relu("w"))
    assert gr.constant_folding() == 1
    assert ops(gr) == [
        *("Cast", "Mul", "DequantizeLinear", "Transpose", "Mul"),
        *["Neg"] * 4,
        "Relu",
    ]


def test_results_whose_size_nobody_knew_are_folded_up_to_the_limit() -> None:
    for count, folded_count in ((4, 1), (400, 0)):
        builder = GraphBuilder(18)
        ones = builder.make_initializer("ones", np.ones(count, np.float32))
        indices = builder.make_node("NonZero", [ones])
        builder.make_tensor_output(builder.make_node("Neg", [indices]), dtypes.int64, (1, count))
        assert constant_folding(builder, 1000) == folded_count


def test_single_elements_of_a_long_constant_are_folded(gr, ort):
    table = gr.make_initializer("", np.arange(70.0, dtype=np.float32))
    elements = gr.op.GatherElements(table, gr.op.Neg(np.array([1, 70, 3], dtype=np.int64)), axis=0)
    gr.make_tensor_output(gr.op.Add("x", elements, outputs=["y"]))
    constant_folding(gr, 1000)
    assert ops(gr) == ["Add"]
    assert ort(gr, {"x": X[:1]})[0].tolist() == [68, -1, 66]
