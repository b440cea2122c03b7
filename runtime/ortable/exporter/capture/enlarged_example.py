"""Enlarge dynamic dimensions whose example has size 0 or 1: torch.export takes these sizes for
constants, and a capture at larger ones holds for them as a rule, which small_sizes.py proves.
strategies.py captures the enlarged examples in turn, and the caller's own where none serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.export import Dim

from ortable.compat.torch import pytree
from ortable.errors import BuilderError
from ortable.exporter.request.caller_state import held_tensors
from ortable.exporter.request.program import Request
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.exporter.signature.dynamic_shapes import Hint, Leaf, NamedHint, value_of

_MAX_SIZE = 64  # of an enlarged dimension


@dataclass(frozen=True)
class _Axis:
    """A dynamic dimension of the example: its leaf, its axis (None for an integer), its size and
    what was asked for it."""

    leaf: int
    axis: int | None
    size: int
    dim: Any = field(compare=False)

    @property
    def name(self) -> str | None:
        """The caller's name of it, or of a dimension that it follows from."""
        if isinstance(self.dim, NamedHint):
            return self.dim.name
        return self.dim.__name__ if isinstance(self.dim, Dim) else None

    @property
    def largest(self) -> int:
        """The largest size that it may have."""
        most = getattr(self.dim, "max", None)
        return most if isinstance(most, int) else _MAX_SIZE


# How the dimensions without a name belong together: each of (leaf, axis) is a size of its own, or
# those of one axis are one; and whether axes besides the first are enlarged where torch may fix
# them (Dim.AUTO: channels, for one).
_GROUPINGS = ((True, True), (False, True), (True, False), (False, False))


def enlarged_requests(request: Request) -> Iterator[Request]:
    """The request with examples in which no dynamic dimension has size 0 or 1, each other only in
    how dimensions without names belong together; none where no dimension is to be enlarged."""
    arguments = shapes.bound_arguments(request.model, request.args, request.kwargs)
    asked = shapes.call_leaves(request.dynamic_shapes, arguments, request.kwargs)
    leaves, structure = pytree.tree_flatten((request.args, request.kwargs))
    axes = list(_dynamic_axes(asked))
    if len(asked) != len(leaves):
        return
    tried: list[dict[_Axis, int]] = []
    for apart, further in _GROUPINGS:
        sizes = _enlarged_sizes(axes, _sizes_in_use(request, leaves), apart, further)
        if not sizes or sizes in tried:
            continue
        tried.append(sizes)
        moved = list(leaves)
        try:
            for axis, size in sizes.items():
                moved[axis.leaf] = _enlarged(moved[axis.leaf], axis.axis, size)
        except Exception:  # a class of tensors that lacks an operator
            return
        args, kwargs = pytree.tree_unflatten(moved, structure)
        yield replace(request, args=args, kwargs=kwargs)


def _dynamic_axes(asked: Sequence[Leaf]) -> Iterator[_Axis]:
    for index, leaf in enumerate(asked):
        for axis, dim in leaf.dims().items():
            if not isinstance(dim, Hint | Dim) or getattr(dim, "type", None) == Dim.STATIC.type:
                continue
            if isinstance(leaf.value, torch.Tensor):
                yield _Axis(index, axis, leaf.value.shape[axis], dim)
            elif isinstance(dim, NamedHint):
                yield _Axis(index, None, leaf.value, dim)


def _sizes_in_use(request: Request, leaves: Iterable[Any]) -> set[int]:
    """The sizes of the example and of the weights: a dimension that has one of them by chance would
    be taken for that one."""
    tensors = [*leaves, *(tensor for _, _, tensor in held_tensors(request.model))]
    return {size for each in tensors if isinstance(each, torch.Tensor) for size in each.shape}


def _enlarged_sizes(
    axes: Sequence[_Axis], in_use: set[int], apart: bool, further: bool
) -> dict[_Axis, int]:
    """The sizes of the dimensions that become larger; empty where sums of them have none."""
    groups: dict[Any, list[_Axis]] = {}
    for axis in axes:
        if axis.name is not None:
            groups.setdefault(axis.name, []).append(axis)
        elif axis.size < 2 and (further or axis.axis == 0 or not _is_auto(axis.dim)):
            groups.setdefault((axis.axis, axis.leaf if apart else None), []).append(axis)
    taken, by_name, sizes = set(in_use), {}, {}
    for key, members in groups.items():
        if _follows(members[0]):
            continue
        size = members[0].size
        if size < 2 and any(axis.axis is not None for axis in members):
            largest = min(axis.largest for axis in members)
            free = (each for each in range(2, largest + 1) if each not in taken)
            enlarged = next(free, 2)
            if enlarged <= largest:
                size = enlarged
                taken.add(size)
                sizes.update(dict.fromkeys(members, size))
        if isinstance(key, str):
            by_name[key] = size
    for members in groups.values():
        for axis in members if _follows(members[0]) else ():
            following = _size_of_expression(axis, by_name)
            if following is None or following < 0:
                return {}
            if following != axis.size:
                sizes[axis] = following
    return sizes


def _is_auto(dim: Any) -> bool:
    return getattr(dim, "type", None) == Dim.AUTO.type


def _follows(axis: _Axis) -> bool:
    """Whether the size follows from others: ``past + new``, ``2 * half``."""
    return hasattr(axis.dim, "root") or not str(axis.name or "a").isidentifier()


def _size_of_expression(axis: _Axis, by_name: dict[str, int]) -> int | None:
    dim = axis.dim
    if not hasattr(dim, "root"):
        try:
            return value_of(dim.name, by_name)
        except BuilderError:  # a division by zero
            return None
    root = dim.root.__name__
    if root not in by_name:  # that is no dimension of the example itself
        roots = (each for each in range(axis.size + 1) if dim.fn(each) == axis.size)
        by_name[root] = max(next(roots, 2), 2)
    return int(dim.fn(by_name[root]))


def _enlarged(leaf: Any, axis: int | None, size: int) -> Any:
    """The leaf with its data repeated along an axis, zeros where there is none, in its own memory
    format; the size itself for an integer."""
    if axis is None:
        return size
    plain, present = leaf.detach(), leaf.shape[axis]
    if not present:
        made = plain.new_zeros([*leaf.shape[:axis], size, *leaf.shape[axis + 1 :]])
    else:
        made = torch.cat([plain] * -(-size // present), axis).narrow(axis, 0, size)
    return made.requires_grad_(leaf.requires_grad)
