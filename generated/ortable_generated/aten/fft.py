# Generated from specs/aten/fft.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.complex_value import complex_type, part_type
from ortable.known import given_shape, known_dtype, known_shape
from ortable.prelude import axis_of, dim_of, dtype_of, static
from ortable.prelude_complex import re
from ortable.prelude_fourier import fourier, fourier_scaled, half_spectrum, whole_spectrum
from ortable.prelude_make import consts
from ortable.promotion import scalar_dtype

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res
    from ortable.known import Rules
    from ortable.prelude import Bool, Dtype, Float, Int, Ints, Result, SymInt, SymInts


def aten_fft_fftfreq(graph: GraphBuilder, res: Res, n: Int, d: Float = 1.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    places = [i if i < (n + 1) // 2 else i - n for i in range(n)]
    return consts(graph, [i / (n * d) for i in places], dtype_of(graph, res))


def aten_fft_rfftfreq(graph: GraphBuilder, res: Res, n: Int, d: Float = 1.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return consts(graph, [i / (n * d) for i in range(n // 2 + 1)], dtype_of(graph, res))


def complex_aten__fft_c2c(graph: GraphBuilder, res: Res, self: Result, dim: SymInts, normalization: Int, forward: Bool) -> Result:
    """aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in static(dim)]
    found = fourier(graph, self, axes, forward)
    return fourier_scaled(graph, found, [dim_of(graph, self, axis) for axis in axes], normalization)


def complex_aten__fft_c2r(graph: GraphBuilder, res: Res, self: Result, dim: Ints, normalization: Int, last_dim_size: SymInt) -> Result:
    """aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in dim]
    rows = fourier(graph, self, axes[:-1], False)
    whole = whole_spectrum(graph, rows, axes[-1], last_dim_size)
    found = re(graph, fourier(graph, whole, axes[-1:], False))
    return fourier_scaled(graph, found, [dim_of(graph, res, axis) for axis in axes], normalization)


def complex_aten__fft_r2c(graph: GraphBuilder, res: Res, self: Result, dim: Ints, normalization: Int, onesided: Bool) -> Result:
    """aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in dim]
    last = half_spectrum(graph, re(graph, self), axes[-1]) if onesided else fourier(graph, self, axes[-1:], True)
    found = fourier(graph, last, axes[:-1], True)
    return fourier_scaled(graph, found, [dim_of(graph, self, axis) for axis in axes], normalization)


def complex_prims_fft_c2c(graph: GraphBuilder, res: Res, self: Result, *, dim: Ints, forward: Bool) -> Result:
    """prims::fft_c2c(Tensor self, *, int[] dim, bool forward) -> Tensor"""
    return complex_aten__fft_c2c(graph, res, self=self, dim=dim, normalization=0, forward=forward)


def complex_prims_fft_c2r(graph: GraphBuilder, res: Res, self: Result, *, dim: Ints, last_dim_size: SymInt) -> Result:
    """prims::fft_c2r(Tensor self, *, int[] dim, SymInt last_dim_size) -> Tensor"""
    return complex_aten__fft_c2r(graph, res, self=self, dim=dim, normalization=0, last_dim_size=last_dim_size)


def complex_prims_fft_r2c(graph: GraphBuilder, res: Res, self: Result, *, dim: Ints, onesided: Bool) -> Result:
    """prims::fft_r2c(Tensor self, *, int[] dim, bool onesided) -> Tensor"""
    return complex_aten__fft_r2c(graph, res, self=self, dim=dim, normalization=0, onesided=onesided)


def rule_aten__fft_c2c(graph: GraphBuilder, self: Result, dim: SymInts, normalization: Int, forward: Bool) -> Rules:
    return ((known_dtype(graph, self), known_shape(graph, self)),)


def rule_aten__fft_c2r(graph: GraphBuilder, self: Result, dim: Ints, normalization: Int, last_dim_size: SymInt) -> Rules:
    return ((part_type(known_dtype(graph, self)), None),)


def rule_aten__fft_r2c(graph: GraphBuilder, self: Result, dim: Ints, normalization: Int, onesided: Bool) -> Rules:
    return ((complex_type(known_dtype(graph, self)), None),)


def rule_aten_fft_fftfreq(graph: GraphBuilder, n: Int, d: Float = 1.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([n])),)


def rule_aten_fft_rfftfreq(graph: GraphBuilder, n: Int, d: Float = 1.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([n // 2 + 1])),)


def rule_prims_fft_c2c(graph: GraphBuilder, self: Result, *, dim: Ints, forward: Bool) -> Rules:
    return rule_aten__fft_c2c(graph, self=self, dim=dim, normalization=0, forward=forward)


def rule_prims_fft_c2r(graph: GraphBuilder, self: Result, *, dim: Ints, last_dim_size: SymInt) -> Rules:
    return rule_aten__fft_c2r(graph, self=self, dim=dim, normalization=0, last_dim_size=last_dim_size)


def rule_prims_fft_r2c(graph: GraphBuilder, self: Result, *, dim: Ints, onesided: Bool) -> Rules:
    return rule_aten__fft_r2c(graph, self=self, dim=dim, normalization=0, onesided=onesided)
