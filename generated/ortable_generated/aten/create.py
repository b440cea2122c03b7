# Generated from specs/aten/create.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import int64
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.creation import uninitialized
from ortable.prelude.complex_arithmetic import as_complex, part_dtype
from ortable.prelude.facts import dim_of, dtype_of, shape_of
from ortable.prelude.metadata import dtype_or_none, given_shape, scalar_shape, shape_or_none
from ortable.prelude.pointwise import arange_of, filled_like, int_range, triangle_indices
from ortable.prelude.promotion import promoted_dtype, scalar_dtype
from ortable.prelude.values import as_scalar, cast, const, consts, filled

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Int, Ints, Result, Scalar, SymInt, SymInts


def aten_arange(graph: Graph, res: ResultSpec, end: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_arange_start_step(graph, res, start=0, end=end, step=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_arange_start(graph: Graph, res: ResultSpec, start: Scalar, end: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_arange_start_step(graph, res, start=start, end=end, step=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_arange_start_step(graph: Graph, res: ResultSpec, start: Scalar, end: Scalar, step: Scalar = 1, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return arange_of(graph, dim_of(graph, res, 0), start, step, dtype_of(graph, res))


def aten_empty_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    graph.case = 1
    return filled_like(graph, self, uninitialized(dtype_of(graph, res)), dtype_of(graph, res))


def aten_empty_memory_format(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    graph.case = 1
    return filled(graph, size, uninitialized(dtype_of(graph, res)), dtype_of(graph, res))


def aten_empty_permuted(graph: Graph, res: ResultSpec, size: SymInts, physical_layout: Ints, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 1
    return filled(graph, size, uninitialized(dtype_of(graph, res)), dtype_of(graph, res))


def aten_empty_strided(graph: Graph, res: ResultSpec, size: SymInts, stride: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 1
    return filled(graph, size, uninitialized(dtype_of(graph, res)), dtype_of(graph, res))


def aten_eye(graph: Graph, res: ResultSpec, n: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 1
    rows = graph.make_node('Unsqueeze', [int_range(graph, 0, n, 1), consts(graph, [1], int64)])
    return cast(graph, graph.make_node('Equal', [rows, int_range(graph, 0, n, 1)]), dtype_of(graph, res))


def aten_eye_m(graph: Graph, res: ResultSpec, n: SymInt, m: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 1
    rows = graph.make_node('Unsqueeze', [int_range(graph, 0, n, 1), consts(graph, [1], int64)])
    return cast(graph, graph.make_node('Equal', [rows, int_range(graph, 0, m, 1)]), dtype_of(graph, res))


def aten_full(graph: Graph, res: ResultSpec, size: SymInts, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return filled(graph, size, fill_value, dtype_of(graph, res))


def aten_full_like(graph: Graph, res: ResultSpec, self: Result, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return filled_like(graph, self, fill_value, dtype_of(graph, res))


def aten_new_empty(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 1
    return filled(graph, size, uninitialized(dtype_of(graph, res)), dtype_of(graph, res))


def aten_new_empty_strided(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_new_empty(graph, res, self=self, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_new_full(graph: Graph, res: ResultSpec, self: Result, size: SymInts, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return filled(graph, size, fill_value, dtype_of(graph, res))


def aten_new_ones(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_new_full(graph, res, self=self, size=size, fill_value=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_new_zeros(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return aten_new_full(graph, res, self=self, size=size, fill_value=0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def aten_ones(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 1
    return filled(graph, size, 1, dtype_of(graph, res))


def aten_ones_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return aten_full_like(graph, res, self=self, fill_value=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def aten_scalar_tensor(graph: Graph, res: ResultSpec, s: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return const(graph, s, dtype_of(graph, res))


def aten_tril(graph: Graph, res: ResultSpec, self: Result, diagonal: SymInt = 0) -> Result:
    """aten::tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return graph.make_node('Trilu', [self, as_scalar(graph, diagonal)], res.outputs, upper=0)


def aten_tril_indices(graph: Graph, res: ResultSpec, row: Int, col: Int, offset: Int = 0, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return triangle_indices(graph, row, col, offset, False, dtype_of(graph, res))


def aten_triu(graph: Graph, res: ResultSpec, self: Result, diagonal: SymInt = 0) -> Result:
    """aten::triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return graph.make_node('Trilu', [self, as_scalar(graph, diagonal)], res.outputs, upper=1)


def aten_triu_indices(graph: Graph, res: ResultSpec, row: Int, col: Int, offset: Int = 0, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=4, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return triangle_indices(graph, row, col, offset, True, dtype_of(graph, res))


def aten_zeros(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return filled(graph, size, 0, dtype_of(graph, res))


def aten_zeros_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return aten_full_like(graph, res, self=self, fill_value=0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def complex_aten_empty_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::empty_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    graph.case = 2
    own_dtype = part_dtype(dtype_of(graph, res))
    made = filled(graph, shape_of(graph, self), uninitialized(own_dtype), own_dtype)
    return as_complex(graph, made, dtype_of(graph, res)) if own_dtype != dtype_of(graph, res) else made


def complex_aten_empty_memory_format(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    graph.case = 2
    own_dtype = part_dtype(dtype_of(graph, res))
    return as_complex(graph, filled(graph, size, uninitialized(own_dtype), own_dtype), dtype_of(graph, res))


def complex_aten_empty_permuted(graph: Graph, res: ResultSpec, size: SymInts, physical_layout: Ints, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::empty_permuted(SymInt[] size, int[] physical_layout, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 2
    own_dtype = part_dtype(dtype_of(graph, res))
    return as_complex(graph, filled(graph, size, uninitialized(own_dtype), own_dtype), dtype_of(graph, res))


def complex_aten_empty_strided(graph: Graph, res: ResultSpec, size: SymInts, stride: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::empty_strided(SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 2
    own_dtype = part_dtype(dtype_of(graph, res))
    return as_complex(graph, filled(graph, size, uninitialized(own_dtype), own_dtype), dtype_of(graph, res))


def complex_aten_eye(graph: Graph, res: ResultSpec, n: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 2
    rows = graph.make_node('Unsqueeze', [int_range(graph, 0, n, 1), consts(graph, [1], int64)])
    return as_complex(graph, graph.make_node('Equal', [rows, int_range(graph, 0, n, 1)]), dtype_of(graph, res))


def complex_aten_eye_m(graph: Graph, res: ResultSpec, n: SymInt, m: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 2
    rows = graph.make_node('Unsqueeze', [int_range(graph, 0, n, 1), consts(graph, [1], int64)])
    return as_complex(graph, graph.make_node('Equal', [rows, int_range(graph, 0, m, 1)]), dtype_of(graph, res))


def complex_aten_full(graph: Graph, res: ResultSpec, size: SymInts, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return each_part(graph, res, aten_full, {'fill_value': fill_value}, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_full_like(graph: Graph, res: ResultSpec, self: Result, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return each_part(graph, res, aten_full_like, {'self': self, 'fill_value': fill_value}, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def complex_aten_new_empty(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_empty(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 2
    own_dtype = part_dtype(dtype_of(graph, res))
    made = filled(graph, size, uninitialized(own_dtype), own_dtype)
    return as_complex(graph, made, dtype_of(graph, res)) if own_dtype != dtype_of(graph, res) else made


def complex_aten_new_empty_strided(graph: Graph, res: ResultSpec, self: Result, size: SymInts, stride: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return complex_aten_new_empty(graph, res, self=self, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_new_full(graph: Graph, res: ResultSpec, self: Result, size: SymInts, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return each_part(graph, res, aten_new_full, {'self': self, 'fill_value': fill_value}, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_new_ones(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return complex_aten_new_full(graph, res, self=self, size=size, fill_value=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_new_zeros(graph: Graph, res: ResultSpec, self: Result, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return complex_aten_new_full(graph, res, self=self, size=size, fill_value=0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_ones(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    graph.case = 2
    return as_complex(graph, filled(graph, size, 1, part_dtype(dtype_of(graph, res))), dtype_of(graph, res))


def complex_aten_ones_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return complex_aten_full_like(graph, res, self=self, fill_value=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def complex_aten_scalar_tensor(graph: Graph, res: ResultSpec, s: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return each_part(graph, res, aten_scalar_tensor, {'s': s}, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_tril(graph: Graph, res: ResultSpec, self: Result, diagonal: SymInt = 0) -> Result:
    """aten::tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return each_part(graph, res, aten_tril, {'self': self}, diagonal=diagonal)


def complex_aten_triu(graph: Graph, res: ResultSpec, self: Result, diagonal: SymInt = 0) -> Result:
    """aten::triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return each_part(graph, res, aten_triu, {'self': self}, diagonal=diagonal)


def complex_aten_zeros(graph: Graph, res: ResultSpec, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Result:
    """aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor"""
    return each_part(graph, res, aten_zeros, {}, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def complex_aten_zeros_like(graph: Graph, res: ResultSpec, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Result:
    """aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor"""
    return complex_aten_full_like(graph, res, self=self, fill_value=0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def rule_aten_arange(graph: Graph, end: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_arange_start_step(graph, start=0, end=end, step=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_arange_start(graph: Graph, start: Scalar, end: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_arange_start_step(graph, start=start, end=end, step=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_arange_start_step(graph: Graph, start: Scalar, end: Scalar, step: Scalar = 1, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((promoted_dtype(graph, 'default', start, end, step) if dtype is None else dtype, None),)


def rule_aten_empty_like(graph: Graph, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_empty_memory_format(graph: Graph, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape(size)),)


def rule_aten_empty_permuted(graph: Graph, size: SymInts, physical_layout: Ints, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape(size)),)


def rule_aten_empty_strided(graph: Graph, size: SymInts, stride: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape(size)),)


def rule_aten_eye(graph: Graph, n: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_eye_m(graph: Graph, n: SymInt, m: SymInt, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, None),)


def rule_aten_full(graph: Graph, size: SymInts, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(fill_value) if dtype is None else dtype, given_shape(size)),)


def rule_aten_full_like(graph: Graph, self: Result, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, shape_or_none(graph, self)),)


def rule_aten_new_empty(graph: Graph, self: Result, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, given_shape(size)),)


def rule_aten_new_empty_strided(graph: Graph, self: Result, size: SymInts, stride: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_new_empty(graph, self=self, size=size, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_new_full(graph: Graph, self: Result, size: SymInts, fill_value: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((dtype_or_none(graph, self) if dtype is None else dtype, given_shape(size)),)


def rule_aten_new_ones(graph: Graph, self: Result, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_new_full(graph, self=self, size=size, fill_value=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_new_zeros(graph: Graph, self: Result, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return rule_aten_new_full(graph, self=self, size=size, fill_value=0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def rule_aten_ones(graph: Graph, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape(size)),)


def rule_aten_ones_like(graph: Graph, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return rule_aten_full_like(graph, self=self, fill_value=1, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)


def rule_aten_scalar_tensor(graph: Graph, s: Scalar, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, scalar_shape()),)


def rule_aten_tril(graph: Graph, self: Result, diagonal: SymInt = 0) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_tril_indices(graph: Graph, row: Int, col: Int, offset: Int = 0, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((int64 if dtype is None else dtype, None),)


def rule_aten_triu(graph: Graph, self: Result, diagonal: SymInt = 0) -> Rules:
    return ((dtype_or_none(graph, self), shape_or_none(graph, self)),)


def rule_aten_triu_indices(graph: Graph, row: Int, col: Int, offset: Int = 0, *, dtype: Dtype | None = 7, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((int64 if dtype is None else dtype, None),)


def rule_aten_zeros(graph: Graph, size: SymInts, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None) -> Rules:
    return ((scalar_dtype(1.0) if dtype is None else dtype, given_shape(size)),)


def rule_aten_zeros_like(graph: Graph, self: Result, *, dtype: Dtype | None = None, layout: Any = None, device: Any = None, pin_memory: Bool | None = None, memory_format: Any = None) -> Rules:
    return rule_aten_full_like(graph, self=self, fill_value=0, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory, memory_format=memory_format)
