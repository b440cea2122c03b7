"""Analyses visit each result once, stop at `MAX_DEPTH` and drop facts when the graph changes."""

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


def make_chain(length: int, op: str = "Abs") -> tuple[GraphBuilder, list[str]]:
    builder = GraphBuilder(18)
    names = [builder.make_tensor_input("x", dtypes.float32, (3,))]
    for _ in range(length):
        names.append(builder.make_node(op, [names[-1]]))
    return builder, names


def make_tower(height: int) -> tuple[GraphBuilder, str]:
    """Return a graph that adds the last result to itself, `height` times."""
    builder = GraphBuilder(18)
    name = builder.make_tensor_input("x", dtypes.float32, (3,))
    for _ in range(height):
        name = builder.make_node("Add", [name, name])
    return builder, name


def make_counting_analysis() -> tuple[Analysis[str, bool], Counter[str]]:
    """Return an analysis for results that depend on x alone, and its visits per result."""
    visits: Counter[str] = Counter()

    def step(traversal: Traversal[str, bool], name: str) -> bool:
        visits[name] += 1
        node = traversal.graph.values[name].producer
        return name == "x" if node is None else all(map(traversal.find_fact, node.inputs))

    return Analysis(False, step), visits


def test_a_result_that_is_read_twice_is_looked_at_once() -> None:
    graph, top = make_tower(20)
    analysis, visits = make_counting_analysis()
    assert analysis.fact_of(graph, top)
    assert set(visits.values()) == {1}


def test_what_lies_deeper_is_not_known_and_costs_no_power_of_two() -> None:
    graph, top = make_tower(3 * MAX_DEPTH)
    analysis, visits = make_counting_analysis()
    assert not analysis.fact_of(graph, top)
    assert visits.total() <= MAX_DEPTH


def test_a_result_that_was_met_too_deep_is_looked_at_again_from_nearer() -> None:
    graph, names = make_chain(MAX_DEPTH + 5)
    top = graph.make_node("Sum", [names[-1], names[MAX_DEPTH - 2]])
    visits: Counter[str] = Counter()

    def step(traversal: Traversal[str, bool], name: str) -> bool:
        visits[name] += 1
        node = traversal.graph.values[name].producer
        return (
            name == "x"
            if node is None
            else max([traversal.find_fact(input_name) for input_name in node.inputs])
        )

    analysis = Analysis(False, step)
    assert analysis.fact_of(graph, top)
    assert max(visits.values()) == 2


def test_facts_are_kept_while_rules_run_but_not_those_that_were_cut_short() -> None:
    graph, names = make_chain(MAX_DEPTH + 5)
    analysis, visits = make_counting_analysis()
    graph.analysis_results = {}
    assert not analysis.fact_of(graph, names[-1])
    assert analysis.fact_of(graph, names[10])
    visits_before = visits.total()
    assert analysis.fact_of(graph, names[10]) and analysis.fact_of(graph, names[5])
    assert visits.total() == visits_before
    assert not any(name in graph.analysis_results[analysis] for name in names[-3:])
    graph.analysis_results = None
    assert analysis.fact_of(graph, names[10])
    assert visits.total() > visits_before


def test_a_replacement_drops_what_was_found() -> None:
    """A rule that uses an analysis sees the Relu that another rule inserted."""
    comes_from_relu = make_operator_analysis(
        False,
        lambda graph, name: None,
        {"Relu": lambda traversal, node: True, "Neg": same_as_input},
    )
    facts: list[bool] = []

    def match_abs(m, root):
        return Match((root,), tuple(root.outputs), (root.inputs[0],))

    def record_fact(m, root):
        facts.append(comes_from_relu.fact_of(m.graph, root.inputs[0]))
        return None

    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (3,))
    builder.make_tensor_output(builder.op.Exp(builder.op.Neg(builder.op.Abs("x"))))
    rules = [
        rule("asks", "Exp", record_fact, lambda graph, res: None),
        rule("asks_again", "Exp", record_fact, lambda graph, res: None, stage="fuse"),
        rule("relu", "Abs", match_abs, lambda graph, res, x: graph.op.Relu(x), stage="fuse"),
    ]
    rewrite_graph(builder, rules)
    assert ops(builder) == ["Relu", "Neg", "Exp"]
    assert facts[0] is False and facts[-1] is True
    assert builder.analysis_results is None


def test_constants_need_no_look_at_a_node() -> None:
    builder = GraphBuilder(18)
    zero = builder.make_initializer("zero", np.zeros(3, np.float32))
    known = make_operator_analysis(
        "?", lambda graph, name: "constant" if name == zero else None, {}
    )
    assert known.fact_of(builder, zero) == "constant"
    assert known.fact_of(builder, "nothing") == "?"
