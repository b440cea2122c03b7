"""A graph that runs partly in torch: its partitions converted one by one, and the callable of the
host graph that calls them. In come a Partitioning and OrtOptions, out comes a PartitionedGraph;
called by `aot.build`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule

from ortable.backend.cache.conversion import compile_cached
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.compat.torch import BoxedCodeGen

from .partition import Partition, Partitioning

__all__ = ["ConvertedPartition", "PartitionedGraph", "convert_partitions", "join_partitions"]


@dataclass(frozen=True)
class ConvertedPartition:
    """A partition and what it was converted to."""

    partition: Partition
    compiled: CompiledGraph


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


def convert_partitions(
    graph: AotGraph, partitioning: Partitioning, options: OrtOptions, static: frozenset[int]
) -> Iterator[ConvertedPartition]:
    """Converts the partitions, one at a step.  Arguments that the host graph writes are no
    constants there, and neither are those that an inference graph returns."""
    changed = {node.args[0] for node in graph.module.graph.nodes if graph.is_mutation(node)}
    if graph.kind == "inference":
        changed.update(graph.output.all_input_nodes)
    constant = {graph.inputs.nodes[index] for index in static} - changed
    for partition in partitioning.partitions:
        fixed = frozenset(i for i, node in enumerate(partition.inputs) if node in constant)
        compiled = compile_cached(partition.graph, options, fixed, whole=graph)
        yield ConvertedPartition(partition, compiled)


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
