"""Lower the product with a weight of codes, to the forms that ONNX Runtime's kernels replace.

`exporter/checkpoints/operators.py` defines the operator. Rules of ort_weights make `MatMulNBits` of
DequantizeLinear nodes with constant codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable import dtypes
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import Int, Result, shape_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.quantized import constant_array
from ortable.prelude.values import cast, const, permuted, reshape_to, unsqueezed

__all__: list[str] = []


def multiply_codes(
    graph: Graph,
    res: ResultSpec,
    x: Result,
    codes: Result,
    scales: Result,
    zeros: Result | None,
    bits: Int,
) -> Result:
    """Lower ortable_codes::linear.

    ONNX Runtime has no product of floats with 8-bit codes that does not dequantize the weight at
    every call. For its CPU kernels, such codes become two weights of 4 bits, with 16 times the
    scale for the high half. The sum is exact but for the order of additions.
    """
    op = OpBuilder(graph)
    parts = [constant_array(graph, name) for name in (codes, scales, *([zeros] if zeros else []))]
    if graph.opset < 21 or any(part is None for part in parts):
        return op.MatMul(x, _computed_weight(graph, codes, scales, zeros, bits))
    values, factors, offsets = [*parts, None][:3]
    assert values is not None and factors is not None
    if bits == 4:
        values = _unpack_nibbles(values)
    elif graph.target == "onnxruntime" and graph.kernel_table:
        zero_points = np.full(factors.shape, 128, np.uint8) if offsets is None else offsets
        high = (values >> 4, factors * np.float32(16), zero_points >> 4)
        low = (values & 15, factors, zero_points & 15)
        rows = [
            op.MatMul(x, _make_weight(graph, f"{codes}_{name}", arrays, 4))
            for name, arrays in (("high", high), ("low", low))
        ]
        return op.Add(*rows)
    return op.MatMul(x, _make_weight(graph, codes, (values, factors, offsets), bits))


def _unpack_nibbles(values: np.ndarray) -> np.ndarray:
    return np.stack((values & 15, values >> 4), -1).reshape(len(values), -1)


def _make_weight(
    graph: Graph, name: str, arrays: tuple[np.ndarray, np.ndarray, np.ndarray | None], bits: int
) -> Result:
    """Return a weight [K, N] as the transposed DequantizeLinear of codes [N, K].

    ``arrays`` are the codes, the scales and the zero points, None if all are the middle code. In
    that case the codes become signed, and have no zero points.
    """
    values, factors, offsets = arrays
    signed = offsets is None or bool((offsets == 1 << (bits - 1)).all())
    dtype = {4: (dtypes.uint4, dtypes.int4), 8: (dtypes.uint8, dtypes.int8)}[bits][signed]

    def add_codes(role: str, array: np.ndarray) -> str:
        flip = (8 if bits == 4 else 128) if signed else 0
        shifted = array ^ np.uint8(flip)  # subtracts the middle, in two's complement
        stored = np.ascontiguousarray(shifted).view(dtypes.to_numpy(dtype))
        return graph.make_initializer(graph.unique_name(f"{name}_{role}"), stored)

    inputs: list[Any] = [
        add_codes("codes", values),
        graph.make_initializer(graph.unique_name(f"{name}_scales"), np.ascontiguousarray(factors)),
        None if signed or offsets is None else add_codes("zeros", offsets),
    ]
    size = values.shape[1] // factors.shape[1]
    kernel = graph.make_node("DequantizeLinear", inputs, axis=1, block_size=size)
    return permuted(graph, kernel, [1, 0])


def _computed_weight(
    graph: Graph, codes: Result, scales: Result, zeros: Result | None, bits: Int
) -> Result:
    """Return a weight [K, N] as arithmetic of its codes, which older opsets have, too."""
    op = OpBuilder(graph)
    rows, groups = shape_of(graph, scales)
    if bits == 4:
        halves = [op.BitwiseAnd(codes, 15), op.BitShift(codes, 4, direction="RIGHT")]
        codes = op("Concat", [unsqueezed(graph, half, [2]) for half in halves], axis=2)
    numbers = cast(graph, reshape_to(graph, codes, [rows, groups, -1]), dtypes.float32)
    zero = const(graph, float(1 << (bits - 1)), dtypes.float32)
    if zeros is not None:
        zero = cast(graph, unsqueezed(graph, zeros, [2]), dtypes.float32)
    weight = op.Mul(op.Sub(numbers, zero), unsqueezed(graph, scales, [2]))
    return permuted(graph, reshape_to(graph, weight, [rows, -1]), [1, 0])
