# Generated from specs/aten/window.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.lowerings.creation import window_values
from ortable.prelude.facts import dtype_of
from ortable.prelude.promotion import scalar_dtype
from ortable.prelude.values import consts

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Int, Result


def aten_bartlett_window(graph: Graph, res: ResultSpec, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::bartlett_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_bartlett_window_periodic(graph, res, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_bartlett_window_periodic(graph: Graph, res: ResultSpec, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::bartlett_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('bartlett', window_length, periodic, 0.0, 0.0, dtype_of(graph, res))
    return consts(graph, values, dtype_of(graph, res))


def aten_blackman_window(graph: Graph, res: ResultSpec, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::blackman_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_blackman_window_periodic(graph, res, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_blackman_window_periodic(graph: Graph, res: ResultSpec, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::blackman_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('blackman', window_length, periodic, 0.0, 0.0, dtype_of(graph, res))
    return consts(graph, values, dtype_of(graph, res))


def aten_hamming_window(graph: Graph, res: ResultSpec, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hamming_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_hamming_window_periodic_alpha_beta(graph, res, window_length=window_length, periodic=True, alpha=0.54, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_hamming_window_periodic(graph: Graph, res: ResultSpec, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hamming_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_hamming_window_periodic_alpha_beta(graph, res, window_length=window_length, periodic=periodic, alpha=0.54, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_hamming_window_periodic_alpha(graph: Graph, res: ResultSpec, window_length: Int, periodic: Bool, alpha: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hamming_window.periodic_alpha(int window_length, bool periodic, float alpha, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_hamming_window_periodic_alpha_beta(graph, res, window_length=window_length, periodic=periodic, alpha=alpha, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_hamming_window_periodic_alpha_beta(graph: Graph, res: ResultSpec, window_length: Int, periodic: Bool, alpha: Float, beta: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hamming_window.periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('hamming', window_length, periodic, alpha, beta, dtype_of(graph, res))
    return consts(graph, values, dtype_of(graph, res))


def aten_hann_window(graph: Graph, res: ResultSpec, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hann_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_hann_window_periodic(graph, res, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_hann_window_periodic(graph: Graph, res: ResultSpec, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::hann_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('hann', window_length, periodic, 0.5, 0.5, dtype_of(graph, res))
    return consts(graph, values, dtype_of(graph, res))


def aten_kaiser_window(graph: Graph, res: ResultSpec, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::kaiser_window(int window_length, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_kaiser_window_beta(graph, res, window_length=window_length, periodic=True, beta=12.0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_kaiser_window_beta(graph: Graph, res: ResultSpec, window_length: Int, periodic: Bool, beta: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::kaiser_window.beta(int window_length, bool periodic, float beta, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    values = window_values('kaiser', window_length, periodic, beta, 0.0, dtype_of(graph, res))
    return consts(graph, values, dtype_of(graph, res))


def aten_kaiser_window_periodic(graph: Graph, res: ResultSpec, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::kaiser_window.periodic(int window_length, bool periodic, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_kaiser_window_beta(graph, res, window_length=window_length, periodic=periodic, beta=12.0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_bartlett_window(graph: Graph, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_bartlett_window_periodic(graph, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_bartlett_window_periodic(graph: Graph, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_blackman_window(graph: Graph, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_blackman_window_periodic(graph, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_blackman_window_periodic(graph: Graph, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_hamming_window(graph: Graph, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_hamming_window_periodic_alpha_beta(graph, window_length=window_length, periodic=True, alpha=0.54, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_hamming_window_periodic(graph: Graph, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_hamming_window_periodic_alpha_beta(graph, window_length=window_length, periodic=periodic, alpha=0.54, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_hamming_window_periodic_alpha(graph: Graph, window_length: Int, periodic: Bool, alpha: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_hamming_window_periodic_alpha_beta(graph, window_length=window_length, periodic=periodic, alpha=alpha, beta=0.46, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_hamming_window_periodic_alpha_beta(graph: Graph, window_length: Int, periodic: Bool, alpha: Float, beta: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_hann_window(graph: Graph, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_hann_window_periodic(graph, window_length=window_length, periodic=True, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_hann_window_periodic(graph: Graph, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_kaiser_window(graph: Graph, window_length: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_kaiser_window_beta(graph, window_length=window_length, periodic=True, beta=12.0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_kaiser_window_beta(graph: Graph, window_length: Int, periodic: Bool, beta: Float, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_kaiser_window_periodic(graph: Graph, window_length: Int, periodic: Bool, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_kaiser_window_beta(graph, window_length=window_length, periodic=periodic, beta=12.0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)
