"""Inputs that show how exactly the kernels of operators compute, and exact results for them.

`precision.py` runs these probes. The `oracle` of a probe computes the operator in exact arithmetic
(Python's ints, long doubles).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from ortable import dtypes

Array = np.ndarray[Any, Any]
DType = np.dtype[Any]
Oracle = Callable[..., Array]  # an operator in exact arithmetic
_INF, _NAN = float("inf"), float("nan")
_ODD53 = 2**53 + 1  # the smallest positive int that double cannot represent
_LENGTHS = (3, 7, 33)  # lengths of reduced rows, around the width of a vector register


@dataclass(frozen=True)
class Probe:
    """A node with its inputs (None: left out); ``oracle`` computes its exact first result."""

    inputs: tuple[Array | None, ...]
    oracle: Oracle
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1


Maker = Callable[[DType], Iterator[Probe]]  # makes the probes of an operator for a dtype


def _make_factory(probes: Callable[..., Iterator[Probe]]) -> Callable[..., Maker]:
    """Decorate a generator of probes so that a call without the dtype returns a `Maker`."""
    return lambda *args, **keywords: lambda dtype: probes(dtype, *args, **keywords)


def to_exact(array: Array) -> Array:
    """Convert to numbers for exact arithmetic: ints of any size, long doubles, bools."""
    if array.dtype.kind in "iu":
        return array.astype(object)
    if array.dtype.kind == "b":
        return array
    return array.astype(np.float64).astype(np.longdouble)


def _is_float(dtype: DType) -> bool:
    return dtypes.is_float_type(dtypes.from_numpy(dtype))


# -- numbers


def _int_limits(dtype: DType) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _int_numbers(dtype: DType) -> Array:
    """Return small ints, ints around the limits of float32 and float64, and type limits."""
    low, high = _int_limits(dtype)
    values = [
        1, 2, 3, 5, 7, 0, 2**24 + 1, 2**31 + 1, _ODD53, 2**62 + 1, high, high - 1, low, low + 1,
    ]  # fmt: skip
    values += [-value for value in values[:10]]
    generator = np.random.default_rng(7)
    values += [int(value) for value in generator.integers(low, high, 13, dtype, endpoint=True)]
    return np.array([value for value in values if low <= value <= high], dtype)


def _float_numbers(dtype: DType) -> Array:
    """Return NaN, infinities, zeros, denormals, limits, and numbers of all magnitudes."""
    info = float_info(dtype)
    special = [_NAN, _INF, -_INF, 0.0, -0.0, info.least, -info.least, 37 * info.least, info.normal]
    special += [-info.normal, info.most, -info.most, 0.5, -0.5, 1.5, 2.5, -2.5, 1, -1, 3, 6, -3]
    special += [9.5, -9.5, 12, -12, 20, -20, 50, -50, 88, -88, 100, -104, 300, -300, 709, -740]
    generator = np.random.default_rng(7)
    magnitudes = 2.0 ** generator.integers(-20, 20, 24)
    random_numbers = [*generator.standard_normal(24), *(generator.standard_normal(24) * magnitudes)]
    numbers = [*special, *random_numbers]
    with np.errstate(over="ignore"):
        # repeated in reverse, since kernels compute the last elements by other code
        return np.array([*numbers, *reversed(numbers), _NAN], dtype)


@dataclass(frozen=True)
class FloatInfo:
    """The smallest denormal, smallest normal and largest number of a float type; its precision."""

    least: float
    normal: float
    most: float
    bits: int


_FLOATS = {
    "float16": FloatInfo(2.0**-24, 2.0**-14, 65504.0, 11),
    "bfloat16": FloatInfo(2.0**-133, 2.0**-126, float(2**128 - 2**120), 8),
    "float32": FloatInfo(2.0**-149, 2.0**-126, float(2**128 - 2**104), 24),
    "float64": FloatInfo(2.0**-1074, 2.0**-1022, float(np.finfo(np.float64).max), 53),
}


def float_info(dtype: DType) -> FloatInfo:
    """Return the limits and the precision of a float type."""
    return _FLOATS[dtype.name]


def probe_numbers(dtype: DType) -> Array:
    """Return the numbers of a type for probes of elementwise operators."""
    if dtype.kind == "b":
        return np.array([False, True, True, False, True])
    return _float_numbers(dtype) if _is_float(dtype) else _int_numbers(dtype)


def _operand_pairs(dtype: DType) -> Iterator[tuple[Array, Array]]:
    """Yield two operands: all pairs of numbers, then scalars broadcast from either side."""
    values = probe_numbers(dtype)
    yield np.repeat(values, len(values)), np.tile(values, len(values))
    for value in values[:12]:
        scalar = np.array([value], dtype)
        yield scalar, values
        yield values, scalar


def _reduction_rows(dtype: DType, narrow: int = 0) -> Iterator[Array]:
    """Yield matrices to reduce: ints of several magnitudes, floats with special numbers.

    Ints are ``narrow`` bits smaller. Bools have no matrices.
    """
    if dtype.kind == "b":
        return
    generator = np.random.default_rng(11)
    for length in _LENGTHS:
        if not _is_float(dtype):
            low, high = _int_limits(dtype)
            for bound in (9, 2**22, _ODD53 + 2, 2**60):
                limit = min(bound, high) >> narrow
                small = generator.integers(max(low, -limit), limit, (4, length), np.int64, True)
                small[0, :] = abs(small[0, :]) | 1
                yield small.astype(dtype)
            continue
        base = generator.standard_normal((9, length))
        # special numbers at the first, the last and a middle index, and in entire rows
        for row, special in enumerate((_NAN, _INF, -_INF), start=1):
            base[row, 0] = special
        base[4, -1] = base[5, length // 2] = _NAN
        base[6, :] = _NAN
        base[7, :] = -0.0
        base[8, :] = -_INF
        yield base.astype(dtype)


# -- probes by number of operands


@_make_factory
def _unary_probes(dtype: DType, oracle: Oracle, **attributes: Any) -> Iterator[Probe]:
    yield Probe((probe_numbers(dtype),), oracle, attributes)


@_make_factory
def _binary_probes(dtype: DType, oracle: Oracle, **attributes: Any) -> Iterator[Probe]:
    for pair in _operand_pairs(dtype):
        yield Probe(pair, oracle, attributes)


@_make_factory
def _variadic_probes(dtype: DType, oracle: Oracle) -> Iterator[Probe]:
    """Yield probes with two and with three operands."""
    for left, right in _operand_pairs(dtype):
        yield Probe((left, right), oracle)
        if left.shape == right.shape:
            third = np.roll(left, 5)
            yield Probe((left, right, third), lambda a, b, c: oracle(oracle(a, b), c))


@_make_factory
def _division_probes(
    dtype: DType, oracle: Oracle, ints_only: bool = False, **attributes: Any
) -> Iterator[Probe]:
    """Yield probes without int division by 0 or -1, which torch refuses or processors trap."""
    if dtype.kind == "b" or (ints_only and _is_float(dtype)):
        return
    for left, right in _operand_pairs(dtype):
        if not _is_float(dtype):
            is_invalid = (right == 0) | (right == dtype.type(0) - dtype.type(1))
            right = np.where(is_invalid, dtype.type(3), right)
        yield Probe((left, right), oracle, attributes)


def _power_probes(dtype: DType) -> Iterator[Probe]:
    if dtype.kind == "b":
        return
    if _is_float(dtype):
        for left, right in _operand_pairs(dtype):
            yield Probe((left, right), np.power)
        return
    bases = _int_numbers(dtype)
    for power in (0, 1, 2, 3, 5):
        yield Probe((bases, np.full_like(bases, power)), lambda a, b: a**b)
        yield Probe((bases, np.array([power], dtype)), lambda a, b: a**b)


def _where(condition: Any, left: Any, right: Any) -> Array:
    return np.asarray(np.where(condition, left, right))


@_make_factory
def _reduction_probes(dtype: DType, oracle: Oracle, floats_only: bool = False) -> Iterator[Probe]:
    """Yield reductions over rows and over columns, since kernels have separate code for each."""
    if floats_only and not _is_float(dtype):
        return
    for rows in _reduction_rows(dtype):
        for operand, axis in ((rows, 1), (np.ascontiguousarray(rows.T), 0)):
            yield Probe(
                (operand, np.array([axis])),
                lambda x, axes: oracle(x, axis=int(axes[0])),
                {"keepdims": 0},
            )


@_make_factory
def _axis_probes(dtype: DType, oracle: Oracle, **attributes: Any) -> Iterator[Probe]:
    """Yield probes of operators with the attribute ``axis``."""
    for rows in _reduction_rows(dtype):
        for operand, axis in ((rows, 1), (np.ascontiguousarray(rows.T), 0)):
            probe_axis = axis
            yield Probe(
                (operand,),
                lambda x, axis=probe_axis: oracle(x, axis=axis),
                {"axis": probe_axis, **attributes},
            )


@_make_factory
def _cumulative_probes(dtype: DType, oracle: Oracle) -> Iterator[Probe]:
    for rows in _reduction_rows(dtype):
        yield Probe((rows, np.array(1)), lambda x, axis: oracle(x, axis=int(axis)))


# -- oracles


def _positive(x: Array) -> Array:
    """Return ``x`` where it is above 0, NaN where it is NaN, else 0, as torch's relu does."""
    return np.where(x > 0, x, np.where(x != x, x, x * 0 + 0 if x.dtype == object else 0.0))


