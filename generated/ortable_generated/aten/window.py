# Generated from specs/aten/window.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import float32, float64
from ortable.prelude import dtype_of, is_int
from ortable.prelude_make import as_tensor, cast, cast_all, const, consts
from ortable.prelude_number import linspace_of, logspace_values, window_values
from ortable.prelude_pointwise import arange_of
from ortable.promotion import scalar_dtype

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Dtype, Float, Int, Result, Scalar


def aten_bartlett_window(graph: GraphBuilder, res: Res, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::bartlett_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_bartlett_window_periodic(graph, res, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_bartlett_window_periodic(graph: GraphBuilder, res: Res, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('bartlett', window_length, periodic, 0.0, 0.0)
    return consts(graph, values, dtype_of(graph, res))


def aten_blackman_window(graph: GraphBuilder, res: Res, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::blackman_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_blackman_window_periodic(graph, res, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_blackman_window_periodic(graph: GraphBuilder, res: Res, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('blackman', window_length, periodic, 0.0, 0.0)
    return consts(graph, values, dtype_of(graph, res))


def aten_hamming_window(graph: GraphBuilder, res: Res, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_hamming_window_periodic_alpha_beta(graph, res, window_length=window_length, periodic=True, alpha=0.54, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_hamming_window_periodic(graph: GraphBuilder, res: Res, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_hamming_window_periodic_alpha_beta(graph, res, window_length=window_length, periodic=periodic, alpha=0.54, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_hamming_window_periodic_alpha(graph: GraphBuilder, res: Res, window_length: Int, periodic: Bool, alpha: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_hamming_window_periodic_alpha_beta(graph, res, window_length=window_length, periodic=periodic, alpha=alpha, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_hamming_window_periodic_alpha_beta(graph: GraphBuilder, res: Res, window_length: Int, periodic: Bool, alpha: Float, beta: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('hamming', window_length, periodic, alpha, beta)
    return consts(graph, values, dtype_of(graph, res))


def aten_hann_window(graph: GraphBuilder, res: Res, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_hann_window_periodic(graph, res, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_hann_window_periodic(graph: GraphBuilder, res: Res, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('hann', window_length, periodic, 0.5, 0.5)
    return consts(graph, values, dtype_of(graph, res))


def aten_kaiser_window(graph: GraphBuilder, res: Res, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_kaiser_window_beta(graph, res, window_length=window_length, periodic=True, beta=12.0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_kaiser_window_beta(graph: GraphBuilder, res: Res, window_length: Int, periodic: Bool, beta: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('kaiser', window_length, periodic, beta, 0.0)
    return consts(graph, values, dtype_of(graph, res))


def aten_kaiser_window_periodic(graph: GraphBuilder, res: Res, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_kaiser_window_beta(graph, res, window_length=window_length, periodic=periodic, beta=12.0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_linspace_Scalar_Tensor(graph: GraphBuilder, res: Res, start: Scalar, end: Result, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_linspace_Tensor_Tensor(graph, res, start=start, end=end, steps=steps, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_linspace_Tensor_Scalar(graph: GraphBuilder, res: Res, start: Result, end: Scalar, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_linspace_Tensor_Tensor(graph, res, start=start, end=end, steps=steps, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_linspace_Tensor_Tensor(graph: GraphBuilder, res: Res, start: Result, end: Result, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return linspace_of(graph, as_tensor(graph, start), as_tensor(graph, end), steps, dtype_of(graph, res))


def aten_logspace(graph: GraphBuilder, res: Res, start: Scalar, end: Scalar, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return consts(graph, logspace_values(start, end, steps, base, dtype_of(graph, res)), dtype_of(graph, res))


def aten_logspace_Scalar_Tensor(graph: GraphBuilder, res: Res, start: Scalar, end: Result, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_logspace_Tensor_Tensor(graph, res, start=start, end=end, steps=steps, base=base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_logspace_Tensor_Scalar(graph: GraphBuilder, res: Res, start: Result, end: Scalar, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_logspace_Tensor_Tensor(graph, res, start=start, end=end, steps=steps, base=base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_logspace_Tensor_Tensor(graph: GraphBuilder, res: Res, start: Result, end: Result, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    if is_int(graph, res):
        # torch truncates the ends and the base, and steps in float32
        ends = cast_all(graph, [as_tensor(graph, start), as_tensor(graph, end)], dtype_of(graph, res))
        powers = cast(graph, linspace_of(graph, ends[0], ends[1], steps, float32), float64)
        return cast(graph, graph.make_node('Pow', [const(graph, int(base), float64), powers]), dtype_of(graph, res))
    powers = linspace_of(graph, as_tensor(graph, start), as_tensor(graph, end), steps, float64)
    return cast(graph, graph.make_node('Pow', [const(graph, base, float64), powers]), dtype_of(graph, res))


def aten_range(graph: GraphBuilder, res: Res, start: Scalar, end: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::range(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_range_step(graph, res, start=start, end=end, step=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_range_step(graph: GraphBuilder, res: Res, start: Scalar, end: Scalar, step: Scalar = 1, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::range.step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    count = int((float(end) - float(start)) / float(step)) + 1
    return arange_of(graph, count, start, step, dtype_of(graph, res))


def rule_aten_bartlett_window(graph: GraphBuilder, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_bartlett_window_periodic(graph, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_bartlett_window_periodic(graph: GraphBuilder, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_blackman_window(graph: GraphBuilder, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_blackman_window_periodic(graph, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_blackman_window_periodic(graph: GraphBuilder, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_hamming_window(graph: GraphBuilder, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_hamming_window_periodic_alpha_beta(graph, window_length=window_length, periodic=True, alpha=0.54, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_hamming_window_periodic(graph: GraphBuilder, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_hamming_window_periodic_alpha_beta(graph, window_length=window_length, periodic=periodic, alpha=0.54, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_hamming_window_periodic_alpha(graph: GraphBuilder, window_length: Int, periodic: Bool, alpha: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_hamming_window_periodic_alpha_beta(graph, window_length=window_length, periodic=periodic, alpha=alpha, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_hamming_window_periodic_alpha_beta(graph: GraphBuilder, window_length: Int, periodic: Bool, alpha: Float, beta: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_hann_window(graph: GraphBuilder, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_hann_window_periodic(graph, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_hann_window_periodic(graph: GraphBuilder, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_kaiser_window(graph: GraphBuilder, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_kaiser_window_beta(graph, window_length=window_length, periodic=True, beta=12.0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_kaiser_window_beta(graph: GraphBuilder, window_length: Int, periodic: Bool, beta: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_kaiser_window_periodic(graph: GraphBuilder, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_kaiser_window_beta(graph, window_length=window_length, periodic=periodic, beta=12.0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_linspace_Scalar_Tensor(graph: GraphBuilder, start: Scalar, end: Result, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_linspace_Tensor_Tensor(graph, start=start, end=end, steps=steps, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_linspace_Tensor_Scalar(graph: GraphBuilder, start: Result, end: Scalar, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_linspace_Tensor_Tensor(graph, start=start, end=end, steps=steps, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_linspace_Tensor_Tensor(graph: GraphBuilder, start: Result, end: Result, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_logspace(graph: GraphBuilder, start: Scalar, end: Scalar, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_logspace_Scalar_Tensor(graph: GraphBuilder, start: Scalar, end: Result, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_logspace_Tensor_Tensor(graph, start=start, end=end, steps=steps, base=base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_logspace_Tensor_Scalar(graph: GraphBuilder, start: Result, end: Scalar, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_logspace_Tensor_Tensor(graph, start=start, end=end, steps=steps, base=base, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_logspace_Tensor_Tensor(graph: GraphBuilder, start: Result, end: Result, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_range(graph: GraphBuilder, start: Scalar, end: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_range_step(graph, start=start, end=end, step=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_range_step(graph: GraphBuilder, start: Scalar, end: Scalar, step: Scalar = 1, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)
