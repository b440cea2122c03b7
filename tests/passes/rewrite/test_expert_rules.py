"""Mixtures of experts: a weight gathered per row becomes one product per expert."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

import ortable
from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.passes.rewrite.helpers.experts import can_quantize_expert
from ortable.passes.weight_quantization import QuantizationRun, WeightOptions
from tests.weights.experts import HIDDEN, KINDS, block

EXPERTS = 4


def export_experts(kind: str, rows: int, dynamic: bool = False) -> tuple[Any, Any, torch.nn.Module]:
    """Return a program, its node counts, and the module, which gathers a matrix per row."""
    module = block(kind, "batched_mm")
    shapes = ({1: torch.export.Dim("rows", min=2, max=64)},) if dynamic else None
    program = ortable.export(
        module, (torch.randn(1, rows, HIDDEN),), target="onnxruntime", dynamic_shapes=shapes
    )
    return program, Counter(node.op_type for node in program.model_proto.graph.node), module


def check_same_as_torch(program: Any, module: torch.nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        expected, result = module(x), program(x)
    if isinstance(expected, tuple):
        expected, result = expected[0], result[0]
    torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_multiplied_where_its_matrix_lies(kind: str) -> None:
    """Each expert has two products, and no matrix is gathered per row."""
    program, op_counts, module = export_experts(kind, 8, dynamic=True)
    assert op_counts["Split"] >= 2
    assert op_counts["MatMul"] + op_counts["Gemm"] >= 2 * EXPERTS
    for rows in (2, 5, 31):
        check_same_as_torch(program, module, torch.randn(1, rows, HIDDEN))


def test_experts_that_no_row_takes() -> None:
    """Equal rows select the same experts; the products of the other experts have no rows."""
    program, _, module = export_experts("mixtral", 8, dynamic=True)
    check_same_as_torch(
        program, module, torch.randn(1, 1, HIDDEN).expand(1, 9, HIDDEN).contiguous()
    )


def test_few_rows_keep_their_matrices() -> None:
    """For one token, copying two small matrices costs less than four products.

    The larger matrices of the other projection are not copied.
    """
    program, op_counts, module = export_experts("mixtral", 1)
    assert op_counts["MatMul"] == 1
    assert op_counts["Split"] == 2  # the groups of rows, and the gate and up projections
    check_same_as_torch(program, module, torch.randn(1, 1, HIDDEN))


def test_a_number_that_is_not_a_number_stays() -> None:
    """NaN in a row stays in the result of that row alone."""
    program, _, module = export_experts("mixtral", 8)
    x = torch.randn(1, 8, HIDDEN)
    x[0, 3, 7] = float("nan")
    with torch.no_grad():
        expected, result = module(x), program(x)
    assert torch.equal(result.isnan(), expected.isnan())


@pytest.mark.parametrize(
    ("changes", "is_quantized"),
    [
        ({}, True),
        ({"index": 2}, True),
        ({"index": 3}, False),
        ({"index": -1}, False),
        ({"index": [1]}, False),  # the product has one more axis
        ({"index": None}, False),
        ({"shape": (3, 31, 64)}, False),  # less than a group of codes
        ({"shape": (3, 32, 0)}, False),
        ({"shape": (32, 64)}, False),
        ({"dtype": np.float64}, False),
        ({"options": None}, False),
        ({"options": WeightOptions(exclude=("w.1",))}, False),
        ({"options": WeightOptions(include=("w.1",))}, True),
        ({"options": WeightOptions(include=("w.2",))}, False),
    ],
)
def test_which_matrix_of_a_stack_gets_codes(changes: dict[str, Any], is_quantized: bool) -> None:
    case = {"index": 1, "shape": (3, 32, 64), "dtype": np.float32, "options": WeightOptions()}
    case |= changes
    graph = GraphBuilder(21)
    graph.rounding = None if case["options"] is None else QuantizationRun(case["options"])
    weight = graph.make_initializer("w", np.ones(case["shape"], case["dtype"]))
    if case["index"] is None:
        index = graph.make_tensor_input("index", dtypes.int64, ())
    else:
        index = graph.make_initializer("", np.array(case["index"]))
    assert can_quantize_expert(graph, weight, index, False) == is_quantized
    assert not can_quantize_expert(graph, graph.op.Identity(weight), index, False)
