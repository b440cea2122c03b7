"""Torch packs weights and multiplies 8-bit floats between sessions."""

from __future__ import annotations

import torch


def test_weights_of_four_bits(fresh_dynamo):
    codes = torch.randint(0, 16, (32, 64), dtype=torch.int32)
    scales = torch.rand(64 // 32, 32, 2)

    def compute_product(x, codes):
        packed = torch._convert_weight_to_int4pack_for_cpu(codes, 1)
        return torch._weight_int4pack_mm_for_cpu(x * 2, packed, 32, scales).relu()

    x = torch.randn(4, 64)
    compiled = torch.compile(compute_product, backend="ortable", fullgraph=True)
    torch.testing.assert_close(compiled(x, codes), compute_product(x, codes))


def test_products_of_8_bit_floats(fresh_dynamo):
    left, right = (torch.randn(16, 32).to(torch.float8_e4m3fn) for _ in range(2))
    scales = torch.tensor(0.5), torch.tensor(2.0)

    def compute_product(left, right):
        return torch._scaled_mm(left, right.t(), *scales, out_dtype=torch.float32) + 1

    compiled = torch.compile(compute_product, backend="ortable", fullgraph=True)
    torch.testing.assert_close(compiled(left, right), compute_product(left, right))