def _exact_division(left: Array, right: Array) -> Array:
    if left.dtype != object:
        return left / right
    # int() drops the fraction, as ONNX's division of integers does
    return np.array([int(Fraction(a, b)) for a, b in np.broadcast(left, right)], object)


def _exact_fmod(left: Array, right: Array) -> Array:
    """Return the remainder with the sign of the dividend."""
    if left.dtype != object:
        return np.fmod(left, right)
    return left - _exact_division(left, right) * right


def _axis_mean(x: Array, axis: int) -> Array:
    return np.add.reduce(x, axis=axis) / x.shape[axis]


def _axis_extreme(largest: bool) -> Oracle:
    ufunc = np.maximum if largest else np.minimum
    return lambda x, axis: ufunc.reduce(x, axis=axis)


def _log_sum_exp(x: Array, axis: int) -> Array:
    top = np.max(x, axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    return np.log(np.sum(np.exp(x - top), axis=axis)) + np.squeeze(top, axis)


def _exact_softmax(x: Array, axis: int) -> Array:
    power = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return power / np.sum(power, axis=axis, keepdims=True)


def _log_softmax(x: Array, axis: int) -> Array:
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


def _extreme_index(largest: bool) -> Oracle:
    def oracle(x: Array, axis: int) -> Array:
        # numpy takes the first NaN, as torch does
        wide = x if x.dtype == object else x.astype(np.float64)
        if x.dtype == object:
            return np.apply_along_axis(
                lambda row: list(row).index(max(row) if largest else min(row)), axis, wide
            )
        index = np.argmax(wide, axis) if largest else np.argmin(wide, axis)
        return np.asarray(index)

    return oracle


def _softplus(x: Array) -> Array:
    return np.where(x > 0, x, 0) + np.log1p(np.exp(-np.abs(x)))


def _erf(x: Array) -> Array:
    import mpmath  # type: ignore[import-untyped]

    return np.array([float(mpmath.erf(float(value))) for value in x], np.longdouble)


def _sigmoid(x: Array) -> Array:
    power = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + power), np.where(x != x, x, power / (1 + power)))


