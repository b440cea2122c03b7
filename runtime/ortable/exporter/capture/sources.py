"""The program of whatever to_onnx is given. Modules go through torch.export; exported programs
and graphs of ATen operators are taken as they are. In comes the request, out goes a `Program`.
Called by to_onnx.py."""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from ortable.compat.torch import HigherOrderOperator, OpOverload
from ortable.errors import ExportError
from ortable.exporter.request.program import Program, ProgramOutput, Request
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.exporter.signature.dimension_names import name_dimensions
from ortable.interpreter import results
from ortable.interpreter.modules import find_attribute, is_guard
from ortable.interpreter.mutation import first_write
from ortable.interpreter.outputs import flatten_output
from ortable.interpreter.tables import ConverterTables

from .exported import program_of
from .layouts import check_not_nested
from .small_sizes import prove_small_sizes
from .strategies import module_program


def make_program(request: Request) -> Program:
    """The program of an nn.Module, an ExportedProgram or a GraphModule.

    Raises:
        ExportError: not one of these, or torch cannot export it, or the dynamic shapes do not fit.
    """
    mod = request.model
    if isinstance(mod, ExportedProgram):
        program = program_of(mod, request)
        prove_small_sizes(program, request, None)
        return program
    if isinstance(mod, GraphModule):
        reason = why_export(mod, request.tables)
        if reason is None:
            return _from_graph(request)
        if request.args or request.kwargs:
            return _from_module(request, [f"exported again by torch.export, because {reason}"])
        if first_write(mod, request.tables) is not None:
            raise ExportError(
                f"this GraphModule cannot be converted as it is, because {reason}. "
                "Give example inputs (args): torch.export then functionalises it."
            )
        return _from_graph(request)
    if isinstance(mod, torch.nn.Module):
        return _from_module(request, [])
    hint = "wrap a function in a module whose forward calls it"
    if isinstance(mod, type):
        hint = f"{mod.__name__} is a class: give a module that you made of it"
    raise ExportError(
        "to_onnx takes a torch.nn.Module, a torch.export.ExportedProgram or a "
        f"torch.fx.GraphModule, not {type(mod).__name__}; {hint}"
    )


def why_export(graph_module: GraphModule, tables: ConverterTables) -> str | None:
    """Why a GraphModule should go through torch.export: it holds torch functions or modules,
    writes, or has no metadata."""
    for node in graph_module.graph.nodes:
        if node.op == "call_method":
            return f"node '{node.name}' calls the method '{node.target}'"
        if node.op == "call_module" and not is_guard(
            find_attribute(graph_module, node.target, None)
        ):
            return f"node '{node.name}' calls the module '{node.target}'"
        if node.op == "call_function":
            target = node.target
            aten = isinstance(target, (OpOverload, HigherOrderOperator))
            if (
                not aten
                and results.is_tensor_like(results.node_value(node))
                and target.__name__ != "getitem"
            ):
                return f"node '{node.name}' calls {target.__name__}, which is not an ATen operator"
            if results.node_value(node) is results.UNKNOWN and node.users:
                return f"node '{node.name}' has no metadata"
        if node.op == "placeholder" and node.users and results.node_value(node) is results.UNKNOWN:
            return f"input '{node.name}' has no metadata"
    found = first_write(graph_module, tables)
    return None if found is None else f"node '{found[0].name}' writes to its argument, {found[1]}"


def _from_module(request: Request, notes: list[str]) -> Program:
    program = module_program(request)
    program.notes[:0] = notes
    return program


def _from_graph(request: Request) -> Program:
    graph_module, dynamic_shapes = request.model, request.dynamic_shapes
    args, kwargs = request.args, request.kwargs
    nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    for node in nodes:
        check_not_nested(f"input '{node.name}' of the graph", results.node_value(node))
    output = graph_module.graph.output_node()
    program = Program(graph_module, user_inputs=nodes)
    for leaf in flatten_output(output.args[0]):
        value = results.node_value(leaf) if isinstance(leaf, Node) else leaf
        label = f"output_{len(program.outputs)}"
        program.outputs.append(ProgramOutput("user", is_none=value is None, label=label))
    arguments = (
        shapes.bound_arguments(graph_module, args, kwargs)
        if dynamic_shapes is not None and args
        else None
    )
    asked = shapes.call_leaves(dynamic_shapes, arguments, {}) if arguments is not None else None
    name_dimensions(program, asked)
    return program
