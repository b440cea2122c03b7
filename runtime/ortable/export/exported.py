"""The program of an ExportedProgram: its weights, inputs and outputs by the roles that its
signature gives them, and the names of its dynamic dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from ..errors import ExportError
from . import dynamic_shapes as shapes
from .functionalize import prepared
from .program import Program, ProgramOutput, Request, is_fake


def program_of(exported: ExportedProgram, request: Request, dynamic_shapes: Any) -> Program:
    """The program to convert; ``dynamic_shapes`` only name dimensions here.

    Raises ExportError for inputs and outputs that ONNX cannot hold.
    """
    with request.record.phase("decompose"):
        rewritten, done = prepared(
            exported, request.tables, request.dispatcher, request.options, request.opset
        )
    signature = rewritten.graph_signature
    nodes = {node.name: node for node in rewritten.graph.nodes if node.op == "placeholder"}
    program = Program(rewritten.graph_module, notes=done, exported=rewritten)
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
    program.symbol_names = _symbol_names(
        program, exported, request.args, request.kwargs, dynamic_shapes
    )
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
