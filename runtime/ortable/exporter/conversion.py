"""The steps from the arguments of to_onnx to a model, and what they fill: one `Conversion`.

Called by `to_onnx` and `export`; `program.py` runs single steps again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx
import torch
from google.protobuf.message import EncodeError
from torch.fx import GraphModule, Node

from ortable import dtypes
from ortable.builder import GraphBuilder
from ortable.compat.torch import unset_fake_temporarily
from ortable.compat.undone import collections_paused
from ortable.compat.versions import check_versions
from ortable.errors import ExportError, OrtableError, UnsupportedDtype
from ortable.exporter.account.certificate import rounded_builder, stored_builder
from ortable.exporter.account.first_difference import explained
from ortable.exporter.account.metadata import (
    annotate,
    description,
    model_name,
    note_weights,
    weight_names,
)
from ortable.exporter.account.report import report_text
from ortable.exporter.account.validate import (
    check_comparisons,
    example_feeds,
    module_and_call,
    validate_model,
)
from ortable.exporter.arguments import checked_path, checked_request
from ortable.exporter.capture.guards import count_guards, report_guards
from ortable.exporter.capture.sources import make_program
from ortable.exporter.dispatchers.dispatcher import tell_unused
from ortable.exporter.functions.custom_operators import add_guards_of_bodies
from ortable.exporter.functions.interpreter import FunctionInterpreter
from ortable.exporter.request.caller_state import Region, in_turn, outside_autocast, regions_around
from ortable.exporter.request.fake_weights import weights_become_inputs
from ortable.exporter.request.program import ExportRecord, Program, Request
from ortable.exporter.signature.outputs import (
    chosen_inputs,
    chosen_outputs,
    name_inputs,
    name_output_dims,
    output_plan,
    write_dims,
)
from ortable.interpreter.assertions import lost_assertions
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.ir.proto import write_model as proto_files
from ortable.ir.proto.atomic_files import FileSet, write_file
from ortable.ir.schemas import find_schema, versions_of
from ortable.passes import pipeline
from ortable.passes.weight_quantization import WeightOptions


@dataclass
class Conversion:
    """What a conversion was asked for, and what its steps have made so far.

    ``around``: the regions of autocast that were active where it was asked for; ``program``: the
    graph of torch; ``input_names`` and ``output_names`` as the interpreter takes them; ``dims``:
    names that the caller gave to dimensions of outputs; ``model``: a ModelProto or LargeModel.
    """

    request: Request
    around: tuple[Region, ...]
    program: Program = field(init=False)
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    dims: Mapping[tuple[str, int], str] = field(default_factory=dict)
    builder: GraphBuilder = field(init=False)
    model: Any = None


@in_turn()
@outside_autocast()
def convert(
    mod: Any, args: Any, kwargs: Any, keywords: Mapping[str, Any], outgrown: int | None = None
) -> Conversion:
    """Convert a model, as the arguments of to_onnx ask for: check them, and run `STEPS`."""
    check_versions("torch", "onnx")
    # torch.export makes a fake mode of its own, and what has data keeps it
    with unset_fake_temporarily():
        made = Conversion(checked_request(mod, args, kwargs, keywords, outgrown), regions_around())
        with _reporting(made):
            for step in STEPS:
                step(made)
    return made


@contextmanager
def _reporting(made: Conversion) -> Iterator[None]:
    """Write the report that the caller asks for when the block ends, well or not."""
    failure: Exception | None = None
    request = made.request
    try:
        yield
    except Exception as error:
        failure = error
        raise
    finally:
        if request.report is not None:
            program = getattr(made, "program", None)
            text = report_text(request, program, made.model, failure)
            write_file(Path(request.report), text.encode())


def _capture(made: Conversion) -> None:
    """Make the program to convert; the record has what it took to get there."""
    record = made.request.record
    program = made.program = make_program(made.request)
    record.steps, record.guards = program.notes, program.guards
    record.assertions = lost_assertions(program.graph_module)
    report_guards(program.guards, made.request.options.guards)
    record.say("export", *filter(None, [record.strategy]), *program.notes)


def _name_values(made: Conversion) -> None:
    """Settle the names of inputs, outputs and dimensions, before anything is converted."""
    request, program = made.request, made.program
    made.input_names = chosen_inputs(program, request.input_names)
    made.output_names = chosen_outputs(program, request.output_names, made.input_names)
    made.dims = name_output_dims(program, request.output_dynamic_shapes, made.output_names)


def _interpret(made: Conversion) -> None:
    """Fill the graph of a builder with the nodes that the program stands for."""
    request, program = made.request, made.program
    record = request.record
    name = model_name(request.model, program)
    made.builder = GraphBuilder(request.opsets, target=request.target, name=name)
    with record.phase("convert"), collections_paused(), _needing_opset(program, request.opset):
        fill_builder(made)
    lost = [f"{len(record.assertions)} assertions dropped"] if record.assertions else []
    record.say("convert", f"{len(made.builder.nodes)} nodes", *lost)
    if record.verbose:
        tell_unused(request.dispatcher)


def _run_passes(made: Conversion) -> None:
    """Run the passes and the rewrites."""
    record = made.request.record
    if not made.request.passes.optimize:
        return
    with record.phase("rewrite"), collections_paused():
        pipeline.run_passes(made.builder, made.request.passes, record.rewrites)
    fired = len(record.rewrites.fired)
    record.say("rewrite", f"{fired} rewrites", f"{len(made.builder.nodes)} nodes")


def _store_weights(made: Conversion) -> None:
    """Store weights as ``weights=`` asks for."""
    request, builder = made.request, made.builder
    record, weights = request.record, request.weights
    if weights is None:
        return
    if not isinstance(weights, WeightOptions):
        record.weights = stored_builder(builder, weights, record.rewrites)
        record.say("rewrite", str(record.weights))
        return
    with record.phase("round weights"):
        feeds = None if made.program.fakes else example_feeds(builder, request, made.program)
        record.weights = rounded_builder(
            builder, weights, feeds, request.max_error, record.rewrites
        )
    record.say("round weights", str(record.weights).partition("\n")[0])


def _serialise(made: Conversion) -> None:
    """Make the ModelProto or LargeModel of the graph, and write what it says about itself."""
    request, builder = made.request, made.builder
    with request.record.phase("serialise"), collections_paused():
        weights_become_inputs(builder, made.program)
        beside = request.filename is not None
        large = request.large_model or too_large(builder, request.outgrown, beside, request.record)
        made.model = serialised(builder, request, large)
        label_model(made.model, request, made.program, made.dims)


def _validate(made: Conversion) -> None:
    """Compare the model with eager, where the caller asks for it."""
    request, program, model = made.request, made.program, made.model
    if not request.validate:
        return
    record, asked = request.record, request.validate
    accepted = record.accepted = asked if isinstance(asked, float) else None
    with record.phase("validate"):
        found = record.comparisons = validate_model(model, request, program, accepted)
    call = module_and_call(request)[1]
    check_comparisons(
        found, explain=lambda: explained(found, model, program, call, request.tables, accepted)
    )
    record.say("validate", "equal to eager")


def _write(made: Conversion) -> None:
    """Write the file."""
    filename, record = made.request.filename, made.request.record
    if filename is None:
        return
    with record.phase("write"):
        write_model(made.model, filename, record)
    record.say("write", str(filename))


STEPS: tuple[Callable[[Conversion], None], ...] = (
    _capture, _name_values, _interpret, _run_passes, _store_weights, _serialise, _validate, _write,
)  # fmt: skip


# -- parts of steps, which programs run again


def fill_builder(made: Conversion) -> None:
    """Run one interpreter over the program, into the graph of the builder."""
    request, program, builder = made.request, made.program, made.builder
    builder.rename_dims = program.symbol_names
    builder.ctx = replace(builder.ctx, record=request.record)
    inputs = name_inputs([str(node.target) for node in program.onnx_inputs()], made.input_names)
    names, order = output_plan(program, inputs, made.output_names)
    weights = weight_names(program, inputs, names, request.options.initializer_names)
    arguments: dict[str, Any] = {
        "input_names": inputs,
        "initializer_names": weights,
        "output_names": names,
        "output_order": order,
        "verbose": request.record.verbose,
    }
    choices = request.functions
    interpreter = (
        DynamoInterpreter(builder, program.retrieve, request.dispatcher, **arguments)
        if choices is None
        else FunctionInterpreter(
            builder, None, request.dispatcher, choices=choices, program=program, **arguments
        )
    )
    before = 0 if program.exported is None else count_guards(program.exported)
    interpreter.run(program.graph_module)
    if "custom_ops" in request.options.functions:
        add_guards_of_bodies(program, request, before)
    note_weights(program, interpreter.inputs)
    if choices is None:
        program.results.update(
            (name, node.name) for node, name in interpreter.values.items() if isinstance(name, str)
        )
        program.cases.update((node.name, case) for node, case in interpreter.cases.items())


def converted_again(made: Conversion, passes: pipeline.PassOptions) -> GraphBuilder:
    """The graph of a conversion once more, with other passes and without local functions."""
    other = copy(made)
    other.request = replace(made.request, functions=None)
    other.builder = GraphBuilder(made.request.opsets, target=made.request.target)
    fill_builder(other)
    if passes.optimize:
        pipeline.run_passes(other.builder, passes)
    return other.builder


def serialised(builder: GraphBuilder, request: Request, large: bool) -> Any:
    """The graph as a ModelProto, or as a LargeModel."""
    return builder.to_onnx(
        large_model=large,
        external_threshold=request.external_threshold,
        optimize=False,  # the passes have run, those that were asked for
        inline=request.inline,
        metadata=request.options.metadata,
        value_info=request.options.value_info,
    )


def label_model(
    model: Any, request: Request, program: Program, dims: Mapping[tuple[str, int], str]
) -> None:
    """Write the caller's names of dimensions, and the metadata."""
    write_dims(model, dims)
    annotate(model, program, description(request.model, request.options.doc_string))


