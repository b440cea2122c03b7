"""How analyses look at a graph: each result once, to one depth, and anew when the graph changes."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.passes.analysis.dataflow import (
    MAX_DEPTH,
    Analysis,
    Traversal,
    make_operator_analysis,
    same_as_input,
)
from ortable.passes.rewrite.engine import rewrite_graph
from ortable.passes.rewrite.rule import Match

from ..rewrite.hand_rules import ops, rule


def chain(length: int, op: str = "Abs") -> tuple[GraphBuilder, list[str]]:
    builder = GraphBuilder(18)
    names = [builder.make_tensor_input("x", dtypes.float32, (3,))]
    for _ in range(length):
        names.append(builder.make_node(op, [names[-1]]))
    return builder, names


def tower(height: int) -> tuple[GraphBuilder, str]:
    """A result that is added to itself, and the sum to itself, and so on."""
    builder = GraphBuilder(18)
    name = builder.make_tensor_input("x", dtypes.float32, (3,))
    for _ in range(height):
        name = builder.make_node("Add", [name, name])
    return builder, name


def counted() -> tuple[Analysis[str, bool], Counter[str]]:
    """Whether a result comes from x alone; and how often each result was looked at."""
    looks: Counter[str] = Counter()

    def step(traversal: Traversal[str, bool], name: str) -> bool:
        looks[name] += 1
        node = traversal.graph.values[name].producer
        return name == "x" if node is None else all(map(traversal.find_fact, node.inputs))

    return Analysis(False, step), looks


def test_a_result_that_is_read_twice_is_looked_at_once() -> None:
    graph, top = tower(20)
    analysis, looks = counted()
    assert analysis.fact_of(graph, top)
    assert set(looks.values()) == {1}


def test_what_lies_deeper_is_not_known_and_costs_no_power_of_two() -> None:
    graph, top = tower(3 * MAX_DEPTH)
    analysis, looks = counted()
    assert not analysis.fact_of(graph, top)
    assert looks.total() <= MAX_DEPTH


def test_a_result_that_was_met_too_deep_is_looked_at_again_from_nearer() -> None:
    graph, names = chain(MAX_DEPTH + 5)
    top = graph.make_node("Sum", [names[-1], names[MAX_DEPTH - 2]])
    looks: Counter[str] = Counter()

    def step(traversal: Traversal[str, bool], name: str) -> bool:
        looks[name] += 1
        node = traversal.graph.values[name].producer
        return (
            name == "x"
            if node is None
            else max([traversal.find_fact(each) for each in node.inputs])
        )

    analysis = Analysis(False, step)
    assert analysis.fact_of(graph, top)
    assert max(looks.values()) == 2


def test_facts_are_kept_while_rules_run_but_not_those_that_were_cut_short() -> None:
    graph, names = chain(MAX_DEPTH + 5)
    analysis, looks = counted()
    graph.analysis_results = {}
    assert not analysis.fact_of(graph, names[-1])
    assert analysis.fact_of(graph, names[10])
    before = looks.total()
    assert analysis.fact_of(graph, names[10]) and analysis.fact_of(graph, names[5])
    assert looks.total() == before
    assert not any(name in graph.analysis_results[analysis] for name in names[-3:])
    graph.analysis_results = None
    assert analysis.fact_of(graph, names[10])
    assert looks.total() > before


def test_a_replacement_drops_what_was_found() -> None:
    """A rule that asks whether a result is made by Relu sees what another one put there."""
    made_by_relu = make_operator_analysis(
        False,
        lambda graph, name: None,
        {"Relu": lambda traversal, node: True, "Neg": same_as_input},
    )
    answers: list[bool] = []

    def abs_becomes_relu(m, root):
        return Match((root,), tuple(root.outputs), (root.inputs[0],))

    def exp_of_relu(m, root):
        answers.append(made_by_relu.fact_of(m.graph, root.inputs[0]))
        return None

    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (3,))
    builder.make_tensor_output(builder.op.Exp(builder.op.Neg(builder.op.Abs("x"))))
    rules = [
        rule("asks", "Exp", exp_of_relu, lambda graph, res: None),
        rule("asks_again", "Exp", exp_of_relu, lambda graph, res: None, stage="fuse"),
        rule("relu", "Abs", abs_becomes_relu, lambda graph, res, x: graph.op.Relu(x), stage="fuse"),
    ]
    rewrite_graph(builder, rules)
    assert ops(builder) == ["Relu", "Neg", "Exp"]
    assert answers[0] is False and answers[-1] is True
    assert builder.analysis_results is None


def test_constants_need_no_look_at_a_node() -> None:
    builder = GraphBuilder(18)
    zero = builder.make_initializer("zero", np.zeros(3, np.float32))
    known = make_operator_analysis(
        "?", lambda graph, name: "constant" if name == zero else None, {}
    )
    assert known.fact_of(builder, zero) == "constant"
    assert known.fact_of(builder, "nothing") == "?"
