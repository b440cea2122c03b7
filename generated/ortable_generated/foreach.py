# Generated from specs/runtime/foreach.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
"""Operators on lists of tensors as operators of one tensor."""

from __future__ import annotations

from torch import ops

aten = ops.aten


def foreach_abs(self):
    return [aten.abs.default(one_self) for one_self in self]


def foreach_acos(self):
    return [aten.acos.default(one_self) for one_self in self]


def foreach_add_List(self, other, *, alpha=1):
    return [aten.add.Tensor(one_self, one_other, alpha=alpha) for one_self, one_other in zip(self, other, strict=True)]


def foreach_add_Scalar(self, scalar):
    return [aten.add.Scalar(one_self, scalar) for one_self in self]


def foreach_add_ScalarList(self, scalars):
    return [aten.add.Scalar(one_self, one_scalars) for one_self, one_scalars in zip(self, scalars, strict=True)]


def foreach_add_Tensor(self, other, *, alpha=1):
    return [aten.add.Tensor(one_self, other, alpha=alpha) for one_self in self]


def foreach_addcdiv_Scalar(self, tensor1, tensor2, value=1):
    return [aten.addcdiv.default(one_self, one_tensor1, one_tensor2, value=value) for one_self, one_tensor1, one_tensor2 in zip(self, tensor1, tensor2, strict=True)]


def foreach_addcdiv_ScalarList(self, tensor1, tensor2, scalars):
    return [aten.addcdiv.default(one_self, one_tensor1, one_tensor2, value=one_scalars) for one_self, one_tensor1, one_tensor2, one_scalars in zip(self, tensor1, tensor2, scalars, strict=True)]


def foreach_addcdiv_Tensor(self, tensor1, tensor2, scalars):
    return [aten.add.Tensor(one_self, aten.mul.Tensor(one_scalars, aten.div.Tensor(one_tensor1, one_tensor2))) for one_self, one_tensor1, one_tensor2, one_scalars in zip(self, tensor1, tensor2, scalars.unbind(), strict=True)]


def foreach_addcmul_Scalar(self, tensor1, tensor2, value=1):
    return [aten.addcmul.default(one_self, one_tensor1, one_tensor2, value=value) for one_self, one_tensor1, one_tensor2 in zip(self, tensor1, tensor2, strict=True)]


def foreach_addcmul_ScalarList(self, tensor1, tensor2, scalars):
    return [aten.addcmul.default(one_self, one_tensor1, one_tensor2, value=one_scalars) for one_self, one_tensor1, one_tensor2, one_scalars in zip(self, tensor1, tensor2, scalars, strict=True)]


def foreach_addcmul_Tensor(self, tensor1, tensor2, scalars):
    return [aten.add.Tensor(one_self, aten.mul.Tensor(one_scalars, aten.mul.Tensor(one_tensor1, one_tensor2))) for one_self, one_tensor1, one_tensor2, one_scalars in zip(self, tensor1, tensor2, scalars.unbind(), strict=True)]


def foreach_asin(self):
    return [aten.asin.default(one_self) for one_self in self]


def foreach_atan(self):
    return [aten.atan.default(one_self) for one_self in self]


def foreach_ceil(self):
    return [aten.ceil.default(one_self) for one_self in self]


def foreach_clamp_max_List(self, other):
    return [aten.clamp_max.Tensor(one_self, one_other) for one_self, one_other in zip(self, other, strict=True)]


def foreach_clamp_max_Scalar(self, scalar):
    return [aten.clamp_max.default(one_self, scalar) for one_self in self]


def foreach_clamp_max_ScalarList(self, scalars):
    return [aten.clamp_max.default(one_self, one_scalars) for one_self, one_scalars in zip(self, scalars, strict=True)]


def foreach_clamp_min_List(self, other):
    return [aten.clamp_min.Tensor(one_self, one_other) for one_self, one_other in zip(self, other, strict=True)]


def foreach_clamp_min_Scalar(self, scalar):
    return [aten.clamp_min.default(one_self, scalar) for one_self in self]


def foreach_clamp_min_ScalarList(self, scalars):
    return [aten.clamp_min.default(one_self, one_scalars) for one_self, one_scalars in zip(self, scalars, strict=True)]


