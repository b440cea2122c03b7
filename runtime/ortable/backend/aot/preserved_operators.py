"""Preserve operators that AOTAutograd decomposes although its decomposition table omits them.

torch registers these decompositions as Python kernels of the operators. While AOTAutograd traces,
the eager kernels replace them: the decompositions are slower (a gather for each corner of a pixel),
and some compute other results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any

import torch

from ortable.compat.scoped_patch import restore_on_exit
from ortable.compat.torch import (
    DispatchKey,
    all_operator_names,
    clear_dispatch_cache,
    overload_name,
    pytree,
    upsampled_sizes,
)
from ortable_generated.aten import traits

_KEYS = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
_tracing_lock = RLock()

Kernels = dict[Any, Callable[..., Any]]


@contextmanager
def preserve_operators() -> Iterator[None]:
    """Remove or wrap torch's Python kernels of the preserved operators for a block.

    The kernels of operators with the trait `never_decompose` are removed. Operators with the trait
    `whole_when_static` run their Python kernels only for dynamic sizes.
    """
    from .decompositions import get_decomposition_table

    get_decomposition_table()  # first, because torch caches which operators are composite
    removed: list[tuple[Any, Kernels]] = []

    def restore_kernels() -> None:
        for operator, kernels in removed:
            _replace_kernels(operator, kernels)

    with _tracing_lock, restore_on_exit(restore_kernels):
        for operator in _preserved_operators():
            kernels = {key: operator.py_kernels[key] for key in _KEYS if key in operator.py_kernels}
            removed.append((operator, kernels))
            _replace_kernels(operator, _choose_kernels(operator, kernels))
        yield


def _choose_kernels(operator: Any, kernels: Kernels) -> Kernels:
    if overload_name(operator) == "vec":
        return {key: _call_with_sizes(operator, kernel) for key, kernel in kernels.items()}
    if operator.name() in traits.NEVER_DECOMPOSE:
        return {}
    return {key: _call_when_static(operator, kernel) for key, kernel in kernels.items()}


def _replace_kernels(operator: Any, kernels: Kernels) -> None:
    for key in _KEYS:
        operator.py_kernels.pop(key, None)
    operator.py_kernels.update(kernels)
    clear_dispatch_cache(operator)


def _call_with_sizes(scales_overload: Any, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel for an overload with scale factors that calls the overload with sizes.

    The C++ kernel of `scales_overload` would trace the sizes as numbers.
    """
    from .decompositions import get_aten_overload

    operator = get_aten_overload(scales_overload.name().removesuffix(".vec"))
    never_decompose = operator.name() in traits.NEVER_DECOMPOSE

    def kernel(input: Any, output_size: Sequence[Any] | None, *options: Any) -> Any:
        has_dynamic_sizes = not never_decompose and _has_dynamic_sizes((input, output_size))
        # torch's fake kernels of interpolation by the nearest element fail without elements
        if has_dynamic_sizes or any(type(size) is int and size == 0 for size in input.shape):
            return decomposition(input, output_size, *options)
        *flags, scale_factors = options
        sizes = upsampled_sizes(input.shape, output_size, scale_factors)
        return operator(input, sizes, *flags, *(scale_factors or ()))

    return kernel


def _call_when_static(operator: Any, decomposition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that decomposes for dynamic sizes and calls torch's C++ kernel otherwise."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        if _has_dynamic_sizes((args, kwargs)):
            return decomposition(*args, **kwargs)
        kernels = {key: operator.py_kernels[key] for key in _KEYS if key in operator.py_kernels}
        _replace_kernels(operator, {})
        try:
            return operator(*args, **kwargs)
        finally:
            _replace_kernels(operator, kernels)

    return kernel


def _has_dynamic_sizes(arguments: Any) -> bool:
    leaves = pytree.tree_leaves(arguments)
    shapes = [leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,) for leaf in leaves]
    return any(isinstance(size, torch.SymInt) for shape in shapes for size in shape)


def _preserved_operators() -> list[Any]:
    from .decompositions import get_aten_overload

    available_names = all_operator_names()
    names = sorted(traits.NEVER_DECOMPOSE | traits.WHOLE_WHEN_STATIC)
    return [get_aten_overload(name) for name in names if name in available_names]
