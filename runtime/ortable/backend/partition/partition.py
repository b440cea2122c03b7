"""Cut a graph into partitions for ONNX Runtime and a host graph that calls them.

Each partition is a graph for one session; the host graph runs the other nodes with torch.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from ortable import dims
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.lower.argument_marks import (
    argument_strides,
    has_untraced_strides,
    mark_partition_argument_name,
    mark_unknown_strides,
)
from ortable.backend.lower.cost_model import torch_operator_key
from ortable.backend.lower.inputs import shape_of
from ortable.backend.lower.strides import contiguous_strides, with_strides
from ortable.backend.lower.views import is_view
from ortable.compat.torch import OpOverload, pytree
from ortable.dims import Dim, SymDim
from ortable.interpreter.assertions import run_time_checks
from ortable.interpreter.calls import operator_key
from ortable.interpreter.tables import generated_tables
from ortable_generated.aten import traits

from .placement import is_ordered
from .rng import SymbolNodes

aten = torch.ops.aten
_STRIDE_TAGS = {
    torch.Tag.needs_exact_strides,
    torch.Tag.needs_contiguous_strides,
    torch.Tag.needs_fixed_stride_order,
    torch.Tag.nondeterministic_seeded,  # numbers are drawn in memory order
}
_NUMBER_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float)


@dataclass(frozen=True)
class Partition:
    """A part of a graph for ONNX Runtime: its name in the host graph and its own graph.

    `nodes` are the original nodes that it computes; `inputs` and `outputs` are the original nodes
    that it takes and returns.
    """

    name: str
    graph: AotGraph
    nodes: tuple[Node, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]


@dataclass(frozen=True)
class Partitioning:
    """The partitions, and the host graph, which calls each by its name with a list of arguments."""

    host: Graph
    partitions: tuple[Partition, ...]


def partition_graph(graph: AotGraph, in_torch: Collection[Node]) -> Partitioning:
    """Cut a graph of AOTAutograd into as few partitions as the placement of its nodes allows.

    Args:
        graph: the graph.
        in_torch: nodes that torch runs. Those that draw random numbers or have effects keep their
            order.
    """
    return _Partitioner(graph, in_torch).make_partitioning()


class _Partitioner:
    """The running state of `partition_graph`.

    Every node has a phase: torch runs the even phases, and each odd phase is a partition. A node
    gets the earliest phase that its arguments allow, so no partition depends on a later phase, and
    there are few partitions. Nodes of phase 1 that only later phases read move to the phase of
    their first reader, so that their values need not be stored until then.
    """

    def __init__(self, graph: AotGraph, in_torch: Collection[Node]) -> None:
        self.graph = graph
        self.nodes = list(graph.module.graph.nodes)
        self.checks = {check.node for check in run_time_checks(graph.module.graph)}
        self.in_torch = in_torch
        self.sizes = self._find_sizes()
        self.mutations = [candidate for candidate in self.nodes if graph.is_mutation(candidate)]
        self.phases = self._assign_phases({node for node in in_torch if is_ordered(node)})
        # Products stay in the first partition if other nodes stay there, too. Often a later session
        # would contain only products, and it would start while the threads of torch's preceding
        # operator still occupy the processors.
        phases = self._sink_nodes(set())
        if 1 in phases.values():
            phases = self._sink_nodes(
                {node for node in self.nodes if torch_operator_key(node) in traits.COMPUTE_BOUND}
            )
        self.phases = phases
        self.host = Graph()
        self.host_nodes: dict[Node, Node] = {}  # by node of the original graph
        # nodes whose strides may differ from the traced ones, with their strides if known
        self.other_strides = {
            node: argument_strides(node)
            for node in graph.inputs.nodes
            if has_untraced_strides(node)
        }
        self.restored: dict[Node, Node] = {}  # host nodes that copy these to the traced strides
        self.symbols = SymbolNodes(self.host, graph.inputs, self.host_nodes)

    def make_partitioning(self) -> Partitioning:
        for node in self.graph.inputs.nodes:
            self.host_nodes[node] = self.host.node_copy(node)
        partitions: list[Partition] = []
        for phase in range(max(self.phases.values(), default=0) + 1):
            nodes = [candidate for candidate in self.nodes if self.phases.get(candidate) == phase]
            if phase % 2 == 0:
                for node in nodes:
                    self.host_nodes[node] = self._emit_torch_node(node)
            elif nodes:
                partition = self._make_partition(f"partition_{len(partitions)}", nodes)
                if partition is not None:
                    partitions.append(partition)
        for node in self.mutations:
            self.host_nodes[node] = self.host.node_copy(node, self._host_node)
        self._emit_torch_node(self.graph.output)
        return Partitioning(self.host, tuple(partitions))

    # -- phases

    def _find_sizes(self) -> set[Node]:
        """Find the numbers computed only from arguments.

        They have no phase: the host graph and the partitions compute them where they read them.
        """
        sizes: set[Node] = set()
        for node in self.nodes:
            is_number = isinstance(node.meta.get("val"), _NUMBER_TYPES)
            if node.op == "call_function" and is_number and node not in self.in_torch:
                inputs = node.all_input_nodes
                if all(source.op == "placeholder" or source in sizes for source in inputs):
                    sizes.add(node)
        return sizes

    def _assign_phases(self, ordered_nodes: set[Node]) -> dict[Node, int]:
        phases: dict[Node, int] = {}
        last_ordered_phase = 0
        skipped = self.sizes.union(self.mutations)
        for node in self.nodes:
            if node.op != "call_function" or node in skipped:
                continue
            phase = max((phases.get(source, 0) for source in node.all_input_nodes), default=0)
            if node in ordered_nodes:
                phase = max(phase, last_ordered_phase)
            # torch's phases are even, those of partitions odd
            phase += phase % 2 == (node in self.in_torch)
            if node in ordered_nodes:
                last_ordered_phase = phase
            phases[node] = phase
        return phases

    def _sink_nodes(self, fixed: Collection[Node]) -> dict[Node, int]:
        """Return the phases with nodes of phase 1, except `fixed`, moved to their first reader."""
        phases = dict(self.phases)
        for node in reversed(self.nodes):
            if phases.get(node) != 1 or node in self.in_torch or node in fixed or _is_getitem(node):
                continue
            items = [item for item in node.users if _is_getitem(item)]
            users = {
                user for source in (node, *items) for user in source.users if user not in items
            }
            # The partition before a reader in torch makes the value. The output and mutations count
            # as readers in phase 1, because moving a node to the end has no advantage.
            reader_phases = [phases.get(user, 1) - (user in self.in_torch) for user in users]
            first_reader_phase = min(reader_phases, default=1)
            for moved_node in (node, *items):
                phases[moved_node] = max(first_reader_phase, 1)
        return phases

    # -- the host graph and the partitions

    def _host_node(self, node: Node) -> Node:
        """Return the host graph's node for `node`; copy numbers and constants on first use."""
        if node not in self.host_nodes:
            self.host_nodes[node] = self.host.node_copy(node, self._host_node)
        return self.host_nodes[node]

    def _emit_torch_node(self, node: Node) -> Node:
        """Add a node that torch runs to the host graph.

        Arguments get their traced strides, unless the node gives the same results for any strides.
        """
        restrided_args = {source for source in node.all_input_nodes if source in self.other_strides}
        if _is_redundant_detach(node):
            if restrided_args:
                self.other_strides[node] = self.other_strides[restrided_args.pop()]
            return self._host_node(node.args[0])  # type: ignore[arg-type]
        args_to_restore = restrided_args
        if restrided_args and _has_known_strides(node):
            args_to_restore = {
                arg
                for arg in restrided_args
                if not _accepts_strides(node, arg, self.other_strides[arg])
            }
            if args_to_restore != restrided_args:
                self.other_strides[node] = None
        copy = self.host.node_copy(
            node,
            lambda arg: (
                self._restore_strides(arg) if arg in args_to_restore else self._host_node(arg)
            ),
        )
        if node in self.other_strides:
            copy.target = _layout_free_target(node)
        return copy

    def _restore_strides(self, node: Node) -> Node:
        if node not in self.restored:
            strides = tuple(node.meta["val"].stride())
            self.restored[node] = self.host.call_function(
                with_strides, (self._host_node(node), strides)
            )
            self.restored[node].meta = dict(node.meta)
        return self.restored[node]

    def _make_partition(self, name: str, nodes: list[Node]) -> Partition | None:
        inside = set(nodes)
        outputs = [member for member in nodes if any(user not in inside for user in member.users)]
        if not outputs and inside.isdisjoint(self.checks):
            return None
        graph = Graph()
        copies: dict[Node, Node] = {}
        inputs = self._find_inputs(nodes, inside)
        for node in inputs:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
            mark_partition_argument_name(copies[node], self.graph.inputs.nodes)
            if node in self.other_strides:
                mark_unknown_strides(copies[node])
        call_arguments = [self._host_node(node) for node in inputs]
        for symbol, value in self._missing_symbols(inputs, nodes):
            call_arguments.append(value)
            graph.placeholder(f"size_{symbol}").meta = {"val": value.meta["val"]}

        def copy_operand(node: Node) -> Node:
            if node not in copies:  # a constant, or a number that is not an int
                copies[node] = graph.node_copy(node, copy_operand)
            return copies[node]

        for node in nodes:
            copies[node] = graph.node_copy(node, copy_operand)
        graph.output([copies[node] for node in outputs])
        call = self.host.call_module(name, (call_arguments,))
        for index, node in enumerate(outputs):
            self.host_nodes[node] = self.host.call_function(operator.getitem, (call, index))
            self.host_nodes[node].meta = dict(node.meta)
        partition_subgraph = AotGraph(GraphModule(self.graph.module, graph))
        return Partition(name, partition_subgraph, tuple(nodes), tuple(inputs), tuple(outputs))

    def _find_inputs(self, nodes: Iterable[Node], inside: Collection[Node]) -> list[Node]:
        """Return the inputs of a partition.

        The partition has its own copies of constants and of floats and bools in `sizes`.
        """
        inputs: dict[Node, None] = {}
        stack = [
            source for node in reversed(list(nodes)) for source in reversed(node.all_input_nodes)
        ]
        while stack:
            node = stack.pop()
            if node in inside or node in inputs or node.op == "get_attr":
                continue
            if node in self.sizes and not isinstance(node.meta["val"], torch.SymInt):
                stack.extend(node.all_input_nodes)
            else:
                inputs[node] = None
        return list(inputs)

    def _missing_symbols(
        self, inputs: Iterable[Node], nodes: Iterable[Node]
    ) -> list[tuple[str, Node]]:
        """Return the symbols that a partition cannot read from its inputs, and their host nodes."""
        inputs = list(inputs)
        needed: dict[str, None] = {}
        available: set[str] = set()
        for node in (*inputs, *nodes):
            for dim in _symbolic_dims(node.meta.get("val")):
                needed.update(dict.fromkeys(sorted(dims.free_symbols(dim))))
        # a tensor that only views read may be no input of the session
        used = {source for node in nodes if not is_view(node) for source in node.all_input_nodes}
        for node in inputs:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and node not in used:
                continue
            sizes = value.shape if isinstance(value, torch.Tensor) else [value]
            symbolic = [dims.from_torch(size) for size in sizes if isinstance(size, torch.SymInt)]
            available.update(
                str(item) for item in symbolic if isinstance(item, SymDim) and dims.is_symbol(item)
            )
        return [
            (symbol, self.symbols[symbol])
            for symbol in needed
            if symbol not in available and symbol in self.symbols
        ]


