"""Build a `Program` from an ExportedProgram and a request; sources.py calls it.

The program lists weights, inputs and outputs by their roles in the graph signature, names dynamic
dimensions, and records guards.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram, graph_signature

from ortable.compat.torch import pytree, symbol_of
from ortable.errors import ExportError
from ortable.exporter.frontend.export_request import Program, ProgramOutput, Request
from ortable.exporter.signature import dynamic_shapes as shapes
from ortable.exporter.signature.dimension_names import free_symbols, name_dimensions
from ortable.exporter.signature.dynamic_shapes import Leaf
from ortable.exporter.signature.outputs import output_labels
from ortable.ir.initializers import is_fake

from .functionalize import prepare_program
from .guards import find_guards


def build_program(exported: ExportedProgram, request: Request) -> Program:
    """Build the program to convert; the request's dynamic shapes do not change its sizes.

    They only name dimensions and give the ranges for which guards are reported. Raises ExportError
    for inputs and outputs that ONNX cannot represent, for an additional input that the program
    rejects, and if a decomposition fixes a dynamic dimension.
    """
    if request.extra_inputs is not None:
        _check_extra(request.extra_inputs, exported)
    # read the sizes first: decompositions may specialize sizes that both programs share
    sizes = dict(_input_shapes(exported, set(exported.range_constraints)))
    with request.record.phase("decompose"):
        rewritten, notes = prepare_program(
            exported, request.tables, request.dispatcher, request.options, request.opset
        )
    if rewritten is not exported:
        _check_free(sizes, rewritten)
    signature = rewritten.graph_signature
    nodes = {node.name: node for node in rewritten.graph.nodes if node.op == "placeholder"}
    program = Program(rewritten.graph_module, notes=notes, exported=rewritten)
    for spec in signature.input_specs:
        name = getattr(spec.arg, "name", "")
        if spec.kind == graph_signature.InputKind.USER_INPUT:
            program.user_inputs.append(nodes[name])
        elif spec.kind in (
            graph_signature.InputKind.PARAMETER,
            graph_signature.InputKind.BUFFER,
            graph_signature.InputKind.CONSTANT_TENSOR,
        ):
            _add_weight(program, rewritten, spec, name)
        elif nodes[name].users:
            raise ExportError(
                f"input '{name}' of the program is a {spec.kind.name}, which ONNX cannot hold"
            )
    fake_count = sum(map(is_fake, program.weights.values()))
    if fake_count:
        program.notes.append(f"{fake_count} weights have no data: they are inputs of the model")
    program.outputs = [_program_output(spec) for spec in signature.output_specs]
    _label_outputs(program, exported)
    requested = get_requested_dims(program, exported, request)
    name_dimensions(program, requested)
    program.guards = find_guards(exported, requested, request.assumptions)
    return program


def add_guards(program: Program, parts: Sequence[ExportedProgram], request: Request) -> None:
    """Add the guards of ``parts``, the programs that ``program`` was merged from.

    Raises ExportError for a guard on a size that the inputs of ``program`` do not have.
    """
    if not parts or program.exported is None:
        return
    requested = get_requested_dims(program, program.exported, request)
    input_symbols = {
        symbol
        for node in program.user_inputs
        for size in getattr(node.meta.get("val"), "shape", (node.meta.get("val"),))
        for symbol in free_symbols(size)
    }
    reported = {(guard.text, guard.line) for guard in program.guards}
    for part in parts:
        for guard in find_guards(part, requested, request.assumptions):
            free = {str(symbol) for symbol in getattr(guard.condition, "free_symbols", ())}
            if free - input_symbols:
                raise ExportError(f"a path of the model holds only for sizes with {guard}")
            if (guard.text, guard.line) not in reported:
                reported.add((guard.text, guard.line))
                program.guards.append(guard)


def _check_free(
    old_shapes: Mapping[str, tuple[int | None, ...]], rewritten: ExportedProgram
) -> None:
    """Raise ExportError if a decomposition fixed a dynamic dimension of an input."""
    for name, shape in _input_shapes(rewritten):
        for axis, (old_size, new_size) in enumerate(
            zip(old_shapes.get(name, shape), shape, strict=True)
        ):
            if old_size is None and new_size is not None:
                raise ExportError(
                    f"dimension {axis} of input '{name}' is {new_size} once operators are "
                    "decomposed: a decomposition made it constant, for example by a loop over it"
                ).with_advice(
                    "What to do: export inside of ortable.bypass_export_some_errors(), without a "
                    "decomposition table; or make the dimension static."
                )


def _input_shapes(
    program: ExportedProgram, declared: Collection[Any] = ()
) -> Iterator[tuple[str, tuple[int | None, ...]]]:
    """Yield names and shapes of the user's input tensors.

    A size is None if it is dynamic, or if torch traced it with a symbol in ``declared``.
    """
    user_inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if node.name in user_inputs and isinstance(value, torch.Tensor):
            yield node.name, tuple(_fixed_size(size, declared) for size in value.shape)


def _fixed_size(size: Any, declared: Collection[Any]) -> int | None:
    if isinstance(size, torch.SymInt) and any(
        symbol in declared for symbol in symbol_of(size).free_symbols
    ):
        return None
    expression = getattr(getattr(size, "node", None), "expr", size)
    return int(expression) if getattr(expression, "is_number", True) else None


def _check_extra(inputs: Any, exported: ExportedProgram) -> None:
    """Raise ExportError if the program does not accept an additional input."""
    try:
        inputs.verify(exported)
    except Exception as error:  # guards raise AssertionError, RuntimeError...
        raise ExportError(f"an additional input of dynamic_shapes does not fit: {error}") from error


def _add_weight(program: Program, exported: ExportedProgram, spec: Any, name: str) -> None:
    tensor = exported.state_dict.get(spec.target)
    if tensor is None:
        tensor = exported.constants.get(spec.target)
    if tensor is None:
        raise ExportError(f"the program has no tensor for '{spec.target}' ({spec.kind.name})")
    program.paths[name] = spec.target
    program.weights[name] = tensor


def _program_output(spec: Any) -> ProgramOutput:
    is_none = getattr(spec.arg, "value", 0) is None
    if spec.kind == graph_signature.OutputKind.BUFFER_MUTATION:
        return ProgramOutput("buffer", spec.target)
    if spec.kind == graph_signature.OutputKind.USER_INPUT_MUTATION:
        return ProgramOutput("input", spec.target)
    if spec.kind in (
        graph_signature.OutputKind.USER_OUTPUT,
        graph_signature.OutputKind.LOSS_OUTPUT,
    ):
        return ProgramOutput("user", is_none=is_none)
    if spec.kind.name == "PARAMETER_MUTATION":  # a kind that old versions of torch lack
        remedy = "make it a buffer (register_buffer), whose new value is returned"
        if spec.arg.name.startswith("embedding_renorm"):
            remedy = (
                "it is of an nn.Embedding e with max_norm: before the export, in torch.no_grad(), "
                "e.weight.copy_(torch.renorm(e.weight, e.norm_type, 0, e.max_norm)); "
                "e.max_norm = None"
            )
        raise ExportError(
            f"the model writes to its parameter '{spec.target}', which a call of an ONNX model "
            f"cannot: {remedy}"
        )
    raise ExportError(
        f"output '{spec.arg.name}' of the program is a {spec.kind.name}, which to_onnx cannot "
        "return: export the forward of the model alone"
    )


def _label_outputs(program: Program, exported: ExportedProgram) -> None:
    """Label the user's outputs with their paths in the structure that forward returns."""
    structure = getattr(exported.call_spec, "out_spec", None)
    user_indices = [i for i, output in enumerate(program.outputs) if output.kind == "user"]
    labels = output_labels(structure, len(user_indices))
    if structure is not None and structure.num_leaves == len(user_indices):
        program.output_structure = structure
    for index, label in zip(user_indices, labels, strict=True):
        program.outputs[index] = replace(program.outputs[index], label=label)


