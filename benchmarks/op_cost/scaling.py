"""Scale the sample calls of spec entries to sizes at which kernels take most of the time.

A sample of a spec is small. Its sizes are multiplied, in one of several ways, until the largest
tensor has about the requested number of elements; the first call that eager accepts is measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ortable.testing.values import draw_tensor
from ortablegen.aten.model import AliasEntry, OpEntry
from ortablegen.aten.samples import parse_sample
from ortablegen.language.samples import Expression, TensorSample

Entry = OpEntry | AliasEntry
Values = dict[str, Any]

_SORTED_ARGUMENTS = ("boundaries", "sorted_sequence")
_MAX_SHORTFALL = 8  # how many times smaller than requested a call may be


@dataclass(frozen=True)
class ScaledCall:
    """A call of an operator: parsed argument values whose tensors have their scaled sizes."""

    entry: Entry
    values: Values
    tensors: list[torch.Tensor]
    unread: tuple[int, ...] = ()


def tensor_samples(value: Any) -> list[TensorSample]:
    """List the tensors of parsed values, in order."""
    if isinstance(value, TensorSample):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in tensor_samples(item)]
    return (
        [leaf for item in value for leaf in tensor_samples(item)] if isinstance(value, list) else []
    )


def largest_tensor(values: Any) -> int:
    """Return the number of elements of the largest tensor of parsed values."""
    return max((leaf.element_count for leaf in tensor_samples(values)), default=0)


def scale_sample(entry: Entry, number: int, elements: int) -> Iterator[ScaledCall]:
    """Yield the ways to scale a sample call so that its largest tensor has about `elements`.

    Args:
        entry: the operator.
        number: index of the sample.
        elements: number of elements of the largest tensor.
    """
    sample = entry.samples[number]
    values = parse_sample(sample, entry.schema)
    largest = max(tensor_samples(values), key=lambda leaf: leaf.element_count, default=None)
    if largest is None or largest.element_count == 0 or max(largest.shape, default=1) < 2:
        return
    ratio = elements / largest.element_count
    sizes = {size for leaf in tensor_samples(values) for size in leaf.shape if size > 1}
    for resize in _list_resizings(largest, sizes, ratio):
        scaled = _drop_names(_map_tensors(values, resize))
        if largest_tensor(scaled) * _MAX_SHORTFALL < elements:
            continue
        generator = torch.Generator().manual_seed(0)
        tensors = [
            draw_tensor(_drop_special_values(leaf), leaf.shape, generator)
            for leaf in tensor_samples(scaled)
        ]
        names = [name for name, value in scaled.items() for _ in tensor_samples(value)]
        tensors = [
            tensor.sort(-1).values if name in _SORTED_ARGUMENTS and tensor.dim() else tensor
            for name, tensor in zip(names, tensors, strict=True)
        ]
        yield ScaledCall(entry, scaled, tensors, sample.unused_results)


def _drop_special_values(leaf: TensorSample) -> TensorSample:
    """Drop values with a NaN or an infinity, which make kernels stop early or slow down."""
    finite = leaf.values is None or np.isfinite(np.asarray(leaf.values)).all()
    return leaf if finite else replace(leaf, values=None)


def _list_resizings(
    largest: TensorSample, sizes: Collection[int], ratio: float
) -> Iterator[Callable[[TensorSample], TensorSample]]:
    """Yield functions that resize all sizes, those of the largest tensor, or one of its axes."""
    resizable = [size for size in largest.shape if size > 1]
    factor = ratio ** (1 / len(resizable))
    yield _resize_by_size(dict.fromkeys(sizes, factor))
    yield _resize_by_size(dict.fromkeys(resizable, factor))
    yield _resize_axis(-1, largest.shape[-1], ratio)
    yield _resize_axis(0, largest.shape[0], ratio)


def _resize_by_size(factors: dict[int, float]) -> Callable[[TensorSample], TensorSample]:
    """Multiply every dimension by the factor of its size; equal sizes stay equal."""

    def resize(leaf: TensorSample) -> TensorSample:
        dims = tuple((_scale(size, factors.get(size, 1)), name) for size, name in leaf.dims)
        return replace(leaf, dims=dims)

    return resize


def _resize_axis(axis: int, size: int, factor: float) -> Callable[[TensorSample], TensorSample]:
    """Multiply one axis of every tensor that has `size` there."""

    def resize(leaf: TensorSample) -> TensorSample:
        dims = list(leaf.dims)
        if dims and dims[axis][0] == size:
            dims[axis] = (_scale(size, factor), dims[axis][1])
        return replace(leaf, dims=tuple(dims))

    return resize


def _scale(size: int, factor: float) -> int:
    """Scale a size to a multiple of itself, so that groups, halves and strides still fit."""
    return size * max(1, math.floor(factor))


def _drop_names(values: Values) -> Values:
    """Remove the names of sizes, unless another argument refers to a size by name."""
    if any(isinstance(value, Expression) for value in values.values()):
        return values
    return _map_tensors(
        values, lambda leaf: replace(leaf, dims=tuple((size, None) for size in leaf.shape))
    )


def _map_tensors(value: Any, resize: Callable[[TensorSample], TensorSample]) -> Any:
    if isinstance(value, TensorSample):
        return resize(value)
    if isinstance(value, dict):
        return {name: _map_tensors(item, resize) for name, item in value.items()}
    return [_map_tensors(item, resize) for item in value] if isinstance(value, list) else value
