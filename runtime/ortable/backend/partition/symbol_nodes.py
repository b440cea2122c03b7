"""Nodes of a graph under construction that have the values of symbols: an int argument, or a size
of a tensor argument. In come the arguments of the graph that is copied, out comes a node a symbol;
called by `draws` and `partition`."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.fx import Graph, Node

from ortable.backend.lower.inputs import InputPlan


class SymbolNodes:
    """One node a symbol, added to `graph` when it is first asked for.

    :param inputs: the arguments of the original graph
    :param copies: their copies in `graph`
    """

    def __init__(self, graph: Graph, inputs: InputPlan, copies: Mapping[Node, Node]) -> None:
        self._graph = graph
        self._inputs = inputs
        self._copies = copies
        self._sizes: dict[str, Node] = {}

    def __contains__(self, symbol: str) -> bool:
        return symbol in self._inputs.sources

    def __getitem__(self, symbol: str) -> Node:
        source = self._inputs.sources[symbol]
        argument = self._copies[self._inputs.nodes[source.index]]
        if source.axis is None:
            return argument
        if symbol not in self._sizes:
            size = torch.ops.aten.sym_size.int
            node = self._graph.call_function(size, (argument, source.axis))
            node.meta["val"] = argument.meta["val"].shape[source.axis]
            self._sizes[symbol] = node
        return self._sizes[symbol]
