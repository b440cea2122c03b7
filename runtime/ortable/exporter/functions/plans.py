"""Plan local functions: the region of a torch graph, its key, and the call of the function.

Regions with equal keys convert to the same function. A `Plan` says which values of the caller are
the inputs of a function, and how its outputs become the values of FX nodes. interpreter.py and
custom_operators.py call this module.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from ortable import dims, dtypes
from ortable.builder import GraphBuilder
from ortable.dims import SymDim
from ortable.exporter.frontend.module_calls import ModuleCall, Stack, function_name, map_leaves
from ortable.interpreter import results
from ortable.ir.local_functions import FunctionTable, drop_unused_inputs
from ortable.passes.pipeline import PassOptions, run_passes
from ortable.prelude.complex_value import ComplexValue


@dataclass
class FunctionRegion:
    """A part of a graph that becomes a function.

    ``call`` is the call that the region belongs to, and ``stacks`` has the calls inside of it that
    contain each node. ``externals`` are nodes outside that the region reads, in order of first use.
    ``returned`` are nodes whose value is read outside: nodes of the region, and nodes whose tensor
    the region writes to in place.
    """

    call: ModuleCall
    nodes: Sequence[Node]
    stacks: Sequence[Stack]
    externals: list[Node] = field(default_factory=list)
    returned: list[Node] = field(default_factory=list)

    @classmethod
    def from_nodes(
        cls, call: ModuleCall, nodes: Sequence[Node], stacks: Sequence[Stack], writes: Any
    ) -> FunctionRegion:
        """Make the region of consecutive nodes; ``writes`` maps nodes to `ElidableMutation`."""
        region_nodes = set(nodes)
        externals: dict[Node, None] = {}
        returned: dict[Node, None] = {}
        for node in nodes:
            for source in node.all_input_nodes:
                if source not in region_nodes:
                    externals.setdefault(source)
            if any(user not in region_nodes for user in node.users):
                returned.setdefault(node)
            write = writes.get(node) if writes else None
            for alias in () if write is None else write.aliases:
                if any(user not in region_nodes for user in alias.users):
                    returned.setdefault(alias)
        return cls(call, nodes, stacks, list(externals), list(returned))


class RegionSignature:
    """Computes the key of a region.

    ``external`` returns the key of a node outside, for the calls that contain the node reading it.
    """

    def __init__(self, region: FunctionRegion, external: Callable[[Node, Stack], Hashable]) -> None:
        self._numbers: dict[Node, int] = {}
        self._calls: dict[str, int] = {}
        self._external = external
        self._region = region
        self._outside = {node: index for index, node in enumerate(region.externals)}

    def key(self) -> Hashable:
        """Return the key: operators, arguments, types, inner calls and returned nodes."""
        region = self._region
        parts = [
            self._node_key(node, stack)
            for node, stack in zip(region.nodes, region.stacks, strict=True)
        ]
        returned = tuple(
            self._numbers.get(node, ("outside", self._outside.get(node)))
            for node in region.returned
        )
        return region.call.class_name, tuple(parts), returned

    def _node_key(self, node: Node, stack: Stack) -> Hashable:
        args = tuple(self._argument_key(arg, stack) for arg in node.args)
        keywords = tuple(
            (name, self._argument_key(arg, stack)) for name, arg in node.kwargs.items()
        )
        self._numbers[node] = len(self._numbers)
        calls = tuple(
            (self._calls.setdefault(call.key, len(self._calls)), call.class_name) for call in stack
        )
        value = results.node_value(node)
        used = (
            tuple(results.used_results(node, len(value)))
            if isinstance(value, (list, tuple))
            else bool(node.users)
        )
        return node.op, node.target, args, keywords, calls, used, fx_type_key(value)

    def _argument_key(self, value: Any, stack: Stack) -> Hashable:
        cls = value.__class__
        if cls is Node:
            number = self._numbers.get(value)
            if number is not None:
                return number
            return ("outside", self._outside.get(value), self._external(value, stack))
        if cls is int or cls is bool or value is None or cls is str:
            return cls, value
        if isinstance(value, (list, tuple)):
            return cls, tuple(self._argument_key(item, stack) for item in value)
        if isinstance(value, dict):
            return cls, tuple((k, self._argument_key(item, stack)) for k, item in value.items())
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return slice, tuple(self._argument_key(item, stack) for item in parts)
        if isinstance(value, torch.nn.Module):
            return "graph", id(value)
        return cls.__name__, repr(value)  # repr distinguishes -0.0 from 0.0, and equates nan


def fx_type_key(value: Any) -> Hashable:
    """Return a key of the metadata of an FX value: dtype and shape of a tensor."""
    if results.is_tensor_like(value):
        return value.dtype, tuple([d if d.__class__ is int else str(d) for d in value.shape])
    if isinstance(value, (list, tuple)):
        return tuple(fx_type_key(item) for item in value)
    return value.__class__.__name__, str(value)


def value_type_key(builder: Any, value: Any, numbers: dict[str, int]) -> Hashable:
    """Return a key of a converted value: dtype and shape of a result, content of other values.

    ``numbers`` collects the results in order and numbers them, so that the arguments ``(x, x)`` and
    ``(y, y)`` have equal keys, but not ``(x, y)``.
    """
    if isinstance(value, str):
        info = builder.values.get(value)
        if info is None:
            return str, value
        shape = None
        if info.shape is not None:
            shape = tuple([size if size.__class__ is int else str(size) for size in info.shape])
        index = numbers.setdefault(value, len(numbers))
        return "result", index, info.dtype, shape, info.rank, builder.numbers.get(value)
    if isinstance(value, SymDim):
        return "dimension", str(value)
    if isinstance(value, (list, tuple)):
        return type(value), tuple(value_type_key(builder, item, numbers) for item in value)
    if isinstance(value, dict):
        return dict, tuple((k, value_type_key(builder, v, numbers)) for k, v in value.items())
    if isinstance(value, ComplexValue):
        parts = (value_type_key(builder, part, numbers) for part in (value.real, value.imag))
        return ComplexValue, value.dtype, *parts
    if isinstance(value, torch.nn.Module):
        return "graph", id(value)
    return type(value).__name__, repr(value)


OperandSlot = Any  # (index of the external node, index of a leaf of its value), or a SymDim


@dataclass(frozen=True)
class FunctionOutput:
    """A placeholder for output ``index`` of a function, or for the size ``dim`` in that output."""

    index: int
    dim: SymDim | None = None


@dataclass(frozen=True)
class FunctionOperand:
    """A placeholder for the caller's value of an input of the function."""

    slot: OperandSlot


