"""Weights with NaN, infinite or huge elements are not quantized."""

from __future__ import annotations

import pytest
import torch

import ortable
from ortable.errors import UnsupportedCase
from ortable.passes.weight_quantization import WeightOptions, quantize_matrix
from tests.onnx_runs import run


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf"), 3e38])
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_weight_with_one_number_that_is_none_has_no_codes(number: float, symmetric: bool) -> None:
    weight = torch.rand(8, 64)
    weight[5, 40] = number
    message = "a weight with NaN, infinities or numbers near them cannot be quantized"
    with pytest.raises(UnsupportedCase, match=message):
        quantize_matrix(weight, WeightOptions(symmetric=symmetric))


def test_a_model_with_such_a_weight_rounds_the_others() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 32))
    with torch.no_grad():
        model[1].weight[0, 0] = float("nan")
    x = torch.rand(2, 64)
    program = ortable.export(model, (x,), weights="int4")
    op_types = [node.op_type for node in program.model_proto.graph.node]
    assert op_types == ["DequantizeLinear", "MatMul", "Add", "Gemm"]
    (result,) = run(program, x)
    assert result[:, 0].isnan().all()
    torch.testing.assert_close(result[:, 1:], model(x)[:, 1:], atol=0.1, rtol=0.1)
