"""What torch's operators ask of the memory of their arguments, where that may lie otherwise than
AOTAutograd traced. In comes a node, out come answers; called by `partition`."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Node

from ortable.backend.lower.argument_strides import argument_strides
from ortable.backend.lower.inputs import shape_of
from ortable.backend.lower.strides import contiguous_strides
from ortable.compat.torch import OpOverload, pytree
from ortable.interpreter.calls import operator_key
from ortable.interpreter.tables import generated_tables
from ortable_generated.aten import traits

__all__ = ["has_known_strides", "layout_free_target", "takes_contiguous", "takes_layout"]

aten = torch.ops.aten
_NEED = {
    torch.Tag.needs_exact_strides,
    torch.Tag.needs_contiguous_strides,
    torch.Tag.needs_fixed_stride_order,
    torch.Tag.nondeterministic_seeded,  # numbers are drawn in the order of the memory
}
_COPY_AT_NEED = dict.fromkeys((aten.view.default, aten._unsafe_view.default), aten.reshape.default)


def takes_layout(node: Node) -> bool:
    """Whether an operator computes the same of any memory layout of its arguments: a view, with the
    target of `layout_free_target`, or an operator that works element by element."""
    if node.target is operator.getitem:
        return True
    if not _is_free(node):
        return False
    target: Any = node.target
    return target.is_view or target in _COPY_AT_NEED or torch.Tag.pointwise in target.tags


def takes_contiguous(node: Node, argument: Node) -> bool:
    """Whether an operator takes an argument that lies contiguous, whatever was traced: ATen's own
    kernels do, where they do not read strides."""
    if not _is_free(node) or operator_key(node) not in generated_tables().converters:
        return False
    strides = argument_strides(argument)
    return strides is not None and strides == contiguous_strides(shape_of(argument.meta["val"]))


def _is_free(node: Node) -> bool:
    """Whether a node calls an operator of ATen that does not read strides."""
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        return False
    return operator_key(node) not in traits.READS_STRIDES and _NEED.isdisjoint(target.tags)


def layout_free_target(node: Node) -> Any:
    """The target of a node that `takes_layout`, for any layout: a view copies where it must."""
    return _COPY_AT_NEED.get(node.target, node.target)


def has_known_strides(node: Node) -> bool:
    """Whether no tensor among the results of a node has symbolic strides."""
    values = pytree.tree_leaves(node.meta.get("val"))
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return all(isinstance(stride, int) for value in tensors for stride in value.stride())