def foreach_clone(self, *, memory_format=None):
    return [aten.clone.default(one_self, memory_format=memory_format) for one_self in self]


def foreach_copy(self, src, non_blocking=False):
    return [aten.copy.default(one_self, one_src) for one_self, one_src in zip(self, src, strict=True)]


def foreach_cos(self):
    return [aten.cos.default(one_self) for one_self in self]


def foreach_cosh(self):
    return [aten.cosh.default(one_self) for one_self in self]


def foreach_div_List(self, other):
    return [aten.div.Tensor(one_self, one_other) for one_self, one_other in zip(self, other, strict=True)]


def foreach_div_Scalar(self, scalar):
    return [aten.div.Scalar(one_self, scalar) for one_self in self]


def foreach_div_ScalarList(self, scalars):
    return [aten.div.Scalar(one_self, one_scalars) for one_self, one_scalars in zip(self, scalars, strict=True)]


def foreach_div_Tensor(self, other):
    return [aten.div.Tensor(one_self, other) for one_self in self]


def foreach_erf(self):
    return [aten.erf.default(one_self) for one_self in self]


def foreach_erfc(self):
    return [aten.erfc.default(one_self) for one_self in self]


def foreach_exp(self):
    return [aten.exp.default(one_self) for one_self in self]


def foreach_expm1(self):
    return [aten.expm1.default(one_self) for one_self in self]


def foreach_floor(self):
    return [aten.floor.default(one_self) for one_self in self]


def foreach_frac(self):
    return [aten.frac.default(one_self) for one_self in self]


def foreach_lerp_List(self, tensors1, weights):
    return [aten.lerp.Tensor(one_self, one_tensors1, one_weights) for one_self, one_tensors1, one_weights in zip(self, tensors1, weights, strict=True)]


def foreach_lerp_Scalar(self, tensors1, weight):
    return [aten.lerp.Scalar(one_self, one_tensors1, weight) for one_self, one_tensors1 in zip(self, tensors1, strict=True)]


def foreach_lerp_ScalarList(self, tensors1, weight):
    return [aten.lerp.Scalar(one_self, one_tensors1, one_weight) for one_self, one_tensors1, one_weight in zip(self, tensors1, weight, strict=True)]


def foreach_lgamma(self):
    return [aten.lgamma.default(one_self) for one_self in self]


def foreach_log(self):
    return [aten.log.default(one_self) for one_self in self]


def foreach_log10(self):
    return [aten.log10.default(one_self) for one_self in self]


def foreach_log1p(self):
    return [aten.log1p.default(one_self) for one_self in self]


def foreach_log2(self):
    return [aten.log2.default(one_self) for one_self in self]


def foreach_max(self):
    return [aten.max.default(one_self) for one_self in self]


def foreach_maximum_List(self, other):
    return [aten.maximum.default(one_self, one_other) for one_self, one_other in zip(self, other, strict=True)]


def foreach_maximum_Scalar(self, scalar):
    return [aten.clamp_min.default(one_self, scalar) for one_self in self]


def foreach_maximum_ScalarList(self, scalars):
    return [aten.clamp_min.default(one_self, one_scalars) for one_self, one_scalars in zip(self, scalars, strict=True)]


def foreach_minimum_List(self, other):
    return [aten.minimum.default(one_self, one_other) for one_self, one_other in zip(self, other, strict=True)]


def foreach_minimum_Scalar(self, scalar):
    return [aten.clamp_max.default(one_self, scalar) for one_self in self]


def foreach_minimum_ScalarList(self, scalars):
    return [aten.clamp_max.default(one_self, one_scalars) for one_self, one_scalars in zip(self, scalars, strict=True)]


def foreach_mm(self, mat2):
    return [aten.mm.default(one_self, one_mat2) for one_self, one_mat2 in zip(self, mat2, strict=True)]


def foreach_mul_List(self, other):
    return [aten.mul.Tensor(one_self, one_other) for one_self, one_other in zip(self, other, strict=True)]


def foreach_mul_Scalar(self, scalar):
    return [aten.mul.Scalar(one_self, scalar) for one_self in self]


