"""A graph that is not run by ONNX Runtime whole: cut into regions, each a graph of its own, and an
outer graph that calls the regions and runs the nodes in between with torch."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ortable import dims
from ortable.backend.lower.inputs import InputPlan
from ortable.backend.lower.outputs import is_mutation
from ortable.backend.lower.views import is_view
from ortable.dims import Dim, SymDim
from ortable.interpreter.assertions import run_time_checks

__all__ = ["Region", "Split", "split"]

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float)


@dataclass(frozen=True)
class Region:
    """A part of a graph for ONNX Runtime: its name in the outer graph, the graph, the nodes of the
    original graph that it computes, and those that it takes and returns."""

    name: str
    module: GraphModule
    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]


@dataclass(frozen=True)
class Split:
    """The outer graph, which calls attributes named as the regions with one list of arguments, and
    the regions."""

    outer: Graph
    regions: tuple[Region, ...]


def split(
    graph_module: GraphModule, in_torch: Collection[Node], ordered: Collection[Node]
) -> Split:
    """Cuts a graph of AOTAutograd into as few regions as its alternation asks for.

    :param in_torch: nodes that torch runs
    :param ordered: those of them that must run in the order of the graph: they draw random
        numbers, or have effects
    """
    return _Splitter(graph_module, in_torch, ordered).split()


def is_number(node: Node) -> bool:
    """Whether the value of a node is a size or another number, not a tensor."""
    return isinstance(node.meta.get("val"), _NUMBERS)


class _Splitter:
    """The running state of `split`.

    Every node has a phase: torch runs the even ones, each odd one is a region.  A node comes as
    early as its arguments allow, so an edge never leads back and regions are few; what reads only
    arguments waits for its first reader, so that nothing is kept for it in between.
    """

    def __init__(
        self, graph_module: GraphModule, in_torch: Collection[Node], ordered: Collection[Node]
    ) -> None:
        self.graph_module = graph_module
        self.nodes = list(graph_module.graph.nodes)
        self.plan = InputPlan(graph_module)
        self.checks = {each.node for each in run_time_checks(graph_module.graph)}
        self.in_torch = in_torch
        self.sizes = self._sizes()
        self.last = [n for n in self.nodes if is_mutation(n, self.plan)]
        self.phases = self._phases(set(ordered))
        self._sink()
        self.outer = Graph()
        self.made: dict[Node, Node] = {}  # nodes of the original graph -> of the outer one
        self.lifted: dict[str, Node] = {}  # symbols -> nodes of the original or the outer graph

    def split(self) -> Split:
        for node in self.plan.nodes:
            self.made[node] = self.outer.node_copy(node)
        regions: list[Region] = []
        for phase in range(max(self.phases.values(), default=0) + 1):
            nodes = [n for n in self.nodes if self.phases.get(n) == phase]
            if phase % 2 == 0:
                for node in nodes:
                    if _says_nothing(node):
                        self.made[node] = self._value(node.args[0])  # type: ignore[arg-type]
                    else:
                        self.made[node] = self.outer.node_copy(node, self._value)
            elif nodes:
                region = self._region(f"region_{len(regions)}", nodes)
                if region is not None:
                    regions.append(region)
        for node in self.last:
            self.made[node] = self.outer.node_copy(node, self._value)
        (output,) = [n for n in self.nodes if n.op == "output"]
        self.outer.node_copy(output, self._value)
        return Split(self.outer, tuple(regions))

    # -- phases

    def _sizes(self) -> set[Node]:
        """Numbers computed from nothing but arguments: whoever needs one gets it at once."""
        found: set[Node] = set()
        for node in self.nodes:
            if node.op == "call_function" and is_number(node) and node not in self.in_torch:
                inputs = node.all_input_nodes
                if all(n.op == "placeholder" or n in found for n in inputs):
                    found.add(node)
        return found

    def _phases(self, ordered: set[Node]) -> dict[Node, int]:
        phases: dict[Node, int] = {}
        reached = 0
        skipped = self.sizes.union(self.last)
        for node in self.nodes:
            if node.op != "call_function" or node in skipped:
                continue
            phase = max((phases.get(n, 0) for n in node.all_input_nodes), default=0)
            if node in ordered:
                phase = max(phase, reached)
            phase += phase % 2 == (node in self.in_torch)
            if node in ordered:
                reached = phase
            phases[node] = phase
        return phases

    def _sink(self) -> None:
        """Moves nodes of the first region to the region of their first reader."""
        phases = self.phases
        for node in reversed(self.nodes):
            if phases.get(node) != 1 or node in self.in_torch or _is_item(node):
                continue
            items = [user for user in node.users if _is_item(user)]
            users = {u for n in (node, *items) for u in n.users if u not in items}
            # 1 for the output and for writes: nothing is gained by waiting for the end
            wanted = [phases.get(u, 1) - (u in self.in_torch) for u in users]
            later = min(wanted, default=1)
            for moved in (node, *items):
                phases[moved] = max(later, 1)

    # -- the outer graph and the regions

    def _value(self, node: Node) -> Node:
        """What stands for a node in the outer graph: constants and sizes are made when asked
        for."""
        if node not in self.made:
            self.made[node] = self.outer.node_copy(node, self._value)
        return self.made[node]

    def _region(self, name: str, nodes: list[Node]) -> Region | None:
        inside = set(nodes)
        outputs = [n for n in nodes if any(user not in inside for user in n.users)]
        if not outputs and inside.isdisjoint(self.checks):
            return None
        graph = Graph()
        copies: dict[Node, Node] = {}
        inputs = self._inputs(nodes, inside)
        for node in inputs:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
        passed = [self._value(node) for node in inputs]
        for symbol, value in self._missing_symbols(inputs, nodes):
            passed.append(value)
            graph.placeholder(f"size_{symbol}").meta = {"val": value.meta["val"]}

        def operand(node: Node) -> Node:
            if node not in copies:  # a constant, or a number that is no int
                copies[node] = graph.node_copy(node, operand)
            return copies[node]

        for node in nodes:
            copies[node] = graph.node_copy(node, operand)
        graph.output([copies[node] for node in outputs])
        call = self.outer.call_module(name, (passed,))
        for index, node in enumerate(outputs):
            self.made[node] = self.outer.call_function(operator.getitem, (call, index))
            self.made[node].meta = dict(node.meta)
        module = GraphModule(self.graph_module, graph)
        return Region(name, module, tuple(nodes), tuple(inputs), tuple(outputs))

    def _inputs(self, nodes: Iterable[Node], inside: Collection[Node]) -> list[Node]:
        """What a region takes: tensors and ints.  Constants, and numbers that are no ints, are
        made inside."""
        found: dict[Node, None] = {}
        stack = [n for node in reversed(list(nodes)) for n in reversed(node.all_input_nodes)]
        while stack:
            node = stack.pop()
            if node in inside or node in found or node.op == "get_attr":
                continue
            if node in self.sizes and not isinstance(node.meta["val"], torch.SymInt):
                stack.extend(node.all_input_nodes)
            else:
                found[node] = None
        return list(found)

    def _missing_symbols(
        self, inputs: Iterable[Node], nodes: Iterable[Node]
    ) -> list[tuple[str, Node]]:
        """Symbols in sizes of a region that none of its inputs has as a size of its own, and the
        nodes of the outer graph that have their values."""
        inputs = list(inputs)
        needed: dict[str, None] = {}
        own: set[str] = set()
        for node in (*inputs, *nodes):
            for dim in _dims_in(node.meta.get("val")):
                needed.update(dict.fromkeys(sorted(dims.symbols(dim))))
        # a tensor of which a region returns views alone is no input of its session
        read = {n for node in nodes if not is_view(node) for n in node.all_input_nodes}
        for node in inputs:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and node not in read:
                continue
            sizes = value.shape if isinstance(value, torch.Tensor) else [value]
            found = [dims.from_torch(s) for s in sizes if isinstance(s, torch.SymInt)]
            own.update(str(d) for d in found if isinstance(d, SymDim) and dims.is_symbol(d))
        return [(s, self._symbol(s)) for s in needed if s not in own and s in self.plan.sources]

    def _symbol(self, symbol: str) -> Node:
        """The node of the outer graph that has the value of a symbol."""
        source = self.plan.sources[symbol]
        argument = self.made[self.plan.nodes[source.index]]
        if source.axis is None:
            return argument
        if symbol not in self.lifted:
            size = torch.ops.aten.sym_size.int
            node = self.outer.call_function(size, (argument, source.axis))
            node.meta["val"] = argument.meta["val"].shape[source.axis]
            self.lifted[symbol] = node
        return self.lifted[symbol]


def _says_nothing(node: Node) -> bool:
    """Whether a node detaches what no autograd watches, for others than the results."""
    detaches = node.target is torch.ops.aten.detach.default
    return detaches and all(user.op != "output" for user in node.users)


def _is_item(node: Node) -> bool:
    """Whether a node takes one result out of several."""
    return node.target is operator.getitem and isinstance(node.args[0], Node)


def _dims_in(value: Any) -> list[Dim]:
    """Symbolic sizes and strides of the value of a node."""
    if isinstance(value, list | tuple):
        return [dim for item in value for dim in _dims_in(item)]
    found: list[Any] = [value]
    if isinstance(value, torch.Tensor):
        found = list(value.shape)
        if value.layout is torch.strided:
            found += value.stride()
    return [dims.from_torch(each) for each in found if isinstance(each, torch.SymInt)]
