"""Operators that AOTAutograd takes apart whatever its table of decompositions says, by a Python
kernel of torch that computes something else: while it traces, they have the kernels of eager.
Called by `entry`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from ortable.compat.torch import DispatchKey, all_operator_names, forget_dispatch
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
                    del operator.py_kernels[key]
                    forget_dispatch(operator)
        yield


def _operators() -> list[Any]:
    from .decompositions import overload_of

    present = all_operator_names()
    return [overload_of(name) for name in sorted(traits.KEPT_WHOLE) if name in present]
