"""Sizes that must be known: a refusal over a symbolic size becomes a guard of torch on its value.

`aot.build` calls this when a conversion failed; the conversion is tried again with the size
known, and dynamo compiles anew for another value. What stays dynamic otherwise stays so. Where
torch may run the node instead, only sizes that surely help become numbers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable import dims
from ortable.compat.torch import marked_symbols, pytree
from ortable.errors import ConversionError, OrtableError, UnsupportedCase

__all__ = ["specialize"]

_log = logging.getLogger(__name__)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def specialize(
    graph_module: GraphModule, error: OrtableError, verbose: int = 0, *, must_convert: bool
) -> bool:
    """Guards on the sizes that a failed conversion asks for: those that the error names, otherwise
    all that its node reads. False when there is none, or none that torch knows before the call.

    :param must_convert: whether nothing but ONNX Runtime may run the node. Otherwise sizes that
        the user marked as dynamic stay so, and those of tensors, unless the error names them
    """
    if not isinstance(error, UnsupportedCase | ConversionError):
        return False
    node = next((n for n in graph_module.graph.nodes if n.name == error.fx_node), None)
    if node is None:
        return False
    wanted = {name for dim in error.sizes for name in dims.symbols(dim)}
    found = False
    for symbol, value in _symbols(graph_module, node, wanted, must_convert):
        env = value.node.shape_env
        if env.frozen or symbol not in env.backed_var_to_val:
            continue
        if not must_convert and symbol in marked_symbols(env):
            continue
        # evaluates the symbol: torch guards on its value, and replaces it
        size = float(value) if isinstance(value, torch.SymFloat) else int(value)
        if env.replace(symbol) == symbol:
            continue  # the next conversion would find what this one found
        why = str(error).partition("\n")[0]
        _log.info("compiled for %s = %s alone, and anew for another value: %s", symbol, size, why)
        if verbose:
            print(f"[ortable] compiled for {symbol} = {size} alone: {why}")
        found = True
    return found


def _symbols(
    graph_module: GraphModule, node: Node, wanted: set[str], must_convert: bool
) -> Iterator[tuple[Any, Any]]:
    """The symbols of torch that are asked for, each with a number that is the symbol alone."""
    asked: set[Any] = set()
    nodes = [node, *node.all_input_nodes]
    if not wanted and not must_convert:
        nodes = [each for each in nodes if isinstance(each.meta.get("val"), _SYMBOLIC)]
    for number in _numbers(nodes):
        free = getattr(number.node.expr, "free_symbols", ())
        asked.update(each for each in free if not wanted or each.name in wanted)
    alone = {n.node.expr: n for n in _numbers(graph_module.graph.nodes)}
    for symbol in sorted(asked, key=str):
        if symbol in alone:
            yield symbol, alone[symbol]


def _numbers(nodes: Any) -> Iterator[Any]:
    """The symbolic numbers among the values of nodes and in their shapes."""
    for node in nodes:
        for value in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, _SYMBOLIC):
                yield value
            elif isinstance(value, torch.Tensor):
                yield from (size for size in value.shape if isinstance(size, torch.SymInt))
