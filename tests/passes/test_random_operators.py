"""No pass folds, merges or treats as equal the nodes of operators that draw random numbers.

tests/codegen/onnx/test_traits.py checks that the trait `random` in `specs/onnx` covers every
operator that ONNX calls non-deterministic.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from ortable import GraphBuilder, dtypes
from ortable.passes import pipeline
from ortable.passes.analysis.equality import same_result
from ortable_generated.onnx.traits import RANDOM

HALVES = np.full((2, 3), 0.5, np.float32)
# (inputs, attributes) of a call of each operator
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Bernoulli": ((HALVES,), {}),
    "Dropout": ((HALVES, np.float32(0.5), np.array(True)), {}),
    "Multinomial": ((HALVES,), {"sample_size": 4}),
    "RandomNormal": ((), {"shape": [2, 3]}),
    "RandomNormalLike": ((HALVES,), {}),
    "RandomUniform": ((), {"shape": [2, 3]}),
    "RandomUniformLike": ((HALVES,), {}),
}


def _make_graph_with_two_draws(op: str, seed: float | None) -> tuple[GraphBuilder, list[str]]:
    """Return a graph that adds up two equal nodes with constant inputs, and their results."""
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (1,))
    inputs, attributes = CALLS[op]
    names = [builder.make_initializer("", value) for value in inputs]
    if seed is not None:
        attributes = {**attributes, "seed": seed}
    draws = [builder.make_node(op, names, **attributes) for _ in range(2)]
    first, second = (builder.op.Cast(name, to=dtypes.float32) for name in draws)
    builder.make_tensor_output(builder.op.Add(builder.op.Sub(first, second), "x", outputs=["y"]))
    return builder, draws


def test_each_operator_with_the_trait_is_called_here() -> None:
    assert set(CALLS) == {key for key in RANDOM if "::" not in key}


@pytest.mark.parametrize("seed", [None, 1.0], ids=["free", "seeded"])
@pytest.mark.parametrize("op", sorted(CALLS))
def test_every_pass_leaves_both_draws(op: str, seed: float | None) -> None:
    builder, draws = _make_graph_with_two_draws(op, seed)
    assert not any(builder.is_constant(name) for name in draws)
    assert not same_result(builder, *draws)
    options = pipeline.select_passes(True, "all", folding=True, transform_weights=True)
    pipeline.run_passes(builder, options)
    assert [node.op_type for node in builder.nodes].count(op) == 2


@pytest.mark.parametrize("op", sorted(CALLS))
def test_a_graph_that_is_read_keeps_both_draws(op: str) -> None:
    """The nodes are in the branches of an If."""
    builder, _ = _make_graph_with_two_draws(op, None)
    branch = builder.to_onnx(optimize=False).graph
    del branch.input[:]
    branches = {"then_branch": branch, "else_branch": branch}
    node = onnx.helper.make_node("If", ["c"], ["z"], **branches)
    inputs = [
        onnx.helper.make_tensor_value_info("c", dtypes.boolean, []),
        onnx.helper.make_tensor_value_info("x", dtypes.float32, [1]),
    ]
    output = onnx.helper.make_tensor_value_info("z", dtypes.float32, None)
    graph = onnx.helper.make_graph([node], "outer", inputs, [output])
    opsets = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    outer = GraphBuilder(model)
    options = pipeline.select_passes(True, "all", folding=True, transform_weights=True)
    pipeline.run_passes(outer, options)
    (if_node,) = outer.to_onnx(optimize=False).graph.node
    for attribute in if_node.attribute:
        assert [inner_node.op_type for inner_node in attribute.g.node].count(op) == 2
