"""Conversion of sizes, conditions and numbers that torch represents symbolically."""

from __future__ import annotations

import numpy as np
import torch
from torch.export import Dim

from tests.modules import Function

from .helpers import export, interpret, run


def test_size_arithmetic_emits_nothing_until_a_result_needs_it() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * (x.shape[0] * 2 + x.shape[1] // 2)

    program = export(
        Function(forward), torch.rand(4, 6), dynamic_shapes=(({0: Dim("a"), 1: Dim("b")},),)
    )
    interpreter = interpret(program.graph_module)
    x = torch.rand(5, 7)
    (output,) = run(interpreter, x)
    np.testing.assert_allclose(output, x.numpy() * 13, rtol=1e-6)
    values = {str(v) for n, v in interpreter.values.items() if n.name.startswith("sym_size")}
    assert len(values) == 2
    ops = [node.op_type for node in interpreter.builder.nodes]
    assert ops.count("Shape") == 2


def test_a_condition_on_a_size_is_computed_by_the_graph() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.shape[0] > 4, lambda a: a.sin(), lambda a: a.cos(), (x,))

    program = export(Function(forward), torch.rand(5), dynamic_shapes=(({0: Dim.DYNAMIC},),))
    interpreter = interpret(program.graph_module)
    for size in (3, 6):
        x = torch.rand(size)
        (output,) = run(interpreter, x)
        np.testing.assert_allclose(output, forward(x).numpy(), rtol=1e-6)


def test_run_time_checks_of_torch_are_not_converted() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] > 3)
        return torch.relu(x)

    program = export(Function(forward), torch.rand(5), dynamic_shapes=(({0: Dim("a", min=4)},),))
    assert [n.op_type for n in interpret(program.graph_module).builder.to_onnx().graph.node] == [
        "Relu"
    ]


def test_an_integer_computed_by_the_graph_sizes_its_results() -> None:
    def forward(x: torch.Tensor) -> torch.Tensor:
        n = x.sum().item()
        torch._check(n >= 0)
        torch._check(n < 100)
        return torch.zeros(n)

    program = export(Function(forward), torch.tensor([3, 2]))
    interpreter = interpret(program.graph_module)
    (output,) = run(interpreter, np.array([1, 6]))
    assert output.shape == (7,)
