"""What a replacement reads and what comes later in the graph is brought forward, when it can be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.debug.harness.runs import ModelRunner, check_same_values, make_checked_model
from ortable.ir.node import Node
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.index import GraphIndex
from ortable.passes.rewrite.matcher import Matcher
from ortable.passes.rewrite.rule import Match, Rule

from .hand_rules import ops, rule


def graph() -> GraphBuilder:
    gr = GraphBuilder(18)
    gr.make_tensor_input("x", dtypes.float32, (4,))
    return gr


def products(m: Matcher, root: Node) -> Iterator[tuple[Node, str, str]]:
    (x, first) = root.inputs
    for other in m.readers(x, "Mul", 0):
        if other is not root:
            yield other, first, other.inputs[1]


def match(m: Matcher, root: Node) -> Match | None:
    for other, first, second in products(m, root):
        return Match(
            (root, other), (*root.outputs, *other.outputs), (root.inputs[0], first, second)
        )
    return None


def test_a_factor_that_is_made_later_is_made_earlier() -> None:
    gr = graph()
    gr.make_tensor_input("a", dtypes.float32, (1,))
    gr.make_tensor_input("b", dtypes.float32, (1,))
    first = gr.op.Mul("x", "a")
    early = gr.op.Relu(first)
    late = gr.op.Exp(gr.op.Neg("b"))
    gr.op.Add(early, gr.op.Mul("x", late), outputs=["y"])
    gr.make_tensor_output("y")
    record = rewrite_graph(gr, [stacked()])
    assert record.counts() == {"stacked": 1}
    # the factor of the second product stands before what replaces the first
    assert ops(gr)[:2] == ["Neg", "Exp"] and ops(gr)[-1] == "Add"
    make_checked_model(gr)


def stacked() -> Rule:
    """Two products of ``x`` are made again, from both factors; once in a graph."""

    def sums(graph: Any, res: Any, x: str, first: str, second: str) -> Any:
        total = graph.make_node("Add", [first, second])
        one = graph.make_node("Mul", [x, graph.make_node("Sub", [total, second])])
        return one, graph.make_node("Mul", [x, graph.make_node("Sub", [total, first])])

    found = rule("stacked", "Mul", match, sums, size=2)
    done: list[Node] = []

    def once(m: Matcher, root: Node) -> Match | None:
        place = None if done else match(m, root)
        if place is not None:
            done.append(root)
        return place

    return rule("stacked", "Mul", once, found.make, size=2)


def test_a_factor_that_needs_the_replaced_result_is_a_refusal() -> None:
    gr = graph()
    gr.make_tensor_input("a", dtypes.float32, (1,))
    first = gr.op.Mul("x", "a", outputs=["first"])
    gr.op.Add(first, gr.op.Mul("x", gr.op.Exp(first)), outputs=["y"])
    gr.make_tensor_output("y")
    before = make_checked_model(gr)
    record = rewrite_graph(gr, [stacked()])
    assert not record.fired and ops(gr) == ["Mul", "Exp", "Mul", "Add"]
    (reason,) = record.statistics["stacked"].refused
    assert "comes later in the graph" in reason
    feeds = {"x": torch.randn(4), "a": torch.randn(1)}
    check_same_values(ModelRunner(before)(feeds), ModelRunner(make_checked_model(gr))(feeds))


def test_results_replaced_twice_are_known_by_the_last_one() -> None:
    """So is one that came back meanwhile, and took another way."""
    gr = graph()
    names = [gr.op.Exp("x") for _ in range(4)]
    first, second, third, last = names
    index = GraphIndex(gr)
    index.redirect_readers(first, second)
    index.redirect_readers(second, third)
    assert index.aliases == {first: third, second: third}
    index.redirect_readers(first, last)
    index.redirect_readers(third, "x")
    assert index.aliases == {first: last, second: "x", third: "x"}
