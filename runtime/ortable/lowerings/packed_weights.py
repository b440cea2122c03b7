"""Weights of four bits that torch packs for kernels of this processor. The position of each code is
read from torch's own packing, since it differs between processors.
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

_SIZES = (32, 64, 96)  # along K, for which torch's packing is probed


def unpacked_nibbles(graph: Graph, packed: Result) -> Result:
    """The codes [N, K], uint8 from 0 to 15, of the bytes [N, K / 2] that
    `_convert_weight_to_int4pack_for_cpu` makes on this processor.

    Raises:
        UnsupportedCase: sizes are not known, or the positions of codes are not linear in K.
    """
    op = OpBuilder(graph)
    rows, half = graph.get_shape(packed)
    if not isinstance(rows, int) or not isinstance(half, int):
        raise UnsupportedCase(
            "packed weights of a size that is not known while converting", (rows, half)
        )
    layout = _nibble_layout(rows)
    if layout is None:
        raise UnsupportedCase(
            "weights of four bits are packed on this processor in an order that is not known"
        )
    steps, offsets, strides = layout
    inner = 2 * half
    low = op.BitwiseAnd(packed, const(graph, 15, dtypes.uint8))
    high = op.BitShift(packed, const(graph, 4, dtypes.uint8), direction="RIGHT")
    axis = consts(graph, [-1], dtypes.int64)
    columns = [op.Unsqueeze(part, axis) for part in (low, high)]
    nibbles = reshape_to(graph, graph.make_node("Concat", columns, axis=-1), [-1])
    first = graph.make_initializer("", (steps * inner + offsets)[:, None])
    along = graph.make_initializer("", np.arange(inner, dtype=np.int64)[None])
    stride = graph.make_initializer("", strides[:, None])
    moved = op.Mul(along, stride)
    places = op.Add(first, moved)
    codes: Result = op.Gather(nibbles, places, axis=0)
    return codes


@lru_cache(maxsize=256)
def _nibble_layout(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """The position of the code [n, k] of N rows of K among the nibbles, the low one of a byte
    first: ``steps[n] * K + offsets[n] + k * strides[n]``. None where torch's packing is another
    kind.
    """
    probes = [_probe_layout(rows, inner) for inner in _SIZES]
    first, second = (places[:, 0] for places in probes[:2])
    strides = probes[0][:, 1] - first
    steps, rest = np.divmod(second - first, _SIZES[1] - _SIZES[0])
    if rest.any():
        return None
    offsets = first - steps * _SIZES[0]
    for inner, places in zip(_SIZES, probes, strict=True):
        expected = (steps * inner + offsets)[:, None] + np.arange(inner) * strides[:, None]
        if not np.array_equal(expected, places):
            return None
    return steps, offsets, strides


def _probe_layout(rows: int, inner: int) -> np.ndarray:
    """The positions of the codes of a matrix [N, K], from torch: it packs the digits of their
    indices, four bits after four bits.
    """
    own = torch.arange(rows * inner).reshape(rows, inner)
    source = torch.zeros(rows * inner, dtype=torch.int64)
    for shift in range(0, max(int(own[-1, -1]).bit_length(), 1), 4):
        digits = ((own >> shift) & 15).to(torch.int32)
        packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(digits, 1).reshape(-1)
        nibbles = torch.stack([packed & 15, packed >> 4], 1).reshape(-1)
        source |= nibbles.to(torch.int64) << shift
    places = torch.empty_like(source)
    places[source] = torch.arange(rows * inner)
    return places.reshape(rows, inner).numpy()
