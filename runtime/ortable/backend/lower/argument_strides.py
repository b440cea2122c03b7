"""Arguments whose memory lies otherwise than AOTAutograd traced: tensors that a forward graph saves
and whose strides it reports. In come a graph of AOTAutograd and the arguments it is compiled for,
out come marks on its arguments; called by `aot.entry` and `partition`, read where inputs are
declared, where results are planned, and by the key of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

_MARK = "ortable_strides"


def mark_argument_strides(graph_module: GraphModule, arguments: Sequence[Any]) -> None:
    """Mark the arguments of a graph that have other strides than their nodes say.

    Args:
        graph_module: a graph of AOTAutograd.
        arguments: what AOTAutograd compiles it for, with the true strides.
    """
    nodes = graph_module.graph.find_nodes(op="placeholder")
    for node, argument in zip(nodes, arguments, strict=False):
        traced = node.meta.get("val")
        if not isinstance(traced, torch.Tensor) or not isinstance(argument, torch.Tensor):
            continue
        if traced.layout is not torch.strided or argument.layout is not torch.strided:
            continue
        strides = argument.stride()
        known = all(isinstance(stride, int) for stride in (*strides, *traced.stride()))
        if known and strides != traced.stride():
            node.meta[_MARK] = strides


def mark_any_strides(node: Node) -> None:
    """Mark an argument of a partition of whose strides nothing is known before the call."""
    node.meta.setdefault(_MARK, None)


def has_other_strides(node: Node) -> bool:
    """Whether an argument may have other strides than its node says."""
    return _MARK in node.meta


def argument_strides(node: Node) -> tuple[int, ...] | None:
    """The true strides of an argument; None where they are those of its node, or unknown."""
    strides: tuple[int, ...] | None = node.meta.get(_MARK)
    return strides