def _gelu(x: Array) -> Array:
    import mpmath  # type: ignore[import-untyped]

    root = mpmath.sqrt(2)
    numbers = (mpmath.mpf(float(value)) for value in x)
    # NaN for -inf, which is -inf times 0, in torch too
    return np.array([float(n * mpmath.erfc(-n / root) / 2) for n in numbers], np.longdouble)


def _mish(x: Array) -> Array:
    return x * np.tanh(_softplus(x))


def _clip_probes(dtype: DType) -> Iterator[Probe]:
    values = probe_numbers(dtype)
    for low, high in ((2, 7), (-_INF, 7), (2, _INF)) if _is_float(dtype) else ((2, 7),):
        bounds = np.array(low, dtype), np.array(high, dtype)
        yield Probe((values, *bounds), lambda x, a, b: np.minimum(np.maximum(x, a), b))


def _one_bound_clips(dtype: DType) -> Iterator[Probe]:
    values = probe_numbers(dtype)
    low, high = np.array(2, dtype), np.array(7, dtype)
    yield Probe((values, low, None), lambda x, a, _: np.maximum(x, a))
    yield Probe((values, None, high), lambda x, _, b: np.minimum(x, b))


def _where_probes(dtype: DType) -> Iterator[Probe]:
    values = probe_numbers(dtype)
    rotated = np.roll(values, 5)
    scalar = values[3:4]
    for condition in (np.arange(len(values)) % 3 == 0, np.arange(len(values)) % 3 != 0):
        for left, right in ((values, rotated), (scalar, rotated), (values, scalar)):
            yield Probe((condition, left, right), _where)


