"""A graph that runs partly in torch: the callable of the host graph that calls its partitions. In
come a host graph and what runs the partitions, out comes a PartitionedGraph; called by `aot.build`
and `precompile.pack`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from ortable.compat.torch import BoxedCodeGen


class PartitionedGraph:
    """One compiled graph, of sessions and torch operators.  Called with a list of arguments, which
    it clears; returns a list of results.

    `partitions` are the callables of its partitions; a call is safe from several threads if theirs
    are. `text` is what other processes rebuild the code from, None where they cannot.
    """

    def __init__(
        self,
        forward: Callable[[list[Any]], list[Any]],
        partitions: tuple[Any, ...],
        text: str | None = None,
    ) -> None:
        self._boxed_call = True  # on the object: dynamo wraps backward graphs, copying `__dict__`
        self._forward = forward
        self.partitions = partitions
        self.text = text

    def __repr__(self) -> str:
        return f"PartitionedGraph({len(self.partitions)} partitions)"

    def __call__(self, args: list[Any]) -> list[Any]:
        return self._forward(args)


def join_partitions(
    host: Graph,
    callables: Mapping[str, Any],
    constants: torch.nn.Module | None = None,
    text: str | None = None,
) -> PartitionedGraph:
    """The callable of a graph whose partitions run as `callables`, by their names.

    :param constants: the module that has what the host graph reads besides its arguments
    :param text: what other processes rebuild the host graph from
    """
    root = torch.nn.Module()
    for node in host.nodes:
        if node.op == "get_attr":
            assert constants is not None
            _adopt(root, constants, str(node.target))
    for name, function in callables.items():
        object.__setattr__(root, name, function)
    host.set_codegen(BoxedCodeGen())
    code: Any = type(GraphModule(root, host, "HostGraph")).forward
    # bound to the constants and the partitions alone: the graph and its fake tensors may go
    return PartitionedGraph(functools.partial(code, root), tuple(callables.values()), text)


def _adopt(root: torch.nn.Module, source: torch.nn.Module, path: str) -> None:
    """Gives `root` the constant or the subgraph that `source` has at a dotted path."""
    name = path.partition(".")[0]
    if not hasattr(root, name):
        setattr(root, name, getattr(source, name))
