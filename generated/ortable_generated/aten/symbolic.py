# Generated from specs/aten/symbolic.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.dtypes import boolean, float32, float64, int64
from ortable.errors import UnsupportedCase
from ortable.lowerings.complex.parts import each_part
from ortable.lowerings.views import metadata_bool, metadata_int
from ortable.prelude.facts import count_of, dim_of, dtype_of, is_float, is_static, rank_of, shape_of
from ortable.prelude.metadata import as_list, dtype_or_none, scalar_shape
from ortable.prelude.promotion import common_dtype, promote_values
from ortable.prelude.reductions import all_true
from ortable.prelude.values import as_tensor, cast, const, reshape_to

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Bool, Dtype, Float, Int, Result, Scalar


def aten__local_scalar_dense(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::_local_scalar_dense(Tensor self) -> Scalar"""
    return reshape_to(graph, self, [])


def aten_allclose(graph: Graph, res: ResultSpec, self: Result, other: Result, rtol: Float = 1e-05, atol: Float = 1e-08, equal_nan: Bool = False) -> Any:
    """aten::allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool equal_nan=False) -> bool"""
    self, other = promote_values(graph, 'default', [self, other])
    compute_dtype = dtype_of(graph, self) if is_float(graph, self) else float64
    a, b = (cast(graph, self, compute_dtype), cast(graph, other, compute_dtype))
    gap = graph.make_node('Abs', [graph.make_node('Sub', [a, b])])
    slack = graph.make_node('Add', [const(graph, atol, compute_dtype), graph.make_node('Mul', [const(graph, rtol, compute_dtype), graph.make_node('Abs', [b])])])
    near = graph.make_node('And', [graph.make_node('LessOrEqual', [gap, slack]), graph.make_node('Not', [graph.make_node('IsInf', [gap])])])
    equal = graph.make_node('Or', [graph.make_node('Equal', [self, other]), near])
    close = graph.make_node('Or', [equal, graph.make_node('And', [graph.make_node('IsNaN', [a]), graph.make_node('IsNaN', [b])])]) if equal_nan else equal
    return all_true(graph, close, list(range(rank_of(graph, close))), False)


def aten_eq(graph: Graph, res: ResultSpec, a: Scalar, b: Scalar) -> Any:
    """aten::eq(Scalar a, Scalar b) -> bool"""
    return graph.make_node('Equal', [as_tensor(graph, a), as_tensor(graph, b)], res.outputs)


def aten_equal(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Any:
    """aten::equal(Tensor self, Tensor other) -> bool"""
    if shape_of(graph, self) == shape_of(graph, other):
        graph.case = 1
        dtype = common_dtype(graph, [self, other])
        same_ = graph.make_node('Equal', [cast(graph, self, dtype), cast(graph, other, dtype)])
        return all_true(graph, same_, list(range(rank_of(graph, self))), False)
    if is_static([*shape_of(graph, self), *shape_of(graph, other)]):
        graph.case = 2
        return const(graph, False, boolean)
    graph.case = 3
    raise UnsupportedCase('aten::equal: whether two dynamic shapes are the same')


def aten_is_nonzero(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::is_nonzero(Tensor self) -> bool"""
    return reshape_to(graph, cast(graph, self, boolean), [])


