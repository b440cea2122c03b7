"""Which dtype the result of a word has: that of an argument, the one that it is given, or always
the same. Comes in: a word with the values of its arguments; `check.py` asks."""

from __future__ import annotations

from collections.abc import Mapping

from ortable import dtypes

from . import kinds
from .members import FIXED, SAME
from .narrowing import ALL, Value
from .vocabulary import Word

_WIDE = frozenset({dtypes.float32, dtypes.float64})
_HALVES = frozenset({dtypes.float16, dtypes.bfloat16})
_INT64, _BOOL = frozenset({dtypes.int64}), frozenset({dtypes.boolean})
# Besides `members.SAME` and `members.FIXED`: the argument whose dtype the
# result has.
_LIKE = {
    "merged_heads": "heads", "merged_transposed_heads": "heads", "zeros": "like", "ones": "like",
    "dtype_of": "x",
    **dict.fromkeys(
        (
            "gathered_pad", "lgamma_of", "power_norm", "projected", "relu_of",
            "rolled_along", "rows_of", "sliced", "unit_like",
        ),
        "x",
    ),
    **dict.fromkeys(("fmod_of", "larger_of", "remainder_of", "smaller_of", "trunc_quotient"), "a"),
}  # fmt: skip
_ALWAYS = {
    **dict.fromkeys(("median_index", "run_ids", "run_lengths"), _INT64),
    **dict.fromkeys(("c_truth", "run_starts"), _BOOL),
}


def word_dtypes(word: Word, given: Mapping[str, Value]) -> frozenset[int] | None:
    """The dtypes that a result of the word may have, or of which it is one; None: nothing known."""
    if word.name in _ALWAYS:
        return _ALWAYS[word.name]
    if word.name in FIXED:
        return frozenset({FIXED[word.name]})
    if word.name in ("opmath", "opmath_dtype"):
        return _widened(given.get("x", given.get("dtype")))
    if word.name == "opmath_beside":
        told = given.get("dtype")
        wide = _widened(told)
        return wide | told.dtypes if told is not None and told.dtypes and wide else None
    name = _LIKE.get(word.name, "")
    if word.name in SAME:
        name = word.parameters[SAME[word.name]].name
    like = given.get(name)
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
