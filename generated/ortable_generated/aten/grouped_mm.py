# Generated from specs/aten/grouped_mm.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from ortable.errors import UnsupportedCase
from ortable.inference import unify_shapes
from ortable.lowerings.grouped_mm import grouped_rows
from ortable.lowerings.products import in_group
from ortable.prelude.facts import dim_of, dtype_of, is_static, rank_of
from ortable.prelude.matrices import matrix_product
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.sums import summed_over
from ortable.prelude.values import cast, const, unsqueezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Dtype, Result


def aten__grouped_mm(graph: Graph, res: ResultSpec, self: Result, mat2: Result, offs: Result | None = None, bias: Result | None = None, out_dtype: Dtype | None = None) -> Result:
    """aten::_grouped_mm(Tensor self, Tensor mat2, Tensor? offs=None, Tensor? bias=None, ScalarType? out_dtype=None) -> Tensor"""
    if bias is not None:
        graph.case = 1
        raise UnsupportedCase('aten::_grouped_mm: a bias, which torch does not take yet')
    if offs is None:
        graph.case = 2
        return cast(graph, matrix_product(graph, self, mat2), dtype_of(graph, res))
    if rank_of(graph, self) == 2 and rank_of(graph, mat2) == 2:
        # groups of columns of self and rows of mat2
        graph.case = 3
        inside = in_group(graph, offs, dim_of(graph, self, 1))
        zero = const(graph, 0, dtype_of(graph, self))
        left = graph.make_node('Where', [unsqueezed(graph, inside, [1]), self, zero])
        right = graph.make_node('Where', [unsqueezed(graph, inside, [2]), mat2, zero])
        return cast(graph, graph.make_node('MatMul', [left, right]), dtype_of(graph, res))
    if rank_of(graph, self) == 2 and is_static(dim_of(graph, mat2, 0)):
        # groups of rows of self; rows of no group are zero, torch leaves them as they are
        graph.case = 4
        return cast(graph, grouped_rows(graph, self, mat2, offs), dtype_of(graph, res))
    # groups of rows of self, or of columns of mat2; places of no group are zero, torch leaves them as they are
    graph.case = 5
    rows = rank_of(graph, self) == 2
    inside = in_group(graph, offs, dim_of(graph, self, 0) if rows else dim_of(graph, mat2, 1))
    zero = const(graph, 0, dtype_of(graph, self))
    kept = graph.make_node('Where', [unsqueezed(graph, inside, [2] if rows else [1]), matrix_product(graph, self, mat2), zero])
    return cast(graph, summed_over(graph, kept, [0], False), dtype_of(graph, res))


def rule_aten__grouped_mm(graph: Graph, self: Result, mat2: Result, offs: Result | None = None, bias: Result | None = None, out_dtype: Dtype | None = None) -> Rules:
    return ((dtype_or_none(graph, self) if out_dtype is None else out_dtype, None),)


def rule_transformers_grouped_mm_fallback(graph: Graph, input: Result, weight: Result, offs: Result) -> Rules:
    return ((dtype_or_none(graph, input), unify_shapes((('s', 'k'), ('e', 'k', 'n'), ('e',)), (('s', 'n'),), [shape_or_none(graph, input), shape_or_none(graph, weight), shape_or_none(graph, offs)])[0]),)


def transformers_grouped_mm_fallback(graph: Graph, res: ResultSpec, input: Result, weight: Result, offs: Result) -> Result:
    """transformers::grouped_mm_fallback(Tensor input, Tensor weight, Tensor offs) -> Tensor"""
    return grouped_rows(graph, input, weight, offs)
