"""Refuse calls whose arguments share memory that forward writes to.

In eager mode a write to one of two such arguments changes the other. The ONNX model reads every
input as it is before the call. conversion.py checks the example, calling_convention.py the calls.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from ortable.errors import InputError
from ortable.ir.initializers import is_fake


@dataclass(frozen=True)
class _MemoryRange:
    """The addresses of a tensor's elements; ``index`` is its number among the leaves."""

    device: str
    start: int
    end: int
    index: int
    tensor: torch.Tensor


def check_overlaps(leaves: Sequence[Any], names: Sequence[str], written: Collection[int]) -> None:
    """Raise InputError if an argument that forward writes to overlaps another argument.

    Args:
        leaves: the leaves of the call's arguments.
        names: how an error names each leaf.
        written: the indices of the leaves that forward writes to.
    """
    ranges = sorted(
        (_find_range(index, leaf) for index, leaf in enumerate(leaves) if _has_memory(leaf)),
        key=lambda memory: (memory.device, memory.start),
    )
    if all(_is_before(lower, upper) for lower, upper in pairwise(ranges)):
        return
    for position, first in enumerate(ranges):
        for second in ranges[position + 1 :]:
            if _is_before(first, second):  # and before all that follow
                break
            pair = (first, second) if first.index in written else (second, first)
            if pair[0].index in written and _have_common_element(first, second):
                name, other_name = (names[memory.index] for memory in pair)
                raise InputError(
                    f"{name} and {other_name} share memory, and forward writes to {name}: in "
                    "PyTorch this changes both, and the model reads both as they are before the "
                    "call. Give a copy (tensor.clone()) of one of them"
                )


def _has_memory(leaf: Any) -> bool:
    return (
        isinstance(leaf, torch.Tensor)
        and not is_fake(leaf)
        and leaf.layout is torch.strided
        and leaf.numel() > 0
    )


def _find_range(index: int, tensor: torch.Tensor) -> _MemoryRange:
    start = tensor.data_ptr()
    last_element = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    end = start + (last_element + 1) * tensor.element_size()
    return _MemoryRange(str(tensor.device), start, end, index, tensor)


def _is_before(lower: _MemoryRange, upper: _MemoryRange) -> bool:
    return lower.device != upper.device or lower.end <= upper.start


def _have_common_element(lower: _MemoryRange, upper: _MemoryRange) -> bool:
    """Whether tensors of overlapping ranges share an element: two columns of a matrix do not."""
    first, second = lower.tensor, upper.tensor
    if first.is_contiguous() and second.is_contiguous():
        return True
    size = first.element_size()
    offset, remainder = divmod(upper.start - lower.start, size)
    if remainder or size != second.element_size():
        return True
    elements = (max(lower.end, upper.end) - lower.start) // size
    is_of_first = torch.zeros(elements, dtype=torch.bool)
    is_of_first.as_strided(first.shape, first.stride()).fill_(True)
    return bool(is_of_first.as_strided(second.shape, second.stride(), offset).any())
