# Generated from specs/aten/special_gamma.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING

from math import factorial
from ortable.dtypes import int64
from ortable.inference import broadcast
from ortable.lowerings.special.gamma import digamma_of, lgamma_of, trigamma_of, zeta_of
from ortable.lowerings.special.incomplete_gamma import lower_igamma, lower_igammac
from ortable.prelude.facts import dtype_of, rank_of
from ortable.prelude.metadata import shape_or_none
from ortable.prelude.pointwise import const_like
from ortable.prelude.promotion import opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast, consts, unsqueezed

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Int, Result, Scalar


def aten_digamma(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::digamma(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return digamma_of(graph, self)


def aten_igamma(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::igamma(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return lower_igamma(graph, res, self=self, other=other)


def aten_igammac(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::igammac(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other])
    return lower_igammac(graph, res, self=self, other=other)


def aten_lgamma(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::lgamma(Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    return lgamma_of(graph, self)


def aten_mvlgamma(graph: Graph, res: ResultSpec, self: Result, p: Int) -> Result:
    """aten::mvlgamma(Tensor self, int p) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    offsets = consts(graph, [-0.5 * i for i in range(p)], dtype_of(graph, self))
    terms = lgamma_of(graph, graph.make_node('Add', [unsqueezed(graph, self, [rank_of(graph, self)]), offsets]))
    total = graph.make_node('ReduceSum', [terms, consts(graph, [rank_of(graph, self)], int64)], keepdims=0)
    return graph.make_node('Add', [total, const_like(graph, p * (p - 1) / 4 * 1.1447298858494002, self)], res.outputs)


def aten_polygamma(graph: Graph, res: ResultSpec, n: Int, self: Result) -> Result:
    """aten::polygamma(int n, Tensor self) -> Tensor"""
    self, = promote_values(graph, 'int_to_float', [self])
    if n == 0:
        graph.case = 1
        return digamma_of(graph, self)
    if n == 1:
        graph.case = 2
        return cast(graph, trigamma_of(graph, opmath(graph, self)), dtype_of(graph, self))
    graph.case = 3
    x = opmath(graph, self)
    value = zeta_of(graph, const_like(graph, n + 1, x), x)
    size = float('inf') if n > 170 else float(factorial(n))
    return cast(graph, graph.make_node('Mul', [value, const_like(graph, size if n % 2 == 1 else -size, x)]), dtype_of(graph, self))


def aten_special_digamma(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_digamma(Tensor self) -> Tensor"""
    return aten_digamma(graph, res, self=self)


def aten_special_gammainc(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::special_gammainc(Tensor self, Tensor other) -> Tensor"""
    return aten_igamma(graph, res, self=self, other=other)


def aten_special_gammaincc(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::special_gammaincc(Tensor self, Tensor other) -> Tensor"""
    return aten_igammac(graph, res, self=self, other=other)


def aten_special_gammaln(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_gammaln(Tensor self) -> Tensor"""
    return aten_lgamma(graph, res, self=self)


def aten_special_multigammaln(graph: Graph, res: ResultSpec, self: Result, p: Int) -> Result:
    """aten::special_multigammaln(Tensor self, int p) -> Tensor"""
    return aten_mvlgamma(graph, res, self=self, p=p)


def aten_special_polygamma(graph: Graph, res: ResultSpec, n: Int, self: Result) -> Result:
    """aten::special_polygamma(int n, Tensor self) -> Tensor"""
    return aten_polygamma(graph, res, n=n, self=self)


def aten_special_psi(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """aten::special_psi(Tensor self) -> Tensor"""
    return aten_digamma(graph, res, self=self)


def aten_special_zeta(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """aten::special_zeta(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'int_to_float', [self, other])
    return zeta_of(graph, self, other)


def aten_special_zeta_other_scalar(graph: Graph, res: ResultSpec, self: Result, other: Scalar) -> Result:
    """aten::special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor"""
    return aten_special_zeta(graph, res, self=self, other=other)


def aten_special_zeta_self_scalar(graph: Graph, res: ResultSpec, self: Scalar, other: Result) -> Result:
    """aten::special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor"""
    return aten_special_zeta(graph, res, self=self, other=other)


def rule_aten_digamma(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_igamma(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_igammac(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_lgamma(graph: Graph, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_mvlgamma(graph: Graph, self: Result, p: Int) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_polygamma(graph: Graph, n: Int, self: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self), shape_or_none(graph, self)),)


def rule_aten_special_digamma(graph: Graph, self: Result) -> Rules:
    return rule_aten_digamma(graph, self=self)


def rule_aten_special_gammainc(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_igamma(graph, self=self, other=other)


def rule_aten_special_gammaincc(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_igammac(graph, self=self, other=other)


def rule_aten_special_gammaln(graph: Graph, self: Result) -> Rules:
    return rule_aten_lgamma(graph, self=self)


def rule_aten_special_multigammaln(graph: Graph, self: Result, p: Int) -> Rules:
    return rule_aten_mvlgamma(graph, self=self, p=p)


def rule_aten_special_polygamma(graph: Graph, n: Int, self: Result) -> Rules:
    return rule_aten_polygamma(graph, n=n, self=self)


def rule_aten_special_psi(graph: Graph, self: Result) -> Rules:
    return rule_aten_digamma(graph, self=self)


def rule_aten_special_zeta(graph: Graph, self: Result, other: Result) -> Rules:
    return ((promoted_dtype(graph, 'int_to_float', self, other), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_aten_special_zeta_other_scalar(graph: Graph, self: Result, other: Scalar) -> Rules:
    return rule_aten_special_zeta(graph, self=self, other=other)


def rule_aten_special_zeta_self_scalar(graph: Graph, self: Scalar, other: Result) -> Rules:
    return rule_aten_special_zeta(graph, self=self, other=other)
