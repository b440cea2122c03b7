"""Lower operators that create tensors from numbers: linspace, window functions, empty."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import Bool, Dtype, Float, Floats, Int, Result, Scalar, Str, is_static
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.promotion import in_dtype
from ortable.prelude.shapes import expanded
from ortable.prelude.values import cast, const, consts

__all__ = [
    "linspace",
    "uninitialized",
    "window_values",
]


def window_values(
    name: Str, count: Int, periodic: Bool, first: Float, second: Float, dtype: Dtype
) -> Floats:
    """Return the values of torch's window function ``name``.

    Cosine windows (hann and hamming) are ``first - second * cos``; for kaiser, ``first`` is beta.
    The other windows ignore ``first`` and ``second``.
    """
    if count <= 1:
        return [1.0] * count
    positions = np.arange(count) / (count if periodic else count - 1)
    phase = 2 * math.pi * positions
    if name == "blackman":
        # computed in torch's order and dtype, which give 0.0 or -3e-8 at the ends
        float_type: Any = np.float32 if dtype == dtypes.float32 else np.float64
        angle = np.arange(count, dtype=float_type) * float_type(
            math.pi / (count if periodic else count - 1)
        )
        values = float_type(0.08) * np.cos(float_type(4) * angle)
        values = values - float_type(0.5) * np.cos(float_type(2) * angle) + float_type(0.42)
    elif name == "bartlett":
        values = 1 - np.abs(2 * positions - 1)
    elif name == "kaiser":
        values = np.i0(first * np.sqrt(np.maximum(1 - (2 * positions - 1) ** 2, 0))) / np.i0(first)
    else:
        values = first - second * np.cos(phase)
    return [float(value) for value in values]


def linspace_dtype(dtype: Dtype) -> Dtype:
    """Return the compute dtype of torch.linspace: float32 for half floats, float64 for ints."""
    if not dtypes.is_float_type(dtype):
        return dtypes.float64
    return dtypes.float64 if dtype == dtypes.float64 else dtypes.float32


def linspace(graph: Graph, start: Any, end: Any, steps: Int, dtype: Dtype) -> Result:
    """Lower torch.linspace between numbers, sizes or 0-d results; count from the nearer end."""
    if is_static(start) and is_static(end):
        return consts(graph, _linspace_values(start, end, steps, dtype), dtype)
    op, compute_dtype = OpBuilder(graph), linspace_dtype(dtype)
    low, high = (
        in_dtype(graph, in_dtype(graph, bound, dtype), compute_dtype) for bound in (start, end)
    )
    if steps < 2:
        return expanded(graph, cast(graph, low, dtype), [steps])
    half = steps // 2
    step = op.Div(op.Sub(high, low), const(graph, steps - 1, compute_dtype))
    from_start = op.Mul(consts(graph, np.arange(half), compute_dtype), step)
    from_end = op.Mul(consts(graph, np.arange(steps - half - 1, -1, -1), compute_dtype), step)
    result = op.Concat(op.Add(low, from_start), op.Sub(high, from_end), axis=0)
    return cast(graph, result, dtype)


def _linspace_values(start: Scalar, end: Scalar, steps: Int, dtype: Dtype) -> Floats:
    """Return the values of torch.linspace, counted from both ends so that the last is exact."""
    if dtypes.is_int_type(dtype):
        start, end = int(start), int(end)
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    result = [
        start + step * i if i < steps // 2 or steps == 1 else end - step * (steps - 1 - i)
        for i in range(steps)
    ]
    return [math.trunc(value) for value in result] if dtypes.is_int_type(dtype) else result


def uninitialized(dtype: Dtype) -> Scalar:
    """Return the value of torch.empty: 0, or torch's fill value in deterministic mode."""
    import torch
    from torch.utils import deterministic

    fills = getattr(deterministic, "fill_uninitialized_memory", True)  # untyped in torch
    if not (torch.are_deterministic_algorithms_enabled() and fills):
        return 0
    if dtype in dtypes.INT_TYPES:
        return int(torch.iinfo(dtypes.to_torch(dtype)).max)
    return True if dtype == dtypes.boolean else float("nan")
