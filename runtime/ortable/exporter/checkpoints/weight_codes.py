"""Hold the codes of a weight, the one form of all formats, and make layers that compute with them.

The readers of formats (`packed_formats`, `gguf_files`) make `WeightCodes`; `loader` puts the layers
into a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from ortable.errors import UnsupportedCase

from .operators import LINEAR, dequantize_codes

_BLOCK_SIZES = (256, 128, 64, 32, 16)  # of ONNX Runtime's MatMulNBits
_PARTS = ("codes", "scales", "zeros", "shifts", "order")


@dataclass(frozen=True)
class WeightCodes:
    """A weight [N, K] as ``(code - zero point) * scale + shift``, in blocks along K.

    ``codes`` are uint8 [N, K * bits / 8]; those of 4 bits are stored in pairs, the first in the low
    bits. ``scales`` are float32 [N, K / block], and so are ``shifts``, None if there are none;
    ``zeros`` are uint8 of this shape, or None if all are the middle code. ``order`` int64 [K] has,
    for each column of the codes, its column of the weight; None if they are the same.
    """

    codes: torch.Tensor
    scales: torch.Tensor
    bits: int
    zeros: torch.Tensor | None = None
    shifts: torch.Tensor | None = None
    order: torch.Tensor | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.codes.shape[0], self.codes.shape[1] * 8 // self.bits

    def in_kernel_blocks(self) -> WeightCodes:
        """Return the same weight in the largest blocks that ONNX Runtime's kernel has.

        Raises:
            UnsupportedCase: no such block divides the blocks of the checkpoint.
        """
        size = self.shape[1] // self.scales.shape[1]
        block = next((block for block in _BLOCK_SIZES if size % block == 0), None)
        if block is None:
            raise UnsupportedCase(
                f"{size} numbers share a scale, which is no multiple of 16, the least that kernels "
                "read"
            )
        parts: Any = {
            name: part.repeat_interleave(size // block, 1)
            for name in ("scales", "zeros", "shifts")
            if (part := getattr(self, name)) is not None
        }
        return replace(self, **parts)

    def dequantize_weight(self) -> torch.Tensor:
        """Return the weight [N, K] in float32."""
        weight = dequantize_codes(self.codes, self.scales, self.zeros, self.bits)
        if self.shifts is not None:
            weight += self.shifts.repeat_interleave(weight.shape[1] // self.shifts.shape[1], 1)
        return weight if self.order is None else weight[:, self.order.argsort()]

    def named_parts(self) -> dict[str, torch.Tensor]:
        """Return the tensors by the names that they have in the layers of this file."""
        values = {name: getattr(self, name) for name in _PARTS}
        return {name: part.contiguous() for name, part in values.items() if part is not None}

    def map_parts(self, change: Callable[[torch.Tensor], torch.Tensor]) -> WeightCodes:
        """Return a copy whose tensors are the results of ``change``."""
        changed: Any = {name: change(part) for name, part in self.named_parts().items()}
        return replace(self, **changed)


def make_weight_codes(
    codes: torch.Tensor,
    scales: torch.Tensor,
    bits: int,
    zeros: torch.Tensor | None = None,
    **parts: torch.Tensor | None,
) -> WeightCodes:
    """Return `WeightCodes`, stored in 4 or 8 bits, of codes that have a byte each.

    ``codes`` [N, K] and ``zeros`` [N, groups] are less than 2**bits; without ``zeros``, all are the
    middle code of ``bits``. ``parts`` are ``shifts`` and ``order``.
    """
    stored_bits = 4 if bits <= 4 else 8
    middle = 1 << (stored_bits - 1)
    if zeros is None and bits != stored_bits:
        zeros = torch.full(scales.shape, 1 << (bits - 1), dtype=torch.uint8)
    if zeros is not None and bool((zeros == middle).all()):
        zeros = None
    if stored_bits == 4:
        if codes.shape[1] % 2:
            raise UnsupportedCase(f"an odd number of columns, {codes.shape[1]}")
        codes = codes[:, 0::2] | (codes[:, 1::2] << 4)
    return WeightCodes(codes, scales.to(torch.float32), stored_bits, zeros, **parts)


class _CodedLayer(torch.nn.Module):
    """A layer whose weight is codes; the buffers have the names of the fields of `WeightCodes`."""

    codes: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None
    shifts: torch.Tensor | None
    order: torch.Tensor | None

    def __init__(self, weight: WeightCodes) -> None:
        super().__init__()
        self.bits = weight.bits
        for name in _PARTS:
            self.register_buffer(name, getattr(weight, name))

    def extra_repr(self) -> str:
        return f"rows={len(self.codes)}, bits={self.bits}, groups={self.scales.shape[1]}"


class CodedLinear(_CodedLayer):
    """A linear layer whose weight [N, K] is codes."""

    def __init__(self, weight: WeightCodes, bias: torch.nn.Parameter | None) -> None:
        super().__init__(weight)
        self.bias = bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x @ weight.T + bias`` for ``x`` float32 [..., K]."""
        if self.order is not None:
            x = x.index_select(-1, self.order)
        result: torch.Tensor = LINEAR(x, self.codes, self.scales, self.zeros, self.bits)
        if self.shifts is not None:
            result = result + _multiply_shifts(x, self.shifts)
        return result if self.bias is None else result + self.bias


def _multiply_shifts(x: torch.Tensor, shifts: torch.Tensor) -> torch.Tensor:
    """Return the product of ``x`` [..., K] and a weight whose groups are numbers, [N, groups].

    A pooling computes the sums of groups, because a reshape would be merged with the reshape of
    heads before it, and rules for attention expect these to be read once.
    """
    size = x.shape[-1] // shifts.shape[1]
    rows = x if x.dim() in (2, 3) else x.flatten(0, -2)
    sums = torch.nn.functional.avg_pool1d(rows, size) * size
    return torch.nn.functional.linear(sums, shifts).reshape(*x.shape[:-1], len(shifts))


class CodedEmbedding(_CodedLayer):
    """A table of embeddings [N, K] of codes, whose rows become floats when they are looked up.

    ``factor`` multiplies the rows.
    """

    def __init__(self, weight: WeightCodes, factor: float | None = None) -> None:
        super().__init__(weight)
        self.factor = factor

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the rows of the integers ``ids``, float32 [..., K]."""
        zeros = None if self.zeros is None else self.zeros[ids]
        rows = dequantize_codes(self.codes[ids], self.scales[ids], zeros, self.bits)
        if self.shifts is not None:
            groups = rows.unflatten(-1, (self.shifts.shape[1], -1))
            rows = (groups + self.shifts[ids].unsqueeze(-1)).flatten(-2)
        return rows if self.factor is None else rows * self.factor
