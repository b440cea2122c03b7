"""Which dtype the result of a word has: that of an argument, the one that it is given, or always
the same. Comes in: a word with the values of its arguments; `check.py` asks."""

from __future__ import annotations

from collections.abc import Mapping

from ortable import dtypes

from . import kinds
from .narrowing import ALL, Value
from .vocabulary import Word

_WIDE = frozenset({dtypes.float32, dtypes.float64})
_HALVES = frozenset({dtypes.float16, dtypes.bfloat16})
_INT64, _BOOL = frozenset({dtypes.int64}), frozenset({dtypes.boolean})
# the argument whose dtype the result has
_LIKE = {
    "merged_heads": "heads", "merged_transposed_heads": "heads", "zeros": "like", "ones": "like",
    "const_like": "x", "dtype_of": "x",
    **dict.fromkeys(
        (
            "at_least_1d", "at_least_2d", "at_least_3d", "edge_pad", "expanded", "expanded_like",
            "expm1_of", "flipped_along", "hypot_of", "leaky", "leading_part", "log1p_of",
            "matrix_transpose", "permuted", "reduced_extreme", "reshape_to", "rows_of", "scaled",
            "sliced", "softplus_of", "squeezed", "take_along_dim", "triu", "truncated", "unit_like",
            "unsqueezed", "atan_of", "erf_of", "lgamma_of", "power_norm",
            "relu_of", "gelu_of", "polynomial", "rolled_along", "projected",
        ),
        "x",
    ),
    **dict.fromkeys(
        (
            "floor_quotient", "fmod_of", "larger_of", "matrix_product", "remainder_of",
            "smaller_of", "trunc_quotient",
        ),
        "a",
    ),
}  # fmt: skip
_ALWAYS = {
    **dict.fromkeys(
        (
            "argsort", "as_scalar", "as_vec", "count_true", "extreme_index", "int_range", "iota",
            "median_index", "nonzero_rows", "run_ids", "run_lengths", "window_indices",
        ),
        _INT64,
    ),
    **dict.fromkeys(
        ("all_true", "any_true", "c_is_zero", "c_truth", "close_to", "is_sign_set", "run_starts"),
        _BOOL,
    ),
    "linspace_dtype": _WIDE,
}  # fmt: skip


def word_dtypes(word: Word, given: Mapping[str, Value]) -> frozenset[int] | None:
    """The dtypes that a result of the word may have, or of which it is one; None: nothing known."""
    if word.name in _ALWAYS:
        return _ALWAYS[word.name]
    if word.name in ("opmath", "opmath_dtype"):
        return _widened(given.get("x", given.get("dtype")))
    like = given.get(_LIKE.get(word.name, ""))
    if like is not None:
        return like.dtypes
    told = given.get("dtype")
    if told is not None and told.kind.base in (kinds.DTYPE, kinds.INT):
        return told.dtypes
    return None


def _widened(value: Value | None) -> frozenset[int]:
    """The dtype in which torch computes half floats is float32."""
    found = ALL if value is None or value.dtypes is None else value.dtypes
    return (found - _HALVES) | {dtypes.float32} if found & _HALVES else found
