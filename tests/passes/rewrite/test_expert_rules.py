"""Mixtures of experts: a matrix that is gathered for each row becomes one product an expert."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch

import ortable
from tests.weights.experts import HIDDEN, KINDS, block

EXPERTS = 4


def exported(kind: str, rows: int, dynamic: bool = False) -> tuple[Any, Any, torch.nn.Module]:
    """A program, the operators in it, and the module; matrices are gathered for each row."""
    module = block(kind, "batched_mm")
    shapes = ({1: torch.export.Dim("rows", min=2, max=64)},) if dynamic else None
    program = ortable.export(
        module, (torch.randn(1, rows, HIDDEN),), target="onnxruntime", dynamic_shapes=shapes
    )
    return program, Counter(node.op_type for node in program.model_proto.graph.node), module


def check(program: Any, module: torch.nn.Module, x: torch.Tensor) -> None:
    with torch.no_grad():
        wanted, found = module(x), program(x)
    if isinstance(wanted, tuple):
        wanted, found = wanted[0], found[0]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_is_multiplied_where_its_matrix_lies(kind: str) -> None:
    """Two products an expert, and none of a matrix for each row."""
    program, found, module = exported(kind, 8, dynamic=True)
    assert found["Split"] >= 2
    assert found["MatMul"] + found["Gemm"] >= 2 * EXPERTS
    for rows in (2, 5, 31):
        check(program, module, torch.randn(1, rows, HIDDEN))


def test_experts_that_no_row_takes() -> None:
    """Rows that are all equal take the same experts; the products of the others have no rows."""
    program, _, module = exported("mixtral", 8, dynamic=True)
    check(program, module, torch.randn(1, 1, HIDDEN).expand(1, 9, HIDDEN).contiguous())


def test_few_rows_keep_their_matrices() -> None:
    """One token takes two experts: copying two small matrices costs less than four products. The
    larger ones of the other projection are not copied."""
    program, found, module = exported("mixtral", 1)
    assert found["MatMul"] == 1
    assert found["Split"] == 2  # groups of rows, and gates beside what they let through
    check(program, module, torch.randn(1, 1, HIDDEN))


def test_a_number_that_is_not_a_number_stays() -> None:
    """NaN in a row is NaN in its result, and in no other row."""
    program, _, module = exported("mixtral", 8)
    x = torch.randn(1, 8, HIDDEN)
    x[0, 3, 7] = float("nan")
    with torch.no_grad():
        wanted, found = module(x), program(x)
    assert torch.equal(found.isnan(), wanted.isnan())
