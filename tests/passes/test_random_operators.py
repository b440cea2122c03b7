"""Each operator that draws random numbers draws at every run, and two nodes draw twice: no pass
folds them, shares them, or counts their results as equal. Those of `specs/onnx` with the trait are
all that ONNX calls non-deterministic (tests/codegen/onnx/test_traits.py)."""

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
# what each operator takes: its inputs, its attributes
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Bernoulli": ((HALVES,), {}),
    "Dropout": ((HALVES, np.float32(0.5), np.array(True)), {}),
    "Multinomial": ((HALVES,), {"sample_size": 4}),
    "RandomNormal": ((), {"shape": [2, 3]}),
    "RandomNormalLike": ((HALVES,), {}),
    "RandomUniform": ((), {"shape": [2, 3]}),
    "RandomUniformLike": ((HALVES,), {}),
}


def _draws(op: str, seed: float | None) -> tuple[GraphBuilder, list[str]]:
    """A graph with two equal nodes, all of whose inputs are constants, read by a sum."""
    builder = GraphBuilder(18)
    builder.make_tensor_input("x", dtypes.float32, (1,))
    inputs, attributes = CALLS[op]
    names = [builder.make_initializer("", each) for each in inputs]
    if seed is not None:
        attributes = {**attributes, "seed": seed}
    drawn = [builder.make_node(op, names, **attributes) for _ in range(2)]
    one, other = (builder.op.Cast(name, to=dtypes.float32) for name in drawn)
    builder.make_tensor_output(builder.op.Add(builder.op.Sub(one, other), "x", outputs=["y"]))
    return builder, drawn


def test_each_operator_with_the_trait_is_called_here() -> None:
    assert set(CALLS) == {key for key in RANDOM if "::" not in key}


@pytest.mark.parametrize("seed", [None, 1.0], ids=["free", "seeded"])
@pytest.mark.parametrize("op", sorted(CALLS))
def test_every_pass_leaves_both_draws(op: str, seed: float | None) -> None:
    builder, drawn = _draws(op, seed)
    assert not any(builder.is_constant(name) for name in drawn)
    assert not same_result(builder, *drawn)
    options = pipeline.select_passes(True, "all", folding=True, weight_transposes=True)
    pipeline.run_passes(builder, options)
    assert [node.op_type for node in builder.nodes].count(op) == 2


@pytest.mark.parametrize("op", sorted(CALLS))
def test_a_graph_that_is_read_keeps_both_draws(op: str) -> None:
    """The same nodes within the branches of an If."""
    builder, _ = _draws(op, None)
    inner = builder.to_onnx(optimize=False).graph
    del inner.input[:]
    branches = {"then_branch": inner, "else_branch": inner}
    node = onnx.helper.make_node("If", ["c"], ["z"], **branches)
    given = [
        onnx.helper.make_tensor_value_info("c", dtypes.boolean, []),
        onnx.helper.make_tensor_value_info("x", dtypes.float32, [1]),
    ]
    result = onnx.helper.make_tensor_value_info("z", dtypes.float32, None)
    graph = onnx.helper.make_graph([node], "outer", given, [result])
    opsets = [onnx.helper.make_opsetid("", 18)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)
    read = GraphBuilder(model)
    options = pipeline.select_passes(True, "all", folding=True, weight_transposes=True)
    pipeline.run_passes(read, options)
    (kept,) = read.to_onnx(optimize=False).graph.node
    for attribute in kept.attribute:
        assert [each.op_type for each in attribute.g.node].count(op) == 2
