"""Convert submodules, autocast regions and repeated subgraphs to local functions of the model.

Parts of the graph that convert to the same function are converted once. conversion.py uses this
interpreter in place of DynamoInterpreter if parts are to become functions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable import dims
from ortable.exporter.frontend.export_request import Program
from ortable.exporter.frontend.module_calls import (
    SUBGRAPH,
    CallReader,
    FunctionChoices,
    ModuleCall,
    Stack,
    call_runs,
    calls_inside,
    function_name,
    map_leaves,
)
from ortable.exporter.functions.plans import FunctionRegion, RegionSignature, value_type_key
from ortable.interpreter import control_flow, results
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.results import convert_argument
from ortable.ir import Graph
from ortable.ir.initializers import content_key, nbytes_of, to_numpy
from ortable.ir.local_functions import FunctionTable
from ortable_generated.aten import traits

from .plans import Plan, PlanMaker, make_input_label

DOMAIN = "aten_local_function"


@dataclass(frozen=True)
class Weight:
    """A tensor of the model with its path in the state_dict.

    ``is_code_constant``: it is a constant that the code of forward makes, ``torch.tensor(...)``.
    """

    path: str
    tensor: Any
    is_code_constant: bool = False


@dataclass
class SharedState:
    """State that the interpreters of one conversion share."""

    choices: FunctionChoices
    weights: dict[Node, Weight] = field(default_factory=dict)
    plans: dict[Hashable, Plan] = field(default_factory=dict)
    table: FunctionTable = field(default_factory=FunctionTable)


class _Values(dict[Node, Any]):
    """Values of nodes; a weight is converted when it is first read."""

    def __init__(self, interpreter: FunctionInterpreter) -> None:
        super().__init__()
        self.interpreter = interpreter

    def __missing__(self, node: Node) -> Any:
        weight = self.interpreter.shared.weights.get(node)
        if weight is None:
            raise KeyError(node)
        value = self[node] = self.interpreter.make_weight(node, weight)
        return value


class FunctionInterpreter(DynamoInterpreter):
    """An interpreter that converts calls of submodules to calls of local functions.

    The first three arguments are those of DynamoInterpreter. ``choices`` selects the parts that
    become functions, and ``program`` has the weights. The interpreter of a function's body gets
    ``shared`` instead, the state of its caller.
    """

    def __init__(
        self,
        builder: Graph,
        retriever: Any = None,
        dispatcher: Any = None,
        *,
        choices: FunctionChoices | None = None,
        program: Program | None = None,
        shared: SharedState | None = None,
        **options: Any,
    ) -> None:
        super().__init__(builder, retriever, dispatcher, **options)
        self.shared = shared or SharedState(choices or FunctionChoices(CallReader(True, True)))
        self.program = program
        exported = None if program is None else program.exported
        self.constants: Any = (
            () if exported is None
            else exported.graph_signature.inputs_to_lifted_tensor_constants
        )  # fmt: skip
        self.values = _Values(self)
        self.calls: Stack = ()  # the functions that enclose this graph
        self.weight_by_input: dict[Node, Node] = {}  # inputs of inner graphs that are weights
        self.maker: PlanMaker | None = None  # builds the function whose body is this graph

    # -- the whole graph

    def convert_graph(self, nodes: Sequence[Node]) -> None:
        """Convert the nodes of the main graph: inputs and weights first, the output last."""
        body = [node for node in nodes if node.op not in ("placeholder", "get_attr", "output")]
        stacks = self.shared.choices.reader.read_stacks(body)
        self.shared.choices.reader.check_classes()
        for node in nodes:
            if node.op in ("placeholder", "get_attr"):
                self.run_node(node)
        self.convert_nodes(body, stacks)
        self.run_node(nodes[-1])
        for function in list(self.graph.functions.values()):
            for imported in function.opset_import:
                self.graph.opsets.setdefault(imported.domain, imported.version)

    def run_node(self, node: Node) -> Any:
        """Convert one node; a weight is only recorded, since its first read converts it."""
        if node.op == "placeholder" and self.program is not None:
            tensor = self.program.get_weight(node)
            if tensor is not None:
                path = self.program.paths[node.name]
                self.shared.weights[node] = Weight(path, tensor, node.name in self.constants)
                return None
        elif node.op == "get_attr":
            tensor = find_attribute(self.owner, str(node.target), None)
            if isinstance(tensor, torch.Tensor):
                self.shared.weights[node] = Weight(str(node.target), tensor)
                return None
        return super().run_node(node)

    def convert_nodes(self, nodes: Sequence[Node], stacks: Sequence[Stack]) -> None:
        """Convert nodes of one graph; consecutive nodes of one call become a function call."""
        for call, start, end in call_runs(nodes, stacks):
            if call is None:
                self.run_node(nodes[start])
            else:
                inner = [stack[1:] for stack in stacks[start:end]]
                self.call_region(
                    FunctionRegion.from_nodes(call, nodes[start:end], inner, self.elidable)
                )

    # -- inner graphs

    def call_higher_order(self, node: Node) -> Any:
        """Convert a call of an operator on graphs, such as ``torch.cond``.

        A graph that the operator calls once (activation checkpoints) is converted in place, with
        its submodules as functions; a ``nested_compile_region`` becomes a function, if requested.
        The base class converts other operators.
        """
        target: Any = node.target
        name = target.name()
        call = control_flow.find_call_layout(name)
        if call is None or (name in traits.CASTS and node.args[traits.CASTS[name]]):
            return super().call_higher_order(node)
        graph_module = self.values[node.args[call.before]]  # type: ignore[index]
        if not isinstance(graph_module, GraphModule):
            return super().call_higher_order(node)
        operands: Any = node.args[call.before + 1 + call.between :]
        self.bind_inputs(graph_module, operands[0] if call.packed else operands)
        body = [n for n in graph_module.graph.nodes if n.op not in ("placeholder", "output")]
        with self.inside(graph_module, None):
            for inner in body:
                self.values.pop(inner, None)  # an earlier call of the same graph sets it
                if inner.op == "get_attr":
                    self.run_node(inner)
            body = [inner for inner in body if inner.op != "get_attr"]
            stacks = (
                calls_inside(self.shared.choices.reader.read_stacks(body), self.calls)
                if body
                else []
            )
            if name == "invoke_subgraph" and self.shared.choices.subgraphs and body:
                self.call_subgraph(node, graph_module, body, stacks)
            else:
                self.convert_nodes(body, stacks)
        return control_flow.inlined_result(graph_module, self.values)

    def bind_inputs(self, graph_module: GraphModule, operands: Sequence[Any]) -> None:
        """Assign values to the placeholders of an inner graph; weights remain weights."""
        inputs = control_flow.graph_placeholders(graph_module)
        for placeholder, operand in zip(inputs, operands, strict=True):
            self.values.pop(placeholder, None)
            self.shared.weights.pop(placeholder, None)
            if isinstance(operand, Node) and operand in self.shared.weights:
                self.shared.weights[placeholder] = self.shared.weights[operand]
                self.weight_by_input[placeholder] = operand
            else:
                self.values[placeholder] = convert_argument(operand, self.values, self.rename)

    def call_subgraph(
        self, node: Node, graph_module: GraphModule, body: list[Node], stacks: list[Stack]
    ) -> None:
        """Call a ``nested_compile_region`` as a function named after the graph's attribute."""
        attribute: Any = node.args[0]
        path = self.calls[-1].path if self.calls else ""
        call = ModuleCall(str(attribute.target), path, f"{SUBGRAPH}.{attribute.target}")
        region = FunctionRegion.from_nodes(call, body, stacks, self.elidable)
        self.call_region(region)

    def child(
        self, graph: Graph, kind: type[DynamoInterpreter] | None = None, **options: Any
    ) -> DynamoInterpreter:
        """Return an interpreter for an inner graph; by default it makes no functions."""
        return super().child(graph, kind or DynamoInterpreter, **options)

    # -- weights

    def make_weight(self, node: Node, weight: Weight) -> Any:
        """Convert a weight to an input of the current function, or to an initializer."""
        if node in self.weight_by_input:
            return self.values[self.weight_by_input[node]]
        if self.maker is None or self.holds_constant(weight, self.calls[-1].class_name):
            return self.make_initializer(weight.path, weight.tensor)
        name = weight.path.removeprefix(f"{self.calls[-1].path}.")
        return self.maker.bind_weight(node, name, results.tensor_type(weight.tensor, None))

    def holds_constant(self, weight: Weight, kind: str) -> bool:
        """Whether functions of the class named ``kind`` store ``weight`` as a constant."""
        limit = self.shared.choices.largest_constant
        if weight.is_code_constant or weight.tensor.is_complex():
            return True
        if limit is not None and nbytes_of(weight.tensor) >= limit:
            return False
        return not self.shared.choices.takes_weights(kind)

    # -- functions

    def call_region(self, region: FunctionRegion) -> None:
        """Call the function of a region; make it unless an equal function exists."""
        if not region.returned:
            return
        numbers: dict[str, int] = {}
        type_by_node: dict[Any, Hashable] = {}

        def external_key(node: Node, stack: Stack) -> Hashable:
            weight = self.shared.weights.get(node)
            if weight is not None:
                enclosing_calls = (region.call, *stack)
                as_constant = any(
                    self.holds_constant(weight, call.class_name) for call in enclosing_calls
                )
                return _weight_key(weight, as_constant)
            if node not in type_by_node:
                type_by_node[node] = value_type_key(self.graph, self.values[node], numbers)
            return type_by_node[node]

        key = RegionSignature(region, external_key).key()
        plan = self.shared.plans.get(key)
        if plan is None:
            plan = self.shared.plans[key] = self.make_plan(region)
        self.emit_call(region, plan)

    def make_plan(self, region: FunctionRegion) -> Plan:
        """Convert the nodes of a region into a function."""
        maker = PlanMaker(self.graph, region, DOMAIN)
        inner = self.child(maker.body, FunctionInterpreter, shared=self.shared)
        assert isinstance(inner, FunctionInterpreter)
        inner.elidable = self.elidable
        inner.graph_module, inner.module = self.graph_module, self.module
        inner.calls, inner.maker = (*self.calls, region.call), maker
        inner.answer(maker.body)
        maker.body.debug_sections.extend(self.graph.debug_sections)
        for index, node in enumerate(region.externals):
            if node not in self.shared.weights:
                inner.values[node] = maker.bind_inputs(
                    index, make_input_label(node), self.values[node]
                )
        maker.bind_dims()
        inner.convert_nodes(region.nodes, region.stacks)
        maker.body.origin = None
        values = [inner.values[node] for node in region.returned]
        maker.return_values(values)
        return maker.finish_plan(self.shared.table, self.shared.choices.passes)

    def emit_call(self, region: FunctionRegion, plan: Plan) -> None:
        """Add a node that calls the function of ``plan``; set the values of the returned nodes."""
        label, count = self.call_label(region.call), len(plan.outputs)
        labels = [label] if count == 1 else [f"{label}_{index}" for index in range(count)]
        names = [self.graph.unique_name(name) for name in labels]
        operand = partial(self.get_operand, region)
        if plan.name:
            self.graph.origin = {
                "module_path": region.call.path,
                "module_type": region.call.class_name,
            }
        returned = plan.call(self.graph, DOMAIN, operand, names, name=label)
        for node, value in zip(region.returned, returned, strict=True):
            self.values[node] = self.note_complex(value)

    def call_label(self, call: ModuleCall) -> str:
        """Return the name for a call and its results: the path inside the enclosing module."""
        outer_path = self.calls[-1].path if self.calls else ""
        path = call.path.removeprefix(outer_path).removeprefix(".")
        return path.replace(".", "_") or function_name(call.class_name)

    def get_operand(self, region: FunctionRegion, slot: Any) -> str:
        """Return the caller's value for ``slot``, the `OperandSlot` of an input of a function."""
        if isinstance(slot, dims.SymDim):
            return str(self.graph.dim_as_vector(slot))
        external_index, leaf_index = slot
        leaves: list[Any] = []
        map_leaves(self.values[region.externals[external_index]], leaves.append)
        return str(leaves[leaf_index])


def _weight_key(weight: Weight, as_constant: bool) -> Hashable:
    """Return the key of a weight that a region reads.

    It is the type of an input, the content of a small constant of the code, or the identity of
    another constant.
    """
    tensor = weight.tensor
    if not as_constant:
        return "weight", tensor.dtype, tuple(tensor.shape)
    if weight.is_code_constant and tensor.numel() <= 64 and tensor.device.type == "cpu":
        return "constant", content_key(to_numpy(tensor))
    return "weight", id(tensor)