def foreach_mul_ScalarList(self, scalars):
    return [aten.mul.Scalar(one_self, one_scalars) for one_self, one_scalars in zip(self, scalars, strict=True)]


def foreach_mul_Tensor(self, other):
    return [aten.mul.Tensor(one_self, other) for one_self in self]


def foreach_neg(self):
    return [aten.neg.default(one_self) for one_self in self]


def foreach_norm_Scalar(self, ord=2, dtype=None):
    return [aten.linalg_vector_norm.default(one_self, ord, dtype=dtype) for one_self in self]


def foreach_pow_List(self, exponent):
    return [aten.pow.Tensor_Tensor(one_self, one_exponent) for one_self, one_exponent in zip(self, exponent, strict=True)]


def foreach_pow_Scalar(self, exponent):
    return [aten.pow.Tensor_Scalar(one_self, exponent) for one_self in self]


def foreach_pow_ScalarAndTensor(self, exponent):
    return [aten.pow.Scalar(self, one_exponent) for one_exponent in exponent]


def foreach_pow_ScalarList(self, exponent):
    return [aten.pow.Tensor_Scalar(one_self, one_exponent) for one_self, one_exponent in zip(self, exponent, strict=True)]


def foreach_powsum_Scalar(self, ord=2, dtype=None):
    return [aten.sum.default(aten.pow.Tensor_Scalar(aten.abs.default(one_self), ord), dtype=dtype) for one_self in self]


def foreach_reciprocal(self):
    return [aten.reciprocal.default(one_self) for one_self in self]


def foreach_round(self):
    return [aten.round.default(one_self) for one_self in self]


def foreach_rsqrt(self):
    return [aten.rsqrt.default(one_self) for one_self in self]


def foreach_sigmoid(self):
    return [aten.sigmoid.default(one_self) for one_self in self]


def foreach_sign(self):
    return [aten.sign.default(one_self) for one_self in self]


def foreach_sin(self):
    return [aten.sin.default(one_self) for one_self in self]


def foreach_sinh(self):
    return [aten.sinh.default(one_self) for one_self in self]


def foreach_sqrt(self):
    return [aten.sqrt.default(one_self) for one_self in self]


def foreach_sub_List(self, other, *, alpha=1):
    return [aten.sub.Tensor(one_self, one_other, alpha=alpha) for one_self, one_other in zip(self, other, strict=True)]


def foreach_sub_Scalar(self, scalar):
    return [aten.sub.Scalar(one_self, scalar) for one_self in self]


def foreach_sub_ScalarList(self, scalars):
    return [aten.sub.Scalar(one_self, one_scalars) for one_self, one_scalars in zip(self, scalars, strict=True)]


def foreach_tan(self):
    return [aten.tan.default(one_self) for one_self in self]


def foreach_tanh(self):
    return [aten.tanh.default(one_self) for one_self in self]


def foreach_trunc(self):
    return [aten.trunc.default(one_self) for one_self in self]


def foreach_zero(self):
    return [aten.zeros_like.default(one_self) for one_self in self]