def aten_item(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::item(Tensor self) -> Scalar"""
    return aten__local_scalar_dense(graph, res, self=self)


def aten_mul(graph: Graph, res: ResultSpec, a: Scalar, b: Scalar) -> Any:
    """aten::mul(Scalar a, Scalar b) -> Scalar"""
    return graph.make_node('Mul', [as_tensor(graph, a), as_tensor(graph, b)], res.outputs)


def aten_ne(graph: Graph, res: ResultSpec, a: Scalar, b: Scalar) -> Any:
    """aten::ne(Scalar a, Scalar b) -> bool"""
    return graph.make_node('Not', [graph.make_node('Equal', [as_tensor(graph, a), as_tensor(graph, b)])], res.outputs)


def aten_numel(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::numel(Tensor self) -> int"""
    return aten_sym_numel(graph, res, self=self)


def aten_size(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::size(Tensor self) -> int[]"""
    return aten_sym_size(graph, res, self=self)


def aten_size_int(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Any:
    """aten::size.int(Tensor self, int dim) -> int"""
    return aten_sym_size_int(graph, res, self=self, dim=dim)


def aten_sym_is_contiguous(graph: Graph, res: ResultSpec, self: Result, memory_format: Any = 0) -> Any:
    """aten::sym_is_contiguous(Tensor self, MemoryFormat memory_format=0) -> SymBool"""
    return const(graph, metadata_bool(graph), boolean)


def aten_sym_numel(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::sym_numel(Tensor self) -> SymInt"""
    return count_of(graph, self)


def aten_sym_size(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::sym_size(Tensor self) -> SymInt[]"""
    return as_list(list(shape_of(graph, self)))


def aten_sym_size_int(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Any:
    """aten::sym_size.int(Tensor self, int dim) -> SymInt"""
    return dim_of(graph, self, dim)


def aten_sym_storage_offset(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::sym_storage_offset(Tensor self) -> SymInt"""
    return metadata_int(graph)


def aten_sym_stride_int(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Any:
    """aten::sym_stride.int(Tensor self, int dim) -> SymInt"""
    return metadata_int(graph)


def aten_tensor_bool(graph: Graph, res: ResultSpec, t: Bool, *, dtype: Dtype | None = None, device: Any = None, requires_grad: Bool = False) -> Result:
    """aten::tensor.bool(bool t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor"""
    return const(graph, t, dtype_of(graph, res))


def aten_tensor_float(graph: Graph, res: ResultSpec, t: Float, *, dtype: Dtype | None = None, device: Any = None, requires_grad: Bool = False) -> Result:
    """aten::tensor.float(float t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor"""
    return const(graph, t, dtype_of(graph, res))


def aten_tensor_int(graph: Graph, res: ResultSpec, t: Int, *, dtype: Dtype | None = None, device: Any = None, requires_grad: Bool = False) -> Result:
    """aten::tensor.int(int t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor"""
    return const(graph, t, dtype_of(graph, res))


def complex_aten_numel(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::numel(Tensor self) -> int"""
    return complex_aten_sym_numel(graph, res, self=self)


def complex_aten_size(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::size(Tensor self) -> int[]"""
    return complex_aten_sym_size(graph, res, self=self)


def complex_aten_size_int(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Any:
    """aten::size.int(Tensor self, int dim) -> int"""
    return complex_aten_sym_size_int(graph, res, self=self, dim=dim)


def complex_aten_sym_numel(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::sym_numel(Tensor self) -> SymInt"""
    return each_part(graph, res, aten_sym_numel, {'self': self})


def complex_aten_sym_size(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """aten::sym_size(Tensor self) -> SymInt[]"""
    return each_part(graph, res, aten_sym_size, {'self': self})


def complex_aten_sym_size_int(graph: Graph, res: ResultSpec, self: Result, dim: Int) -> Any:
    """aten::sym_size.int(Tensor self, int dim) -> SymInt"""
    return each_part(graph, res, aten_sym_size_int, {'self': self}, dim=dim)


def rule_aten__local_scalar_dense(graph: Graph, self: Result) -> Rules:
    return ((dtype_or_none(graph, self), scalar_shape()),)


def rule_aten_allclose(graph: Graph, self: Result, other: Result, rtol: Float = 1e-05, atol: Float = 1e-08, equal_nan: Bool = False) -> Rules:
    return ((boolean, scalar_shape()),)


def rule_aten_eq(graph: Graph, a: Scalar, b: Scalar) -> Rules:
    return ((boolean, scalar_shape()),)


def rule_aten_equal(graph: Graph, self: Result, other: Result) -> Rules:
    return ((boolean, scalar_shape()),)


def rule_aten_is_nonzero(graph: Graph, self: Result) -> Rules:
    return ((boolean, scalar_shape()),)


def rule_aten_item(graph: Graph, self: Result) -> Rules:
    return rule_aten__local_scalar_dense(graph, self=self)


def rule_aten_mul(graph: Graph, a: Scalar, b: Scalar) -> Rules:
    return ((int64 if common_dtype(graph, [a, b]) is None else common_dtype(graph, [a, b]), scalar_shape()),)


def rule_aten_ne(graph: Graph, a: Scalar, b: Scalar) -> Rules:
    return ((boolean, scalar_shape()),)


def rule_aten_numel(graph: Graph, self: Result) -> Rules:
    return rule_aten_sym_numel(graph, self=self)


def rule_aten_size(graph: Graph, self: Result) -> Rules:
    return rule_aten_sym_size(graph, self=self)


def rule_aten_size_int(graph: Graph, self: Result, dim: Int) -> Rules:
    return rule_aten_sym_size_int(graph, self=self, dim=dim)


def rule_aten_sym_is_contiguous(graph: Graph, self: Result, memory_format: Any = 0) -> Rules:
    return ((boolean, scalar_shape()),)


def rule_aten_sym_numel(graph: Graph, self: Result) -> Rules:
    return ((int64, scalar_shape()),)


def rule_aten_sym_size(graph: Graph, self: Result) -> Rules:
    return ((int64, None),)


def rule_aten_sym_size_int(graph: Graph, self: Result, dim: Int) -> Rules:
    return ((int64, scalar_shape()),)


def rule_aten_sym_storage_offset(graph: Graph, self: Result) -> Rules:
    return ((int64, scalar_shape()),)


def rule_aten_sym_stride_int(graph: Graph, self: Result, dim: Int) -> Rules:
    return ((int64, scalar_shape()),)


def rule_aten_tensor_bool(graph: Graph, t: Bool, *, dtype: Dtype | None = None, device: Any = None, requires_grad: Bool = False) -> Rules:
    return ((boolean if dtype is None else dtype, scalar_shape()),)


def rule_aten_tensor_float(graph: Graph, t: Float, *, dtype: Dtype | None = None, device: Any = None, requires_grad: Bool = False) -> Rules:
    return ((float32 if dtype is None else dtype, scalar_shape()),)


def rule_aten_tensor_int(graph: Graph, t: Int, *, dtype: Dtype | None = None, device: Any = None, requires_grad: Bool = False) -> Rules:
    return ((int64 if dtype is None else dtype, scalar_shape()),)
