"""Decomposes an ATen graph that AOTAutograd already made, for users who wired AOTAutograd without
decompositions. In comes a GraphModule, out comes one without operators of the table, the same where
it calls none; called by `entry`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch.fx import GraphModule

__all__ = ["redecompose"]


def redecompose(graph_module: GraphModule, table: Mapping[Any, Callable[..., Any]]) -> GraphModule:
    """`graph_module` with the operators of `table` replaced by what they decompose into.

    Arguments and results keep their positions and what AOTAutograd says of them (`meta["desc"]`).
    """
    if not any(n.op == "call_function" and n.target in table for n in graph_module.graph.nodes):
        return graph_module
    from ortable.compat.torch import make_fx

    values = [n.meta["val"] for n in graph_module.graph.nodes if n.op == "placeholder"]
    traced = make_fx(graph_module, decomposition_table=dict(table), tracing_mode="real")(*values)
    for kind in ("placeholder", "output"):
        before = [n for n in graph_module.graph.nodes if n.op == kind]
        after = [n for n in traced.graph.nodes if n.op == kind]
        for old, new in zip(before, after, strict=True):
            if "desc" in old.meta:
                new.meta["desc"] = old.meta["desc"]
    return traced
