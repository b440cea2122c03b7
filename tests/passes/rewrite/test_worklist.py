"""The engine selects rules by producers, and restricted passes give the result of full ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import ortable
from benchmarks.models.inference import build
from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.ir.node import Node
from ortable.passes.rewrite.decision_tree import build_tree, rules_at
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.matcher import Matcher
from ortable.passes.rewrite.rule import CONSTANT, Match, Rule
from ortable.passes.rewrite.worklist import Worklist

from .hand_rules import match_one, ops, replacement, rule


def path_rule(name: str, root: str, *path: tuple[int, str], size: int = 1) -> Rule:
    return Rule(name, "tests", "simplify", root, (path,), size, {}, "match", "make")


def candidates(rules: list[Rule], gr: GraphBuilder, node: Node) -> list[str]:
    producers = {result_name: producer for producer in gr.nodes for result_name in producer.outputs}
    return [rule.name for rule in rules_at(build_tree(rules)[node.key], node, producers, gr.values)]


def test_rules_are_found_by_their_paths() -> None:
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", dtypes.float32, (4,))
    product = gr.op.Mul(gr.op.Exp("x"), gr.op.Relu("x"))
    gr.op.Add(product, gr.op.Relu("x"))
    rules = [
        path_rule("first", "Add", (0, "Mul"), (1, "Relu"), size=3),
        path_rule("second", "Add", (0, "Mul"), (0, "Relu"), size=3),  # the producer is Exp
        path_rule("third", "Add", (1, "Mul"), size=2),  # Mul is the other input
        path_rule("fourth", "Add", (-1, "Relu"), size=2),
        path_rule("fifth", "Add"),
        path_rule("number", "Add", (-1, CONSTANT)),
    ]
    assert candidates(rules, gr, gr.nodes[-1]) == ["first", "fourth", "fifth"]
    gr.op.Add(product, gr.make_initializer("", torch.zeros(1).numpy()))
    assert candidates(rules, gr, gr.nodes[-1]) == ["first", "fifth", "number"]


def test_a_rule_is_tried_once_where_both_inputs_fit() -> None:
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", dtypes.float32, (4,))
    gr.op.Add(gr.op.Relu("x"), gr.op.Relu("x"))
    assert candidates([path_rule("either", "Add", (-1, "Relu"))], gr, gr.nodes[-1]) == ["either"]


def match_unshared(m: Matcher, root: Node) -> Match | None:
    """Match a node whose input has no other reader."""
    if (
        len(list(m.readers(root.inputs[0], "Exp"))) + len(list(m.readers(root.inputs[0], "Neg")))
        > 1
    ):
        m.refuse("read elsewhere")
        return None
    return match_one(m, root)


def test_a_node_that_asked_for_readers_is_looked_at_again() -> None:
    """A rejection that depended on use counts is revisited once another reader is removed."""
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", dtypes.float32, (4,))
    shared = gr.op.Relu("x")
    exp = gr.op.Exp(shared)
    neg = gr.op.Neg(shared)
    gr.op.Add(gr.op.Add(exp, neg), gr.op.Add(shared, shared), outputs=["y"])
    gr.make_tensor_output("y")
    make_log = rule(
        "exp_alone", "Exp", match_unshared, lambda g, res, x: g.make_node("Log", [x], res.outputs)
    )
    record = rewrite_graph(gr, [replacement("neg_is_abs", "Neg", "Abs"), make_log])
    assert record.counts() == {"neg_is_abs": 1, "exp_alone": 1}
    assert "Log" in ops(gr) and "Exp" not in ops(gr)


@pytest.mark.parametrize("name", ["gpt2", "llama", "swin"])
def test_further_walks_leave_the_outcome_as_it_is(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, arguments = build(name, small=True)
    with torch.no_grad():
        ep = torch.export.export(model.eval().requires_grad_(False), arguments, strict=False)

    def convert() -> tuple[bytes, int, int]:
        proto, builder = ortable.to_onnx(ep, target="onnxruntime", return_builder=True)
        record = builder.record.rewrites
        tried = sum(statistics.tried for statistics in record.statistics.values())
        return proto.SerializeToString(deterministic=True), len(record.fired), tried

    restricted = convert()
    next_pass = Worklist.next_pass

    def make_full_pass(self: Worklist, keys: Any) -> Worklist:
        self.learnt -= 1  # as if a replacement had affected results anywhere
        return next_pass(self, keys)

    monkeypatch.setattr(Worklist, "next_pass", make_full_pass)
    full = convert()
    assert restricted[:2] == full[:2]
    assert restricted[2] < 0.75 * full[2]