@contextmanager
def _needing_opset(program: Program, opset: int) -> Iterator[None]:
    """Raise ExportError in place of an error of the conversion, which is its cause, when the graph
    has a tensor of a dtype that ONNX does not have at ``opset``."""
    try:
        yield
    except OrtableError as error:
        found = _newer(program, opset)
        if found is None:
            raise
        node, dtype, first = found
        spelled = str(dtype).removeprefix("torch.")
        where = str(node.meta.get("stack_trace") or "").strip().splitlines()
        raise ExportError(
            f"the model computes with {spelled} (node '{node.name}'), which ONNX has from opset "
            f"{first} on, and the target is opset {opset}: give target_opset={first} or a later one"
            + "".join(f"\n    {line.strip()}" for line in where[-2:])
        ) from error


def _newer(program: Program, opset: int) -> tuple[Node, torch.dtype, int] | None:
    """The first node with a dtype newer than ``opset``, the dtype, and the opset that has it."""
    seen: set[torch.dtype] = set()
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            value = node.meta.get("val")
            for each in value if isinstance(value, (list, tuple)) else (value,):
                if not isinstance(each, torch.Tensor) or each.dtype in seen:
                    continue
                seen.add(each.dtype)
                first = _first_opset(each.dtype)
                if first is not None and first > opset:
                    return node, each.dtype, first
    return None


