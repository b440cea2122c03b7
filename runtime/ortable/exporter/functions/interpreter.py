"""Submodules, autocast regions and repeated subgraphs as local functions of the model, called
where torch calls them. Parts of the graph that convert to the same function are converted once.
In comes a program, out goes a filled graph with functions. Made by conversion.py in place of
DynamoInterpreter."""

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
    calls_below,
    function_name,
    map_leaves,
)
from ortable.exporter.functions.plans import FunctionRegion, Signature, value_type
from ortable.interpreter import control_flow, results
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.interpreter.modules import find_attribute
from ortable.interpreter.results import convert_argument
from ortable.ir import Graph
from ortable.ir.initializers import content_key, nbytes_of, to_numpy
from ortable.ir.local_functions import FunctionTable
from ortable_generated.aten import traits

from .plans import Plan, PlanMaker, input_label

DOMAIN = "aten_local_function"


@dataclass(frozen=True)
class Weight:
    """A tensor of the model: its path in the state_dict, and whether it is a constant of the code
    instead (``torch.tensor(...)`` in a forward)."""

    path: str
    tensor: Any
    of_code: bool = False


@dataclass
class Shared:
    """What the interpreters of one conversion share."""

    choices: FunctionChoices
    weights: dict[Node, Weight] = field(default_factory=dict)
    plans: dict[Hashable, Plan] = field(default_factory=dict)
    table: FunctionTable = field(default_factory=FunctionTable)


