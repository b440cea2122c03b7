"""The rewrite engine: replacements, their order, and the record of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.errors import RewriteError
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.rule import Match
from ortable.testing.runs import (
    check_same_declarations,
    check_same_values,
    copy_declarations,
    make_checked_model,
)

from .hand_rules import (
    FLOATS,
    fusion,
    inverse,
    match_one,
    match_pair,
    ops,
    replacement,
    rule,
    run,
    texts,
)


def test_readers_of_a_result_read_the_capture_that_replaces_it(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Relu(gr.op.Neg(gr.op.Neg(gr.op.Abs("x"))), outputs=["y"]))
    expected = run(gr)
    record = rewrite_graph(gr, [inverse("neg_neg", "Neg")])
    assert ops(gr) == ["Abs", "Relu"]
    assert gr.nodes[1].inputs == gr.nodes[0].outputs
    assert [fired.rule for fired in record.fired] == ["neg_neg"]
    check_same_values(expected, run(gr))


def test_an_output_replaced_by_an_input_keeps_its_name(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg(gr.op.Neg("x"), outputs=["y"]), shape=("rows",))
    before = copy_declarations(gr.outputs)
    rewrite_graph(gr, [inverse("neg_neg", "Neg")])
    check_same_declarations(before, copy_declarations(gr.outputs))
    assert ops(gr) == ["Identity"]
    model = make_checked_model(gr)
    assert model.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "rows"
    assert torch.equal(run(gr)[0], FLOATS)


def test_an_output_replaced_by_another_output_keeps_both_names(gr: GraphBuilder) -> None:
    gr.op.Relu("x", outputs=["a"])
    gr.op.Neg(gr.op.Neg("a"), outputs=["b"])
    gr.make_tensor_output(["a", "b"])
    rewrite_graph(gr, [inverse("neg_neg", "Neg")])
    assert [info.name for info in gr.outputs] == ["a", "b"]
    assert ops(gr) == ["Relu", "Identity"]
    first, second = run(gr)
    assert torch.equal(first, FLOATS.relu()) and torch.equal(first, second)


def test_rules_run_until_none_fits(gr: GraphBuilder) -> None:
    result = "x"
    for _ in range(9):
        result = gr.op.Neg(result)
    gr.make_tensor_output(gr.op.Abs(result, outputs=["y"]))
    record = rewrite_graph(gr, [inverse("neg_neg", "Neg"), fusion("abs_neg", "Abs", "Neg", "Abs")])
    assert ops(gr) == ["Abs"]
    assert record.counts() == {"neg_neg": 4, "abs_neg": 1}
    assert not rewrite_graph(gr, [inverse("neg_neg", "Neg")]).fired


def test_a_match_that_another_rule_makes_possible_is_found(gr: GraphBuilder) -> None:
    """The two Neg nodes match only once the nodes between them are removed."""
    inner = gr.op.Neg(gr.op.Abs("x"))
    gr.make_tensor_output(gr.op.Exp(gr.op.Neg(gr.op.Ceil(gr.op.Ceil(inner))), outputs=["y"]))
    rules = [
        fusion("ceil_ceil", "Ceil", "Ceil", "Identity"),
        inverse("neg_neg", "Neg"),
        rule("identity", "Identity", match_one, lambda graph, res, x: x),
    ]
    record = rewrite_graph(gr, rules)
    assert [fired.rule for fired in record.fired] == ["ceil_ceil", "identity", "neg_neg"]
    assert ops(gr) == ["Abs", "Exp"]


def test_larger_patterns_come_first_then_names(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg(gr.op.Abs("x"), outputs=["y"]))
    gr.make_tensor_output(gr.op.Neg("x", outputs=["z"]))
    rules = [
        replacement("b_small", "Neg", "Exp"),
        replacement("a_small", "Neg", "Sin"),
        fusion("z_large", "Neg", "Abs", "Cos"),
    ]
    record = rewrite_graph(gr, rules)
    assert [(e.rule, e.results) for e in record.fired] == [("z_large", ("y",)), ("a_small", ("z",))]
    assert ops(gr) == ["Cos", "Sin"]


def test_a_stage_ends_before_the_next_begins(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg(gr.op.Abs("x"), outputs=["y"]))
    gr.make_tensor_output(gr.op.Neg("x", outputs=["z"]))
    rules = [
        replacement("early", "Abs", "Sin", stage="simplify"),
        fusion("never", "Neg", "Abs", "Cos", stage="fuse"),
        replacement("late", "Sin", "Floor", stage="arrange"),
        replacement("between", "Neg", "Exp", stage="runtime"),
    ]
    fired = [event.rule for event in rewrite_graph(gr, rules).fired]
    assert fired == ["early", "between", "between", "late"]


@pytest.mark.parametrize(
    ("options", "fires"),
    [
        ({"target": "onnxruntime"}, (False, True)),
        ({"target": ""}, (True, True)),
        ({"opsets": (19, 26)}, (False, False)),
        ({"opsets": (0, 18)}, (True, True)),
    ],
)
def test_rules_of_another_target_or_opset_do_not_run(
    options: Any, fires: tuple[bool, bool]
) -> None:
    for target, expected in zip((None, "onnxruntime"), fires, strict=True):
        builder = GraphBuilder(18, target=target)
        builder.make_tensor_input("x", dtypes.float32, ("n",))
        builder.make_tensor_output(builder.op.Neg("x", outputs=["y"]))
        assert (
            bool(rewrite_graph(builder, [replacement("neg", "Neg", "Abs", **options)]).fired)
            == expected
        )


def test_a_result_inside_that_another_node_reads_stays(gr: GraphBuilder) -> None:
    inside = gr.op.Neg("x")
    gr.make_tensor_output(gr.op.Neg(inside, outputs=["y"]))
    gr.make_tensor_output(gr.op.Exp(inside, outputs=["z"]))
    before = texts(gr)
    record = rewrite_graph(gr, [inverse("neg_neg", "Neg")])
    assert texts(gr) == before
    (reason,) = record.statistics["neg_neg"].refused
    assert reason == f"{inside} is read elsewhere"


def test_a_result_inside_that_is_an_output_stays(gr: GraphBuilder) -> None:
    gr.op.Neg(gr.op.Neg("x", outputs=["inside"]), outputs=["y"])
    gr.make_tensor_output(["y", "inside"])
    record = rewrite_graph(gr, [inverse("neg_neg", "Neg")])
    assert ops(gr) == ["Neg", "Neg"]
    assert "inside is read elsewhere" in record.statistics["neg_neg"].refused


def _make_branch(graph: GraphBuilder, name: str, source: str, *operators: str) -> GraphBuilder:
    inner = graph.subgraph(name)
    for op in operators:
        source = inner.make_node(op, [source])
    inner.make_tensor_output(source)
    return inner


def _add_if(graph: GraphBuilder, source: str, *operators: str) -> None:
    graph.make_tensor_input("condition", dtypes.boolean, ())
    graph.op.If(
        "condition",
        then_branch=_make_branch(graph, "then", source, *operators),
        else_branch=_make_branch(graph, "else", source, "Exp"),
        outputs=["taken"],
    )
    graph.set_type("taken", dtypes.float32)
    graph.make_tensor_output("taken")


def test_a_result_inside_that_a_subgraph_reads_stays(gr: GraphBuilder) -> None:
    inside = gr.op.Neg("x")
    gr.make_tensor_output(gr.op.Neg(inside, outputs=["y"]))
    _add_if(gr, inside, "Abs")
    record = rewrite_graph(gr, [inverse("neg_neg", "Neg")])
    assert ops(gr) == ["Neg", "Neg", "If"]
    assert f"{inside} is read elsewhere" in record.statistics["neg_neg"].refused


def test_a_shared_result_stays_for_its_other_readers(gr: GraphBuilder) -> None:
    inside = gr.op.Neg("x")
    gr.make_tensor_output(gr.op.Neg(inside, outputs=["y"]))
    gr.make_tensor_output(gr.op.Exp(inside, outputs=["z"]))
    expected = run(gr)
    match = match_pair("Neg", "Neg")

    def share(m: Any, root: Any) -> Match | None:
        matched = match(m, root)
        return None if matched is None else matched._replace(shared=matched.nodes[1:])

    rule_with_shared = rule("neg_neg", "Neg", share, lambda graph, res, x: x, child="Neg", size=2)
    assert rewrite_graph(gr, [rule_with_shared]).fired
    assert sorted(ops(gr)) == ["Exp", "Identity", "Neg"]
    check_same_values(expected, run(gr))


def test_a_result_that_a_subgraph_reads_is_replaced_there_too(gr: GraphBuilder) -> None:
    _add_if(gr, gr.op.Neg(gr.op.Neg("x")), "Abs")
    expected_by_condition = [run(gr, torch.tensor(condition)) for condition in (True, False)]
    assert rewrite_graph(gr, [inverse("neg_neg", "Neg")]).fired
    assert ops(gr) == ["If"]
    assert gr.nodes[0].attrs["then_branch"].nodes[0].inputs == ["x"]
    for condition, expected in zip((True, False), expected_by_condition, strict=True):
        check_same_values(expected, run(gr, torch.tensor(condition)))


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
    rewrite_graph(gr, [inverse("neg_neg", "Neg")])
    assert result in gr.values
    assert torch.equal(run(gr)[0], FLOATS.abs())


def test_rules_run_inside_branches(gr: GraphBuilder) -> None:
    _add_if(gr, "x", "Neg", "Neg", "Relu")
    expected_by_condition = [run(gr, torch.tensor(condition)) for condition in (True, False)]
    (fired,) = rewrite_graph(gr, [inverse("neg_neg", "Neg")]).fired
    assert fired.graph, "the record names the subgraph"
    assert [node.op_type for node in gr.nodes[0].attrs["then_branch"].nodes] == ["Relu"]
    for condition, expected in zip((True, False), expected_by_condition, strict=True):
        check_same_values(expected, run(gr, torch.tensor(condition)))


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
    assert rewrite_graph(gr, [inverse("neg_neg", "Neg")]).fired
    assert sorted(node.op_type for node in body.nodes) == ["Add", "Identity"]
    assert torch.equal(run(gr)[0], FLOATS * 4)


def test_an_output_of_a_branch_is_never_a_result_from_outside(gr: GraphBuilder) -> None:
    _add_if(gr, "x", "Neg", "Neg")
    rewrite_graph(gr, [inverse("neg_neg", "Neg")])
    assert torch.equal(run(gr, torch.tensor(True))[0], FLOATS)


def test_rules_that_undo_one_another_end_with_their_names(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Sin("x", outputs=["y"]))
    rules = [replacement("there", "Sin", "Cos"), replacement("back", "Cos", "Sin")]
    with pytest.raises(RewriteError, match=r"rules back, there undo one another.*Switch one off"):
        rewrite_graph(gr, rules)
    assert ops(gr) in (["Sin"], ["Cos"]), "the graph is valid, whichever rule ran last"
    assert run(gr)


def test_a_rule_that_feeds_itself_ends(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        return graph.make_node("Neg", [graph.make_node("Neg", [graph.make_node("Neg", [x])])])

    with pytest.raises(RewriteError, match="growing"):
        rewrite_graph(gr, [rule("growing", "Neg", match_one, make)])


def _make_large_graph() -> GraphBuilder:
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, ("n",))
    result = "x"
    for index in range(20):
        left = builder.op.Neg(builder.op.Neg(result))
        right = builder.op.Abs(builder.op.Neg(result)) if index % 3 else builder.op.Sin(result)
        result = builder.op.Add(left, right)
    builder.make_tensor_output(builder.op.Relu(result, outputs=["y"]))
    return builder


def test_two_runs_make_the_same_names() -> None:
    rules = [
        inverse("neg_neg", "Neg"),
        fusion("abs_neg", "Abs", "Neg", "Abs"),
        replacement("sin", "Sin", "Cos"),
    ]
    runs = []
    for order in (rules, rules[::-1]):
        gr = _make_large_graph()
        record = rewrite_graph(gr, order)
        runs.append((texts(gr), record.fired, make_checked_model(gr).SerializeToString()))
    assert runs[0] == runs[1]


def test_nodes_stay_in_the_order_of_what_they_read() -> None:
    builder = _make_large_graph()
    rewrite_graph(builder, [inverse("neg_neg", "Neg"), replacement("sin", "Sin", "Cos")])
    available = {"x", *builder.initializers_dict}
    for node in builder.nodes:
        assert available.issuperset(node.inputs)
        available.update(node.outputs)


def test_several_results_are_replaced_at_once(gr: GraphBuilder) -> None:
    """Sin and Cos share an input; the match reaches Cos through the readers of the input."""

    def match(m: Any, root: Any) -> Match | None:
        for cos_node in m.readers(root.inputs[0], "Cos", 0):
            return Match((root, cos_node), (*root.outputs, *cos_node.outputs), (root.inputs[0],))
        return None

    def make(graph: Any, res: Any, x: str) -> Any:
        shared = graph.make_node("Floor", [x])
        first = graph.make_node("Sin", [shared], [res.outputs[0]])
        return first, graph.make_node("Cos", [shared], [res.outputs[1]])

    gr.op.Sin("x", outputs=["a"])
    gr.op.Cos("x", outputs=["b"])
    gr.make_tensor_output(gr.op.Add("a", "b", outputs=["y"]))
    gr.make_tensor_output("b")
    endless_rule = rule("both", "Sin", match, make, size=2)
    with pytest.raises(RewriteError, match="both"):  # the replacement contains the pattern
        rewrite_graph(gr, [endless_rule])
    assert {"a", "b"} <= {name for node in gr.nodes for name in node.outputs}


def test_made_nodes_say_which_rule_made_them(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg(gr.op.Abs("x"), outputs=["y"]))
    record = rewrite_graph(
        gr,
        [
            fusion("first", "Neg", "Abs", "Sin"),
            replacement("second", "Sin", "Cos", stage="fuse"),
        ],
    )
    (node,) = make_checked_model(gr).graph.node
    assert {prop.key: prop.value for prop in node.metadata_props} == {
        "ortable.passes.rewrite": "second, first"
    }
    first, second = record.fired
    assert first.made == second.removed and second.made == (node.name,)
    assert first.results == second.results == ("y",)


def test_made_nodes_keep_the_origin_of_the_replaced_ones(gr: GraphBuilder) -> None:
    gr.origin = {"source": "line 3"}
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    gr.origin = None
    rewrite_graph(gr, [replacement("exp", "Neg", "Exp")])
    (node,) = make_checked_model(gr).graph.node
    expected = {"source": "line 3", "ortable.passes.rewrite": "exp"}
    assert {prop.key: prop.value for prop in node.metadata_props} == expected
    assert gr.origin is None


def test_the_record_can_be_continued(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    record = rewrite_graph(gr, [replacement("exp", "Neg", "Exp")])
    continued = rewrite_graph(gr, [replacement("sin", "Exp", "Sin")], record)
    assert continued is record
    assert record.counts() == {"exp": 1, "sin": 1}


def test_no_rules_change_nothing(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    before = texts(gr)
    assert rewrite_graph(gr, []).fired == []
    assert texts(gr) == before


def test_a_dimension_can_still_be_read_after_its_source_is_gone(gr: GraphBuilder) -> None:
    """The source of a size is replaced; a later shape uses another source."""
    gr.make_tensor_output(gr.op.Neg(gr.op.Neg("x"), outputs=["y"]))
    length = gr.dim_as_vector("n")
    gr.make_tensor_output(gr.op.Expand(np.float32(1), length, outputs=["ones"]))
    rewrite_graph(gr, [inverse("neg_neg", "Neg")])
    new_length = gr.dim_as_vector("n")
    gr.make_tensor_output(gr.op.Expand(np.float32(2), new_length, outputs=["twos"]))
    assert [output.shape for output in run(gr)] == [(4,)] * 3
