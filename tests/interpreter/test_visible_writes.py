"""An operator whose flag makes it write does so only where it has an argument to write into."""

from __future__ import annotations

import pytest
import torch
from torch.fx import Graph

from ortable.interpreter.mutation import write_reason

FLAGS = {"aten::batch_norm": "training"}


@pytest.mark.parametrize(
    ("running", "training", "writes"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_a_normalisation_writes_the_statistics_that_it_has(
    running: bool, training: bool, writes: bool
) -> None:
    graph = Graph()
    x, mean, var = (graph.placeholder(name) for name in ("x", "mean", "var"))
    statistics = (mean, var) if running else (None, None)
    arguments = (x, None, None, *statistics, training, 0.1, 1e-5, False)
    node = graph.call_function(torch.ops.aten.batch_norm.default, arguments)
    reason = write_reason(node, FLAGS)
    assert (reason is not None) == writes
    if writes:
        assert reason == "training=True makes it update its running statistics in place"


def test_an_operator_whose_schema_writes_writes() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    assert write_reason(graph.call_function(torch.ops.aten.relu_.default, (x,)), FLAGS)
    assert write_reason(graph.call_function(torch.ops.aten.relu.default, (x,)), FLAGS) is None
