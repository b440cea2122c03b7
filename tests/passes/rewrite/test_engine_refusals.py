"""Replacements that do not fit: refused with a reason, and the graph is as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from ortable import dims, dtypes
from ortable.builder import GraphBuilder
from ortable.debug.harness.runs import make_checked_model
from ortable.errors import BuilderError, KernelError, UnsupportedCase
from ortable.ir.editing import use_index
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.matcher import Matcher
from ortable.passes.rewrite.rule import Match, Rule

from .hand_rules import FLOATS, one, pair, replaced, rule, run, text


def _refused(builder: GraphBuilder, broken: Rule) -> str:
    """The one reason of a refusal that left the graph as it was."""
    before, model = text(builder), make_checked_model(builder)
    known = {name: (i.dtype, i.shape, i.value) for name, i in builder.values.items()}
    constants = set(builder.initializers_dict)
    record = rewrite_graph(builder, [broken])
    assert not record.fired
    assert text(builder) == before
    builder.remove_unused()
    assert set(builder.initializers_dict) == constants
    assert make_checked_model(builder) == model
    now = {name: (i.dtype, i.shape, i.value) for name, i in builder.values.items()}
    assert {name: now[name] for name in known} == known
    assert record.statistics[broken.name].matched == 0
    (reason,) = record.statistics[broken.name].refused
    return reason


def test_another_dtype_is_refused(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        return graph.make_node("Cast", [x], res.outputs, to=dtypes.float16)

    reason = _refused(gr, rule("narrow", "Neg", one, make))
    assert "float16" in reason and "float32" in reason


@pytest.mark.parametrize("shape", [("n", 1), (), ("n + 1",)])
def test_another_shape_is_refused(gr: GraphBuilder, shape: tuple[Any, ...]) -> None:
    known = tuple(dims.make_symbol("n") + 1 if each == "n + 1" else each for each in shape)
    gr.make_tensor_input("other", dtypes.float32, known)
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    broken = rule("reshaped", "Neg", one, lambda graph, res, x: "other")
    assert "shape" in _refused(gr, broken)


def test_a_larger_broadcast_is_refused(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        zero = graph.make_initializer("", np.zeros((1, 1), dtype=np.float32))
        return graph.make_node("Sub", [zero, x], res.outputs)

    assert "shape" in _refused(gr, rule("wider", "Neg", one, make))


def _raising(error: Exception) -> Rule:
    """A replacement that has made nodes and a constant before it gives up."""

    def make(graph: Any, res: Any, x: str) -> Any:
        half = graph.make_initializer("", np.full(1, 0.5, dtype=np.float32))
        graph.make_node("Mul", [graph.make_node("Exp", [x]), half], res.outputs)
        raise error

    return rule("gives_up", "Neg", one, make)


@pytest.mark.parametrize("kind", [UnsupportedCase, KernelError, BuilderError])
def test_a_replacement_that_gives_up_leaves_the_graph_as_it_was(
    gr: GraphBuilder, kind: type[Exception]
) -> None:
    gr.make_tensor_output(gr.op.Abs(gr.op.Neg("x"), outputs=["y"]))
    assert _refused(gr, _raising(kind("no such luck"))) == "no such luck"
    assert torch.equal(run(gr)[0], FLOATS.abs())


def test_no_kernel_in_the_target_is_a_refusal() -> None:
    builder = GraphBuilder(18, target="onnxruntime")
    builder.make_tensor_input("x", dtypes.int32, (4,))
    builder.make_tensor_output(builder.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        grid = graph.make_node("Unsqueeze", [x, graph.make_initializer("", np.array([0]))])
        first = graph.make_node("CumSum", [grid, graph.make_initializer("", np.array(1))])
        return graph.make_node("Det", [first], res.outputs)

    assert _refused(builder, rule("determinant", "Neg", one, make))


def test_an_operator_that_onnx_does_not_know_is_a_refusal(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    reason = _refused(gr, replaced("unknown", "Neg", "Negative"))
    assert "Negative" in reason


def test_too_few_results_are_a_refusal(gr: GraphBuilder) -> None:
    first, second = gr.op.Split(gr.op.Concat("x", "x", axis=0), num_outputs=2, outputs=2)
    gr.make_tensor_output(first)
    gr.make_tensor_output(second)
    broken = rule("half", "Split", _any_attributes, lambda graph, res, x: graph.op.Neg(x))
    assert "results" in _refused(gr, broken)


def test_a_result_that_the_graph_does_not_have_is_a_refusal(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    broken = rule("invents", "Neg", one, lambda graph, res, x: "nobody")
    assert _refused(gr, broken) == "the replacement gives 'nobody', which is no result of the graph"


def test_a_read_result_that_is_not_given_is_a_refusal(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Exp(gr.op.Neg("x", outputs=["a"]), outputs=["y"]))
    broken = rule("drops", "Neg", one, lambda graph, res, x: None)
    assert _refused(gr, broken) == "the replacement does not give a, which is read"


def test_a_copy_that_names_an_output_is_kept(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Identity("x", outputs=["y"]))
    assert _refused(gr, rule("uncopied", "Identity", one, lambda graph, res, x: x)) == (
        "y is an output"
    )
    assert torch.equal(run(gr)[0], FLOATS)


def test_a_replacement_that_asks_for_what_it_replaces_is_refused(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        like = graph.values[res.outputs[0]].shape
        return graph.op.Expand(x, graph.make_initializer("", np.array(like)))

    broken = rule("itself", "Neg", one, make)
    assert _refused(gr, broken) == "the replacement reads y, which it replaces"


def test_a_lookup_that_fails_in_a_replacement_is_no_refusal(gr: GraphBuilder) -> None:
    """A fault of the rule: it is seen, and the graph is as it was."""
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))
    before = text(gr)
    with pytest.raises(KeyError, match="lost"):
        rewrite_graph(gr, [rule("faulty", "Neg", one, lambda graph, res, x: {}["lost"])])
    assert text(gr) == before


def test_another_rank_is_refused(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def make(graph: Any, res: Any, x: str) -> Any:
        made = graph.op.Reshape(x, "where")
        graph.set_rank(made, 2)
        return made

    gr.make_tensor_input("where", dtypes.int64, (2,))
    assert _refused(gr, rule("folded", "Neg", one, make)) == "y would have rank 2 instead of 1"


def _any_attributes(m: Any, root: Any) -> Match:
    return Match((root,), tuple(root.outputs), tuple(root.inputs))


def test_a_condition_that_cannot_be_answered_is_a_refusal(gr: GraphBuilder) -> None:
    gr.make_tensor_output(gr.op.Neg("x", outputs=["y"]))

    def match(m: Any, root: Any) -> Match | None:
        m.graph.get_constant(root.inputs[0])
        return one(m, root)

    reason = _refused(gr, rule("curious", "Neg", match, lambda graph, res, x: x))
    assert "'x' is not a constant" in reason


def test_what_a_matcher_refuses_is_counted_by_reason(gr: GraphBuilder) -> None:
    for place in range(3):
        gr.make_tensor_output(gr.op.Neg("x", outputs=[f"y{place}"]))
    gr.make_tensor_output(gr.op.Neg(gr.op.Abs("x"), outputs=["z"]))

    def match(m: Any, root: Any) -> Match | None:
        if m.producer(root.inputs[0], "Abs") is None:
            m.refuse("its input is an Abs")
            return None
        return pair("Neg", "Abs")(m, root)

    record = rewrite_graph(gr, [rule("picky", "Neg", match, lambda graph, res, x: graph.op.Exp(x))])
    statistics = record.statistics["picky"]
    assert statistics.matched == 1
    assert statistics.tried > sum(statistics.refused.values())
    assert statistics.refused["its input is an Abs"] >= 3
    assert statistics.seconds > 0


def test_a_replacement_that_reads_what_comes_later_is_refused(gr: GraphBuilder) -> None:
    """What the replacement reads is computed from what it replaces."""

    def match(m: Any, root: Any) -> Match | None:
        for other in m.readers("a", "Cos", 0):
            later = next(iter(m.uses.get(other.outputs[0], ())), None)
            if later is not None:
                return Match((root,), tuple(root.outputs), (later.outputs[0],))
        return None

    gr.make_tensor_output(gr.op.Sin("x", outputs=["a"]))
    gr.make_tensor_output(gr.op.Exp(gr.op.Cos("a"), outputs=["late"]))
    make = rule("later", "Sin", match, lambda graph, res, x: graph.op.Abs(x, outputs=res.outputs))
    assert "late" in _refused(gr, make)


def test_an_attribute_that_a_pattern_does_not_mention_has_its_default(gr: GraphBuilder) -> None:
    made = gr.make_node("LeakyRelu", ["x"], ["y"], alpha=0.5)
    gr.make_tensor_output(made)
    node = gr.nodes[-1]
    matcher = Matcher(gr, use_index(gr))
    assert not matcher.plain(node) and not matcher.plain(node, (), {"alpha": 0.01})
    assert matcher.plain(node, (), {"alpha": 0.5}) and matcher.plain(node, ("alpha",))
