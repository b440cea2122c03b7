"""Define the product with a weight of codes, which torch.export keeps as one node.

specs/aten/weight_codes.yaml converts the operator; `weight_codes` has the modules that call it.
"""

from __future__ import annotations

from typing import Any

import torch


def unpack_codes(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Return codes [..., K] of a byte each; those of 4 bits are stored in pairs, [..., K / 2].

    The first code of a pair is in the low bits.
    """
    if bits == 8:
        return codes
    return torch.stack((codes & 15, codes >> 4), -1).flatten(-2)


def dequantize_codes(
    codes: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None, bits: int
) -> torch.Tensor:
    """Return rows ``(code - zero point) * scale`` [..., K] in float32.

    Args:
        codes: uint8 [..., K * bits / 8].
        scales: float32 [..., groups] along K.
        zeros: zero points, uint8 [..., groups]; None if all are the middle code.
        bits: 4 or 8.
    """
    numbers = unpack_codes(codes, bits).unflatten(-1, (scales.shape[-1], -1)).to(torch.float32)
    middle = float(1 << (bits - 1))
    steps = numbers - (middle if zeros is None else zeros.to(torch.float32).unsqueeze(-1))
    return (steps * scales.unsqueeze(-1)).flatten(-2)


@torch.library.custom_op(
    "ortable_codes::linear",
    mutates_args=(),
    schema="(Tensor x, Tensor codes, Tensor scales, Tensor? zeros, int bits) -> Tensor",
)
def multiply_codes(
    x: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    bits: int,
) -> torch.Tensor:
    """Return the product of ``x`` [..., K] and the rows of a weight; see `dequantize_codes`."""
    return torch.nn.functional.linear(x, dequantize_codes(codes, scales, zeros, bits))


@multiply_codes.register_fake
def _fake_linear(
    x: torch.Tensor,
    codes: torch.Tensor,
    scales: torch.Tensor,
    zeros: torch.Tensor | None,
    bits: int,
) -> torch.Tensor:
    return x.new_empty((*x.shape[:-1], codes.shape[0]))


LINEAR: Any = torch.ops.ortable_codes.linear.default