OutputType = tuple[int | None, Any, int | None]  # dtype, shape, and the entry in `Graph.numbers`


@dataclass
class Plan:
    """A local function and how to call it.

    ``name`` is empty if the function has no outputs, so that no call is needed. ``returned`` has a
    template for each returned node of the region: its value, in which FunctionOutput and
    FunctionOperand stand for results.
    """

    name: str = ""
    inputs: list[OperandSlot] = field(default_factory=list)
    outputs: list[OutputType] = field(default_factory=list)
    returned: list[Any] = field(default_factory=list)

    def call(
        self,
        graph: Any,
        domain: str,
        get_operand: Callable[[OperandSlot], str],
        names: Sequence[str],
        **options: Any,
    ) -> list[Any]:
        """Add a node that calls the function; return the values of the returned nodes."""
        if self.name:
            graph.make_node(
                self.name, [get_operand(slot) for slot in self.inputs], names, domain, **options
            )
            for name, (dtype, shape, number) in zip(names, self.outputs, strict=True):
                difference = results.check_and_complete(graph, name, dtype, shape)
                assert difference is None, difference
                if number is not None:
                    graph.numbers[name] = number
        return [fill_template(template, get_operand, names, graph) for template in self.returned]


def fill_template(
    template: Any, get_operand: Callable[[OperandSlot], str], names: Sequence[str], builder: Any
) -> Any:
    """Replace the placeholders of a template; ``names`` are the results of the call."""

    def fill_leaf(value: Any) -> Any:
        if isinstance(value, FunctionOperand):
            return get_operand(value.slot)
        if not isinstance(value, FunctionOutput):
            return value
        if value.dim is None:
            return names[value.index]
        builder.set_value_shape(names[value.index], (value.dim,))
        return value.dim

    return map_leaves(template, fill_leaf)