FOREACH = {
    "aten::_foreach_abs": foreach_abs,
    "aten::_foreach_acos": foreach_acos,
    "aten::_foreach_add.List": foreach_add_List,
    "aten::_foreach_add.Scalar": foreach_add_Scalar,
    "aten::_foreach_add.ScalarList": foreach_add_ScalarList,
    "aten::_foreach_add.Tensor": foreach_add_Tensor,
    "aten::_foreach_addcdiv.Scalar": foreach_addcdiv_Scalar,
    "aten::_foreach_addcdiv.ScalarList": foreach_addcdiv_ScalarList,
    "aten::_foreach_addcdiv.Tensor": foreach_addcdiv_Tensor,
    "aten::_foreach_addcmul.Scalar": foreach_addcmul_Scalar,
    "aten::_foreach_addcmul.ScalarList": foreach_addcmul_ScalarList,
    "aten::_foreach_addcmul.Tensor": foreach_addcmul_Tensor,
    "aten::_foreach_asin": foreach_asin,
    "aten::_foreach_atan": foreach_atan,
    "aten::_foreach_ceil": foreach_ceil,
    "aten::_foreach_clamp_max.List": foreach_clamp_max_List,
    "aten::_foreach_clamp_max.Scalar": foreach_clamp_max_Scalar,
    "aten::_foreach_clamp_max.ScalarList": foreach_clamp_max_ScalarList,
    "aten::_foreach_clamp_min.List": foreach_clamp_min_List,
    "aten::_foreach_clamp_min.Scalar": foreach_clamp_min_Scalar,
    "aten::_foreach_clamp_min.ScalarList": foreach_clamp_min_ScalarList,
    "aten::_foreach_clone": foreach_clone,
    "aten::_foreach_copy": foreach_copy,
    "aten::_foreach_cos": foreach_cos,
    "aten::_foreach_cosh": foreach_cosh,
    "aten::_foreach_div.List": foreach_div_List,
    "aten::_foreach_div.Scalar": foreach_div_Scalar,
    "aten::_foreach_div.ScalarList": foreach_div_ScalarList,
    "aten::_foreach_div.Tensor": foreach_div_Tensor,
    "aten::_foreach_erf": foreach_erf,
    "aten::_foreach_erfc": foreach_erfc,
    "aten::_foreach_exp": foreach_exp,
    "aten::_foreach_expm1": foreach_expm1,
    "aten::_foreach_floor": foreach_floor,
    "aten::_foreach_frac": foreach_frac,
    "aten::_foreach_lerp.List": foreach_lerp_List,
    "aten::_foreach_lerp.Scalar": foreach_lerp_Scalar,
    "aten::_foreach_lerp.ScalarList": foreach_lerp_ScalarList,
    "aten::_foreach_lgamma": foreach_lgamma,
    "aten::_foreach_log": foreach_log,
    "aten::_foreach_log10": foreach_log10,
    "aten::_foreach_log1p": foreach_log1p,
    "aten::_foreach_log2": foreach_log2,
    "aten::_foreach_max": foreach_max,
    "aten::_foreach_maximum.List": foreach_maximum_List,
    "aten::_foreach_maximum.Scalar": foreach_maximum_Scalar,
    "aten::_foreach_maximum.ScalarList": foreach_maximum_ScalarList,
    "aten::_foreach_minimum.List": foreach_minimum_List,
    "aten::_foreach_minimum.Scalar": foreach_minimum_Scalar,
    "aten::_foreach_minimum.ScalarList": foreach_minimum_ScalarList,
    "aten::_foreach_mm": foreach_mm,
    "aten::_foreach_mul.List": foreach_mul_List,
    "aten::_foreach_mul.Scalar": foreach_mul_Scalar,
    "aten::_foreach_mul.ScalarList": foreach_mul_ScalarList,
    "aten::_foreach_mul.Tensor": foreach_mul_Tensor,
    "aten::_foreach_neg": foreach_neg,
    "aten::_foreach_norm.Scalar": foreach_norm_Scalar,
    "aten::_foreach_pow.List": foreach_pow_List,
    "aten::_foreach_pow.Scalar": foreach_pow_Scalar,
    "aten::_foreach_pow.ScalarAndTensor": foreach_pow_ScalarAndTensor,
    "aten::_foreach_pow.ScalarList": foreach_pow_ScalarList,
    "aten::_foreach_powsum.Scalar": foreach_powsum_Scalar,
    "aten::_foreach_reciprocal": foreach_reciprocal,
    "aten::_foreach_round": foreach_round,
    "aten::_foreach_rsqrt": foreach_rsqrt,
    "aten::_foreach_sigmoid": foreach_sigmoid,
    "aten::_foreach_sign": foreach_sign,
    "aten::_foreach_sin": foreach_sin,
    "aten::_foreach_sinh": foreach_sinh,
    "aten::_foreach_sqrt": foreach_sqrt,
    "aten::_foreach_sub.List": foreach_sub_List,
    "aten::_foreach_sub.Scalar": foreach_sub_Scalar,
    "aten::_foreach_sub.ScalarList": foreach_sub_ScalarList,
    "aten::_foreach_tan": foreach_tan,
    "aten::_foreach_tanh": foreach_tanh,
    "aten::_foreach_trunc": foreach_trunc,
    "aten::_foreach_zero": foreach_zero,
}
