"""Weights that torch.distributed keeps in parts: what tells that a tensor is one, since writes
into them leave no trace on the tensors that a graph is given. Called by `weights`, `call` and
`aot.build`."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.fx import GraphModule

from ortable.compat.torch import fsdp_parameters, is_traceable_wrapper_subclass

__all__ = ["gathered_by_fsdp", "inner_arguments", "plain_tensors"]


def inner_arguments(graph_module: GraphModule) -> frozenset[int]:
    """Positions of the arguments that are inside tensors of a subclass, the local part of a DTensor
    for one.  A write into the outer tensor counts no version on the inner one.
    """
    placeholders = [n for n in graph_module.graph.nodes if n.op == "placeholder"]
    kinds = [type(node.meta.get("desc")).__name__ for node in placeholders]
    return frozenset(i for i, kind in enumerate(kinds) if kind.startswith("Subclass"))


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
