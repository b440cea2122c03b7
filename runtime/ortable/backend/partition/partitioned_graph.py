"""A graph that runs partly in torch: its regions compiled one by one, and the straight-line code
that calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.graph import _BoxedCodeGen

from ortable.backend.cache.conversion import compile_cached
from ortable.backend.lower.inputs import InputPlan
from ortable.backend.lower.outputs import graph_kind, is_mutation
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph

from .partition import Region, Split, split
from .placement import is_ordered

__all__ = ["MixedGraph", "Part", "convert_parts", "cut", "join_parts"]


@dataclass(frozen=True)
class Part:
    """A region and what it was converted to."""

    region: Region
    compiled: CompiledGraph


class MixedGraph:
    """One compiled graph, of sessions and torch operators.  Called with a list of arguments, which
    it clears; returns a list of results.

    `regions` are the callables of its regions; a call is safe from several threads if theirs are.
    `text` is what other processes rebuild the code from, None where they cannot.
    """

    def __init__(
        self,
        forward: Callable[[list[Any]], list[Any]],
        regions: tuple[Any, ...],
        text: str | None = None,
    ) -> None:
        self._boxed_call = True  # on the object: dynamo wraps backward graphs, copying `__dict__`
        self._forward = forward
        self.regions = regions
        self.text = text

    def __repr__(self) -> str:
        return f"MixedGraph({len(self.regions)} regions)"

    def __call__(self, args: list[Any]) -> list[Any]:
        return self._forward(args)


def cut(graph_module: GraphModule, in_torch: Mapping[Node, str]) -> Split:
    """The regions and the outer graph, when torch runs the nodes of `in_torch`."""
    return split(graph_module, in_torch, [node for node in in_torch if is_ordered(node)])


def convert_parts(
    graph_module: GraphModule, cuts: Split, options: OrtOptions, static: frozenset[int]
) -> Iterator[Part]:
    """Converts the regions, one at a step.  Arguments that the outer graph writes are no constants
    there, and neither are those that an inference graph returns."""
    plan = InputPlan(graph_module)
    nodes = graph_module.graph.nodes
    changed = {node.args[0] for node in nodes if is_mutation(node, plan)}
    if graph_kind(graph_module) == "inference":
        changed.update(graph_module.graph.output_node().all_input_nodes)
    constant = {plan.nodes[index] for index in static} - changed
    for region in cuts.regions:
        fixed = frozenset(i for i, node in enumerate(region.inputs) if node in constant)
        yield Part(region, compile_cached(region.module, options, fixed, whole=graph_module))


def join_parts(
    outer: Graph,
    callables: Mapping[str, Any],
    constants: torch.nn.Module | None = None,
    text: str | None = None,
) -> MixedGraph:
    """The callable of a graph whose regions run as `callables`, by their names.

    :param constants: the module that has what the outer graph reads besides its arguments
    :param text: what other processes rebuild the outer graph from
    """
    root = torch.nn.Module()
    for node in outer.nodes:
        if node.op == "get_attr":
            assert constants is not None
            _adopt(root, constants, str(node.target))
    for name, function in callables.items():
        object.__setattr__(root, name, function)
    outer.set_codegen(_BoxedCodeGen())
    code: Any = type(GraphModule(root, outer, "Outer")).forward
    # bound to the constants and the regions alone: the graph and its fake tensors may go
    return MixedGraph(functools.partial(code, root), tuple(callables.values()), text)


def _adopt(root: torch.nn.Module, source: torch.nn.Module, path: str) -> None:
    """Gives `root` the constant or the subgraph that `source` has at a dotted path."""
    name = path.partition(".")[0]
    if not hasattr(root, name):
        setattr(root, name, getattr(source, name))
