"""Convert operators of ``torch.library`` without a converter to local functions of their domain.

The Python body is traced on the fake tensors of the call and converted like any graph. arguments.py
creates `FunctionBodies` for the option "custom_ops"; the interpreter calls it as a dispatcher.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable.compat.torch import custom_op_kernel, is_composite, is_custom, make_fx, pytree
from ortable.errors import UnsupportedCase
from ortable.exporter.capture.exported_program import get_requested_dims
from ortable.exporter.capture.functionalize import find_decompositions, get_composite_body
from ortable.exporter.capture.guards import find_later_guards, report_guards
from ortable.exporter.frontend.export_request import Program, Request
from ortable.exporter.frontend.module_calls import ModuleCall, map_leaves
from ortable.exporter.functions.plans import FunctionRegion, fx_type_key, value_type_key
from ortable.interpreter import control_flow, results
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.interpreter.mutation import first_write
from ortable.interpreter.outputs import flatten_output
from ortable.interpreter.tables import ConverterTables
from ortable.ir.local_functions import FunctionTable
from ortable.passes.pipeline import PassOptions

from .plans import FunctionOutput, Plan, PlanMaker

_BUILT_IN_NAMESPACES = frozenset({"aten", "prim", "prims", "profiler", "inductor"})


class FunctionBodies:
    """A dispatcher that wraps the user's, and converts operators that have a Python body.

    ``dispatcher`` is the user's or None. ``passes`` optimize the bodies. With ``inline`` the bodies
    are converted in place, without functions.
    """

    def __init__(
        self,
        dispatcher: Any,
        tables: ConverterTables,
        passes: PassOptions,
        inline: bool = False,
    ) -> None:
        self.dispatcher = dispatcher
        self.tables = tables
        self.inline = inline
        self.passes = passes
        self.functions = FunctionTable()
        self.plans: dict[Hashable, Plan] = {}

    def find(self, name: str, target: Any, native: Any) -> Any:
        """Return the user's converter, ``native``, or one that calls a local function; or None."""
        converter = (
            native if self.dispatcher is None else self.dispatcher.find(name, target, native)
        )
        if converter is not None:
            return converter
        body = python_body(target)
        return None if body is None else functools.partial(self.convert, target, body)

    def convert(
        self, target: Any, body: Callable[..., Any], graph: Any, res: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Convert a call of ``target`` to a call of its local function.

        Arguments of the same types and shapes share a function, which the first call makes. Raises
        UnsupportedCase for a body that torch cannot trace.
        """
        node = graph.origin
        leaves, _ = pytree.tree_flatten((list(args), kwargs))
        single = not isinstance(results.node_value(node), (list, tuple))
        if self.inline:
            inlined = graph.ctx.convert_into(graph, self.trace_body(target, body, node), leaves)
            return inlined[0] if single else inlined
        numbers: dict[str, int] = {}
        types = tuple(value_type_key(graph, leaf, numbers) for leaf in leaves)
        key = (target, tuple(kwargs), types, fx_type_key(results.node_value(node)), graph.target)
        plan = self.plans.get(key)
        if plan is None:
            conditions = _count_conditions(node)
            plan = self.make_plan(target, body, graph, node, leaves)
            # a body that evaluated conditions on these sizes may differ for other sizes
            if conditions == _count_conditions(node):
                self.plans[key] = plan
        domain = target.name().partition("::")[0]

        def get_operand(slot: Any) -> str:
            if not isinstance(slot, tuple):
                return str(graph.dim_as_vector(slot))
            parts: list[Any] = []
            map_leaves(leaves[slot[0]], parts.append)
            return str(parts[slot[1]])

        names = self._output_names(plan, res, graph)
        returned = plan.call(graph, domain, get_operand, names)
        for imported in graph.functions[domain, plan.name].opset_import if plan.name else ():
            graph.opsets.setdefault(imported.domain, imported.version)
        return returned[0] if single else returned

    def _output_names(self, plan: Plan, res: Any, graph: Any) -> list[str]:
        """Return the names of the function's outputs: those of ``res`` for results of the call."""
        names = [""] * len(plan.outputs)
        for template, name in zip(plan.returned, res.outputs, strict=False):
            if isinstance(template, FunctionOutput) and template.dim is None:
                names[template.index] = names[template.index] or name
        return [name or graph.unique_name(f"{plan.name}_{i}") for i, name in enumerate(names)]

    def make_plan(
        self, target: Any, body: Callable[..., Any], graph: Any, node: Node, leaves: Sequence[Any]
    ) -> Plan:
        """Trace the body and convert it into a function."""
        graph_module = self.trace_body(target, body, node)
        inputs = control_flow.graph_placeholders(graph_module)
        nodes = [n for n in graph_module.graph.nodes if n.op not in ("placeholder", "output")]
        domain, _, name = target.name().partition("::")
        call = ModuleCall(target.name(), target.name(), name.replace(".", "_"))
        maker = PlanMaker(graph, FunctionRegion(call, nodes, [()] * len(nodes), inputs), domain)
        inner = DynamoInterpreter(maker.body, dispatcher=self, tables=self.tables)
        inner.rename = graph.rename_dims or None
        inner.enter(graph_module)
        inner.check(graph_module)
        labels = _argument_labels(target, node)
        for index, (source, leaf) in enumerate(zip(inputs, leaves, strict=True)):
            inner.values[source] = maker.bind_inputs(index, labels[index], leaf)
        maker.bind_dims()
        for inner_node in nodes:
            inner.run_node(inner_node)
        maker.body.origin = None
        output = graph_module.graph.output_node()
        maker.return_values([inner.values.get(n, n) for n in flatten_output(output.args[0])])
        return maker.finish_plan(self.functions, self.passes)

    def trace_body(self, target: Any, body: Callable[..., Any], node: Node) -> GraphModule:
        """Trace the body on the fake arguments of ``node``, with in-place writes functionalized.

        The inputs of the graph are the leaves of the arguments. Raises UnsupportedCase if torch
        cannot trace the body, or the body calls the operator.
        """
        values = pytree.tree_map_only(Node, results.node_value, (list(node.args), node.kwargs))
        leaves, spec = pytree.tree_flatten(values)

        def call_body(*operands: Any) -> Any:
            args, kwargs = pytree.tree_unflatten(operands, spec)
            return body(*args, **kwargs)

        known_bodies: Any = {target: get_composite_body(target)} if body is target else {}
        try:
            traced = make_fx(call_body, known_bodies, pre_dispatch=not known_bodies)(*leaves)
            if first_write(traced, self.tables) is not None:
                call_body = torch.func.functionalize(call_body)
                traced = make_fx(call_body, known_bodies)(*leaves)
            table: Any = find_decompositions(traced, self.tables, self)
            traced = make_fx(call_body, {**known_bodies, **table})(*leaves) if table else traced
        except Exception as error:  # the body is any Python code
            first_line = str(error).strip().partition("\n")[0]
            raise UnsupportedCase(
                f"the Python body of {target.name()} cannot be traced by torch "
                f"({type(error).__name__}: {first_line}); give a converter with `dispatcher`"
            ) from error
        if any(traced_node.target is target for traced_node in traced.graph.nodes):
            raise UnsupportedCase(f"the body of {target.name()} calls the operator itself")
        return traced


def _argument_labels(target: Any, node: Node) -> list[str]:
    """Return for each leaf of the arguments of ``node`` the name of the argument in the schema."""
    names = [argument.name for argument in target._schema.arguments]
    arguments = [*zip(names, node.args, strict=False), *node.kwargs.items()]
    return [name for name, value in arguments for _ in pytree.tree_leaves(value)]


def add_body_guards(program: Program, request: Request, before: int) -> None:
    """Add the conditions on sizes that bodies evaluated to the program's guards, and report them.

    The bodies were traced after torch.export, which recorded the first ``before`` conditions.
    Raises ExportError if ``ExportOptions.guards`` is ``"error"``.
    """
    exported = program.exported
    if exported is None or not isinstance(request.dispatcher, FunctionBodies):
        return
    added = find_later_guards(exported, get_requested_dims(program, exported, request), before)
    program.guards += added
    report_guards(added, request.options.guards)


def _count_conditions(node: Node) -> int:
    """Count the conditions in the shape environment of the arguments; 0 if all sizes are static."""
    for value in map(results.node_value, node.all_input_nodes):
        for leaf in pytree.tree_leaves(value):
            for size in getattr(leaf, "shape", (leaf,)):
                if isinstance(size, torch.SymInt):
                    return len(size.node.shape_env.guards)
    return 0


def python_body(target: Any) -> Callable[..., Any] | None:
    """Return the Python function that computes an operator of ``torch.library``, or None.

    This is the function that ``custom_op`` decorates, or the operator itself if it is composite
    (CompositeImplicitAutograd). The result is None for others, for operators of torch, and for
    operators that write to an argument.
    """
    name = target.name()
    if name.partition("::")[0] in _BUILT_IN_NAMESPACES or target._schema.is_mutable:
        return None
    if is_custom(name):
        return custom_op_kernel(name)
    return target if is_composite(target) else None