def _product_probes(dtype: DType) -> Iterator[Probe]:
    # ints are halved; double cannot represent the products of the larger ones
    for rows in _reduction_rows(dtype, narrow=1 if not _is_float(dtype) else 0):
        yield Probe((rows, np.ascontiguousarray(rows.T)), _matrix_product)


def _matrix_product(left: Array, right: Array) -> Array:
    return np.add.reduce(left[:, :, None] * right[None, :, :], axis=1)


def _einsum_probes(dtype: DType) -> Iterator[Probe]:
    """Yield a product and a sum, which Einsum computes by different kernels."""
    for probe in _product_probes(dtype):
        yield Probe(probe.inputs, _matrix_product, {"equation": "ij,jk->ik"})
        rows = probe.inputs[0]
        yield Probe((rows,), lambda x: np.add.reduce(x, axis=1), {"equation": "ij->i"})


def _sort_probes(dtype: DType) -> Iterator[Probe]:
    """Yield descending sorts, with NaN before all numbers, as in torch."""
    for rows in _reduction_rows(dtype):
        count = np.array([rows.shape[1]])
        yield Probe((rows, count), lambda x, _: np.sort(x, axis=1)[:, ::-1], {"axis": 1}, 2)


@_make_factory
def _pool_probes(dtype: DType, oracle: Oracle) -> Iterator[Probe]:
    for rows in _reduction_rows(dtype):
        yield Probe(
            (rows[None],),
            lambda x: np.stack([oracle(x[..., i : i + 2]) for i in range(x.shape[-1] - 1)], -1),
            {"kernel_shape": [2]},
        )


@_make_factory
def _global_pools(dtype: DType, oracle: Oracle) -> Iterator[Probe]:
    for rows in _reduction_rows(dtype):
        yield Probe((rows[None],), lambda x: oracle(x)[..., None])


@_make_factory
def _scatter_probes(dtype: DType, reduction: str, oracle: Oracle, nd: bool) -> Iterator[Probe]:
    values = probe_numbers(dtype)
    updates = np.roll(values, 7)
    positions = np.arange(len(values))
    indices = positions[:, None] if nd else positions
    yield Probe((values, indices, updates), lambda x, _, y: oracle(x, y), {"reduction": reduction})