def get_requested_dims(
    program: Program, exported: ExportedProgram, request: Request
) -> list[Leaf] | None:
    """Return the requested dimensions of each input; None without ``dynamic_shapes``."""
    if request.dynamic_shapes is None:
        return None
    args, kwargs = request.args, request.kwargs
    if not isinstance(request.model, ExportedProgram):
        arguments = shapes.bind_arguments(request.model, args, kwargs)
        return shapes.collect_leaf_specs(request.dynamic_shapes, arguments, kwargs)
    if not args and not kwargs:
        args, kwargs = get_example_call(exported, program)
    arguments = shapes.bind_arguments(_ForwardSignature(exported), args, kwargs)
    # The parameters of a program's signature are in the order of its placeholders.
    return shapes.collect_leaf_specs(request.dynamic_shapes, arguments, {})


def get_example_call(exported: ExportedProgram, program: Program) -> tuple[Any, Any]:
    """Return the example inputs of a program, or fake values if it does not have them."""
    if exported.example_inputs:
        return exported.example_inputs
    values = [node.meta.get("val") for node in program.user_inputs]
    args, kwargs = pytree.tree_unflatten(values, exported.call_spec.in_spec)
    return args, kwargs


class _ForwardSignature:
    """The signature of an exported program's forward, for binding arguments to names."""

    def __init__(self, exported: ExportedProgram) -> None:
        signature = exported.module_call_graph[0].signature
        names = list(getattr(signature, "forward_arg_names", None) or [])
        parameters = [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None)
            for name in names
        ]

        def forward(*args: Any, **kwargs: Any) -> None:
            """Hold the signature."""

        forward.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self.forward = forward
