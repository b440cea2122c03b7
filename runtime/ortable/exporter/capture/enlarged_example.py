"""Enlarge dynamic dimensions whose example has size 0 or 1.

torch.export takes these sizes for constants, but a graph captured at larger sizes usually holds for
sizes 0 and 1 too; small_sizes.py proves or rejects this. sources.py captures the enlarged examples
in turn, then the caller's example if none of them works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export import Dim

from ortable.compat.torch import pytree
from ortable.errors import BuilderError
from ortable.exporter.frontend.export_request import Assumption, Request
from ortable.exporter.frontend.module_state import module_tensors
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.exporter.signature.dynamic_shapes import Hint, Leaf, NamedHint, evaluate_dim_expression

_MAX_SIZE = 64  # of an enlarged dimension without a requested maximum


@dataclass(frozen=True)
class _Axis:
    """A dynamic dimension of the example; ``axis`` is None for an integer argument."""

    leaf: int
    axis: int | None
    size: int
    dim: Any = field(compare=False)

    @property
    def name(self) -> str | None:
        """The caller's name of the dimension; for a derived one its expression, ``2*half``."""
        if isinstance(self.dim, NamedHint):
            return self.dim.name
        return self.dim.__name__ if isinstance(self.dim, Dim) else None

    @property
    def max_size(self) -> int:
        """The largest size to try: the requested maximum, or `_MAX_SIZE`."""
        max_size = getattr(self.dim, "max", None)
        return max_size if isinstance(max_size, int) else _MAX_SIZE


# Groupings of the dimensions without a name. First flag: each (leaf, axis) has its own size, else
# all dimensions of one axis index share a size. Second flag: enlarge also axes after the first that
# torch may specialize (Dim.AUTO), for example channels.
_GROUPINGS = ((True, True), (False, True), (True, False), (False, False))


def make_enlarged_requests(request: Request) -> Iterator[Request]:
    """Yield the request with examples in which dynamic dimensions of size 0 or 1 are larger.

    The requests differ in how dimensions without names are grouped. If no dynamic dimension has
    size 0 or 1, no request is yielded.
    """
    arguments = shapes.bind_arguments(request.model, request.args, request.kwargs)
    requested = shapes.collect_leaf_specs(request.dynamic_shapes, arguments, request.kwargs)
    leaves, structure = pytree.tree_flatten((request.args, request.kwargs))
    axes = list(_dynamic_axes(requested))
    if len(requested) != len(leaves):
        return
    tried: list[dict[_Axis, int]] = []
    for separate, all_axes in _GROUPINGS:
        in_use = _sizes_in_use(request, leaves)
        sizes = _enlarged_sizes(axes, in_use, separate, all_axes, request.assumptions)
        if not sizes or sizes in tried:
            continue
        tried.append(sizes)
        enlarged = list(leaves)
        try:
            for axis, size in sizes.items():
                enlarged[axis.leaf] = _enlarge_leaf(enlarged[axis.leaf], axis.axis, size)
        except Exception:  # a tensor subclass that lacks an operator
            return
        args, kwargs = pytree.tree_unflatten(enlarged, structure)
        yield replace(request, args=args, kwargs=kwargs)


def _dynamic_axes(requested: Sequence[Leaf]) -> Iterator[_Axis]:
    for index, leaf in enumerate(requested):
        for axis, dim in leaf.dims().items():
            if not isinstance(dim, Hint | Dim) or getattr(dim, "type", None) == Dim.STATIC.type:
                continue
            if isinstance(leaf.value, torch.Tensor):
                yield _Axis(index, axis, leaf.value.shape[axis], dim)
            elif isinstance(dim, NamedHint):
                yield _Axis(index, None, leaf.value, dim)


def _sizes_in_use(request: Request, leaves: Iterable[Any]) -> set[int]:
    """Return the sizes of example and weights; torch may unify a dimension with an equal size."""
    values = [*leaves, *(tensor for _, _, tensor in module_tensors(request.model))]
    return {size for value in values if isinstance(value, torch.Tensor) for size in value.shape}


def _enlarged_sizes(
    axes: Sequence[_Axis],
    in_use: set[int],
    separate: bool,
    all_axes: bool,
    assumptions: Sequence[Assumption],
) -> dict[_Axis, int]:
    """Choose sizes of the enlarged dimensions.

    The result is empty if a derived dimension has no valid size or an assumption does not hold.
    """
    groups: dict[Any, list[_Axis]] = {}
    for axis in axes:
        if axis.name is not None:
            groups.setdefault(axis.name, []).append(axis)
        elif axis.size < 2 and (all_axes or axis.axis == 0 or not _is_auto(axis.dim)):
            groups.setdefault((axis.axis, axis.leaf if separate else None), []).append(axis)
    used_sizes, by_name, sizes = set(in_use), {}, {}
    for key, members in groups.items():
        if _is_derived(members[0]):
            continue
        size = members[0].size
        if size < 2 and any(axis.axis is not None for axis in members):
            largest = min(axis.max_size for axis in members)
            unused_sizes = (
                candidate
                for candidate in range(2, largest + 1)
                if candidate not in used_sizes
                and all(assumption.holds({str(key): candidate}) for assumption in assumptions)
            )
            enlarged = next(unused_sizes, 2)
            if enlarged <= largest:
                size = enlarged
                used_sizes.add(size)
                sizes.update(dict.fromkeys(members, size))
        if isinstance(key, str):
            by_name[key] = size
    for members in groups.values():
        for axis in members if _is_derived(members[0]) else ():
            derived = _size_of_expression(axis, by_name)
            if derived is None or derived < 0:
                return {}
            if derived != axis.size:
                sizes[axis] = derived
    return sizes if all(assumption.holds(by_name) for assumption in assumptions) else {}


def _is_auto(dim: Any) -> bool:
    return getattr(dim, "type", None) == Dim.AUTO.type


def _is_derived(axis: _Axis) -> bool:
    """Whether the size is derived from other dimensions: ``past + new``, ``2 * half``."""
    return hasattr(axis.dim, "root") or not str(axis.name or "a").isidentifier()


def _size_of_expression(axis: _Axis, by_name: dict[str, int]) -> int | None:
    dim = axis.dim
    if not hasattr(dim, "root"):
        try:
            return evaluate_dim_expression(dim.name, by_name)
        except BuilderError:  # a division by zero
            return None
    root = dim.root.__name__
    if root not in by_name:  # the root is no dimension of the example itself
        root_sizes = (value for value in range(axis.size + 1) if dim.fn(value) == axis.size)
        by_name[root] = max(next(root_sizes, 2), 2)
    return int(dim.fn(by_name[root]))


def _enlarge_leaf(leaf: Any, axis: int | None, size: int) -> Any:
    """Repeat a leaf's data along an axis (zeros if empty); return ``size`` for an integer."""
    if axis is None:
        return size
    data, old_size = leaf.detach(), leaf.shape[axis]
    if not old_size:
        enlarged = data.new_zeros([*leaf.shape[:axis], size, *leaf.shape[axis + 1 :]])
    else:
        enlarged = torch.cat([data] * -(-size // old_size), axis).narrow(axis, 0, size)
    return enlarged.requires_grad_(leaf.requires_grad)
