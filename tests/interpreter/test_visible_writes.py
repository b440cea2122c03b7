"""Nodes that write into arguments: an operator whose flag says so does when it is given what it
would write into."""

from __future__ import annotations

import pytest
import torch
from torch.fx import Graph

from ortable.interpreter.mutation import write_reason

FLAGS = {"aten::batch_norm": "training"}


@pytest.mark.parametrize(
    ("running", "training", "told"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_a_normalisation_writes_the_statistics_that_it_has(
    running: bool, training: bool, told: bool
) -> None:
    graph = Graph()
    x, mean, var = (graph.placeholder(name) for name in ("x", "mean", "var"))
    given = (mean, var) if running else (None, None)
    arguments = (x, None, None, *given, training, 0.1, 1e-5, False)
    node = graph.call_function(torch.ops.aten.batch_norm.default, arguments)
    found = write_reason(node, FLAGS)
    assert (found is not None) == told
    if told:
        assert found == "training=True makes it update its running statistics in place"


def test_an_operator_whose_schema_writes_writes() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    assert write_reason(graph.call_function(torch.ops.aten.relu_.default, (x,)), FLAGS)
    assert write_reason(graph.call_function(torch.ops.aten.relu.default, (x,)), FLAGS) is None
