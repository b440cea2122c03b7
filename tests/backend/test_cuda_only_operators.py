"""CUDA-only operators, compiled and exported; `tests/specs/cuda_only.py` has CPU kernels."""

from __future__ import annotations

import pytest
import torch

from ortable import to_onnx
from tests.exporter.helpers import run_onnx
from tests.modules import Function
from tests.specs import cuda_only

GENERATOR = torch.Generator().manual_seed(3)
ATEN = torch.ops.aten


def half(*shape):
    return torch.randn(shape, generator=GENERATOR).half()


CALLS = {
    "mm": (lambda a, b: torch.mm(a, b, out_dtype=torch.float32) + 1, (half(2, 3), half(3, 4))),
    "bmm": (
        lambda a, b: torch.bmm(a, b, out_dtype=torch.float32).relu(),
        (half(5, 2, 3), half(5, 3, 4)),
    ),
    "addmm": (
        lambda a, b: torch.addmm(torch.ones(4), a, b, out_dtype=torch.float32),
        (half(2, 3), half(3, 4)),
    ),
    "flash": (
        lambda x: ATEN._scaled_dot_product_flash_attention(x, x, x, is_causal=True)[:2],
        (half(2, 3, 4, 8),),
    ),
    "efficient": (
        lambda x: ATEN._scaled_dot_product_efficient_attention(x, x, x, None, True)[:2],
        (half(2, 3, 4, 8),),
    ),
    "cudnn": (
        lambda x: ATEN._scaled_dot_product_cudnn_attention(x, x, x, None, True)[:2],
        (half(2, 3, 4, 8),),
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_both_front_doors_take_it(name, fresh_dynamo):
    assert cuda_only
    function, args = CALLS[name]
    expected = function(*args)
    got = torch.compile(function, backend="ortable", fullgraph=True)(*args)
    torch.testing.assert_close(got, expected, rtol=2e-3, atol=2e-3)
    model = to_onnx(Function(function), args)
    feeds = dict(zip([i.name for i in model.graph.input], [a.numpy() for a in args], strict=True))
    exported_results = run_onnx(model, feeds)
    expected_results = list(expected) if isinstance(expected, tuple) else [expected]
    torch.testing.assert_close(exported_results, expected_results, rtol=2e-3, atol=2e-3)
