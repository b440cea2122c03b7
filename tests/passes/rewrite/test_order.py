"""The engine moves producers of a replacement's inputs forward where possible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.ir.node import Node
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.index import GraphIndex
from ortable.passes.rewrite.matcher import Matcher
from ortable.passes.rewrite.rule import Match, Rule
from ortable.testing.runs import ModelRunner, check_same_values, make_checked_model

from .hand_rules import ops, rule


def make_graph() -> GraphBuilder:
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", dtypes.float32, (4,))
    return gr


def find_other_products(m: Matcher, root: Node) -> Iterator[tuple[Node, str, str]]:
    (x, factor) = root.inputs
    for other_product in m.readers(x, "Mul", 0):
        if other_product is not root:
            yield other_product, factor, other_product.inputs[1]


def match_two_products(m: Matcher, root: Node) -> Match | None:
    for other, first, second in find_other_products(m, root):
        return Match(
            (root, other), (*root.outputs, *other.outputs), (root.inputs[0], first, second)
        )
    return None


def test_a_factor_that_is_made_later_is_made_earlier() -> None:
    gr = make_graph()
    gr.make_tensor_input("a", dtypes.float32, (1,))
    gr.make_tensor_input("b", dtypes.float32, (1,))
    first_product = gr.op.Mul("x", "a")
    early_reader = gr.op.Relu(first_product)
    late_factor = gr.op.Exp(gr.op.Neg("b"))
    gr.op.Add(early_reader, gr.op.Mul("x", late_factor), outputs=["y"])
    gr.make_tensor_output("y")
    record = rewrite_graph(gr, [make_rewrite_once_rule()])
    assert record.counts() == {"stacked": 1}
    # the factor of the second product precedes the replacement of the first
    assert ops(gr)[:2] == ["Neg", "Exp"] and ops(gr)[-1] == "Add"
    make_checked_model(gr)


def make_rewrite_once_rule() -> Rule:
    """Return a rule that rewrites two products of `x` from both factors, once per graph."""

    def make_products(graph: Any, res: Any, x: str, first: str, second: str) -> Any:
        total = graph.make_node("Add", [first, second])
        first_product = graph.make_node("Mul", [x, graph.make_node("Sub", [total, second])])
        return first_product, graph.make_node("Mul", [x, graph.make_node("Sub", [total, first])])

    inner_rule = rule("stacked", "Mul", match_two_products, make_products, size=2)
    matched_roots: list[Node] = []

    def match_once(m: Matcher, root: Node) -> Match | None:
        match_result = None if matched_roots else match_two_products(m, root)
        if match_result is not None:
            matched_roots.append(root)
        return match_result

    return rule("stacked", "Mul", match_once, inner_rule.make, size=2)


def test_a_factor_that_needs_the_replaced_result_is_a_refusal() -> None:
    gr = make_graph()
    gr.make_tensor_input("a", dtypes.float32, (1,))
    first = gr.op.Mul("x", "a", outputs=["first"])
    gr.op.Add(first, gr.op.Mul("x", gr.op.Exp(first)), outputs=["y"])
    gr.make_tensor_output("y")
    before = make_checked_model(gr)
    record = rewrite_graph(gr, [make_rewrite_once_rule()])
    assert not record.fired and ops(gr) == ["Mul", "Exp", "Mul", "Add"]
    (reason,) = record.statistics["stacked"].refused
    assert "comes later in the graph" in reason
    feeds = {"x": torch.randn(4), "a": torch.randn(1)}
    check_same_values(ModelRunner(before)(feeds), ModelRunner(make_checked_model(gr))(feeds))


def test_results_replaced_twice_are_known_by_the_last_one() -> None:
    """Aliases follow the latest replacement, also for a result that was replaced again."""
    gr = make_graph()
    names = [gr.op.Exp("x") for _ in range(4)]
    first, second, third, last = names
    index = GraphIndex(gr)
    index.redirect_readers(first, second)
    index.redirect_readers(second, third)
    assert index.aliases == {first: third, second: third}
    index.redirect_readers(first, last)
    index.redirect_readers(third, "x")
    assert index.aliases == {first: last, second: "x", third: "x"}