class _Values(dict[Node, Any]):
    """What nodes became; weights become something when they are read first."""

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
    """An interpreter that turns the calls of submodules into calls of local functions.

    The first three arguments are those of DynamoInterpreter; ``choices`` says what becomes a
    function, ``program`` where the weights are.
    """

    def __init__(
        self,
        builder: Graph,
        retriever: Any = None,
        dispatcher: Any = None,
        *,
        choices: FunctionChoices | None = None,
        program: Program | None = None,
        shared: Shared | None = None,
        **options: Any,
    ) -> None:
        super().__init__(builder, retriever, dispatcher, **options)
        self.shared = shared or Shared(choices or FunctionChoices(CallReader(True, True)))
        self.program = program
        exported = None if program is None else program.exported
        self.constants: Any = (
            () if exported is None
            else exported.graph_signature.inputs_to_lifted_tensor_constants
        )  # fmt: skip
        self.values = _Values(self)
        self.calls: Stack = ()  # the functions around this graph
        self.same_weight: dict[Node, Node] = {}  # inputs of graphs inside that are a weight
        self.maker: PlanMaker | None = None  # of the function that this graph is the body of

    # -- the whole graph

    def convert_graph(self, nodes: Sequence[Node]) -> None:
        """Convert the nodes of the whole graph: inputs and weights first, the output last."""
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
        """Convert one node; weights wait until somebody reads them."""
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
        """Convert nodes of one graph; a run of nodes of one call becomes the call of a function."""
        for call, start, end in call_runs(nodes, stacks):
            if call is None:
                self.run_node(nodes[start])
            else:
                inner = [stack[1:] for stack in stacks[start:end]]
                self.call_region(FunctionRegion.cut(call, nodes[start:end], inner, self.elidable))

    # -- graphs inside

    def call_higher_order(self, node: Node) -> Any:
        """Regions that call one graph once are converted in place, with their submodules as
        functions; repeated subgraphs are functions themselves."""
        target: Any = node.target
        name = target.name()
        call = control_flow.call_of(name)
        if call is None or (name in traits.CASTS and node.args[traits.CASTS[name]]):
            return super().call_higher_order(node)
        graph_module = self.values[node.args[call.before]]  # type: ignore[index]
        if not isinstance(graph_module, GraphModule):
            return super().call_higher_order(node)
        operands: Any = node.args[call.before + 1 + call.between :]
        self.bind(graph_module, operands[0] if call.packed else operands)
        body = [n for n in graph_module.graph.nodes if n.op not in ("placeholder", "output")]
        with self.inside(graph_module, None):
            for inner in body:
                self.values.pop(inner, None)  # the same graph may have been called before
                if inner.op == "get_attr":
                    self.run_node(inner)
            body = [inner for inner in body if inner.op != "get_attr"]
            stacks = (
                calls_below(self.shared.choices.reader.read_stacks(body), self.calls)
                if body
                else []
            )
            if name == "invoke_subgraph" and self.shared.choices.subgraphs and body:
                self.call_subgraph(node, graph_module, body, stacks)
            else:
                self.convert_nodes(body, stacks)
        return control_flow.result_of(graph_module, self.values)

    def bind(self, graph_module: GraphModule, operands: Sequence[Any]) -> None:
        """Give the placeholders of a graph inside their values; weights stay weights."""
        inputs = control_flow.graph_placeholders(graph_module)
        for place, operand in zip(inputs, operands, strict=True):
            self.values.pop(place, None)
            self.shared.weights.pop(place, None)
            if isinstance(operand, Node) and operand in self.shared.weights:
                self.shared.weights[place] = self.shared.weights[operand]
                self.same_weight[place] = operand
            else:
                self.values[place] = convert_argument(operand, self.values, self.rename)

    def call_subgraph(
        self, node: Node, graph_module: GraphModule, body: list[Node], stacks: list[Stack]
    ) -> None:
        """One call of a repeated subgraph, as a function named after its attribute."""
        held: Any = node.args[0]
        path = self.calls[-1].path if self.calls else ""
        call = ModuleCall(str(held.target), path, f"{SUBGRAPH}.{held.target}")
        region = FunctionRegion.cut(call, body, stacks, self.elidable)
        self.call_region(region)

    def child(
        self, graph: Graph, kind: type[DynamoInterpreter] | None = None, **options: Any
    ) -> DynamoInterpreter:
        """Branches and bodies of control flow are converted without functions of their own."""
        return super().child(graph, kind or DynamoInterpreter, **options)

    # -- weights

    def make_weight(self, node: Node, weight: Weight) -> Any:
        """A weight where it is read first: an input of the function, or a constant."""
        if node in self.same_weight:
            return self.values[self.same_weight[node]]
        if self.maker is None or self.holds(weight, self.calls[-1].kind):
            return self.make_initializer(weight.path, weight.tensor)
        name = weight.path.removeprefix(f"{self.calls[-1].path}.")
        return self.maker.bind_weight(node, name, results.tensor_type(weight.tensor, None))

    def holds(self, weight: Weight, kind: str) -> bool:
        """Whether the function of a class holds ``weight`` as a constant."""
        limit = self.shared.choices.largest_constant
        if weight.of_code or weight.tensor.is_complex():
            return True
        if limit is not None and nbytes_of(weight.tensor) >= limit:
            return False
        return not self.shared.choices.takes_weights(kind)

    # -- functions

    def call_region(self, region: FunctionRegion) -> None:
        """The call of the function of a region, which is made unless an equal one was."""
        if not region.returned:
            return
        order: dict[str, int] = {}
        known: dict[Any, Hashable] = {}

        def external(node: Node, stack: Stack) -> Hashable:
            weight = self.shared.weights.get(node)
            if weight is not None:
                around = (region.call, *stack)
                held = any(self.holds(weight, call.kind) for call in around)
                return _weight_key(weight, held)
            if node not in known:
                known[node] = value_type(self.graph, self.values[node], order)
            return known[node]

        key = Signature(region, external).key()
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
        for place, node in enumerate(region.externals):
            if node not in self.shared.weights:
                inner.values[node] = maker.bind(place, input_label(node), self.values[node])
        maker.bind_dims()
        inner.convert_nodes(region.nodes, region.stacks)
        maker.body.origin = None
        values = [inner.values[node] for node in region.returned]
        maker.return_values(values)
        return maker.finish(self.shared.table, self.shared.choices.passes)

    def emit_call(self, region: FunctionRegion, plan: Plan) -> None:
        """A node that calls the function, and what the returned nodes of the region became."""
        label, count = self.label(region.call), len(plan.outputs)
        labels = [label] if count == 1 else [f"{label}_{index}" for index in range(count)]
        names = [self.graph.unique_name(name) for name in labels]
        operand = partial(self.operand, region)
        if plan.name:
            self.graph.origin = {"module_path": region.call.path, "module_type": region.call.kind}
        returned = plan.call(self.graph, DOMAIN, operand, names, name=label)
        for node, value in zip(region.returned, returned, strict=True):
            self.values[node] = self.note_complex(value)

    def label(self, call: ModuleCall) -> str:
        """Name of the results of a call: the path of the module inside the one around it."""
        around = self.calls[-1].path if self.calls else ""
        path = call.path.removeprefix(around).removeprefix(".")
        return path.replace(".", "_") or function_name(call.kind)

    def operand(self, region: FunctionRegion, slot: Any) -> str:
        """The result to pass for an input of a function."""
        if isinstance(slot, dims.SymDim):
            return str(self.graph.dim_as_vector(slot))
        place, leaf = slot
        leaves: list[Any] = []
        map_leaves(self.values[region.externals[place]], leaves.append)
        return str(leaves[leaf])


def _weight_key(weight: Weight, held: bool) -> Hashable:
    tensor = weight.tensor
    if not held:
        return "weight", tensor.dtype, tuple(tensor.shape)
    if weight.of_code and tensor.numel() <= 64 and tensor.device.type == "cpu":
        return "constant", content_key(to_numpy(tensor))
    return "weight", id(tensor)
