"""Unpack 4-bit weights that torch packs for CPU kernels.

The layout of the packed codes differs between processors, so it is probed with torch's own packing.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.facts import Result
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.values import const, consts, reshape_to

__all__ = ["unpacked_nibbles"]

_SIZES = (32, 64, 96)  # the numbers of columns for which torch's packing is probed


def unpacked_nibbles(graph: Graph, packed: Result) -> Result:
    """Return the codes [N, K], uint8 from 0 to 15, of packed bytes [N, K / 2].

    torch's ``_convert_weight_to_int4pack_for_cpu`` makes these bytes, in this processor's layout.
    """
    op = OpBuilder(graph)
    rows, row_bytes = graph.get_shape(packed)
    if not isinstance(rows, int) or not isinstance(row_bytes, int):
        raise UnsupportedCase(
            "packed weights with sizes that are unknown during conversion", (rows, row_bytes)
        )
    layout = _nibble_layout(rows)
    if layout is None:
        raise UnsupportedCase("this processor packs 4-bit weights in an unknown order")
    steps, offsets, strides = layout
    columns = 2 * row_bytes
    low = op.BitwiseAnd(packed, const(graph, 15, dtypes.uint8))
    high = op.BitShift(packed, const(graph, 4, dtypes.uint8), direction="RIGHT")
    axis = consts(graph, [-1], dtypes.int64)
    nibble_columns = [op.Unsqueeze(part, axis) for part in (low, high)]
    nibbles = reshape_to(graph, graph.make_node("Concat", nibble_columns, axis=-1), [-1])
    row_begins = graph.make_initializer("", (steps * columns + offsets)[:, None])
    column_indices = graph.make_initializer("", np.arange(columns, dtype=np.int64)[None])
    stride = graph.make_initializer("", strides[:, None])
    column_offsets = op.Mul(column_indices, stride)
    positions = op.Add(row_begins, column_offsets)
    codes: Result = op.Gather(nibbles, positions, axis=0)
    return codes


@lru_cache(maxsize=256)
def _nibble_layout(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Return (steps, offsets, strides) of the code positions in a matrix of ``rows`` rows, or None.

    The code [n, k] of a matrix with K columns is the nibble ``steps[n] * K + offsets[n] +
    k * strides[n]`` of all bytes; the low nibble of a byte comes first. None is returned if torch's
    packing is not of this form.
    """
    probes = [_probe_layout(rows, columns) for columns in _SIZES]
    first_begins, second_begins = (positions[:, 0] for positions in probes[:2])
    strides = probes[0][:, 1] - first_begins
    steps, remainder = np.divmod(second_begins - first_begins, _SIZES[1] - _SIZES[0])
    if remainder.any():
        return None
    offsets = first_begins - steps * _SIZES[0]
    for columns, positions in zip(_SIZES, probes, strict=True):
        expected = (steps * columns + offsets)[:, None] + np.arange(columns) * strides[:, None]
        if not np.array_equal(expected, positions):
            return None
    return steps, offsets, strides


def _probe_layout(rows: int, columns: int) -> np.ndarray:
    """Return the code positions of a matrix [N, K] by packing the codes' indices, digit by digit.

    A digit has 4 bits.
    """
    indices = torch.arange(rows * columns).reshape(rows, columns)
    source = torch.zeros(rows * columns, dtype=torch.int64)
    for shift in range(0, max(int(indices[-1, -1]).bit_length(), 1), 4):
        digits = ((indices >> shift) & 15).to(torch.int32)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(digits, 1).reshape(-1)
        nibbles = torch.stack([packed & 15, packed >> 4], 1).reshape(-1)
        source |= nibbles.to(torch.int64) << shift
    positions = torch.empty_like(source)
    positions[source] = torch.arange(rows * columns)
    return positions.reshape(rows, columns).numpy()
