"""One view of everything that to_onnx takes: a graph to convert, where its weights are, and what
its inputs and outputs mean. Modules go through torch.export; exported programs and graphs of ATen
operators are taken as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node

from ..errors import ExportError
from ..interpreter import results
from ..interpreter.modules import is_guard
from ..interpreter.mutation import find_attribute, first_write
from ..interpreter.outputs import flatten_output
from ..interpreter.tables import Tables
from . import dynamic_shapes as shapes
from .functionalize import prepared
from .options import ExportOptions

OutputKindName = Literal["user", "buffer", "input"]


@dataclass(frozen=True)
class ProgramOutput:
    """One entry of the flattened FX output: a result of the user's forward, or the new value of a
    buffer or of an input."""

    kind: OutputKindName
    target: str = ""
    is_none: bool = False


@dataclass
class Program:
    """A graph ready to be converted.

    ``weights``: placeholder name -> tensor; ``paths``: placeholder name -> name in the state_dict;
    ``user_inputs``: the placeholders that are inputs of the user's forward; ``notes``: what was
    done to get here.
    """

    graph_module: GraphModule
    weights: dict[str, Any] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    user_inputs: list[Node] = field(default_factory=list)
    outputs: list[ProgramOutput] = field(default_factory=list)
    symbol_names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    exported: ExportedProgram | None = None

    def retrieve(self, node: Node) -> Any:
        """The weight that a placeholder stands for, None when it is an input."""
        return self.weights.get(node.name)

    def onnx_inputs(self) -> list[Node]:
        """The user's inputs that become ONNX inputs: tensors and symbolic integers, not numbers,
        strings or None."""
        constants = (bool, int, float, str, type(None))
        return [
            node for node in self.user_inputs if not isinstance(results.node_value(node), constants)
        ]


def make_program(
    mod: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    options: ExportOptions,
    tables: Tables,
    dispatcher: Any,
) -> Program:
    """The program of an nn.Module, an ExportedProgram or a GraphModule.

    Raises:
        ExportError: not one of these, or torch cannot export it, or the dynamic shapes do not fit.
    """
    if isinstance(mod, ExportedProgram):
        return _from_exported(mod, args, kwargs, dynamic_shapes, options, tables, dispatcher, [])
    if isinstance(mod, GraphModule):
        reason = why_export(mod, tables)
        if reason is None:
            return _from_graph(mod, dynamic_shapes, args, kwargs)
        if args or kwargs:
            note = f"exported again by torch.export, because {reason}"
            return _from_module(
                mod, args, kwargs, dynamic_shapes, options, tables, dispatcher, [note]
            )
        if first_write(mod, tables) is not None:
            raise ExportError(
                f"this GraphModule cannot be converted as it is, because {reason}. "
                "Give example inputs (args): torch.export then functionalises it."
            )
        return _from_graph(mod, dynamic_shapes, args, kwargs)
    if isinstance(mod, torch.nn.Module):
        return _from_module(mod, args, kwargs, dynamic_shapes, options, tables, dispatcher, [])
    raise ExportError(
        "to_onnx takes a torch.nn.Module, a torch.export.ExportedProgram or a "
        "torch.fx.GraphModule, "
        f"not {type(mod).__name__}; wrap a function in a module whose forward calls it"
    )


def why_export(graph_module: GraphModule, tables: Tables) -> str | None:
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
            aten = isinstance(target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator))
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


def _from_module(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    options: ExportOptions,
    tables: Tables,
    dispatcher: Any,
    notes: list[str],
) -> Program:
    exported, normalized, tried = export_module(mod, args, kwargs, dynamic_shapes, options)
    notes = [*notes, *tried]
    return _from_exported(exported, args, kwargs, normalized, options, tables, dispatcher, notes)


def export_module(
    mod: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    options: ExportOptions,
) -> tuple[ExportedProgram, Any, list[str]]:
    """``torch.export.export`` with our errors; also returns the dynamic shapes as torch took them,
    and in words what else was tried.

    Raises ExportError, with the input and the dimension when a dynamic shape does not fit.
    """
    arguments = shapes.bound_arguments(mod, args, kwargs)
    normalized = shapes.normalized(dynamic_shapes, arguments)
    failures: list[Exception] = []
    for strict in (options.strict, not options.strict) if options.fallback else (options.strict,):
        try:
            program = torch.export.export(
                mod, args, kwargs, dynamic_shapes=normalized, strict=strict
            )
        except Exception as error:  # forward is any Python code, torch.export raises many types
            failures.append(error)
            continue
        tried = [
            f"exported with strict={strict}, because strict={not strict} failed: {_headline(error)}"
            for error in failures
        ]
        return program, normalized, tried
    raise _export_failure(mod, failures[0], arguments, normalized) from failures[0]


def _headline(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _export_failure(
    mod: Any, error: Exception, arguments: Mapping[str, Any], dynamic_shapes: Any
) -> ExportError:
    found = shapes.explained(error, arguments, dynamic_shapes)
    if found is not None:
        return found
    text = (
        str(error)
        .partition("\nThe error above occurred when calling torch.export.export")[0]
        .strip()
    )
    return ExportError(
        f"torch.export could not trace {type(mod).__name__}: {type(error).__name__}: {text}\n"
        "Try ExportOptions(strict=True), or make the code independent of the values of tensors."
    )


def _from_exported(
    exported: ExportedProgram,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_shapes: Any,
    options: ExportOptions,
    tables: Tables,
    dispatcher: Any,
    notes: list[str],
) -> Program:
    rewritten, done = prepared(exported, tables, dispatcher, options)
    signature = rewritten.graph_signature
    nodes = {node.name: node for node in rewritten.graph.nodes if node.op == "placeholder"}
    program = Program(rewritten.graph_module, notes=[*notes, *done], exported=rewritten)
    for spec in signature.input_specs:
        name = getattr(spec.arg, "name", "")
        if spec.kind == InputKind.USER_INPUT:
            program.user_inputs.append(nodes[name])
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
            _add_weight(program, rewritten, spec, name)
        elif nodes[name].users:
            raise ExportError(
                f"input '{name}' of the program is a {spec.kind.name}, which ONNX cannot hold"
            )
    program.outputs = [_program_output(spec) for spec in signature.output_specs]
    program.symbol_names = _symbol_names(program, exported, args, kwargs, dynamic_shapes)
    return program


def _add_weight(program: Program, exported: ExportedProgram, spec: Any, name: str) -> None:
    tensor = exported.state_dict.get(spec.target)
    if tensor is None:
        tensor = exported.constants.get(spec.target)
    if tensor is None:
        raise ExportError(f"the program has no tensor for '{spec.target}' ({spec.kind.name})")
    program.paths[name] = spec.target
    if is_fake(tensor):
        program.notes.append(
            f"'{spec.target}' has no data (fake tensor): it is an input of the model"
        )
        return
    program.weights[name] = tensor


def is_fake(tensor: Any) -> bool:
    """True for a tensor without data."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(tensor, FakeTensor) or getattr(tensor, "is_meta", False)


