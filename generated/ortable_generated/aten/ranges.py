# Generated from specs/aten/ranges.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import bfloat16, float16, float32, float64
from ortable.lowerings.creation import linspace
from ortable.prelude.facts import dim_of, dtype_of
from ortable.prelude.metadata import given_shape
from ortable.prelude.pointwise import arange_of
from ortable.prelude.promotion import in_dtype, scalar_dtype
from ortable.prelude.values import cast, const

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Int, Result, Scalar


def aten_linspace(graph: Graph, res: ResultSpec, start: Scalar, end: Scalar, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return linspace(graph, start, end, steps, dtype_of(graph, res))


def aten_linspace_Scalar_Tensor(graph: Graph, res: ResultSpec, start: Scalar, end: Result, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::linspace.Scalar_Tensor(Scalar start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return linspace(graph, start, end, steps, dtype_of(graph, res))


def aten_linspace_Tensor_Scalar(graph: Graph, res: ResultSpec, start: Result, end: Scalar, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::linspace.Tensor_Scalar(Tensor start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return linspace(graph, start, end, steps, dtype_of(graph, res))


def aten_linspace_Tensor_Tensor(graph: Graph, res: ResultSpec, start: Result, end: Result, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::linspace.Tensor_Tensor(Tensor start, Tensor end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return linspace(graph, start, end, steps, dtype_of(graph, res))


def aten_logspace(graph: Graph, res: ResultSpec, start: Scalar, end: Scalar, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::logspace(Scalar start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    compute_dtype = float32 if dtype_of(graph, res) in (float16, bfloat16, float32) else float64
    low, high = (in_dtype(graph, start, dtype_of(graph, res)), in_dtype(graph, end, dtype_of(graph, res)))
    return cast(graph, graph.make_node('Pow', [const(graph, base, compute_dtype), linspace(graph, low, high, steps, compute_dtype)]), dtype_of(graph, res))


def aten_logspace_Scalar_Tensor(graph: Graph, res: ResultSpec, start: Scalar, end: Result, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::logspace.Scalar_Tensor(Scalar start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    compute_dtype = float32 if dtype_of(graph, res) in (float16, bfloat16, float32) else float64
    low, high = (in_dtype(graph, start, dtype_of(graph, res)), in_dtype(graph, end, dtype_of(graph, res)))
    return cast(graph, graph.make_node('Pow', [const(graph, base, compute_dtype), linspace(graph, low, high, steps, compute_dtype)]), dtype_of(graph, res))


def aten_logspace_Tensor_Scalar(graph: Graph, res: ResultSpec, start: Result, end: Scalar, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::logspace.Tensor_Scalar(Tensor start, Scalar end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    compute_dtype = float32 if dtype_of(graph, res) in (float16, bfloat16, float32) else float64
    low, high = (in_dtype(graph, start, dtype_of(graph, res)), in_dtype(graph, end, dtype_of(graph, res)))
    return cast(graph, graph.make_node('Pow', [const(graph, base, compute_dtype), linspace(graph, low, high, steps, compute_dtype)]), dtype_of(graph, res))


def aten_logspace_Tensor_Tensor(graph: Graph, res: ResultSpec, start: Result, end: Result, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::logspace.Tensor_Tensor(Tensor start, Tensor end, int steps, float base=10., *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    compute_dtype = float32 if dtype_of(graph, res) in (float16, bfloat16, float32) else float64
    low, high = (in_dtype(graph, start, dtype_of(graph, res)), in_dtype(graph, end, dtype_of(graph, res)))
    return cast(graph, graph.make_node('Pow', [const(graph, base, compute_dtype), linspace(graph, low, high, steps, compute_dtype)]), dtype_of(graph, res))


def aten_range(graph: Graph, res: ResultSpec, start: Scalar, end: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::range(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return arange_of(graph, dim_of(graph, res, 0), start, 1, dtype_of(graph, res))


def aten_range_step(graph: Graph, res: ResultSpec, start: Scalar, end: Scalar, step: Scalar = 1, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::range.step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return arange_of(graph, dim_of(graph, res, 0), start, step, dtype_of(graph, res))


def rule_aten_linspace(graph: Graph, start: Scalar, end: Scalar, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_linspace_Scalar_Tensor(graph: Graph, start: Scalar, end: Result, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([steps])),)


def rule_aten_linspace_Tensor_Scalar(graph: Graph, start: Result, end: Scalar, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([steps])),)


def rule_aten_linspace_Tensor_Tensor(graph: Graph, start: Result, end: Result, steps: Int, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([steps])),)


def rule_aten_logspace(graph: Graph, start: Scalar, end: Scalar, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([steps])),)


def rule_aten_logspace_Scalar_Tensor(graph: Graph, start: Scalar, end: Result, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([steps])),)


def rule_aten_logspace_Tensor_Scalar(graph: Graph, start: Result, end: Scalar, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([steps])),)


def rule_aten_logspace_Tensor_Tensor(graph: Graph, start: Result, end: Result, steps: Int, base: Float = 10.0, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape([steps])),)


def rule_aten_range(graph: Graph, start: Scalar, end: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_range_step(graph: Graph, start: Scalar, end: Scalar, step: Scalar = 1, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)
