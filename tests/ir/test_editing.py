"""Edits of a graph: uses, redirected readers, erased, inserted and renamed nodes.

The index of readers stays correct in between.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from ortable import GraphBuilder
from ortable.errors import BuilderError
from ortable.ir import editing
from ortable.ir.editing import UseIndex

FLOAT = TensorProto.FLOAT
X = np.array([[-1.0, 2.0], [3.0, -4.0]], dtype=np.float32)


@pytest.fixture
def gr() -> GraphBuilder:
    """Return x -> Relu "r" -> Neg "n" and Add(r, r) "y", with the outputs n and y."""
    graph = GraphBuilder(18)
    graph.make_tensor_input("x", FLOAT, ("a", 2))
    graph.make_node("Relu", ["x"], ["r"], name="relu")
    graph.make_node("Neg", ["r"], ["n"], name="neg")
    graph.make_node("Add", ["r", "r"], ["y"], name="add")
    graph.make_tensor_output(["n", "y"])
    return graph


def node_names(nodes) -> list[str]:
    return [node.name for node in nodes]


def check_index(graph: GraphBuilder) -> None:
    """Assert that the index of readers equals a newly built one, subgraphs included."""
    readers = editing.use_index(graph).readers
    expected = UseIndex(graph.nodes).readers
    assert {name: set(uses) for name, uses in readers.items() if uses} == {
        name: set(uses) for name, uses in expected.items()
    }


def add_branches(graph: GraphBuilder, read: str) -> GraphBuilder:
    """Add an If whose then branch, taken if x contains NaN, reads `read` and x."""
    then, other = graph.subgraph("then"), graph.subgraph("else")
    then.make_tensor_output(then.make_node("Sub", [read, "x"], ["t"], name="inner"))
    other.make_tensor_output(other.make_node("Exp", ["x"], ["e"]))
    condition = graph.make_node("IsNaN", [graph.make_node("ReduceMax", ["x"], keepdims=0)])
    graph.make_node("If", [condition], ["z"], name="if", then_branch=then, else_branch=other)
    graph.make_tensor_output("z", FLOAT, ("a", 2))
    return then


def test_uses_are_the_nodes_that_read_a_result_once_each(gr: GraphBuilder) -> None:
    assert node_names(gr.uses("r")) == ["neg", "add"]
    assert node_names(gr.uses("x")) == ["relu"]
    assert gr.uses("y") == [] and gr.uses("nothing") == []


def test_uses_see_nodes_that_were_made_later_and_graphs_inside_nodes(gr: GraphBuilder) -> None:
    assert gr.uses("n") == []
    gr.make_node("Exp", ["n"], name="late")
    assert node_names(gr.uses("n")) == ["late"]
    then = gr.subgraph("then")
    inner = then.make_node("Abs", ["r"], ["t"])
    then.make_tensor_output(inner)
    assert node_names(then.uses("r")) == ["Abs"]
    gr.make_node("Optional", ["r"], name="holder", then_branch=then, domain="mine")
    assert node_names(gr.uses("r")) == ["neg", "add", "holder"]
    then.make_node("Mul", ["n", "n"])  # the outer graph sees the new reader
    assert node_names(gr.uses("n")) == ["late", "holder"]
    check_index(gr)


def test_uses_are_worked_out_again_after_nodes_were_changed_by_hand(gr: GraphBuilder) -> None:
    assert len(gr.uses("r")) == 2
    neg = gr.nodes.pop(1)
    assert node_names(gr.uses("r")) == ["add"]
    gr.nodes.insert(1, neg)
    assert node_names(gr.uses("r")) == ["neg", "add"]
    neg.inputs = ["x"]
    gr.outdate_uses()
    assert node_names(gr.uses("x")) == ["relu", "neg"]


def test_replace_uses_redirects_readers_and_those_in_subgraphs(gr: GraphBuilder, ort) -> None:
    then = add_branches(gr, "r")
    assert node_names(gr.uses("r")) == ["neg", "add", "if"]
    gr.make_node("Abs", ["x"], ["abs"], name="abs")
    gr.nodes.insert(1, gr.nodes.pop())
    gr.outdate_uses()
    assert node_names(gr.replace_uses("r", "abs")) == ["neg", "add", "if"]
    assert then.nodes[0].inputs == ["abs", "x"]
    assert node_names(then.uses("abs")) == ["inner"] and then.uses("r") == []
    assert gr.uses("r") == [] and set(node_names(gr.uses("abs"))) == {"neg", "add", "if"}
    check_index(gr)
    gr.erase(gr.nodes[0])
    n, y, z = ort(gr, {"x": X})
    assert n.tolist() == (-abs(X)).tolist() and y.tolist() == (2 * abs(X)).tolist()
    assert np.allclose(z, np.exp(X))


def test_replace_uses_in_a_subgraph_tells_the_graph_around_it(gr: GraphBuilder) -> None:
    then = add_branches(gr, "r")
    assert "if" in node_names(gr.uses("r"))
    then.replace_uses("r", "n")
    assert "if" not in node_names(gr.uses("r")) and node_names(gr.uses("n")) == ["if"]


def test_replace_uses_leaves_outputs_and_refuses_what_it_cannot_change(gr: GraphBuilder) -> None:
    assert gr.replace_uses("n", "y") == []
    assert [info.name for info in gr.outputs] == ["n", "y"]
    with pytest.raises(BuilderError, match="no result 'zzz'"):
        gr.replace_uses("r", "zzz")
    with pytest.raises(BuilderError, match="no result 'zzz'"):
        gr.replace_uses("zzz", "r")
    body = helper.make_graph(
        [helper.make_node("Neg", ["r"], ["o"])],
        "body",
        [],
        [helper.make_tensor_value_info("o", FLOAT, None)],
    )
    gr.make_node("Optional", ["x"], domain="mine", body=body)
    with pytest.raises(BuilderError, match="'r' cannot be replaced: a subgraph given as GraphP"):
        gr.replace_uses("r", "x")
    assert len(gr.uses("r")) == 3


def test_erase_takes_away_nodes_whose_results_nobody_reads(gr: GraphBuilder) -> None:
    gr.make_node("Exp", ["r"], ["e"], name="exp")
    gr.make_node("Log", ["e"], ["l"], name="log")
    relu, _, _, exp, log = gr.nodes
    with pytest.raises(BuilderError, match=r"'exp' \(Exp\) cannot be erased: nodes \['log'\] read"):
        gr.erase(exp)
    with pytest.raises(BuilderError, match="cannot be erased: the graph returns its result 'n'"):
        gr.erase(gr.nodes[1])
    gr.erase(exp, log)  # erase both together
    assert node_names(gr.nodes) == ["relu", "neg", "add"] and gr.nodes[0] is relu
    assert not gr.has_name("e") and not gr.has_name("l")
    check_index(gr)
    gr.make_node("Exp", ["r"], ["e"])  # the erased name can be reused
    with pytest.raises(BuilderError, match="nodes"):
        gr.erase(relu)


def test_insert_before_puts_a_node_and_its_casts_in_front(gr: GraphBuilder, ort) -> None:
    add = gr.nodes[2]
    bias = gr.make_initializer("", np.array([10, 20], dtype=np.float32))
    result = gr.insert_before(add, "Mul", ["r", bias], ["scaled"], name="mul")
    assert result == "scaled" and node_names(gr.nodes) == ["relu", "neg", "mul", "add"]
    assert gr.get_shape("scaled") == gr.get_shape("r")
    add.inputs = ["r", "scaled"]
    gr.outdate_uses()
    assert node_names(gr.uses("scaled")) == ["add"]
    y = ort(gr, {"x": X})[1]
    assert y.tolist() == (np.maximum(X, 0) * [11, 21]).tolist()


def test_insert_before_refuses_what_is_made_later_and_leaves_the_graph(gr: GraphBuilder) -> None:
    relu, neg, add = before = list(gr.nodes)
    with pytest.raises(BuilderError, match=r"'n' is not made before node 'neg' \(Neg\)"):
        gr.insert_before(neg, "Exp", ["n"])
    with pytest.raises(BuilderError, match="Input 'zzz' does not exist"):
        gr.insert_before(add, "Exp", ["zzz"])
    assert gr.nodes == before
    assert gr.insert_before(neg, "Identity", "r", ["same"]) == "same"
    assert gr.replace_uses("r", "same") == [neg, add]
    assert gr.uses("r") == [gr.nodes[1]]
    check_index(gr)
    assert relu.outputs == ["r"]


def test_insert_before_finds_no_cast_that_comes_later() -> None:
    graph = GraphBuilder(18)
    graph.make_tensor_input("x", TensorProto.BFLOAT16, (2,))
    first = graph.make_node("Sin", ["x"])
    graph.make_node("Cos", ["x"])
    anchor = graph.nodes[0]
    graph.insert_before(anchor, "Cos", ["x"])
    available = {"x"}
    for node in graph.nodes:
        assert set(node.inputs) <= available
        available.update(node.outputs)
    assert first in available


def test_rename_follows_everything_that_has_the_name(gr: GraphBuilder, ort) -> None:
    then = add_branches(gr, "r")
    vector = gr.shape_as_vector(gr.get_shape("r"))
    gr.uses("r")
    gr.rename({"r": "positive", "n": "r"})  # a name freed by the same call can be reused
    assert node_names(gr.uses("positive")) == ["neg", "add", "if"] and gr.uses("r") == []
    assert node_names(then.uses("positive")) == ["inner"]
    assert [info.name for info in gr.outputs] == ["r", "y", "z"]
    assert gr.shape_as_vector(gr.get_shape("positive")) == vector
    check_index(gr)
    assert ort(gr, {"x": X})[0].tolist() == (-np.maximum(X, 0)).tolist()


def test_rename_gives_every_result_a_name_of_its_own(gr: GraphBuilder) -> None:
    before = str(gr.nodes)
    for renamed in ({"r": ""}, {"r": "z1", "y": "z1"}, {"r": "y"}):
        with pytest.raises(BuilderError, match=r"'r' cannot be renamed to|non-empty name"):
            gr.rename(renamed)
    assert str(gr.nodes) == before and gr.has_name("r")


def test_passes_leave_the_index_true(gr: GraphBuilder) -> None:
    add_branches(gr, gr.make_node("Identity", ["r"], ["copy"]))
    weight = gr.make_initializer("w", X)
    transposed = gr.make_node("Transpose", [weight], perm=[1, 0])
    gr.make_tensor_output(gr.make_node("MatMul", ["r", transposed], ["m"]))
    gr.make_tensor_output(gr.make_node("MatMul", ["copy", transposed], ["m2"]))
    gr.make_node("Exp", ["copy"])
    for run_pass in (
        gr.remove_identity_nodes,
        lambda: gr.optimize(weight_transposes=True)["fold_weight_transposes"],
        gr.remove_unused,
        gr.merge_equal_nodes,
        gr.constant_folding,
    ):
        gr.uses("r")
        run_pass()
        check_index(gr)
    assert gr.uses("copy") == [] and gr.uses("w") == []
    assert len(gr.uses("w_transposed")) == 2


def test_what_is_gone_is_found_no_more(gr: GraphBuilder) -> None:
    numbers = np.array([1, 2], np.int64)
    small = gr.make_initializer("", numbers)
    gr.materializer.add_source("n", "n", None)
    gr.materializer.add_source("lost", "lost", None)
    del gr.initializers_dict[small]
    editing.drop_dead_results(gr)
    assert gr.make_initializer("", numbers) in gr.initializers_dict
    assert gr.materializer.find_source("n") is not None
    assert gr.materializer.find_source("lost") is None


def test_what_is_known_of_a_copy_is_known_of_the_original(gr: GraphBuilder) -> None:
    original, copy = gr.values["r"], gr.values["n"]
    original.dtype = original.shape = original.rank = original.value = None
    editing.merge_facts(gr, "r", "n")
    assert (original.dtype, original.shape, original.rank) == (FLOAT, copy.shape, 2)
    copy.dtype = TensorProto.INT64
    editing.merge_facts(gr, "r", "n")
    assert original.dtype == FLOAT
