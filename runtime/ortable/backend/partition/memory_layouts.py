"""What torch's operators ask of the memory of their arguments, where that may lie otherwise than
AOTAutograd traced. In comes a node, out come answers; called by `partition`."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from ortable.backend.lower.inputs import shape_of
from ortable.backend.lower.strides import contiguous_strides
from ortable.compat.torch import OpOverload, pytree
from ortable.interpreter.calls import operator_key
from ortable.interpreter.tables import generated_tables
from ortable_generated.aten import traits

__all__ = ["has_known_strides", "layout_free_target", "takes_strides"]

aten = torch.ops.aten
_NEED = {
    torch.Tag.needs_exact_strides,
    torch.Tag.needs_contiguous_strides,
    torch.Tag.needs_fixed_stride_order,
    torch.Tag.nondeterministic_seeded,  # numbers are drawn in the order of the memory
}


def takes_strides(node: Node, argument: Node, strides: tuple[int, ...] | None) -> bool:
    """Whether an operator computes the same where the memory of an argument lies otherwise than it
    was traced: a view, with the target of `layout_free_target`, an operator that works element by
    element, and for contiguous arguments any that ortable knows.

    Args:
        node: calls the operator.
        argument: what it reads.
        strides: how the argument lies; None where nothing is known.
    """
    if node.target is operator.getitem:
        return True
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        return False
    name = operator_key(node)
    if name in traits.READS_STRIDES or not _NEED.isdisjoint(target.tags):
        return False
    if target.is_view or name in traits.UNSAFE_VIEW or torch.Tag.pointwise in target.tags:
        return True
    is_contiguous = strides == contiguous_strides(shape_of(argument.meta["val"]))
    return is_contiguous and name in generated_tables().converters


def layout_free_target(node: Node) -> Any:
    """The target of a node for any layout of its arguments: a view copies where it must."""
    if node.target is aten.view.default or operator_key(node) in traits.UNSAFE_VIEW:
        return aten.reshape.default
    return node.target


def has_known_strides(node: Node) -> bool:
    """Whether no tensor among the results of a node has symbolic strides."""
    values = pytree.tree_leaves(node.meta.get("val"))
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return all(isinstance(stride, int) for value in tensors for stride in value.stride())
