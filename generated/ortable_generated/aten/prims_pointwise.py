# Generated from specs/aten/prims_pointwise.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.inference import broadcast
from ortable.lowerings.complex.arithmetic import promote_complex
from ortable.prelude.complex_arithmetic import c_add, c_mul
from ortable.prelude.facts import dtype_of, is_int
from ortable.prelude.metadata import dtype_or_none, shape_or_none
from ortable.prelude.pointwise import trunc_quotient
from ortable.prelude.promotion import opmath, promote_values, promoted_dtype
from ortable.prelude.values import cast
from ortable_generated.aten.activation import aten_tanh, complex_aten_tanh, rule_aten_tanh
from ortable_generated.aten.binary import aten_add_Tensor, aten_atan2, aten_hypot, aten_mul_Tensor, aten_pow_Tensor_Tensor, aten_sub_Tensor, complex_aten_add_Tensor, complex_aten_mul_Tensor, complex_aten_pow_Tensor_Tensor, complex_aten_sub_Tensor, rule_aten_add_Tensor, rule_aten_atan2, rule_aten_hypot, rule_aten_mul_Tensor, rule_aten_pow_Tensor_Tensor, rule_aten_sub_Tensor
from ortable_generated.aten.compare import aten_eq_Tensor, aten_fmax, aten_fmin, aten_ge_Tensor, aten_gt_Tensor, aten_le_Tensor, aten_lt_Tensor, aten_maximum, aten_minimum, aten_ne_Tensor, complex_aten_eq_Tensor, complex_aten_ne_Tensor, rule_aten_eq_Tensor, rule_aten_fmax, rule_aten_fmin, rule_aten_ge_Tensor, rule_aten_gt_Tensor, rule_aten_le_Tensor, rule_aten_lt_Tensor, rule_aten_maximum, rule_aten_minimum, rule_aten_ne_Tensor
from ortable_generated.aten.complex import aten_conj, complex_aten_conj, rule_aten_conj
from ortable_generated.aten.divide import aten_fmod_Tensor, aten_remainder_Tensor, rule_aten_fmod_Tensor, rule_aten_remainder_Tensor
from ortable_generated.aten.logical import aten_bitwise_and_Tensor, aten_bitwise_left_shift_Tensor, aten_bitwise_not, aten_bitwise_or_Tensor, aten_bitwise_right_shift_Tensor, aten_bitwise_xor_Tensor, rule_aten_bitwise_and_Tensor, rule_aten_bitwise_left_shift_Tensor, rule_aten_bitwise_not, rule_aten_bitwise_or_Tensor, rule_aten_bitwise_right_shift_Tensor, rule_aten_bitwise_xor_Tensor
from ortable_generated.aten.number import aten_frexp_Tensor, aten_gcd, aten_nextafter, rule_aten_frexp_Tensor, rule_aten_gcd, rule_aten_nextafter
from ortable_generated.aten.predicates import aten_isfinite, aten_sign, complex_aten_isfinite, complex_aten_sign, rule_aten_isfinite, rule_aten_sign
from ortable_generated.aten.special_bessel import aten_i0, aten_special_bessel_j0, aten_special_bessel_j1, aten_special_i0e, aten_special_i1, aten_special_i1e, aten_special_spherical_bessel_j0, rule_aten_i0, rule_aten_special_bessel_j0, rule_aten_special_bessel_j1, rule_aten_special_i0e, rule_aten_special_i1, rule_aten_special_i1e, rule_aten_special_spherical_bessel_j0
from ortable_generated.aten.special_erf import aten_erfinv, aten_special_erfcx, aten_special_ndtri, rule_aten_erfinv, rule_aten_special_erfcx, rule_aten_special_ndtri
from ortable_generated.aten.special_gamma import aten_digamma, aten_igamma, aten_igammac, aten_lgamma, aten_special_zeta, rule_aten_digamma, rule_aten_igamma, rule_aten_igammac, rule_aten_lgamma, rule_aten_special_zeta
from ortable_generated.aten.trigonometric import aten_acos, aten_acosh, aten_asin, aten_asinh, aten_atan, aten_atanh, aten_cos, aten_cosh, aten_sin, aten_sinh, aten_tan, complex_aten_acos, complex_aten_acosh, complex_aten_asin, complex_aten_asinh, complex_aten_atan, complex_aten_atanh, complex_aten_cos, complex_aten_cosh, complex_aten_sin, complex_aten_sinh, complex_aten_tan, rule_aten_acos, rule_aten_acosh, rule_aten_asin, rule_aten_asinh, rule_aten_atan, rule_aten_atanh, rule_aten_cos, rule_aten_cosh, rule_aten_sin, rule_aten_sinh, rule_aten_tan
from ortable_generated.aten.unary import aten_abs, aten_ceil, aten_erf, aten_erfc, aten_exp, aten_exp2, aten_expm1, aten_floor, aten_log, aten_log10, aten_log1p, aten_log2, aten_neg, aten_reciprocal, aten_round, aten_rsqrt, aten_sqrt, aten_trunc, complex_aten_abs, complex_aten_exp, complex_aten_exp2, complex_aten_expm1, complex_aten_log, complex_aten_log10, complex_aten_log1p, complex_aten_log2, complex_aten_neg, complex_aten_reciprocal, complex_aten_rsqrt, complex_aten_sqrt, rule_aten_abs, rule_aten_ceil, rule_aten_erf, rule_aten_erfc, rule_aten_exp, rule_aten_exp2, rule_aten_expm1, rule_aten_floor, rule_aten_log, rule_aten_log10, rule_aten_log1p, rule_aten_log2, rule_aten_neg, rule_aten_reciprocal, rule_aten_round, rule_aten_rsqrt, rule_aten_sqrt, rule_aten_trunc