def _is_redundant_detach(node: Node) -> bool:
    """Whether a node is a `detach` that is not returned: autograd tracks no value of the graph."""
    is_detach = node.target is torch.ops.aten.detach.default
    return is_detach and all(user.op != "output" for user in node.users)


def _is_getitem(node: Node) -> bool:
    return node.target is operator.getitem and isinstance(node.args[0], Node)


def _symbolic_dims(value: Any) -> list[Dim]:
    if isinstance(value, list | tuple):
        return [dim for item in value for dim in _symbolic_dims(item)]
    sizes: list[Any] = [value]
    if isinstance(value, torch.Tensor):
        sizes = list(value.shape)
        if value.layout is torch.strided:
            sizes += value.stride()
    return [dims.from_torch(size) for size in sizes if isinstance(size, torch.SymInt)]


def _accepts_strides(node: Node, argument: Node, strides: tuple[int, ...] | None) -> bool:
    """Whether an operator computes the same result if an argument has other strides than traced.

    This holds for a view (with the target of `_layout_free_target`), for pointwise operators, and,
    if the argument is contiguous, for every operator with a converter.
    """
    if node.target is operator.getitem:
        return True
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace != "aten":
        return False
    name = operator_key(node)
    if name in traits.READS_STRIDES or not _STRIDE_TAGS.isdisjoint(target.tags):
        return False
    if target.is_view or name in traits.UNSAFE_VIEW or torch.Tag.pointwise in target.tags:
        return True
    is_contiguous = strides == contiguous_strides(shape_of(argument.meta["val"]))
    return is_contiguous and name in generated_tables().converters


def _layout_free_target(node: Node) -> Any:
    """Return the target of a node for any layout of its arguments: `reshape` for `view`."""
    if node.target is aten.view.default or operator_key(node) in traits.UNSAFE_VIEW:
        return aten.reshape.default
    return node.target


def _has_known_strides(node: Node) -> bool:
    """Whether no tensor among the results of a node has symbolic strides."""
    values = pytree.tree_leaves(node.meta.get("val"))
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    return all(isinstance(stride, int) for value in tensors for stride in value.stride())
