"""Operators that AOTAutograd decomposes whatever its table of decompositions says, because torch
registers the decomposition as their kernel: while it traces, they have the kernels of eager.

Such a decomposition is slower than the operator (a gather for each corner of a pixel), and some
compute something else. Called by `entry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

from torch import SymInt

from ortable.compat.torch import (
    DispatchKey,
    all_operator_names,
    forget_dispatch,
    overload_name,
    upsampled_sizes,
)
from ortable.compat.undone import undone
from ortable_generated.aten import traits

__all__ = ["keep_whole"]

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
_TRACING = RLock()


@contextmanager
def keep_whole() -> Iterator[None]:
    """Take torch's Python kernels from the operators of the trait `kept_whole`, for a block."""
    removed: list[tuple[Any, Any, Any]] = []

    def put_back() -> None:
        for operator, key, kernel in removed:
            operator.py_kernels[key] = kernel
            forget_dispatch(operator)

    with _TRACING, undone(put_back):
        for operator in _operators():
            for key in _KEYS:
                if key in operator.py_kernels:
                    removed.append((operator, key, operator.py_kernels[key]))
                    if overload_name(operator) == "vec":
                        operator.py_kernels[key] = _with_sizes(operator, operator.py_kernels[key])
                    else:
                        del operator.py_kernels[key]
                    forget_dispatch(operator)
        yield


def _with_sizes(vec: Any, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel of an overload with a list of factors, which C++ would trace with sizes as
    numbers: it calls the overload with sizes. The overloads with flags (linear, cubic) are
    decomposed where sizes are free: autograd's kernels of these take none."""
    from .decompositions import overload_of

    operator = overload_of(vec.name().removesuffix(".vec"))

    def kernel(input: Any, output_size: Sequence[Any] | None, *options: Any) -> Any:
        *flags, scale_factors = options
        if flags and any(isinstance(size, SymInt) for size in (*input.shape, *(output_size or ()))):
            return decomposition(input, output_size, *options)
        sizes = upsampled_sizes(input.shape, output_size, scale_factors)
        return operator(input, sizes, *flags, *(scale_factors or ()))

    return kernel


def _operators() -> list[Any]:
    from .decompositions import overload_of

    present = all_operator_names()
    return [overload_of(name) for name in sorted(traits.KEPT_WHOLE) if name in present]
