"""Linear layers [..., K] -> [..., N] with packed weights, unpacked as in published models."""

from __future__ import annotations

import torch

_SHIFTS = torch.arange(0, 32, 4, dtype=torch.int32)
_AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)  # column of each of the eight codes of an int


def _pack(codes: torch.Tensor, axis: int) -> torch.Tensor:
    """Pack 4-bit codes along an axis, eight in an int32, the first in the low bits."""
    unpacked = codes.to(torch.int64).unflatten(axis, (-1, 8))
    shape = [1] * unpacked.dim()
    shape[axis + 1] = 8
    packed = (unpacked << _SHIFTS.reshape(shape)).sum(axis + 1)
    return packed.where(packed < 1 << 31, packed - (1 << 32)).to(torch.int32)


class Gptq(torch.nn.Module):
    """GPTQ: `qweight` [K / 8, N], `qzeros` (zero points - 1) [groups, N / 8], `g_idx` [K]."""

    def __init__(self, inner: int, outer: int, group: int = 32, ordered: bool = True) -> None:
        super().__init__()
        groups = inner // group
        index = torch.arange(inner) // group
        if not ordered:
            index = index[torch.randperm(inner)]
        self.register_buffer("qweight", _pack(torch.randint(0, 16, (inner, outer)), 0))
        self.register_buffer("qzeros", _pack(torch.randint(0, 15, (groups, outer)), 1))
        self.register_buffer("scales", torch.rand(groups, outer) * 0.01 + 0.001)
        self.register_buffer("g_idx", index.to(torch.int32))
        self.register_buffer("wf", _SHIFTS.clone(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        zeros = torch.bitwise_right_shift(self.qzeros.unsqueeze(2).expand(-1, -1, 8), self.wf)
        zeros = (torch.bitwise_and(zeros, 15) + 1).reshape(self.scales.shape)
        shifts = self.wf.unsqueeze(-1)
        codes = torch.bitwise_right_shift(self.qweight.unsqueeze(1).expand(-1, 8, -1), shifts)
        codes = torch.bitwise_and(codes.to(torch.int8), 15).reshape(-1, self.scales.shape[1])
        index = self.g_idx.long()
        return torch.matmul(x, self.scales[index] * (codes - zeros[index]))


class Awq(torch.nn.Module):
    """AWQ: `qweight` [K, N / 8] and `qzeros` [groups, N / 8] with columns in AWQ's order."""

    def __init__(self, inner: int, outer: int, group: int = 32) -> None:
        super().__init__()
        groups, self.group = inner // group, group
        self.register_buffer("qweight", _pack(torch.randint(0, 16, (inner, outer)), 1))
        self.register_buffer("qzeros", _pack(torch.randint(0, 16, (groups, outer)), 1))
        self.register_buffer("scales", torch.rand(groups, outer) * 0.01 + 0.001)

    def _codes(self, packed: torch.Tensor) -> torch.Tensor:
        shifts = torch.arange(0, 32, 4)[None, None, :]
        unpacked = torch.bitwise_right_shift(packed[:, :, None], shifts).to(torch.int8)
        columns = unpacked.view(packed.shape[0], -1)
        order = torch.arange(columns.shape[1]).view(-1, 8)[:, list(_AWQ_ORDER)].reshape(-1)
        return torch.bitwise_and(columns[:, order], 15)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes, zeros = self._codes(self.qweight), self._codes(self.qzeros)
        scales = self.scales.repeat_interleave(self.group, dim=0)
        return torch.matmul(x, (codes - zeros.repeat_interleave(self.group, dim=0)) * scales)


class Packed4(torch.nn.Module):
    """torch's CPU kernel for 4-bit weights; with ``whole``, the zero points are integers."""

    def __init__(self, inner: int, outer: int, whole: bool, group: int = 32) -> None:
        super().__init__()
        codes = torch.randint(0, 16, (outer, inner), dtype=torch.int32)
        scales = torch.rand(inner // group, outer) * 0.01 + 0.001
        steps = torch.randint(-7, 8, scales.shape) if whole else torch.randn(scales.shape) * 5
        self.register_buffer("w", torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1))
        self.register_buffer("sz", torch.stack([scales, scales * steps], -1))
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.reshape(-1, x.shape[-1])
        result = torch.ops.aten._weight_int4pack_mm_for_cpu(rows, self.w, self.group, self.sz)
        return result.reshape(*x.shape[:-1], -1)


class Packed8(torch.nn.Module):
    """torch's CPU kernel for 8-bit weights."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        codes = torch.randint(-128, 128, (outer, inner), dtype=torch.int8)
        self.register_buffer("w", codes)
        self.register_buffer("s", torch.rand(outer) * 0.001 + 0.0001)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.ops.aten._weight_int8pack_mm(x.reshape(-1, x.shape[-1]), self.w, self.s)
        return rows.reshape(*x.shape[:-1], -1)


class PerChannel(torch.nn.Module):
    """A linear layer of PT2E: a scale and a zero point for each row of int8 codes."""

    def __init__(self, inner: int, outer: int, low: int = -8, high: int = 7) -> None:
        super().__init__()
        codes = torch.randint(low, high + 1, (outer, inner), dtype=torch.int8)
        self.register_buffer("codes", codes)
        self.register_buffer("scales", torch.rand(outer) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.zeros(outer, dtype=torch.int64))
        self.register_parameter("bias", torch.nn.Parameter(torch.randn(outer)))
        self.low, self.high = low, high

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.ops.quantized_decomposed.dequantize_per_channel(
            self.codes, self.scales, self.zeros, 0, self.low, self.high, torch.int8
        )
        return torch.nn.functional.linear(x, weight, self.bias)


class InGroups(torch.nn.Module):
    """A linear layer of PT2E: a scale and a zero point for each group along K."""

    def __init__(self, inner: int, outer: int, group: int = 32) -> None:
        super().__init__()
        groups = inner // group
        self.register_buffer("codes", torch.randint(-8, 8, (outer, inner), dtype=torch.int8))
        self.register_buffer("scales", torch.rand(outer, groups) * 0.01 + 0.001)
        self.register_buffer("zeros", torch.randint(-3, 4, (outer, groups), dtype=torch.int8))
        self.group = group

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.ops.quantized_decomposed.dequantize_per_channel_group(
            self.codes, self.scales, self.zeros, -8, 7, torch.int8, self.group, torch.float32
        )
        return torch.nn.functional.linear(x, weight)
