"""Sizes in a traced graph of complex tensors, found by fuzzing."""

from __future__ import annotations

import torch
from torch.fx.experimental.proxy_tensor import make_fx

import ortable
from tests.exporter.helpers import assert_close, run_onnx


def test_a_size_that_no_input_has_stands_beside_complex_numbers() -> None:
    """The norm computes the number of singular values, which is the minimum of two sizes."""

    def norm(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.matrix_norm(x, 2, (0, 1))

    x = torch.randn(2, 3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))
    traced = make_fx(torch.func.functionalize(norm), tracing_mode="symbolic")(x)
    model = ortable.to_onnx(traced)
    (name,) = (value.name for value in model.graph.input)
    assert_close(run_onnx(model, {name: torch.view_as_real(x).numpy()}), [norm(x)])
