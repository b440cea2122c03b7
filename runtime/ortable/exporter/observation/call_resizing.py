"""Calls of other sizes, made of one that was seen: values repeated in order, or cut, so that
indices stay in range (the last one of those that ascend, such as offsets of bags); and what is
asked of torch for its dimensions. In come a call and sizes by name, out go arguments. Called by
`observe.py` and proof.py."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.exporter.observation.calls import SeenCall, flat_paths, seen_of
from ortable.exporter.observation.dim_inference import Seeing
from ortable.exporter.signature import pytrees
from ortable.exporter.signature.dynamic_shapes import Arguments, bound_arguments, value_of

Call = tuple[tuple[Any, ...], dict[str, Any]]


def sizes_of_call(seen: Seeing, call: SeenCall) -> dict[str, int]:
    """The size of each dimension that follows from no other, in one call."""
    found = {}
    for each in seen.free():
        path, axis = each.places[0]
        leaf = call.leaves[path]
        found[each.name] = int(leaf.value) if axis is None else leaf.shape[axis]
    return found


def resized(module: Any, seen: Seeing, call: SeenCall, sizes: Mapping[str, int]) -> Call | None:
    """A copy of ``call`` whose dimensions have these sizes; None where a tensor without elements
    would have to grow, or a size that follows from others is below 0."""
    args, kwargs = call.copied()
    leaves = []
    for path, leaf in flat_paths(module, args, kwargs):
        made = _leaf(seen, path, leaf, sizes)
        if made is None and leaf is not None:
            return None
        leaves.append(made)
    _, structure = pytree.tree_flatten((args, kwargs))
    given, named = pytree.tree_unflatten(leaves, structure)
    return given, named


def _leaf(seen: Seeing, path: str, leaf: Any, sizes: Mapping[str, int]) -> Any:
    if not isinstance(leaf, torch.Tensor):
        name = seen.by_place.get((path, None))
        return leaf if name is None else _value(name, sizes)
    for axis in range(leaf.dim()):
        name = seen.by_place.get((path, axis))
        if name is None:
            continue
        wanted, present = _value(name, sizes), leaf.shape[axis]
        if wanted == present:
            continue
        if wanted < 0 or not present:
            return None
        index = torch.arange(wanted, device=leaf.device)
        index = index.clamp(max=present - 1) if _in_order(leaf) else index % present
        leaf = leaf.detach().index_select(axis, index).requires_grad_(leaf.requires_grad)
    return leaf


def _in_order(leaf: torch.Tensor) -> bool:
    """Whether it may be where bags or rows begin: then it has to stay in order."""
    if leaf.dim() != 1 or leaf.is_floating_point() or leaf.is_complex():
        return False
    return bool((leaf[1:] >= leaf[:-1]).all())


def _value(name: str, sizes: Mapping[str, int]) -> int:
    if name in sizes:
        return sizes[name]
    found = value_of(name, sizes)
    assert found is not None, name  # expressions are made of names that are there
    return found


def elements(seen: Seeing, call: SeenCall, sizes: Mapping[str, int]) -> int:
    """How many elements the tensors of the call have at these sizes."""
    total = 0
    for path, leaf in call.leaves.items():
        if leaf.is_tensor:
            named = (seen.by_place.get((path, axis)) for axis in range(len(leaf.shape)))
            total += math.prod(
                size if name is None else _value(name, sizes)
                for size, name in zip(leaf.shape, named, strict=True)
            )
    return total


def asked_shapes(module: Any, seen: Seeing, call: SeenCall) -> dict[str, Any]:
    """``dynamic_shapes`` of `ortable.export` for this call: by argument, nested as the arguments
    are, with a name for each axis that varied."""
    assert call.args is not None and call.kwargs is not None
    arguments = bound_arguments(module, call.args, call.kwargs)
    found: dict[str, Any] = {}
    for name, value in arguments.items():
        if name == arguments.rest:
            found[name] = {key: _asked(seen, key, item) for key, item in value.items()}
        else:
            found[name] = _asked(seen, name, value)
    return found


def _asked(seen: Seeing, path: str, value: Any) -> Any:
    opened = pytrees.children(value)
    if opened is not None:
        items = [_asked(seen, pytrees.step(path, value, key), child) for key, child in opened]
        return pytrees.rebuilt(value, items)
    if not isinstance(value, torch.Tensor):
        return seen.by_place.get((path, None))
    axes = range(value.dim())
    named = {axis: seen.by_place[path, axis] for axis in axes if (path, axis) in seen.by_place}
    return named or None


def with_arguments(module: Any, call: SeenCall, made: Call) -> SeenCall:
    """The call with other arguments of the same structure."""
    changed = {path: seen_of(leaf) for path, leaf in flat_paths(module, *made)}
    return replace(call, leaves={**call.leaves, **changed}, args=made[0], kwargs=made[1])


def arguments_of(module: Any, call: SeenCall) -> Arguments:
    """The arguments of a kept call by the names of forward's parameters."""
    assert call.args is not None and call.kwargs is not None
    return bound_arguments(module, call.args, call.kwargs)
