"""The partitions of a graph that runs partly in torch, converted one by one. In come a Partitioning
and OrtOptions, out come CompiledGraphs; called by `aot.build`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ortable.backend.cache.conversion import compile_cached
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph

from .partition import Partition, Partitioning

__all__ = ["ConvertedPartition", "convert_partitions"]


@dataclass(frozen=True)
class ConvertedPartition:
    """A partition and what it was converted to."""

    partition: Partition
    compiled: CompiledGraph


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