def _range_probes(dtype: DType) -> Iterator[Probe]:
    if dtype.kind == "b":
        return
    starts = (0, 5) if _is_float(dtype) else (0, _int_limits(dtype)[1] // 3)
    for start in starts:
        arguments = [np.array(number, dtype) for number in (start, start + 9, 2)]
        yield Probe(tuple(arguments), lambda a, b, s: np.array([a + s * i for i in range(5)]))


@_make_factory
def _move_probes(
    dtype: DType, oracle: Oracle, *other_inputs: Array, **attributes: Any
) -> Iterator[Probe]:
    """Yield probes of operators that only move elements."""
    values = probe_numbers(dtype)
    table = np.resize(values, (4, 6 * max(1, len(values) // 6)))
    yield Probe((table, *other_inputs), lambda x, *_: oracle(x), attributes)


NOT_COMPARED = np.longdouble(-12345.678)  # marks expected elements that are not compared


@_make_factory
def _recurrent_probes(dtype: DType, gates: int) -> Iterator[Probe]:
    """Yield a step of a recurrent layer; all results of a row with NaN must be NaN."""
    if not _is_float(dtype):
        return
    rows = np.array([[[0.5, -0.25], [_NAN, 0.5]]], dtype)
    weights = np.full((1, gates * 3, 2), 0.25, dtype)
    recurrent = np.full((1, gates * 3, 3), 0.125, dtype)
    for bias in (None, np.full((1, 2 * gates * 3), 0.5, dtype)):
        yield Probe((rows, weights, recurrent, bias), _nan_steps, {"hidden_size": 3})


def _nan_steps(x: Array, *_: Array) -> Array:
    is_nan = np.asarray(np.isnan(x).any(-1))[:, None, :, None]
    return np.where(np.broadcast_to(is_nan, (*is_nan.shape[:-1], 3)), _NAN, NOT_COMPARED)


def _norm_probes(dtype: DType) -> Iterator[Probe]:
    """Yield norms; all results of a row with NaN must be NaN."""
    for rows in _reduction_rows(dtype):
        gain = np.ones(rows.shape[1], dtype)
        yield Probe((rows, gain), _nan_rows)


def _nan_rows(x: Array, *_: Array) -> Array:
    is_nan = np.isnan(x).any(-1, keepdims=True)
    return np.where(np.broadcast_to(is_nan, x.shape), _NAN, NOT_COMPARED)


_SUM, _PRODUCT = np.add.reduce, np.multiply.reduce
_UNARY: dict[str, Oracle] = {
    "Abs": np.abs, "Neg": np.negative, "Sign": np.sign, "Relu": _positive, "Identity": np.array,
    "Acos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin, "Asinh": np.arcsinh,
    "Atan": np.arctan, "Atanh": np.arctanh, "Ceil": np.ceil, "Cos": np.cos, "Cosh": np.cosh,
    "Erf": _erf, "Exp": np.exp, "Floor": np.floor, "Log": np.log, "Not": np.logical_not,
    "Reciprocal": lambda x: 1 / x, "Dropout": np.array, "Round": np.rint, "Sigmoid": _sigmoid,
    "Sin": np.sin,
    "Sinh": np.sinh, "Sqrt": np.sqrt, "Tan": np.tan, "Tanh": np.tanh, "Softplus": _softplus,
    "Softsign": lambda x: _where(np.isinf(x), np.nan, x / (1 + np.abs(x))), "Gelu": _gelu,
    "Mish": _mish, "IsNaN": np.isnan, "IsInf": np.isinf, "BitwiseNot": lambda x: -x - 1,
    "Elu": lambda x: _where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Swish": lambda x: x * _sigmoid(x),
}  # fmt: skip
_BINARY: dict[str, Oracle] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "And": np.logical_and,
    "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal,
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
    "PRelu": lambda x, slope: _where(x < 0, x * slope, x),
}  # fmt: skip
_MOVED: dict[str, Maker] = {
    "Transpose": _move_probes(np.transpose),
    "Flatten": _move_probes(np.array),
    "Squeeze": _move_probes(np.array),
    "Reshape": _move_probes(np.ravel, np.array([-1])),
    "Unsqueeze": _move_probes(lambda x: x[None], np.array([0])),
    "Concat": _move_probes(np.array, axis=0),
    "Tile": _move_probes(lambda x: np.tile(x, (2, 1)), np.array([2, 1])),
    "Expand": _move_probes(lambda x: np.stack([x, x]), np.array([2, 1, 1])),
    "Slice": _move_probes(lambda x: x[1:3], np.array([1]), np.array([3])),
    "Pad": _move_probes(
        lambda x: np.pad(x, ((1, 0), (0, 1)), "edge"), np.array([1, 0, 0, 1]), mode="edge"
    ),
    "Gather": _move_probes(lambda x: x[[2, 0]], np.array([2, 0])),
    "GatherElements": _move_probes(lambda x: x[[[2, 0]], [[0, 1]]], np.array([[2, 0]])),
    "GatherND": _move_probes(lambda x: x[[2, 0]], np.array([[2], [0]])),
    "Compress": _move_probes(lambda x: x[[0, 2]], np.array([True, False, True, False]), axis=0),
    "Trilu": _move_probes(np.triu),
    "Split": _move_probes(np.array),
}  # fmt: skip
PROBES: dict[str, Maker] = {
    **{op: _unary_probes(oracle) for op, oracle in _UNARY.items()},
    **{op: _binary_probes(oracle) for op, oracle in _BINARY.items()},
    **_MOVED,
    "LeakyRelu": _unary_probes(lambda x: np.where(x < 0, x / 4, x), alpha=0.25),
    "ThresholdedRelu": _unary_probes(lambda x: np.where(x <= 0.5, 0.0, x), alpha=0.5),
    "HardSigmoid": _unary_probes(
        lambda x: np.minimum(np.maximum(x / 4 + 0.5, 0), 1), alpha=0.25, beta=0.5
    ),
    "Max": _variadic_probes(np.maximum),
    "Min": _variadic_probes(np.minimum),
    "Sum": _variadic_probes(np.add),
    "Div": _division_probes(_exact_division),
    "Pow": _power_probes,
    "Clip": _clip_probes,
    "Where": _where_probes,
    "ReduceSum": _reduction_probes(_SUM),
    "ReduceMean": _reduction_probes(_axis_mean, floats_only=True),
    "ReduceMax": _reduction_probes(_axis_extreme(True)),
    "ReduceMin": _reduction_probes(_axis_extreme(False)),
    "ReduceProd": _reduction_probes(_PRODUCT),
    "ReduceL1": _reduction_probes(lambda x, axis: _SUM(np.abs(x), axis=axis)),
    "ReduceL2": _reduction_probes(
        lambda x, axis: np.sqrt(_SUM(x * x, axis=axis)), floats_only=True
    ),
    "ReduceSumSquare": _reduction_probes(lambda x, axis: _SUM(x * x, axis=axis)),
    "ReduceLogSum": _reduction_probes(lambda x, axis: np.log(_SUM(x, axis=axis)), floats_only=True),
    "ReduceLogSumExp": _reduction_probes(_log_sum_exp, floats_only=True),
    "ArgMax": _axis_probes(_extreme_index(True), keepdims=0),
    "ArgMin": _axis_probes(_extreme_index(False), keepdims=0),
    "Softmax": _axis_probes(_exact_softmax),
    "LogSoftmax": _axis_probes(_log_softmax),
    "CumSum": _cumulative_probes(np.add.accumulate),
    "CumProd": _cumulative_probes(np.multiply.accumulate),
    "MatMul": _product_probes,
    "Gemm": _product_probes,
    "Einsum": _einsum_probes,
    "TopK": _sort_probes,
    "MaxPool": _pool_probes(lambda x: np.max(x, -1)),
    "AveragePool": _pool_probes(lambda x: (x[..., 0] + x[..., 1]) / 2),
    "GlobalMaxPool": _global_pools(lambda x: np.max(x, -1)),
    "GlobalAveragePool": _global_pools(lambda x: _axis_mean(x, x.ndim - 1)),
    "Range": _range_probes,
    "LayerNormalization": _norm_probes,
    "RMSNormalization": _norm_probes,
    "LSTM": _recurrent_probes(4),
    "GRU": _recurrent_probes(3),
    "RNN": _recurrent_probes(1),
}
# Operators that are measured more than once, since an attribute or an omitted input selects the
# computation.
VARIANTS: dict[str, dict[str, Maker]] = {
    "Clip": {"one bound": _one_bound_clips},
    "Mod": {
        "fmod=0": _division_probes(np.mod, ints_only=True, fmod=0),
        "fmod=1": _division_probes(_exact_fmod, fmod=1),
    },
    **{
        name: {
            f"reduction={word}": _scatter_probes(word, oracle, nd=name == "ScatterND")
            for word, oracle in (
                ("none", lambda x, y: y), ("add", np.add), ("mul", np.multiply),
                ("max", np.maximum), ("min", np.minimum),
            )
        }
        for name in ("ScatterElements", "ScatterND")
    },
}  # fmt: skip