class PlanMaker:
    """Builds the body of a function and the plan of its calls.

    The steps are ``bind_inputs`` for each external value, ``bind_dims``, conversion of the nodes
    into ``body`` (which may call ``bind_weight``), ``return_values``, and ``finish_plan``.
    """

    def __init__(self, caller: Any, region: FunctionRegion, domain: str) -> None:
        self.caller = caller
        self.region = region
        self.domain = domain
        self.plan = Plan()
        opsets = {name: version for name, version in caller.opsets.items() if name != domain}
        self.body = GraphBuilder(opsets, target=caller.target, kernel_table=caller.kernel_table)
        self.body.functions, self.body.is_model = caller.functions, False
        self.body.function_tensors = caller.function_tensors
        self.body.rename_dims = caller.rename_dims
        self.body.origin_metadata = caller.origin_metadata
        self._slots: dict[str, OperandSlot] = {}  # by name of the input
        self._weights: set[str] = set()  # inputs that are weights
        self._inputs: dict[str, str] = {}  # result of the caller -> input
        self._dims: dict[SymDim, None] = {}  # symbolic sizes among the external values
        self._sizes: set[int] = set()  # indices of outputs that are a symbolic size

    # -- inputs

    def bind_inputs(self, external_index: int, label: str, value: Any) -> Any:
        """Make inputs named after ``label`` for the results in an external node's value.

        Returns the value with inputs in place of results; a result that is bound already gets its
        input again.
        """
        caller_values = self.caller.values
        leaf = -1

        def bind_leaf(item: Any) -> Any:
            nonlocal leaf
            leaf += 1
            if isinstance(item, SymDim):
                self._dims.setdefault(item)
            if not isinstance(item, str) or item not in caller_values:
                return item
            if item not in self._inputs:
                name = self._inputs[item] = self.body.unique_name(label)
                self._copy_input(name, caller_values[item])
                self._slots[name] = (external_index, leaf)
            return self._inputs[item]

        return map_leaves(value, bind_leaf)

    def _copy_input(self, name: str, info: Any) -> None:
        self.body.make_tensor_input(name, info.dtype, info.shape)
        if info.shape is None and info.rank is not None:
            self.body.set_rank(name, info.rank)
        if info.name in self.caller.numbers:
            self.body.numbers[name] = self.caller.numbers[info.name]

    def bind_dims(self) -> None:
        """Make inputs for symbolic sizes that the body cannot compute from shapes of inputs."""
        for dim in self._dims:
            if not self.body.materializer.can_compute(dim):
                name = self.body.unique_name(str(dim) if dims.is_symbol(dim) else "size")
                self.body.make_tensor_input(name, dtypes.int64, (dim,), is_dimension=True)
                self._slots[name] = dim

    def bind_weight(self, node: Node, name: str, tensor_type: tuple[int, Any]) -> str:
        """Make an input for a weight, which is an external node; return its name."""
        name = self.body.unique_name(name)
        self.body.make_tensor_input(name, *tensor_type)
        self._slots[name] = (self.region.externals.index(node), 0)
        self._weights.add(name)
        return name

    # -- outputs

    def return_values(self, values: Sequence[Any]) -> None:
        """Add outputs for the values of the returned nodes, and make their templates.

        Inputs that are returned unchanged, and sizes that the caller can compute, get no output.
        """
        body = self.body
        outputs: dict[Any, int] = {}

        def to_template(item: Any) -> Any:
            if isinstance(item, SymDim):
                if self.caller.materializer.can_compute(item):
                    return item
                return FunctionOutput(outputs.setdefault(item, len(outputs)), item)
            if not isinstance(item, str) or item not in body.values:
                return item
            if item in self._slots:
                return FunctionOperand(self._slots[item])
            return FunctionOutput(outputs.setdefault(item, len(outputs)))

        self.plan.returned = [map_leaves(value, to_template) for value in values]
        for index, item in enumerate(outputs):
            source = item
            if isinstance(item, SymDim):
                source = body.dim_as_vector(item)
                self._sizes.add(index)
            name = "output" if len(outputs) == 1 else f"output_{index}"
            if body.has_name(name):
                name = body.unique_name(name)
            body.make_node("Identity", [source], [name])
            info = body.values[name]
            body.make_tensor_output(name, info.dtype, info.shape)
            number = body.numbers.get(source)
            self.plan.outputs.append((info.dtype, info.shape, number))

    # -- the function

    def finish_plan(self, table: FunctionTable, passes: PassOptions) -> Plan:
        """Optimize the body, drop unused inputs, and add the function to ``table``.

        The inputs of the function that are weights come after the others.
        """
        body, plan = self.body, self.plan
        if passes.optimize:
            run_passes(body, passes)
            self._drop_copied_outputs()
        drop_unused_inputs(body)
        body.inputs.sort(key=lambda info: info.name in self._weights)
        plan.inputs = [self._slots[info.name] for info in body.inputs]
        if body.outputs:
            call = self.region.call
            metadata = {"module_path": call.path, "module_type": call.class_name}
            text = f"{call.class_name}, made for '{call.path}'"
            plan.name = table.add_body(
                body, function_name(call.class_name), self.domain, text, metadata
            )
        return plan

    def _drop_copied_outputs(self) -> None:
        """Drop outputs that are copies of an input: the caller uses its operand instead."""
        body, plan = self.body, self.plan
        copies = {
            node.outputs[0]: FunctionOperand(self._slots[node.inputs[0]])
            for node in body.nodes
            if node.op_type == "Identity" and not node.domain and node.inputs[0] in self._slots
        }
        replacements = {
            position: copies[info.name]
            for position, info in enumerate(body.outputs)
            if info.name in copies and position not in self._sizes
        }
        if not replacements:
            return
        remaining = [
            position for position in range(len(body.outputs)) if position not in replacements
        ]
        numbers = {position: index for index, position in enumerate(remaining)}

        def update_output(item: Any) -> Any:
            if not isinstance(item, FunctionOutput):
                return item
            return replacements.get(item.index) or FunctionOutput(numbers[item.index], item.dim)

        plan.returned = [map_leaves(value, update_output) for value in plan.returned]
        plan.outputs = [plan.outputs[position] for position in remaining]
        body.outputs[:] = [body.outputs[position] for position in remaining]
        body.remove_unused()


def make_input_label(node: Node) -> str:
    """Return a node's name without its number (``linear`` for ``linear_3``).

    Calls in which the node has other numbers share the function. A placeholder's name is unchanged.
    """
    base, _, number = node.name.rpartition("_")
    return base if base and number.isdigit() and node.op != "placeholder" else node.name
