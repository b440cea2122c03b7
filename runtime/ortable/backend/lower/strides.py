"""Memory layouts: find the permutation that makes a tensor contiguous.

A dense tensor passes to or from ONNX Runtime as a permuted view; others are copied. Strides may be
symbolic.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ortable import dims
from ortable.dims import Dim


def inverse_permutation(permutation: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes `permutation`: `(2, 0, 1)` gives `(1, 2, 0)`."""
    result = [0] * len(permutation)
    for position, axis in enumerate(permutation):
        result[axis] = position
    return tuple(result)


def dense_order(shape: Sequence[Dim], strides: Sequence[Dim]) -> tuple[int, ...] | None:
    """Return the axes from outermost to innermost in memory: `t.permute(order)` is contiguous.

    It is `(0, 2, 3, 1)` for channels last. It is None if elements overlap or leave gaps, or if this
    cannot be decided for symbolic strides. Strides of axes of size 1 are ignored: the result is the
    identity if the other axes are in order. A tensor without elements gives the identity.
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
    """Whether a tensor is a part of a larger one (`x[:, :2]`): dense in no order of its axes.

    The result is False if a size or stride is symbolic, or an axis is expanded (stride 0).
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
    restrided = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    if not tensor.numel():
        return restrided  # no elements to copy
    try:
        return restrided.copy_(tensor)
    except RuntimeError:
        # copy_ refuses strides of elements that share memory, which only `empty_strided` makes
        memory = tensor.new_empty(restrided.untyped_storage().nbytes() // tensor.itemsize)
        indices = torch.arange(memory.numel(), device=tensor.device)
        memory[indices.as_strided(restrided.shape, strides)] = tensor
        return memory.as_strided(restrided.shape, strides)
