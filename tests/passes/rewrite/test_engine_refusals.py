"""Invalid replacements are rejected with a reason and leave the graph unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ortable import dims, dtypes
from ortable.builder import GraphBuilder
from ortable.errors import BuilderError, KernelError, UnsupportedCase
from ortable.ir.editing import use_index
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.matcher import Matcher
from ortable.passes.rewrite.rule import Match, Rule
from ortable.testing.runs import make_checked_model

from .hand_rules import FLOATS, match_one, match_pair, replacement, rule, run, texts


def _rejection(builder: GraphBuilder, broken: Rule) -> str:
    """Assert that a rule is rejected and leaves the graph unchanged, and return the reason."""
    before, model = texts(builder), make_checked_model(builder)
    old_infos = {name: (i.dtype, i.shape, i.value) for name, i in builder.values.items()}
    constants = set(builder.initializers_dict)
    record = rewrite_graph(builder, [broken])
    assert not record.fired
    assert texts(builder) == before
    builder.remove_unused()
    assert set(builder.initializers_dict) == constants
    assert make_checked_model(builder) == model
    infos = {name: (i.dtype, i.shape, i.value) for name, i in builder.values.items()}
    assert {name: infos[name] for name in old_infos} == old_infos
    assert record.statistics[broken.name].matched == 0
    (reason,) = record.statistics[broken.name].refused
    return reason


def test_another_dtype_is_refused(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        return graph.make_node("Cast", [x], res.outputs, to=dtypes.float16)

    reason = _rejection(gr, rule("narrow", "Neg", match_one, make))
    assert "float16" in reason and "float32" in reason


@pytest.mark.parametrize("shape", [("n", 1), (), ("n + 1",)])
def test_another_shape_is_refused(gr: GraphBuilder, shape: tuple[Any, ...]) -> None:
    input_shape = tuple(dims.make_symbol("n") + 1 if dim == "n + 1" else dim for dim in shape)
    gr.make_tensor_input("other", dtypes.float32, input_shape)
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    broken = rule("reshaped", "Neg", match_one, lambda graph, res, x: "other")
    assert "shape" in _rejection(gr, broken)


def test_a_larger_broadcast_is_refused(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        zero = graph.make_initializer("", np.zeros((1, 1), dtype=np.float32))
        return graph.make_node("Sub", [zero, x], res.outputs)

    assert "shape" in _rejection(gr, rule("wider", "Neg", match_one, make))


def _make_failing_rule(error: Exception) -> Rule:
    """Return a rule whose replacement adds nodes and a constant before it raises."""

    def make(graph: Any, res: Any, x: str) -> Any:
        half = graph.make_initializer("", np.full(1, 0.5, dtype=np.float32))
        graph.make_node("Mul", [graph.make_node("Exp", [x]), half], res.outputs)
        raise error

    return rule("gives_up", "Neg", match_one, make)


@pytest.mark.parametrize("kind", [UnsupportedCase, KernelError, BuilderError])
def test_a_replacement_that_gives_up_leaves_the_graph_as_it_was(
    gr: GraphBuilder, kind: type[Exception]
) -> None:
    gr.make_tensor_output(gr.op.Abs(gr.op.Neg("x"), outputs=["y"]))
    assert _rejection(gr, _make_failing_rule(kind("no such luck"))) == "no such luck"
    assert torch.equal(run(gr)[0], FLOATS.abs())


def test_no_kernel_in_the_target_is_a_refusal() -> None:
    builder = GraphBuilder(18, target="onnxruntime")
    builder.make_tensor_input("x", dtypes.int32, (4,))
    builder.make_tensor_output(builder.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        grid = graph.make_node("Unsqueeze", [x, graph.make_initializer("", np.array([0]))])
        first = graph.make_node("CumSum", [grid, graph.make_initializer("", np.array(1))])
        return graph.make_node("Det", [first], res.outputs)

    assert _rejection(builder, rule("determinant", "Neg", match_one, make))


def test_an_operator_that_onnx_does_not_know_is_a_refusal(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    reason = _rejection(gr, replacement("unknown", "Neg", "Negative"))
    assert "Negative" in reason


def test_too_few_results_are_a_refusal(gr: GraphBuilder) -> None:
    first, second = gr.op.Split(gr.op.Concat("x", "x", axis=0), num_outputs=2, outputs=2)
    gr.make_tensor_output(first)
    gr.make_tensor_output(second)
    broken = rule("half", "Split", _match_any_attributes, lambda graph, res, x: graph.op.Neg(x))
    assert "results" in _rejection(gr, broken)


def test_a_result_that_the_graph_does_not_have_is_a_refusal(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    wrong = rule("invents", "Neg", match_one, lambda graph, res, x: "nobody")
    assert (
        _rejection(gr, wrong) == "the replacement gives 'nobody', which is no result of the graph"
    )


def test_a_read_result_that_is_not_given_is_a_refusal(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Exp(gr.op.Neg("x", outputs=["a"]), outputs=["y"]))
    broken = rule("drops", "Neg", match_one, lambda graph, res, x: None)
    assert _rejection(gr, broken) == "the replacement does not give a, which is read"


def test_a_copy_that_names_an_output_is_kept(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Identity("x", outputs=["y"]))
    assert _rejection(gr, rule("uncopied", "Identity", match_one, lambda graph, res, x: x)) == (
        "y is an output"
    )
    assert torch.equal(run(gr)[0], FLOATS)


def test_a_replacement_that_asks_for_what_it_replaces_is_refused(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        like = graph.values[res.outputs[0]].shape
        return graph.op.Expand(x, graph.make_initializer("", np.array(like)))

    broken = rule("itself", "Neg", match_one, make)
    assert _rejection(gr, broken) == "the replacement reads y, which it replaces"


def test_a_lookup_that_fails_in_a_replacement_is_no_refusal(gr: GraphBuilder) -> None:
    """A bug in a rule raises, and the graph is unchanged."""
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    before = texts(gr)
    with pytest.raises(KeyError, match="lost"):
        rewrite_graph(gr, [rule("faulty", "Neg", match_one, lambda graph, res, x: {}["lost"])])
    assert texts(gr) == before


def test_another_rank_is_refused(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        reshaped = graph.op.Reshape(x, "where")
        graph.set_rank(reshaped, 2)
        return reshaped

    gr.make_tensor_input("where", dtypes.int64, (2,))
    assert (
        _rejection(gr, rule("folded", "Neg", match_one, make)) == "y would have rank 2 instead of 1"
    )


def _match_any_attributes(m: Any, root: Any) -> Match:
    return Match((root,), tuple(root.outputs), tuple(root.inputs))


def test_a_condition_that_cannot_be_answered_is_a_refusal(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def match(m: Any, root: Any) -> Match | None:
        m.graph.get_constant(root.inputs[0])
        return match_one(m, root)

    reason = _rejection(gr, rule("curious", "Neg", match, lambda graph, res, x: x))
    assert "'x' is not a constant" in reason


def test_what_a_matcher_refuses_is_counted_by_reason(gr: GraphBuilder) -> None:
    for index in range(3):
        gr.make_tensor_output(gr.op.Neg("x", outputs=[f"y{index}"]))
    gr.make_tensor_output(gr.op.Neg(gr.op.Abs("x"), outputs=["z"]))

    def match(m: Any, root: Any) -> Match | None:
        if m.producer(root.inputs[0], "Abs") is None:
            m.refuse("its input is an Abs")
            return None
        return match_pair("Neg", "Abs")(m, root)

    record = rewrite_graph(gr, [rule("picky", "Neg", match, lambda graph, res, x: graph.op.Exp(x))])
    statistics = record.statistics["picky"]
    assert statistics.matched == 1
    assert statistics.tried > sum(statistics.refused.values())
    assert statistics.refused["its input is an Abs"] >= 3
    assert statistics.seconds > 0


def test_a_replacement_that_reads_what_comes_later_is_refused(gr: GraphBuilder) -> None:
    """The replacement reads a result that depends on the replaced one."""

    def match(m: Any, root: Any) -> Match | None:
        for cos_node in m.readers("a", "Cos", 0):
            exp_node = next(iter(m.uses.get(cos_node.outputs[0], ())), None)
            if exp_node is not None:
                return Match((root,), tuple(root.outputs), (exp_node.outputs[0],))
        return None

    gr.make_tensor_output(gr.op.Sin("x", outputs=["a"]))
    gr.make_tensor_output(gr.op.Exp(gr.op.Cos("a"), outputs=["late"]))
    late = rule("later", "Sin", match, lambda graph, res, x: graph.op.Abs(x, outputs=res.outputs))
    assert "late" in _rejection(gr, late)


def test_an_attribute_that_a_pattern_does_not_mention_has_its_default(gr: GraphBuilder) -> None:
    result = gr.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    gr.make_tensor_output(result)
    node = gr.nodes[-1]
    matcher = Matcher(gr, use_index(gr))
    assert not matcher.plain(node) and not matcher.plain(node, (), {"alpha": 0.01})
    assert matcher.plain(node, (), {"alpha": 0.5}) and matcher.plain(node, ("alpha",))