def _first_opset(dtype: torch.dtype) -> int | None:
    """The first opset whose Cast takes ``dtype``, None when there is none."""
    try:
        element = dtypes.from_torch(dtype)
    except UnsupportedDtype:  # complex32, quantized types: the conversion's own error says so
        return None
    for version in versions_of("Cast"):
        schema = find_schema("Cast", "", version)
        if schema is not None and element in schema.legal["T1"]:
            return version
    return None


# -- files: the new one appears whole or not at all


def too_large(builder: Any, outgrown: int | None, beside: bool, record: ExportRecord) -> bool:
    """True when the weights are kept beside the model, and ``record`` says so: those of
    ``outgrown`` bytes or more; or what no protobuf file holds, where there is a file to write them
    ``beside``. (Otherwise the builder raises BuilderError for these.)"""
    limit = proto_files.PROTO_LIMIT if outgrown is None else outgrown
    if outgrown is None and not beside:
        return False
    total = proto_files.weight_bytes(builder)
    if total < limit:
        return False
    record.steps.append(f"weights of {total / 2**30:.1f} GiB are written beside the model")
    return True


def write_model(
    model: Any,
    filename: str | os.PathLike[str],
    record: ExportRecord | None = None,
    max_shard_bytes: int | None = None,
) -> None:
    """Write a ModelProto, or a LargeModel with its weights beside it, to ``filename``.

    Every file is complete before it replaces an older one. ``record.verbose`` shows how far the
    weights are. Raises ExportError when the folder is missing or cannot be written to, the disk is
    full, memory is, or the model is over protobuf's limit of 2 GiB; nothing is left behind.
    """
    path = checked_path("filename", Path(filename))
    try:
        if isinstance(model, onnx.ModelProto):
            content = _serialized(model)
            with FileSet(path) as files:
                files.publish(lambda renamed: content)
        else:
            shown = Shown() if record is not None and record.verbose else None
            model.save(path, progress=shown, max_shard_bytes=max_shard_bytes)
    except OSError as error:
        raise ExportError(
            f"the model could not be written to '{path}': {error}. Nothing was left there; what "
            "was there before is unchanged"
        ) from error


def _serialized(model: onnx.ModelProto) -> bytes:
    try:
        return model.SerializeToString()
    except ValueError as error:
        raise ExportError(
            "the model is too large for one protobuf file (2 GiB): use large_model=True, weights "
            "then go to files beside it"
        ) from error
    except (EncodeError, MemoryError) as error:  # protobuf says "Failed to serialize proto"
        raise ExportError(
            "there is not enough memory to write the model in one piece: with large_model=True "
            "weights go to a file beside it, one after the other. Nothing was written"
        ) from error


SHOWN_FROM = 1 << 26  # bytes of weights that take long enough to be worth a line


class Shown:
    """Prints how many of the weights are written, at every tenth of those of a large model."""

    def __init__(self) -> None:
        self._tenths = 0

    def __call__(self, done: int, total: int, name: str) -> None:
        tenths = 10 * done // total if total else 10
        if total >= SHOWN_FROM and tenths > self._tenths:
            self._tenths = tenths
            print(f"[to_onnx] write; {done / 1e6:.0f} of {total / 1e6:.0f} MB of weights")
