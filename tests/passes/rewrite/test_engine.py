"""The engine: what it may replace, in which order, and what it says about it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.debug.harness.runs import (
    check_same_declarations,
    check_same_values,
    copy_declarations,
    make_checked_model,
)
from ortable.errors import RewriteError
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.rule import Match

from .hand_rules import FLOATS, chain, double, one, ops, pair, replaced, rule, run, text

# -- what is replaced ---------------------------------------------------------------------------


def test_readers_of_a_result_read_the_capture_that_replaces_it(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Relu(gr.op.Neg(gr.op.Neg(gr.op.Abs("x"))), outputs=["y"]))
    wanted = run(gr)
    record = rewrite_graph(gr, [double("neg_neg", "Neg")])
    assert ops(gr) == ["Abs", "Relu"]
    assert gr.nodes[1].inputs == gr.nodes[0].outputs
    assert [fired.rule for fired in record.fired] == ["neg_neg"]
    check_same_values(wanted, run(gr))


def test_an_output_replaced_by_an_input_keeps_its_name(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg(gr.op.Neg("x"), outputs=["y"]), shape=("rows",))
    before = copy_declarations(gr.outputs)
    rewrite_graph(gr, [double("neg_neg", "Neg")])
    check_same_declarations(before, copy_declarations(gr.outputs))
    assert ops(gr) == ["Identity"]
    model = make_checked_model(gr)
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    assert torch.equal(run(gr)[0], FLOATS)


def test_an_output_replaced_by_another_output_keeps_both_names(gr: GraphBuilder) -> None:
    gr.op.Relu("x", outputs=["a"])
    gr.op.Neg(gr.op.Neg("a"), outputs=["b"])
    gr.make_tensor_output(["a", "b"])
    rewrite_graph(gr, [double("neg_neg", "Neg")])
    assert [info.name for info in gr.outputs] == ["a", "b"]
    assert ops(gr) == ["Relu", "Identity"]
    first, second = run(gr)
    assert torch.equal(first, FLOATS.relu()) and torch.equal(first, second)


def test_rules_run_until_none_fits(gr: GraphBuilder) -> None:
    result = "x"
    for _ in range(9):
        result = gr.op.Neg(result)
    gr.make_tensor_output(gr.op.Abs(result, outputs=["y"]))
    record = rewrite_graph(gr, [double("neg_neg", "Neg"), chain("abs_neg", "Abs", "Neg", "Abs")])
    assert ops(gr) == ["Abs"]
    assert record.counts() == {"neg_neg": 4, "abs_neg": 1}
    assert not rewrite_graph(gr, [double("neg_neg", "Neg")]).fired


def test_a_match_that_another_rule_makes_possible_is_found(gr: GraphBuilder) -> None:
    """The two Neg are no match before what stands between them is gone."""
    inner = gr.op.Neg(gr.op.Abs("x"))
    gr.make_tensor_output(gr.op.Exp(gr.op.Neg(gr.op.Ceil(gr.op.Ceil(inner))), outputs=["y"]))
    rules = [
        chain("ceil_ceil", "Ceil", "Ceil", "Identity"),
        double("neg_neg", "Neg"),
        rule("identity", "Identity", one, lambda graph, res, x: x),
    ]
    record = rewrite_graph(gr, rules)
    assert [fired.rule for fired in record.fired] == ["ceil_ceil", "identity", "neg_neg"]
    assert ops(gr) == ["Abs", "Exp"]


def test_larger_patterns_come_first_then_names(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg(gr.op.Abs("x"), outputs=["y"]))
    gr.make_tensor_output(gr.op.Neg("x", outputs=["z"]))
    rules = [
        replaced("b_small", "Neg", "Exp"),
        replaced("a_small", "Neg", "Sin"),
        chain("z_large", "Neg", "Abs", "Cos"),
    ]
    record = rewrite_graph(gr, rules)
    assert [(f.rule, f.results) for f in record.fired] == [("z_large", ("y",)), ("a_small", ("z",))]
    assert ops(gr) == ["Cos", "Sin"]


def test_a_stage_ends_before_the_next_begins(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg(gr.op.Abs("x"), outputs=["y"]))
    gr.make_tensor_output(gr.op.Neg("x", outputs=["z"]))
    rules = [
        replaced("early", "Abs", "Sin", stage="simplify"),
        chain("never", "Neg", "Abs", "Cos", stage="fuse"),
        replaced("late", "Sin", "Floor", stage="arrange"),
        replaced("between", "Neg", "Exp", stage="runtime"),
    ]
    fired = [f.rule for f in rewrite_graph(gr, rules).fired]
    assert fired == ["early", "between", "between", "late"]


@pytest.mark.parametrize(
    ("more", "fires"),
    [
        ({"target": "onnxruntime"}, (False, True)),
        ({"target": ""}, (True, True)),
        ({"opsets": (19, 26)}, (False, False)),
        ({"opsets": (0, 18)}, (True, True)),
    ],
)
def test_rules_of_another_target_or_opset_do_not_run(more: Any, fires: tuple[bool, bool]) -> None:
    for target, expected in zip((None, "onnxruntime"), fires, strict=True):
        builder = GraphBuilder(18, target=target)
        builder.make_tensor_input("x", dtypes.float32, ("n",))
        builder.make_tensor_output(builder.op.Neg("x", outputs=["y"]))
        assert (
            bool(rewrite_graph(builder, [replaced("neg", "Neg", "Abs", **more)]).fired) == expected
        )


# -- what is left alone -------------------------------------------------------------------------


def test_a_result_inside_that_another_node_reads_stays(gr: GraphBuilder) -> None:
    inside = gr.op.Neg("x")
    gr.make_tensor_output(gr.op.Neg(inside, outputs=["y"]))
    gr.make_tensor_output(gr.op.Exp(inside, outputs=["z"]))
    before = text(gr)
    record = rewrite_graph(gr, [double("neg_neg", "Neg")])
    assert text(gr) == before
    (reason,) = record.statistics["neg_neg"].refused
    assert reason == f"{inside} is read elsewhere"


def test_a_result_inside_that_is_an_output_stays(gr: GraphBuilder) -> None:
    gr.op.Neg(gr.op.Neg("x", outputs=["inside"]), outputs=["y"])
    gr.make_tensor_output(["y", "inside"])
    record = rewrite_graph(gr, [double("neg_neg", "Neg")])
    assert ops(gr) == ["Neg", "Neg"]
    assert "inside is read elsewhere" in record.statistics["neg_neg"].refused


def _branch(graph: GraphBuilder, name: str, source: str, *operators: str) -> GraphBuilder:
    inner = graph.subgraph(name)
    for op in operators:
        source = inner.make_node(op, [source])
    inner.make_tensor_output(source)
    return inner


def _with_if(graph: GraphBuilder, source: str, *operators: str) -> None:
    graph.make_tensor_input("condition", dtypes.boolean, ())
    graph.op.If(
        "condition",
        then_branch=_branch(graph, "then", source, *operators),
        else_branch=_branch(graph, "else", source, "Exp"),
        outputs=["taken"],
    )
    graph.set_type("taken", dtypes.float32)
    graph.make_tensor_output("taken")


def test_a_result_inside_that_a_subgraph_reads_stays(gr: GraphBuilder) -> None:
    inside = gr.op.Neg("x")
    gr.make_tensor_output(gr.op.Neg(inside, outputs=["y"]))
    _with_if(gr, inside, "Abs")
    record = rewrite_graph(gr, [double("neg_neg", "Neg")])
    assert ops(gr) == ["Neg", "Neg", "If"]
    assert f"{inside} is read elsewhere" in record.statistics["neg_neg"].refused


def test_a_shared_result_stays_for_its_other_readers(gr: GraphBuilder) -> None:
    inside = gr.op.Neg("x")
    gr.make_tensor_output(gr.op.Neg(inside, outputs=["y"]))
    gr.make_tensor_output(gr.op.Exp(inside, outputs=["z"]))
    wanted = run(gr)
    match = pair("Neg", "Neg")

    def share(m: Any, root: Any) -> Match | None:
        found = match(m, root)
        return None if found is None else found._replace(shared=found.nodes[1:])

    shares = rule("neg_neg", "Neg", share, lambda graph, res, x: x, child="Neg", size=2)
    assert rewrite_graph(gr, [shares]).fired
    assert sorted(ops(gr)) == ["Exp", "Identity", "Neg"]
    check_same_values(wanted, run(gr))


def test_a_result_that_a_subgraph_reads_is_replaced_there_too(gr: GraphBuilder) -> None:
    _with_if(gr, gr.op.Neg(gr.op.Neg("x")), "Abs")
    wanted = [run(gr, torch.tensor(each)) for each in (True, False)]
    assert rewrite_graph(gr, [double("neg_neg", "Neg")]).fired
    assert ops(gr) == ["If"]
    assert gr.nodes[0].attrs["then_branch"].nodes[0].inputs == ["x"]
    for each, expected in zip((True, False), wanted, strict=True):
        check_same_values(expected, run(gr, torch.tensor(each)))


def test_names_that_a_graph_proto_reads_stay(gr: GraphBuilder) -> None:
    result = gr.op.Neg(gr.op.Neg("x"))
    branch = onnx.helper.make_graph(
        [onnx.helper.make_node("Abs", [result], ["inner"])],
        "branch",
        [],
        [onnx.helper.make_tensor_value_info("inner", dtypes.float32, None)],
    )
    condition = gr.make_initializer("", True)
    gr.make_node("If", [condition], ["y"], then_branch=branch, else_branch=branch)
    gr.set_type("y", dtypes.float32)
    gr.set_shape("y", ("n",))
    gr.make_tensor_output("y")
    rewrite_graph(gr, [double("neg_neg", "Neg")])
    assert result in gr.values
    assert torch.equal(run(gr)[0], FLOATS.abs())


# -- graphs inside ------------------------------------------------------------------------------


def test_rules_run_inside_branches(gr: GraphBuilder) -> None:
    _with_if(gr, "x", "Neg", "Neg", "Relu")
    wanted = [run(gr, torch.tensor(each)) for each in (True, False)]
    (fired,) = rewrite_graph(gr, [double("neg_neg", "Neg")]).fired
    assert fired.graph, "the record says that it was in a graph inside a node"
    assert [node.op_type for node in gr.nodes[0].attrs["then_branch"].nodes] == ["Relu"]
    for each, expected in zip((True, False), wanted, strict=True):
        check_same_values(expected, run(gr, torch.tensor(each)))


def test_rules_run_inside_loops(gr: GraphBuilder) -> None:
    body = gr.subgraph("body")
    body.make_tensor_input("i", dtypes.int64, ())
    body.make_tensor_input("go", dtypes.boolean, ())
    body.make_tensor_input("state", dtypes.float32, ("n",))
    step = body.op.Add(body.op.Neg(body.op.Neg("state")), "x")
    body.make_tensor_output([body.op.Identity("go"), step])
    count = gr.make_initializer("", np.array(3))
    always = gr.make_initializer("", True)
    gr.make_node("Loop", [count, always, "x"], ["y"], body=body)
    gr.set_type("y", dtypes.float32)
    gr.set_shape("y", ("n",))
    gr.make_tensor_output("y")
    assert rewrite_graph(gr, [double("neg_neg", "Neg")]).fired
    assert sorted(node.op_type for node in body.nodes) == ["Add", "Identity"]
    assert torch.equal(run(gr)[0], FLOATS * 4)


def test_an_output_of_a_branch_is_never_a_result_from_outside(gr: GraphBuilder) -> None:
    _with_if(gr, "x", "Neg", "Neg")
    rewrite_graph(gr, [double("neg_neg", "Neg")])
    assert torch.equal(run(gr, torch.tensor(True))[0], FLOATS)


# -- ends, order, origin ------------------------------------------------------------------------


def test_rules_that_undo_one_another_end_with_their_names(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Sin("x", outputs=["y"]))
    rules = [replaced("there", "Sin", "Cos"), replaced("back", "Cos", "Sin")]
    with pytest.raises(RewriteError, match=r"rules back, there undo one another.*Switch one off"):
        rewrite_graph(gr, rules)
    assert ops(gr) in (["Sin"], ["Cos"]), "the graph is whole, whichever came last"
    assert run(gr)


def test_a_rule_that_feeds_itself_ends(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        return graph.make_node("Neg", [graph.make_node("Neg", [graph.make_node("Neg", [x])])])

    with pytest.raises(RewriteError, match="growing"):
        rewrite_graph(gr, [rule("growing", "Neg", one, make)])


def _large() -> GraphBuilder:
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, ("n",))
    result = "x"
    for place in range(20):
        left = builder.op.Neg(builder.op.Neg(result))
        right = builder.op.Abs(builder.op.Neg(result)) if place % 3 else builder.op.Sin(result)
        result = builder.op.Add(left, right)
    builder.make_tensor_output(builder.op.Relu(result, outputs=["y"]))
    return builder


def test_two_runs_make_the_same_names() -> None:
    rules = [
        double("neg_neg", "Neg"),
        chain("abs_neg", "Abs", "Neg", "Abs"),
        replaced("sin", "Sin", "Cos"),
    ]
    found = []
    for order in (rules, rules[::-1]):
        builder = _large()
        record = rewrite_graph(builder, order)
        found.append((text(builder), record.fired, make_checked_model(builder).SerializeToString()))
    assert found[0] == found[1]


def test_nodes_stay_in_the_order_of_what_they_read() -> None:
    builder = _large()
    rewrite_graph(builder, [double("neg_neg", "Neg"), replaced("sin", "Sin", "Cos")])
    known = {"x", *builder.initializers_dict}
    for node in builder.nodes:
        assert known.issuperset(node.inputs)
        known.update(node.outputs)


def test_several_results_are_replaced_at_once(gr: GraphBuilder) -> None:
    """Sin and Cos of one input; the second root is found through the reader of the capture."""

    def match(m: Any, root: Any) -> Match | None:
        for other in m.readers(root.inputs[0], "Cos", 0):
            return Match((root, other), (*root.outputs, *other.outputs), (root.inputs[0],))
        return None

    def make(graph: Any, res: Any, x: str) -> Any:
        shared = graph.make_node("Floor", [x])
        first = graph.make_node("Sin", [shared], [res.outputs[0]])
        return first, graph.make_node("Cos", [shared], [res.outputs[1]])

    gr.op.Sin("x", outputs=["a"])
    gr.op.Cos("x", outputs=["b"])
    gr.make_tensor_output(gr.op.Add("a", "b", outputs=["y"]))
    gr.make_tensor_output("b")
    both = rule("both", "Sin", match, make, size=2)
    with pytest.raises(RewriteError, match="both"):  # the pattern is in its own replacement
        rewrite_graph(gr, [both])
    assert {"a", "b"} <= {name for node in gr.nodes for name in node.outputs}


def test_made_nodes_say_which_rule_made_them(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg(gr.op.Abs("x"), outputs=["y"]))
    record = rewrite_graph(
        gr,
        [
            chain("first", "Neg", "Abs", "Sin"),
            replaced("second", "Sin", "Cos", stage="fuse"),
        ],
    )
    (node,) = make_checked_model(gr).graph.node
    assert {p.key: p.value for p in node.metadata_props} == {
        "ortable.passes.rewrite": "second, first"
    }
    first, second = record.fired
    assert first.made == second.removed and second.made == (node.name,)
    assert first.results == second.results == ("y",)


def test_made_nodes_keep_the_origin_of_the_replaced_ones(gr: GraphBuilder) -> None:
    gr.origin = {"source": "line 3"}
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    gr.origin = None
    rewrite_graph(gr, [replaced("exp", "Neg", "Exp")])
    (node,) = make_checked_model(gr).graph.node
    wanted = {"source": "line 3", "ortable.passes.rewrite": "exp"}
    assert {p.key: p.value for p in node.metadata_props} == wanted
    assert gr.origin is None


def test_the_record_can_be_continued(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    record = rewrite_graph(gr, [replaced("exp", "Neg", "Exp")])
    again = rewrite_graph(gr, [replaced("sin", "Exp", "Sin")], record)
    assert again is record
    assert record.counts() == {"exp": 1, "sin": 1}


def test_no_rules_change_nothing(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    before = text(gr)
    assert rewrite_graph(gr, []).fired == []
    assert text(gr) == before


def test_a_dimension_can_still_be_read_after_its_source_is_gone(gr: GraphBuilder) -> None:
    """What held a size is replaced; a shape that is asked for later finds another source."""
    gr.make_tensor_output(gr.op.Neg(gr.op.Neg("x"), outputs=["y"]))
    length = gr.dim_as_vector("n")
    gr.make_tensor_output(gr.op.Expand(np.float32(1), length, outputs=["ones"]))
    rewrite_graph(gr, [double("neg_neg", "Neg")])
    again = gr.dim_as_vector("n")
    gr.make_tensor_output(gr.op.Expand(np.float32(2), again, outputs=["twos"]))
    assert [each.shape for each in run(gr)] == [(4,)] * 3
