"""Resize an observed call; `observe.py` and proof.py call this module.

Values are repeated in order or cut, so that indices stay in range. In 1-D tensors of ascending
integers, for example offsets of bags, only the last value is repeated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.exporter.observation.calls import ObservedCall, flat_leaves, observe_value
from ortable.exporter.observation.dim_inference import DimInference
from ortable.exporter.signature import pytrees
from ortable.exporter.signature.dynamic_shapes import (
    Arguments,
    bind_arguments,
    evaluate_dim_expression,
)

CallArguments = tuple[tuple[Any, ...], dict[str, Any]]


def get_call_sizes(inference: DimInference, call: ObservedCall) -> dict[str, int]:
    """Return the size of each independent dimension in one call."""
    sizes = {}
    for dimension in inference.independent_dims():
        path, axis = dimension.places[0]
        leaf = call.leaves[path]
        sizes[dimension.name] = int(leaf.value) if axis is None else leaf.shape[axis]
    return sizes


def resize_call(
    module: Any, inference: DimInference, call: ObservedCall, sizes: Mapping[str, int]
) -> CallArguments | None:
    """Return a copy of ``call`` whose dimensions have these sizes.

    Returns None if an axis of size 0 would have to grow, or if a derived size is negative.
    """
    args, kwargs = call.copy_arguments()
    leaves = []
    for path, leaf in flat_leaves(module, args, kwargs):
        new_leaf = _resize_leaf(inference, path, leaf, sizes)
        if new_leaf is None and leaf is not None:
            return None
        leaves.append(new_leaf)
    _, structure = pytree.tree_flatten((args, kwargs))
    new_args, new_kwargs = pytree.tree_unflatten(leaves, structure)
    return new_args, new_kwargs


def _resize_leaf(inference: DimInference, path: str, leaf: Any, sizes: Mapping[str, int]) -> Any:
    if not isinstance(leaf, torch.Tensor):
        name = inference.name_by_site.get((path, None))
        return leaf if name is None else _dim_size(name, sizes)
    for axis in range(leaf.dim()):
        name = inference.name_by_site.get((path, axis))
        if name is None:
            continue
        target, current = _dim_size(name, sizes), leaf.shape[axis]
        if target == current:
            continue
        if target < 0 or not current:
            return None
        index = torch.arange(target, device=leaf.device)
        index = index.clamp(max=current - 1) if _may_be_offsets(leaf) else index % current
        leaf = leaf.detach().index_select(axis, index).requires_grad_(leaf.requires_grad)
    return leaf


def _may_be_offsets(leaf: torch.Tensor) -> bool:
    """Whether a tensor may contain offsets, which have to stay in order."""
    if leaf.dim() != 1 or leaf.is_floating_point() or leaf.is_complex():
        return False
    return bool((leaf[1:] >= leaf[:-1]).all())


def _dim_size(name: str, sizes: Mapping[str, int]) -> int:
    if name in sizes:
        return sizes[name]
    size = evaluate_dim_expression(name, sizes)
    assert size is not None, name  # an expression contains only names of independent dimensions
    return size


def count_elements(inference: DimInference, call: ObservedCall, sizes: Mapping[str, int]) -> int:
    """Return the number of elements of the call's tensors at these sizes."""
    total = 0
    for path, leaf in call.leaves.items():
        if leaf.is_tensor:
            names = (inference.name_by_site.get((path, axis)) for axis in range(len(leaf.shape)))
            total += math.prod(
                size if name is None else _dim_size(name, sizes)
                for size, name in zip(leaf.shape, names, strict=True)
            )
    return total


def requested_shapes(module: Any, inference: DimInference, call: ObservedCall) -> dict[str, Any]:
    """Return ``dynamic_shapes`` for `ortable.export`: for each argument a nest of names."""
    assert call.args is not None and call.kwargs is not None
    arguments = bind_arguments(module, call.args, call.kwargs)
    shapes: dict[str, Any] = {}
    for name, value in arguments.items():
        if name == arguments.rest:
            shapes[name] = {
                key: _requested_shape(inference, key, item) for key, item in value.items()
            }
        else:
            shapes[name] = _requested_shape(inference, name, value)
    return shapes


def _requested_shape(inference: DimInference, path: str, value: Any) -> Any:
    children = pytrees.container_children(value)
    if children is not None:
        items = [
            _requested_shape(inference, pytrees.child_path(path, value, key), child)
            for key, child in children
        ]
        return pytrees.rebuild_container(value, items)
    if not isinstance(value, torch.Tensor):
        return inference.name_by_site.get((path, None))
    axes = range(value.dim())
    name_by_axis = {
        axis: inference.name_by_site[path, axis]
        for axis in axes
        if (path, axis) in inference.name_by_site
    }
    return name_by_axis or None


def replace_arguments(module: Any, call: ObservedCall, new_call: CallArguments) -> ObservedCall:
    """Return the call with other arguments of the same structure."""
    changed = {path: observe_value(leaf) for path, leaf in flat_leaves(module, *new_call)}
    return replace(call, leaves={**call.leaves, **changed}, args=new_call[0], kwargs=new_call[1])


def get_arguments(module: Any, call: ObservedCall) -> Arguments:
    """Return the arguments of a call by the names of forward's parameters."""
    assert call.args is not None and call.kwargs is not None
    return bind_arguments(module, call.args, call.kwargs)
