# Generated from specs/aten/fft.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.errors import UnsupportedCase
from ortable.inference import promote_to_float
from ortable.lowerings.fourier import c2c_along, c2r_along, fourier, fourier_axes, fourier_scaled, half_spectrum, lower_istft, lower_stft, r2c_along, whole_spectrum, windowed_dtype
from ortable.prelude.complex_arithmetic import re
from ortable.prelude.complex_value import complex_type, part_type
from ortable.prelude.facts import axis_of, dim_of, dtype_of, is_complex, static
from ortable.prelude.metadata import dtype_or_none, given_shape, shape_or_none
from ortable.prelude.promotion import scalar_dtype
from ortable.prelude.values import consts

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Int, Ints, Result, Str, SymInt, SymInts


def aten_fft_fftfreq(graph: Graph, res: ResultSpec, n: Int, d: Float = 1.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::fft_fftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    steps = [i if i < (n + 1) // 2 else i - n for i in range(n)]
    return consts(graph, [i / (n * d) for i in steps], dtype_of(graph, res))


def aten_fft_rfftfreq(graph: Graph, res: ResultSpec, n: Int, d: Float = 1.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::fft_rfftfreq(int n, float d=1., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return consts(graph, [i / (n * d) for i in range(n // 2 + 1)], dtype_of(graph, res))


def complex_aten__fft_c2c(graph: Graph, res: ResultSpec, self: Result, dim: SymInts, normalization: Int, forward: Bool) -> Result:
    """aten::_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in static(dim)]
    result = fourier(graph, self, axes, forward)
    return fourier_scaled(graph, result, [dim_of(graph, self, axis) for axis in axes], normalization)


def complex_aten__fft_c2r(graph: Graph, res: ResultSpec, self: Result, dim: Ints, normalization: Int, last_dim_size: SymInt) -> Result:
    """aten::_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in dim]
    rows = fourier(graph, self, axes[:-1], False)
    whole = whole_spectrum(graph, rows, axes[-1], last_dim_size)
    result = re(graph, fourier(graph, whole, axes[-1:], False))
    return fourier_scaled(graph, result, [dim_of(graph, res, axis) for axis in axes], normalization)


def complex_aten__fft_r2c(graph: Graph, res: ResultSpec, self: Result, dim: Ints, normalization: Int, onesided: Bool) -> Result:
    """aten::_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor"""
    axes = [axis_of(graph, self, each) for each in dim]
    last = half_spectrum(graph, re(graph, self), axes[-1]) if onesided else fourier(graph, self, axes[-1:], True)
    result = fourier(graph, last, axes[:-1], True)
    return fourier_scaled(graph, result, [dim_of(graph, self, axis) for axis in axes], normalization)


def complex_aten_fft_fft(graph: Graph, res: ResultSpec, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Result:
    """aten::fft_fft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"""
    return c2c_along(graph, self, fourier_axes(graph, self, dim, n), n, norm, True)


def complex_aten_fft_fft2(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Result:
    """aten::fft_fft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"""
    return c2c_along(graph, self, fourier_axes(graph, self, dim, s), s, norm, True)


def complex_aten_fft_fftn(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Result:
    """aten::fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    return c2c_along(graph, self, fourier_axes(graph, self, dim, s), s, norm, True)


def complex_aten_fft_hfft(graph: Graph, res: ResultSpec, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Result:
    """aten::fft_hfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"""
    return c2r_along(graph, self, fourier_axes(graph, self, dim, n), n, norm, True)


def complex_aten_fft_hfft2(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Result:
    """aten::fft_hfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"""
    return c2r_along(graph, self, fourier_axes(graph, self, dim, s), s, norm, True)


def complex_aten_fft_hfftn(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Result:
    """aten::fft_hfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    return c2r_along(graph, self, fourier_axes(graph, self, dim, s), s, norm, True)


def complex_aten_fft_ifft(graph: Graph, res: ResultSpec, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Result:
    """aten::fft_ifft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"""
    return c2c_along(graph, self, fourier_axes(graph, self, dim, n), n, norm, False)


def complex_aten_fft_ifft2(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Result:
    """aten::fft_ifft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"""
    return c2c_along(graph, self, fourier_axes(graph, self, dim, s), s, norm, False)


def complex_aten_fft_ifftn(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Result:
    """aten::fft_ifftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    return c2c_along(graph, self, fourier_axes(graph, self, dim, s), s, norm, False)


def complex_aten_fft_ihfft(graph: Graph, res: ResultSpec, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Result:
    """aten::fft_ihfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"""
    return r2c_along(graph, re(graph, self), fourier_axes(graph, self, dim, n), n, norm, False)


def complex_aten_fft_ihfft2(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Result:
    """aten::fft_ihfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"""
    return r2c_along(graph, re(graph, self), fourier_axes(graph, self, dim, s), s, norm, False)


def complex_aten_fft_ihfftn(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Result:
    """aten::fft_ihfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    return r2c_along(graph, re(graph, self), fourier_axes(graph, self, dim, s), s, norm, False)


def complex_aten_fft_irfft(graph: Graph, res: ResultSpec, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Result:
    """aten::fft_irfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"""
    return c2r_along(graph, self, fourier_axes(graph, self, dim, n), n, norm, False)


def complex_aten_fft_irfft2(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Result:
    """aten::fft_irfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"""
    return c2r_along(graph, self, fourier_axes(graph, self, dim, s), s, norm, False)


def complex_aten_fft_irfftn(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Result:
    """aten::fft_irfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    return c2r_along(graph, self, fourier_axes(graph, self, dim, s), s, norm, False)


def complex_aten_fft_rfft(graph: Graph, res: ResultSpec, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Result:
    """aten::fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor"""
    return r2c_along(graph, re(graph, self), fourier_axes(graph, self, dim, n), n, norm, True)


def complex_aten_fft_rfft2(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Result:
    """aten::fft_rfft2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor"""
    return r2c_along(graph, re(graph, self), fourier_axes(graph, self, dim, s), s, norm, True)


def complex_aten_fft_rfftn(graph: Graph, res: ResultSpec, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Result:
    """aten::fft_rfftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor"""
    return r2c_along(graph, re(graph, self), fourier_axes(graph, self, dim, s), s, norm, True)


def complex_aten_istft(graph: Graph, res: ResultSpec, self: Result, n_fft: Int, hop_length: Int | None = None, win_length: Int | None = None, window: Result | None = None, center: Bool = True, normalized: Bool = False, onesided: Bool | None = None, length: Int | None = None, return_complex: Bool = False) -> Result:
    """aten::istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, int? length=None, bool return_complex=False) -> Tensor"""
    return lower_istft(graph, res, self=self, n_fft=n_fft, hop_length=hop_length, win_length=win_length, window=window, center=center, normalized=normalized, onesided=onesided, length=length, return_complex=return_complex)


def complex_aten_stft(graph: Graph, res: ResultSpec, self: Result, n_fft: Int, hop_length: Int | None = None, win_length: Int | None = None, window: Result | None = None, normalized: Bool = False, onesided: Bool | None = None, return_complex: Bool | None = None, align_to_window: Bool | None = None) -> Result:
    """aten::stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool normalized=False, bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor"""
    if align_to_window is not None and align_to_window:
        graph.case = 1
        raise UnsupportedCase('aten::stft: frames aligned to the window')
    graph.case = 2
    return lower_stft(graph, res, self=self, n_fft=n_fft, hop_length=hop_length, win_length=win_length, window=window, normalized=normalized, onesided=onesided, return_complex=return_complex)


def complex_prims_fft_c2c(graph: Graph, res: ResultSpec, self: Result, *, dim: Ints, forward: Bool) -> Result:
    """prims::fft_c2c(Tensor self, *, int[] dim, bool forward) -> Tensor"""
    return complex_aten__fft_c2c(graph, res, self=self, dim=dim, normalization=0, forward=forward)


def complex_prims_fft_c2r(graph: Graph, res: ResultSpec, self: Result, *, dim: Ints, last_dim_size: SymInt) -> Result:
    """prims::fft_c2r(Tensor self, *, int[] dim, SymInt last_dim_size) -> Tensor"""
    return complex_aten__fft_c2r(graph, res, self=self, dim=dim, normalization=0, last_dim_size=last_dim_size)


def complex_prims_fft_r2c(graph: Graph, res: ResultSpec, self: Result, *, dim: Ints, onesided: Bool) -> Result:
    """prims::fft_r2c(Tensor self, *, int[] dim, bool onesided) -> Tensor"""
    return complex_aten__fft_r2c(graph, res, self=self, dim=dim, normalization=0, onesided=onesided)


def rule_aten__fft_c2c(graph: Graph, self: Result, dim: SymInts, normalization: Int, forward: Bool) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten__fft_c2r(graph: Graph, self: Result, dim: Ints, normalization: Int, last_dim_size: SymInt) -> Rules:
    return ((part_type(dtype_or_none(graph, self)), None),)


def rule_aten__fft_r2c(graph: Graph, self: Result, dim: Ints, normalization: Int, onesided: Bool) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_fft(graph: Graph, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_fft2(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_fftfreq(graph: Graph, n: Int, d: Float = 1.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([n])),)


def rule_aten_fft_fftn(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_hfft(graph: Graph, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if is_complex(graph, self) else promote_to_float(dtype_or_none(graph, self)), None),)


def rule_aten_fft_hfft2(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if is_complex(graph, self) else promote_to_float(dtype_or_none(graph, self)), None),)


def rule_aten_fft_hfftn(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if is_complex(graph, self) else promote_to_float(dtype_or_none(graph, self)), None),)


def rule_aten_fft_ifft(graph: Graph, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_ifft2(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_ifftn(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_ihfft(graph: Graph, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_ihfft2(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_ihfftn(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_irfft(graph: Graph, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if is_complex(graph, self) else promote_to_float(dtype_or_none(graph, self)), None),)


def rule_aten_fft_irfft2(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if is_complex(graph, self) else promote_to_float(dtype_or_none(graph, self)), None),)


def rule_aten_fft_irfftn(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Rules:
    return ((part_type(dtype_or_none(graph, self)) if is_complex(graph, self) else promote_to_float(dtype_or_none(graph, self)), None),)


def rule_aten_fft_rfft(graph: Graph, self: Result, n: SymInt | None = None, dim: Int = -1, norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_rfft2(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints = (-2, -1), norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_fft_rfftfreq(graph: Graph, n: Int, d: Float = 1.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([n // 2 + 1])),)


def rule_aten_fft_rfftn(graph: Graph, self: Result, s: SymInts | None = None, dim: Ints | None = None, norm: Str | None = None) -> Rules:
    return ((complex_type(dtype_or_none(graph, self)), None),)


def rule_aten_istft(graph: Graph, self: Result, n_fft: Int, hop_length: Int | None = None, win_length: Int | None = None, window: Result | None = None, center: Bool = True, normalized: Bool = False, onesided: Bool | None = None, length: Int | None = None, return_complex: Bool = False) -> Rules:
    return ((windowed_dtype(graph, self, window, return_complex), None),)


def rule_aten_stft(graph: Graph, self: Result, n_fft: Int, hop_length: Int | None = None, win_length: Int | None = None, window: Result | None = None, normalized: Bool = False, onesided: Bool | None = None, return_complex: Bool | None = None, align_to_window: Bool | None = None) -> Rules:
    return ((windowed_dtype(graph, self, window, return_complex), None),)


def rule_prims_fft_c2c(graph: Graph, self: Result, *, dim: Ints, forward: Bool) -> Rules:
    return rule_aten__fft_c2c(graph, self=self, dim=dim, normalization=0, forward=forward)


def rule_prims_fft_c2r(graph: Graph, self: Result, *, dim: Ints, last_dim_size: SymInt) -> Rules:
    return rule_aten__fft_c2r(graph, self=self, dim=dim, normalization=0, last_dim_size=last_dim_size)


def rule_prims_fft_r2c(graph: Graph, self: Result, *, dim: Ints, onesided: Bool) -> Rules:
    return rule_aten__fft_r2c(graph, self=self, dim=dim, normalization=0, onesided=onesided)
