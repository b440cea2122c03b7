"""Weights that torch.distributed keeps in parts: what tells that a tensor is one, since writes
into them leave no trace on the tensors that a graph is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.compat.torch import fsdp_parameters, is_traceable_wrapper_subclass

_CODES = (torch.int8, torch.uint8, torch.int32)


def inner_arguments(graph_module: GraphModule) -> frozenset[int]:
    """Positions of the arguments that are inside tensors of a subclass, the local part of a DTensor
    for one, but for quantised ones.  A write into the outer tensor counts no version on the inner
    one.  Quantised tensors are written as a whole, if ever, and the values tell.
    """
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    outer: dict[Any, list[int]] = {}
    for index, node in enumerate(placeholders):
        place = node.meta.get("desc")
        if type(place).__name__.startswith("Subclass"):
            outer.setdefault(getattr(place, "base", None), []).append(index)
    values = [node.meta.get("val") for node in placeholders]
    return frozenset(
        index
        for parts in outer.values()
        if not _are_quantised([values[part] for part in parts])
        for index in parts
    )


def _are_quantised(parts: Sequence[Any]) -> bool:
    """Whether a tensor is made of integer codes, and scales for them."""
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    codes = any(part.dtype in _CODES and part.dim() > 1 for part in tensors)
    return codes and any(part.dtype.is_floating_point for part in tensors)


def plain_tensors(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The tensor, or those that it is made of where it is one of a subclass without memory."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        part = getattr(tensor, name)  # a DTensor lists its mesh besides
        if isinstance(part, torch.Tensor):
            yield from plain_tensors(part)


def gathered_by_fsdp() -> frozenset[int]:
    """Ids of the parameters that FSDP2 gathers before each use and frees after it.

    They are the same objects each time, often at the same address, and FSDP keeps their version
    when it writes into them.
    """
    return frozenset(map(id, fsdp_parameters()))
