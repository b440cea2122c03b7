"""Memory layouts: find the permutation that makes a tensor contiguous.

A dense layout costs a permuted view, any other layout a copy. Strides may be symbolic.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ortable import dims
from ortable.dims import Dim


def inverse_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes `permutation`."""
    result = [0] * len(permutation)
    for position, axis in enumerate(permutation):
        result[axis] = position
    return tuple(result)


def dense_order(shape: Sequence[Dim], strides: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return the axes from outermost to innermost in memory: `t.permute(order)` is contiguous.

    The result is None if elements overlap or leave gaps, or if symbolic strides are undecided. Axes
    of size 1 have no meaningful stride: the result is the identity if the other axes are in order.
    """
    rank = len(shape)
    if any(size == 0 for size in shape):
        return tuple(range(rank))
    unit_axes = [axis for axis in range(rank) if shape[axis] == 1]
    remaining = [axis for axis in range(rank) if shape[axis] != 1]
    order: list[int] = []
    expected: list[Dim] = [1]
    while remaining:
        candidates = [candidate for candidate in remaining if strides[candidate] in expected]
        if not candidates:
            return None
        axis = candidates[-1]
        remaining.remove(axis)
        order.insert(0, axis)
        # torch writes max(1, s) in strides, except for sizes that it can prove to be nonzero
        sizes = (shape[axis], dims.max_of(1, shape[axis]))
        expected = list(dict.fromkeys(stride * size for stride in expected for size in sizes))
    if order == sorted(order):
        return tuple(range(rank))
    return (*unit_axes, *order)


def contiguous_strides(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the strides of a contiguous tensor of a shape."""
    result: list[Dim] = []
    expected: Dim = 1
    for size in reversed(shape):
        result.insert(0, expected)
        expected = expected * dims.max_of(1, size)
    return tuple(result)


def has_gaps(tensor: torch.Tensor) -> bool:
    """Whether a tensor of static sizes is a part of a larger one: dense in no order of its axes.

    The result is False if elements are repeated.
    """
    shape, strides = tuple(tensor.shape), tensor.stride()
    if not all(isinstance(number, int) for number in (*shape, *strides)):
        return False
    is_repeated = any(size > 1 and stride == 0 for size, stride in zip(shape, strides, strict=True))
    return not is_repeated and dense_order(shape, strides) is None


def with_strides(tensor: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    """Return the tensor with these strides: the tensor itself, or a copy."""
    if tensor.stride() == strides:
        return tensor
    strided = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    if not tensor.numel():
        return strided  # no elements to copy
    try:
        return strided.copy_(tensor)
    except RuntimeError:
        # elements share memory (possible only with `empty_strided`), which copy_ refuses
        memory = tensor.new_empty(strided.untyped_storage().nbytes() // tensor.itemsize)
        indices = torch.arange(memory.numel(), device=tensor.device)
        memory[indices.as_strided(strided.shape, strides)] = tensor
        return memory.as_strided(strided.shape, strides)