if TYPE_CHECKING:
    from ortable.ir import Graph, ResultSpec
    from ortable.prelude.metadata import Rules
    from ortable.prelude.facts import Result


def complex_prims_abs(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::abs(Tensor self) -> Tensor"""
    return complex_aten_abs(graph, res, self=self)


def complex_prims_acos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::acos(Tensor self) -> Tensor"""
    return complex_aten_acos(graph, res, self=self)


def complex_prims_acosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::acosh(Tensor self) -> Tensor"""
    return complex_aten_acosh(graph, res, self=self)


def complex_prims_add(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::add(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_add_Tensor(graph, res, self=self, other=other)


def complex_prims_asin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::asin(Tensor self) -> Tensor"""
    return complex_aten_asin(graph, res, self=self)


def complex_prims_asinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::asinh(Tensor self) -> Tensor"""
    return complex_aten_asinh(graph, res, self=self)


def complex_prims_atan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::atan(Tensor self) -> Tensor"""
    return complex_aten_atan(graph, res, self=self)


def complex_prims_atanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::atanh(Tensor self) -> Tensor"""
    return complex_aten_atanh(graph, res, self=self)


def complex_prims_conj_physical(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::conj_physical(Tensor self) -> Tensor"""
    return complex_aten_conj(graph, res, self=self)


def complex_prims_cos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::cos(Tensor self) -> Tensor"""
    return complex_aten_cos(graph, res, self=self)


def complex_prims_cosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::cosh(Tensor self) -> Tensor"""
    return complex_aten_cosh(graph, res, self=self)


def complex_prims_eq(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::eq(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_eq_Tensor(graph, res, self=self, other=other)


def complex_prims_exp(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::exp(Tensor self) -> Tensor"""
    return complex_aten_exp(graph, res, self=self)


def complex_prims_exp2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::exp2(Tensor self) -> Tensor"""
    return complex_aten_exp2(graph, res, self=self)


def complex_prims_expm1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::expm1(Tensor self) -> Tensor"""
    return complex_aten_expm1(graph, res, self=self)


def complex_prims_fma(graph: Graph, res: ResultSpec, a: Result, b: Result, c: Result) -> Result:
    """prims::fma(Tensor a, Tensor b, Tensor c) -> Tensor"""
    a, b, c = promote_complex(graph, 'default', [a, b, c])
    graph.case = 2
    return c_add(graph, c_mul(graph, a, b), c)


def complex_prims_isfinite(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::isfinite(Tensor self) -> Tensor"""
    return complex_aten_isfinite(graph, res, self=self)


def complex_prims_log(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::log(Tensor self) -> Tensor"""
    return complex_aten_log(graph, res, self=self)


def complex_prims_log10(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::log10(Tensor self) -> Tensor"""
    return complex_aten_log10(graph, res, self=self)


def complex_prims_log1p(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::log1p(Tensor self) -> Tensor"""
    return complex_aten_log1p(graph, res, self=self)


def complex_prims_log2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::log2(Tensor self) -> Tensor"""
    return complex_aten_log2(graph, res, self=self)


def complex_prims_mul(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::mul(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_mul_Tensor(graph, res, self=self, other=other)


def complex_prims_ne(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::ne(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_ne_Tensor(graph, res, self=self, other=other)


def complex_prims_neg(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::neg(Tensor self) -> Tensor"""
    return complex_aten_neg(graph, res, self=self)


def complex_prims_pow(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::pow(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_pow_Tensor_Tensor(graph, res, self=self, exponent=other)


def complex_prims_reciprocal(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::reciprocal(Tensor self) -> Tensor"""
    return complex_aten_reciprocal(graph, res, self=self)


def complex_prims_rsqrt(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::rsqrt(Tensor self) -> Tensor"""
    return complex_aten_rsqrt(graph, res, self=self)


def complex_prims_sign(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::sign(Tensor self) -> Tensor"""
    return complex_aten_sign(graph, res, self=self)


def complex_prims_sin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::sin(Tensor self) -> Tensor"""
    return complex_aten_sin(graph, res, self=self)


def complex_prims_sinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::sinh(Tensor self) -> Tensor"""
    return complex_aten_sinh(graph, res, self=self)


def complex_prims_sqrt(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::sqrt(Tensor self) -> Tensor"""
    return complex_aten_sqrt(graph, res, self=self)


def complex_prims_sub(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::sub(Tensor self, Tensor other) -> Tensor"""
    return complex_aten_sub_Tensor(graph, res, self=self, other=other)


def complex_prims_tan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::tan(Tensor self) -> Tensor"""
    return complex_aten_tan(graph, res, self=self)


def complex_prims_tanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::tanh(Tensor self) -> Tensor"""
    return complex_aten_tanh(graph, res, self=self)


def prims_abs(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::abs(Tensor self) -> Tensor"""
    return aten_abs(graph, res, self=self)


def prims_acos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::acos(Tensor self) -> Tensor"""
    return aten_acos(graph, res, self=self)


def prims_acosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::acosh(Tensor self) -> Tensor"""
    return aten_acosh(graph, res, self=self)


def prims_add(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::add(Tensor self, Tensor other) -> Tensor"""
    return aten_add_Tensor(graph, res, self=self, other=other)


def prims_asin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::asin(Tensor self) -> Tensor"""
    return aten_asin(graph, res, self=self)


def prims_asinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::asinh(Tensor self) -> Tensor"""
    return aten_asinh(graph, res, self=self)


def prims_atan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::atan(Tensor self) -> Tensor"""
    return aten_atan(graph, res, self=self)


def prims_atan2(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::atan2(Tensor self, Tensor other) -> Tensor"""
    return aten_atan2(graph, res, self=self, other=other)


def prims_atanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::atanh(Tensor self) -> Tensor"""
    return aten_atanh(graph, res, self=self)


def prims_bessel_i0(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::bessel_i0(Tensor self) -> Tensor"""
    return aten_i0(graph, res, self=self)


def prims_bessel_i0e(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::bessel_i0e(Tensor self) -> Tensor"""
    return aten_special_i0e(graph, res, self=self)


def prims_bessel_i1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::bessel_i1(Tensor self) -> Tensor"""
    return aten_special_i1(graph, res, self=self)


def prims_bessel_i1e(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::bessel_i1e(Tensor self) -> Tensor"""
    return aten_special_i1e(graph, res, self=self)


def prims_bessel_j0(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::bessel_j0(Tensor self) -> Tensor"""
    return aten_special_bessel_j0(graph, res, self=self)


def prims_bessel_j1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::bessel_j1(Tensor self) -> Tensor"""
    return aten_special_bessel_j1(graph, res, self=self)


def prims_bitwise_and(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::bitwise_and(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_and_Tensor(graph, res, self=self, other=other)


def prims_bitwise_not(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::bitwise_not(Tensor self) -> Tensor"""
    return aten_bitwise_not(graph, res, self=self)


def prims_bitwise_or(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::bitwise_or(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_or_Tensor(graph, res, self=self, other=other)


def prims_bitwise_xor(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::bitwise_xor(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_xor_Tensor(graph, res, self=self, other=other)


def prims_ceil(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::ceil(Tensor self) -> Tensor"""
    return aten_ceil(graph, res, self=self)


def prims_conj_physical(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::conj_physical(Tensor self) -> Tensor"""
    return aten_conj(graph, res, self=self)


def prims_cos(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::cos(Tensor self) -> Tensor"""
    return aten_cos(graph, res, self=self)


def prims_cosh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::cosh(Tensor self) -> Tensor"""
    return aten_cosh(graph, res, self=self)


def prims_digamma(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::digamma(Tensor self) -> Tensor"""
    return aten_digamma(graph, res, self=self)


def prims_div(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::div(Tensor self, Tensor other) -> Tensor"""
    self, other = promote_values(graph, 'default', [self, other], other)
    quotient = trunc_quotient(graph, self, other) if is_int(graph, self) else graph.make_node('Div', [self, other])
    return cast(graph, quotient, dtype_of(graph, res))


def prims_eq(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::eq(Tensor self, Tensor other) -> Tensor"""
    return aten_eq_Tensor(graph, res, self=self, other=other)


def prims_erf(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::erf(Tensor self) -> Tensor"""
    return aten_erf(graph, res, self=self)


def prims_erf_inv(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::erf_inv(Tensor self) -> Tensor"""
    return aten_erfinv(graph, res, self=self)


def prims_erfc(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::erfc(Tensor self) -> Tensor"""
    return aten_erfc(graph, res, self=self)


def prims_erfcx(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::erfcx(Tensor self) -> Tensor"""
    return aten_special_erfcx(graph, res, self=self)


def prims_exp(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::exp(Tensor self) -> Tensor"""
    return aten_exp(graph, res, self=self)


def prims_exp2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::exp2(Tensor self) -> Tensor"""
    return aten_exp2(graph, res, self=self)


def prims_expm1(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::expm1(Tensor self) -> Tensor"""
    return aten_expm1(graph, res, self=self)


def prims_floor(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::floor(Tensor self) -> Tensor"""
    return aten_floor(graph, res, self=self)


def prims_fma(graph: Graph, res: ResultSpec, a: Result, b: Result, c: Result) -> Result:
    """prims::fma(Tensor a, Tensor b, Tensor c) -> Tensor"""
    a, b, c = promote_values(graph, 'default', [a, b, c])
    graph.case = 1
    return cast(graph, graph.make_node('Add', [graph.make_node('Mul', [opmath(graph, a), opmath(graph, b)]), opmath(graph, c)]), dtype_of(graph, res))


def prims_fmax(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::fmax(Tensor self, Tensor other) -> Tensor"""
    return aten_fmax(graph, res, self=self, other=other)


def prims_fmin(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::fmin(Tensor self, Tensor other) -> Tensor"""
    return aten_fmin(graph, res, self=self, other=other)


def prims_fmod(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::fmod(Tensor self, Tensor other) -> Tensor"""
    return aten_fmod_Tensor(graph, res, self=self, other=other)


def prims_frexp(graph: Graph, res: ResultSpec, self: Result) -> Any:
    """prims::frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)"""
    return aten_frexp_Tensor(graph, res, self=self)


def prims_gcd(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::gcd(Tensor self, Tensor other) -> Tensor"""
    return aten_gcd(graph, res, self=self, other=other)


def prims_ge(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::ge(Tensor self, Tensor other) -> Tensor"""
    return aten_ge_Tensor(graph, res, self=self, other=other)


def prims_gt(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::gt(Tensor self, Tensor other) -> Tensor"""
    return aten_gt_Tensor(graph, res, self=self, other=other)


def prims_hypot(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::hypot(Tensor self, Tensor other) -> Tensor"""
    return aten_hypot(graph, res, self=self, other=other)


def prims_igamma(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::igamma(Tensor self, Tensor other) -> Tensor"""
    return aten_igamma(graph, res, self=self, other=other)


def prims_igammac(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::igammac(Tensor self, Tensor other) -> Tensor"""
    return aten_igammac(graph, res, self=self, other=other)


def prims_isfinite(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::isfinite(Tensor self) -> Tensor"""
    return aten_isfinite(graph, res, self=self)


def prims_le(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::le(Tensor self, Tensor other) -> Tensor"""
    return aten_le_Tensor(graph, res, self=self, other=other)


def prims_lgamma(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::lgamma(Tensor self) -> Tensor"""
    return aten_lgamma(graph, res, self=self)


def prims_log(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::log(Tensor self) -> Tensor"""
    return aten_log(graph, res, self=self)


def prims_log10(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::log10(Tensor self) -> Tensor"""
    return aten_log10(graph, res, self=self)


def prims_log1p(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::log1p(Tensor self) -> Tensor"""
    return aten_log1p(graph, res, self=self)


def prims_log2(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::log2(Tensor self) -> Tensor"""
    return aten_log2(graph, res, self=self)


def prims_lt(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::lt(Tensor self, Tensor other) -> Tensor"""
    return aten_lt_Tensor(graph, res, self=self, other=other)


def prims_maximum(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::maximum(Tensor self, Tensor other) -> Tensor"""
    return aten_maximum(graph, res, self=self, other=other)


def prims_minimum(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::minimum(Tensor self, Tensor other) -> Tensor"""
    return aten_minimum(graph, res, self=self, other=other)


def prims_mul(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::mul(Tensor self, Tensor other) -> Tensor"""
    return aten_mul_Tensor(graph, res, self=self, other=other)


def prims_ndtri(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::ndtri(Tensor self) -> Tensor"""
    return aten_special_ndtri(graph, res, self=self)


def prims_ne(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::ne(Tensor self, Tensor other) -> Tensor"""
    return aten_ne_Tensor(graph, res, self=self, other=other)


def prims_neg(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::neg(Tensor self) -> Tensor"""
    return aten_neg(graph, res, self=self)


def prims_nextafter(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::nextafter(Tensor self, Tensor other) -> Tensor"""
    return aten_nextafter(graph, res, self=self, other=other)


def prims_pow(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::pow(Tensor self, Tensor other) -> Tensor"""
    return aten_pow_Tensor_Tensor(graph, res, self=self, exponent=other)


def prims_reciprocal(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::reciprocal(Tensor self) -> Tensor"""
    return aten_reciprocal(graph, res, self=self)


def prims_remainder(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::remainder(Tensor self, Tensor other) -> Tensor"""
    return aten_remainder_Tensor(graph, res, self=self, other=other)


def prims_round(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::round(Tensor self) -> Tensor"""
    return aten_round(graph, res, self=self)


def prims_rsqrt(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::rsqrt(Tensor self) -> Tensor"""
    return aten_rsqrt(graph, res, self=self)


def prims_shift_left(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::shift_left(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_left_shift_Tensor(graph, res, self=self, other=other)


def prims_shift_right_arithmetic(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::shift_right_arithmetic(Tensor self, Tensor other) -> Tensor"""
    return aten_bitwise_right_shift_Tensor(graph, res, self=self, other=other)


def prims_sign(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::sign(Tensor self) -> Tensor"""
    return aten_sign(graph, res, self=self)


def prims_sin(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::sin(Tensor self) -> Tensor"""
    return aten_sin(graph, res, self=self)


def prims_sinh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::sinh(Tensor self) -> Tensor"""
    return aten_sinh(graph, res, self=self)


def prims_spherical_bessel_j0(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::spherical_bessel_j0(Tensor self) -> Tensor"""
    return aten_special_spherical_bessel_j0(graph, res, x=self)


def prims_sqrt(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::sqrt(Tensor self) -> Tensor"""
    return aten_sqrt(graph, res, self=self)


def prims_sub(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::sub(Tensor self, Tensor other) -> Tensor"""
    return aten_sub_Tensor(graph, res, self=self, other=other)


def prims_tan(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::tan(Tensor self) -> Tensor"""
    return aten_tan(graph, res, self=self)


def prims_tanh(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::tanh(Tensor self) -> Tensor"""
    return aten_tanh(graph, res, self=self)


def prims_trunc(graph: Graph, res: ResultSpec, self: Result) -> Result:
    """prims::trunc(Tensor self) -> Tensor"""
    return aten_trunc(graph, res, self=self)


def prims_zeta(graph: Graph, res: ResultSpec, self: Result, other: Result) -> Result:
    """prims::zeta(Tensor self, Tensor other) -> Tensor"""
    return aten_special_zeta(graph, res, self=self, other=other)


def rule_prims_abs(graph: Graph, self: Result) -> Rules:
    return rule_aten_abs(graph, self=self)


def rule_prims_acos(graph: Graph, self: Result) -> Rules:
    return rule_aten_acos(graph, self=self)


def rule_prims_acosh(graph: Graph, self: Result) -> Rules:
    return rule_aten_acosh(graph, self=self)


def rule_prims_add(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_add_Tensor(graph, self=self, other=other)


def rule_prims_asin(graph: Graph, self: Result) -> Rules:
    return rule_aten_asin(graph, self=self)


def rule_prims_asinh(graph: Graph, self: Result) -> Rules:
    return rule_aten_asinh(graph, self=self)


def rule_prims_atan(graph: Graph, self: Result) -> Rules:
    return rule_aten_atan(graph, self=self)


def rule_prims_atan2(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_atan2(graph, self=self, other=other)


def rule_prims_atanh(graph: Graph, self: Result) -> Rules:
    return rule_aten_atanh(graph, self=self)


def rule_prims_bessel_i0(graph: Graph, self: Result) -> Rules:
    return rule_aten_i0(graph, self=self)


def rule_prims_bessel_i0e(graph: Graph, self: Result) -> Rules:
    return rule_aten_special_i0e(graph, self=self)


def rule_prims_bessel_i1(graph: Graph, self: Result) -> Rules:
    return rule_aten_special_i1(graph, self=self)


def rule_prims_bessel_i1e(graph: Graph, self: Result) -> Rules:
    return rule_aten_special_i1e(graph, self=self)


def rule_prims_bessel_j0(graph: Graph, self: Result) -> Rules:
    return rule_aten_special_bessel_j0(graph, self=self)


def rule_prims_bessel_j1(graph: Graph, self: Result) -> Rules:
    return rule_aten_special_bessel_j1(graph, self=self)


def rule_prims_bitwise_and(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_and_Tensor(graph, self=self, other=other)


def rule_prims_bitwise_not(graph: Graph, self: Result) -> Rules:
    return rule_aten_bitwise_not(graph, self=self)


def rule_prims_bitwise_or(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_or_Tensor(graph, self=self, other=other)


def rule_prims_bitwise_xor(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_xor_Tensor(graph, self=self, other=other)


def rule_prims_ceil(graph: Graph, self: Result) -> Rules:
    return rule_aten_ceil(graph, self=self)


def rule_prims_conj_physical(graph: Graph, self: Result) -> Rules:
    return rule_aten_conj(graph, self=self)


def rule_prims_cos(graph: Graph, self: Result) -> Rules:
    return rule_aten_cos(graph, self=self)


def rule_prims_cosh(graph: Graph, self: Result) -> Rules:
    return rule_aten_cosh(graph, self=self)


def rule_prims_digamma(graph: Graph, self: Result) -> Rules:
    return rule_aten_digamma(graph, self=self)


def rule_prims_div(graph: Graph, self: Result, other: Result) -> Rules:
    return ((dtype_or_none(graph, self), broadcast(shape_or_none(graph, self), shape_or_none(graph, other))),)


def rule_prims_eq(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_eq_Tensor(graph, self=self, other=other)


def rule_prims_erf(graph: Graph, self: Result) -> Rules:
    return rule_aten_erf(graph, self=self)


def rule_prims_erf_inv(graph: Graph, self: Result) -> Rules:
    return rule_aten_erfinv(graph, self=self)


def rule_prims_erfc(graph: Graph, self: Result) -> Rules:
    return rule_aten_erfc(graph, self=self)


def rule_prims_erfcx(graph: Graph, self: Result) -> Rules:
    return rule_aten_special_erfcx(graph, self=self)


def rule_prims_exp(graph: Graph, self: Result) -> Rules:
    return rule_aten_exp(graph, self=self)


def rule_prims_exp2(graph: Graph, self: Result) -> Rules:
    return rule_aten_exp2(graph, self=self)


def rule_prims_expm1(graph: Graph, self: Result) -> Rules:
    return rule_aten_expm1(graph, self=self)


def rule_prims_floor(graph: Graph, self: Result) -> Rules:
    return rule_aten_floor(graph, self=self)


def rule_prims_fma(graph: Graph, a: Result, b: Result, c: Result) -> Rules:
    return ((promoted_dtype(graph, 'default', a, b, c), broadcast(shape_or_none(graph, a), shape_or_none(graph, b), shape_or_none(graph, c))),)


def rule_prims_fmax(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_fmax(graph, self=self, other=other)


def rule_prims_fmin(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_fmin(graph, self=self, other=other)


def rule_prims_fmod(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_fmod_Tensor(graph, self=self, other=other)


def rule_prims_frexp(graph: Graph, self: Result) -> Rules:
    return rule_aten_frexp_Tensor(graph, self=self)


def rule_prims_gcd(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_gcd(graph, self=self, other=other)


def rule_prims_ge(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_ge_Tensor(graph, self=self, other=other)


def rule_prims_gt(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_gt_Tensor(graph, self=self, other=other)


def rule_prims_hypot(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_hypot(graph, self=self, other=other)


def rule_prims_igamma(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_igamma(graph, self=self, other=other)


def rule_prims_igammac(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_igammac(graph, self=self, other=other)


def rule_prims_isfinite(graph: Graph, self: Result) -> Rules:
    return rule_aten_isfinite(graph, self=self)


def rule_prims_le(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_le_Tensor(graph, self=self, other=other)


def rule_prims_lgamma(graph: Graph, self: Result) -> Rules:
    return rule_aten_lgamma(graph, self=self)


def rule_prims_log(graph: Graph, self: Result) -> Rules:
    return rule_aten_log(graph, self=self)


def rule_prims_log10(graph: Graph, self: Result) -> Rules:
    return rule_aten_log10(graph, self=self)


def rule_prims_log1p(graph: Graph, self: Result) -> Rules:
    return rule_aten_log1p(graph, self=self)


def rule_prims_log2(graph: Graph, self: Result) -> Rules:
    return rule_aten_log2(graph, self=self)


def rule_prims_lt(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_lt_Tensor(graph, self=self, other=other)


def rule_prims_maximum(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_maximum(graph, self=self, other=other)


def rule_prims_minimum(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_minimum(graph, self=self, other=other)


def rule_prims_mul(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_mul_Tensor(graph, self=self, other=other)


def rule_prims_ndtri(graph: Graph, self: Result) -> Rules:
    return rule_aten_special_ndtri(graph, self=self)


def rule_prims_ne(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_ne_Tensor(graph, self=self, other=other)


def rule_prims_neg(graph: Graph, self: Result) -> Rules:
    return rule_aten_neg(graph, self=self)


def rule_prims_nextafter(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_nextafter(graph, self=self, other=other)


def rule_prims_pow(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_pow_Tensor_Tensor(graph, self=self, exponent=other)


def rule_prims_reciprocal(graph: Graph, self: Result) -> Rules:
    return rule_aten_reciprocal(graph, self=self)


def rule_prims_remainder(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_remainder_Tensor(graph, self=self, other=other)


def rule_prims_round(graph: Graph, self: Result) -> Rules:
    return rule_aten_round(graph, self=self)


def rule_prims_rsqrt(graph: Graph, self: Result) -> Rules:
    return rule_aten_rsqrt(graph, self=self)


def rule_prims_shift_left(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_left_shift_Tensor(graph, self=self, other=other)


def rule_prims_shift_right_arithmetic(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_bitwise_right_shift_Tensor(graph, self=self, other=other)


def rule_prims_sign(graph: Graph, self: Result) -> Rules:
    return rule_aten_sign(graph, self=self)


def rule_prims_sin(graph: Graph, self: Result) -> Rules:
    return rule_aten_sin(graph, self=self)


def rule_prims_sinh(graph: Graph, self: Result) -> Rules:
    return rule_aten_sinh(graph, self=self)


def rule_prims_spherical_bessel_j0(graph: Graph, self: Result) -> Rules:
    return rule_aten_special_spherical_bessel_j0(graph, x=self)


def rule_prims_sqrt(graph: Graph, self: Result) -> Rules:
    return rule_aten_sqrt(graph, self=self)


def rule_prims_sub(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_sub_Tensor(graph, self=self, other=other)


def rule_prims_tan(graph: Graph, self: Result) -> Rules:
    return rule_aten_tan(graph, self=self)


def rule_prims_tanh(graph: Graph, self: Result) -> Rules:
    return rule_aten_tanh(graph, self=self)


def rule_prims_trunc(graph: Graph, self: Result) -> Rules:
    return rule_aten_trunc(graph, self=self)


def rule_prims_zeta(graph: Graph, self: Result, other: Result) -> Rules:
    return rule_aten_special_zeta(graph, self=self, other=other)