def _program_output(spec: Any) -> ProgramOutput:
    is_none = getattr(spec.arg, "value", 0) is None
    if spec.kind == OutputKind.BUFFER_MUTATION:
        return ProgramOutput("buffer", spec.target)
    if spec.kind == OutputKind.USER_INPUT_MUTATION:
        return ProgramOutput("input", spec.target)
    if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
        return ProgramOutput("user", is_none=is_none)
    raise ExportError(
        f"output '{spec.arg}' of the program is a {spec.kind.name}, which to_onnx cannot return"
    )


def _symbol_names(
    program: Program,
    exported: ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic_shapes: Any,
) -> dict[str, str]:
    arguments = None
    if dynamic_shapes is not None:
        if not args and not kwargs and exported.example_inputs:
            args, kwargs = exported.example_inputs
        arguments = (
            shapes.bound_arguments(_Forward(exported), args, kwargs) if (args or kwargs) else None
        )
        if arguments is not None:
            dynamic_shapes = shapes.normalized(dynamic_shapes, arguments)
    return shapes.dimension_names(program.user_inputs, arguments, dynamic_shapes)


class _Forward:
    """The signature of an exported program's forward, for binding arguments to names."""

    def __init__(self, exported: ExportedProgram) -> None:
        import inspect

        signature = exported.module_call_graph[0].signature
        names = list(getattr(signature, "forward_arg_names", None) or [])
        kinds = [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
            for name in names
        ]
        self.forward = _signed(inspect.Signature(kinds))


def _signed(signature: Any) -> Any:
    def forward(*args: Any, **kwargs: Any) -> None:
        """Carries a signature."""

    forward.__signature__ = signature  # type: ignore[attr-defined]
    return forward


def _from_graph(
    graph_module: GraphModule, dynamic_shapes: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Program:
    nodes = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    output = next(node for node in graph_module.graph.nodes if node.op == "output")
    program = Program(graph_module, user_inputs=nodes)
    for leaf in flatten_output(output.args[0]):
        value = results.node_value(leaf) if isinstance(leaf, Node) else leaf
        program.outputs.append(ProgramOutput("user", is_none=value is None))
    arguments = (
        shapes.bound_arguments(graph_module, args, kwargs)
        if dynamic_shapes is not None and args
        else None
    )
    normalized = shapes.normalized(dynamic_shapes, arguments) if arguments is not None else None
    program.symbol_names = shapes.dimension_names(nodes, arguments, normalized)
    return program
