"""Subgraphs, and insertion of the nodes of one graph into another."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from ortable import GraphBuilder, dtypes
from ortable.errors import BuilderError

X = np.array([[-1.0, 2.0], [3.0, -4.0]], dtype=np.float32)


def make_builder(opset=18):
    builder = GraphBuilder(opset)
    builder.make_tensor_input("x", dtypes.float32, ("n", 2))
    return builder


def test_if_reads_results_from_around_it(ort):
    gr = make_builder()
    hidden = gr.op.Relu("x")
    then, other = gr.subgraph("then"), gr.subgraph("else")
    assert then.values.get(hidden) is gr.values[hidden]
    assert then.has_name("x") and "x" in then.values
    then.make_tensor_output(then.op.Add(hidden, np.float32(1)))
    other.make_tensor_output(other.op.Neg(hidden))
    cond = gr.op.Greater(gr.op.ReduceSum("x", keepdims=0), np.float32(0))
    gr.make_tensor_output(gr.op.If(cond, then_branch=then, else_branch=other, outputs=["y"]))
    assert gr.get_type("y") == dtypes.float32
    assert ort(gr, {"x": X})[0].tolist() == [[0, -2], [-3, 0]]
    assert ort(gr, {"x": X + 5})[0].tolist() == (X + 6).tolist()


def test_names_are_unique_across_the_graphs():
    gr = make_builder()
    child = gr.subgraph("body")
    names = [gr.op.Relu("x"), child.op.Relu("x"), gr.op.Relu("x")]
    assert len(set(names)) == 3
    assert not gr.has_name(names[1])
    with pytest.raises(BuilderError, match=f"Input '{names[1]}' does not exist"):
        gr.op.Neg(names[1])
    with pytest.raises(BuilderError, match="is already the name of a result"):
        child.make_node("Neg", ["x"], [names[0]])


def test_loop_with_a_carried_result(ort):
    gr = make_builder()
    body = gr.subgraph("body")
    body.make_tensor_input("i", dtypes.int64, ())
    body.make_tensor_input("go", dtypes.boolean, ())
    body.make_tensor_input("state", dtypes.float32, ("n", 2))
    body.make_tensor_output(body.op.Identity("go"))
    body.make_tensor_output(body.op.Add("state", "x"))
    trips = gr.make_initializer("", np.array(3, dtype=np.int64))
    gr.make_tensor_output(gr.op.Loop(trips, None, "x", body=body, outputs=["y"]))
    assert ort(gr, {"x": X})[0].tolist() == (4 * X).tolist()


def test_dimensions_and_constants_of_a_child_stay_in_it(ort):
    gr = make_builder()
    outer = gr.dim_as_vector("n")
    then, other = gr.subgraph("then"), gr.subgraph("else")
    assert then.dim_as_vector("n") == outer
    inner = then.shape_as_vector(("n", 1, 2))
    then.make_tensor_output(then.op.Reshape("x", inner))
    other.make_tensor_output(other.op.Unsqueeze("x", np.array([1])))
    assert gr.shape_as_vector(("n", 1, 2)) != inner
    cond = gr.make_initializer("", True)
    gr.make_tensor_output(gr.op.If(cond, then_branch=then, else_branch=other, outputs=["y"]))
    assert ort(gr, {"x": X})[0].shape == (2, 1, 2)


def test_passes_go_into_children(ort):
    gr = make_builder()
    copy = gr.op.Identity(gr.op.Relu("x"))
    then, other = gr.subgraph("then"), gr.subgraph("else")
    then.op.Neg("x")
    then.make_tensor_output(then.op.Identity(then.op.Identity(copy)))
    other.make_tensor_output(other.op.Neg(copy))
    cond = gr.make_initializer("", True)
    gr.make_tensor_output(gr.op.If(cond, then_branch=then, else_branch=other, outputs=["y"]))
    assert ort(gr, {"x": X})[0].tolist() == [[0, 2], [3, 0]]
    assert [n.op_type for n in gr.nodes] == ["Relu", "If"]
    assert [n.op_type for n in then.nodes] == ["Identity"]  # a graph must compute its own output


def make_other_graph():
    gr = GraphBuilder(18)
    gr.make_tensor_input("a", dtypes.float32, ("m", 2))
    gr.make_tensor_input("b", dtypes.float32, ("m", 2))
    gr.make_initializer("w", np.array([1, 10], dtype=np.float32))
    hidden = gr.op.Add("a", gr.op.Mul("b", "w"), outputs=["hidden"])
    gr.make_tensor_output(gr.op.Relu(hidden, outputs=["out"]))
    gr.make_tensor_output("hidden")
    return gr


def test_make_nodes_binds_inputs_and_renames_the_rest(ort):
    gr = make_builder()
    gr.op.Neg("x", outputs=["hidden"])
    names = gr.make_nodes(make_other_graph(), ["x", "hidden"], ["y", "z"], prefix="p_")
    assert names == ("y", "z")
    assert "p_w" in gr.initializers_dict
    assert str(gr.get_shape("y")[0]) == "n"
    gr.make_tensor_output(["y", "z"])
    expected = X - X * np.array([1, 10])
    results = ort(gr, {"x": X})
    np.testing.assert_array_equal(results[1], expected)
    np.testing.assert_array_equal(results[0], np.maximum(expected, 0))
    second_names = gr.make_nodes(make_other_graph(), ["x", "x"], ["y2", "z2"])
    assert second_names == ("y2", "z2") and gr.has_name("w")


def test_make_nodes_copies_children_and_leaves_the_other_graph(ort):
    other = GraphBuilder(18)
    other.make_tensor_input("a", dtypes.float32, ("m", 2))
    hidden = other.op.Relu("a")
    then, not_then = other.subgraph("then"), other.subgraph("else")
    then.make_tensor_output(then.op.Add(hidden, np.float32(1)))
    not_then.make_tensor_output(not_then.op.Identity(hidden))
    cond = other.make_initializer("", True)
    other.make_tensor_output(other.op.If(cond, then_branch=then, else_branch=not_then))
    before = repr(other.nodes)
    gr = make_builder()
    gr.op.Abs("x", outputs=[hidden])
    assert gr.make_nodes(other, [hidden], ["y"]) == "y"
    gr.make_tensor_output("y")
    assert ort(gr, {"x": X})[0].tolist() == (np.abs(X) + 1).tolist()
    assert repr(other.nodes) == before


def test_make_nodes_with_an_output_that_is_an_input(ort):
    other = GraphBuilder(18)
    other.make_tensor_input("a", dtypes.float32, (2, 2))
    other.make_tensor_output("a")
    gr = make_builder()
    assert gr.make_nodes(other, ["x"], ["y"]) == "y"
    gr.make_tensor_output("y")
    assert ort(gr, {"x": X})[0].tolist() == X.tolist()


def test_make_nodes_refuses_what_does_not_agree():
    gr = make_builder(19)
    with pytest.raises(BuilderError, match="The other graph has opset 18 for domain ''"):
        gr.make_nodes(make_other_graph(), ["x", "x"], ["y", "z"])
    with pytest.raises(BuilderError, match="2 inputs and 2 outputs, but 1 and 2 names"):
        make_builder().make_nodes(make_other_graph(), ["x"], ["y", "z"])
    branch = helper.make_graph(
        [helper.make_node("Neg", ["a"], ["r"])], "b", [], [onnx.ValueInfoProto(name="r")]
    )
    other = GraphBuilder(18)
    other.make_tensor_input("a", dtypes.float32, (2, 2))
    other.make_tensor_input("c", dtypes.boolean, ())
    other.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    other.make_tensor_output("y", dtypes.float32)
    gr = make_builder()
    gr.make_tensor_input("c", dtypes.boolean, ())
    with pytest.raises(BuilderError, match=r"given as GraphProto reads results .* renames"):
        gr.make_nodes(other, ["x", "c"], ["z"])
    assert gr.make_tensor_input("a", dtypes.float32, (2, 2)) == "a"
    assert gr.make_nodes(other, ["a", "c"], ["z"]) == "z"  # no name needs renaming


def test_a_branch_that_is_no_graph():
    gr = make_builder()
    gr.make_tensor_input("c", dtypes.boolean, ())
    with pytest.raises(
        BuilderError, match=r"then_branch=3 of node If.* must be GRAPH: 3 is not a graph"
    ):
        gr.make_node("If", ["c"], then_branch=3, else_branch=gr.subgraph("else"))


def test_a_result_from_outside_is_not_an_output_of_a_child():
    gr = make_builder()
    child = gr.subgraph("then")
    with pytest.raises(BuilderError, match="'x' is computed outside of subgraph 'then'"):
        child.make_tensor_output("x")


def test_constants_of_the_graph_around_are_shared():
    import torch

    gr = make_builder()
    child = gr.subgraph("then")
    weight = torch.rand(30, 30)
    assert child.make_initializer("", [3]) != gr.make_initializer("", [4])
    assert gr.make_initializer("w", weight) == child.make_initializer("w_again", weight) == "w"
    assert gr.make_initializer("", [5]) == child.make_initializer("", [5])
    assert child.is_constant("w") and child.get_constant("w").shape == (30, 30)
