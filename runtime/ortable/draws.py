"""What a random operator draws, as its spec says: torch draws it, the rest of the operator is
converted."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Draw"]


class Draw(NamedTuple):
    """One draw from torch's generator: a new tensor is filled by an in-place operator.

    `fill` names its overload (`"bernoulli_.float"`), called with the tensor and `args`.  The tensor
    has the shape of `like`, an argument of the operator or its result, and the strides of the
    result; `dtype` is that of the result where it is None.  `whole` tells that the tensor is the
    result of the operator, so that nothing is left to convert.
    """

    fill: str
    like: Any
    dtype: int | None
    args: tuple[Any, ...]
    whole: bool
