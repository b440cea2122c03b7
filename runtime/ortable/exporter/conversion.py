"""The steps from the arguments of to_onnx to a model, which fill one `Conversion`.

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
from ortable.compat.scoped_patch import pause_gc
from ortable.compat.torch import unset_fake_temporarily
from ortable.compat.versions import check_versions
from ortable.errors import ExportError, OrtableError, UnsupportedDtype
from ortable.exporter.arguments import checked_path, checked_request
from ortable.exporter.capture.guards import count_guards, report_guards
from ortable.exporter.capture.sources import make_program
from ortable.exporter.dispatchers.dispatcher import print_unused_converters
from ortable.exporter.frontend.export_request import ExportRecord, Program, Request
from ortable.exporter.frontend.fake_weights import convert_weights_to_inputs
from ortable.exporter.frontend.module_state import (
    AutocastRegion,
    caller_autocast_regions,
    exclusive_export,
    suspend_autocast,
)
from ortable.exporter.functions.custom_operators import add_body_guards
from ortable.exporter.functions.interpreter import FunctionInterpreter
from ortable.exporter.reporting.first_difference import explain_difference
from ortable.exporter.reporting.metadata import (
    make_doc_string,
    model_name,
    record_weights,
    weight_names,
    write_metadata,
)
from ortable.exporter.reporting.quantization_report import quantize_builder, store_half_weights
from ortable.exporter.reporting.report import report_text
from ortable.exporter.reporting.validate import (
    check_comparisons,
    example_feeds,
    module_and_call,
    validate_model,
)
from ortable.exporter.signature.outputs import (
    choose_input_names,
    choose_output_names,
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
    """State of a conversion: the request, and the results of the steps so far.

    ``autocast_regions``: the regions of autocast that were active at the call; ``program``: the
    graph of torch; ``input_names`` and ``output_names`` as the interpreter takes them; ``dims``:
    names that the caller gave to dimensions of outputs; ``model``: a ModelProto or LargeModel.
    """

    request: Request
    autocast_regions: tuple[AutocastRegion, ...]
    program: Program = field(init=False)
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    dims: Mapping[tuple[str, int], str] = field(default_factory=dict)
    builder: GraphBuilder = field(init=False)
    model: Any = None


@exclusive_export()
@suspend_autocast()
def convert(
    mod: Any,
    args: Any,
    kwargs: Any,
    keywords: Mapping[str, Any],
    large_model_bytes: int | None = None,
) -> Conversion:
    """Check the arguments of to_onnx and run `STEPS`."""
    check_versions("torch", "onnx")
    # torch.export makes a fake mode of its own, and what has data keeps it
    with unset_fake_temporarily():
        conversion = Conversion(
            checked_request(mod, args, kwargs, keywords, large_model_bytes),
            caller_autocast_regions(),
        )
        with _write_report_on_exit(conversion):
            for step in STEPS:
                step(conversion)
    return conversion


@contextmanager
def _write_report_on_exit(conversion: Conversion) -> Iterator[None]:
    """Write the requested report when the block ends, also after an error."""
    failure: Exception | None = None
    request = conversion.request
    try:
        yield
    except Exception as error:
        failure = error
        raise
    finally:
        if request.report is not None:
            program = getattr(conversion, "program", None)
            text = report_text(request, program, conversion.model, failure)
            write_file(Path(request.report), text.encode())


def _capture_program(conversion: Conversion) -> None:
    """Make the program to convert, and record how it was made."""
    record = conversion.request.record
    program = conversion.program = make_program(conversion.request)
    record.steps, record.guards = program.notes, program.guards
    record.assertions = lost_assertions(program.graph_module)
    report_guards(program.guards, conversion.request.options.guards)
    record.log_phase("export", *filter(None, [record.strategy]), *program.notes)


def _name_values(conversion: Conversion) -> None:
    """Choose the names of inputs, outputs and dimensions, before anything is converted."""
    request, program = conversion.request, conversion.program
    conversion.input_names = choose_input_names(program, request.input_names)
    conversion.output_names = choose_output_names(
        program, request.output_names, conversion.input_names
    )
    conversion.dims = name_output_dims(
        program, request.output_dynamic_shapes, conversion.output_names
    )


def _build_graph(conversion: Conversion) -> None:
    """Convert the program into the graph of a builder."""
    request, program = conversion.request, conversion.program
    record = request.record
    name = model_name(request.model, program)
    conversion.builder = GraphBuilder(request.opsets, target=request.target, name=name)
    with (
        record.phase("convert"),
        pause_gc(),
        _explain_missing_dtype(program, request.opset),
    ):
        fill_builder(conversion)
    lost = [f"{len(record.assertions)} assertions dropped"] if record.assertions else []
    record.log_phase("convert", f"{len(conversion.builder.nodes)} nodes", *lost)
    if record.verbose:
        print_unused_converters(request.dispatcher)


def _run_passes(conversion: Conversion) -> None:
    record = conversion.request.record
    if not conversion.request.passes.optimize:
        return
    with record.phase("rewrite"), pause_gc():
        pipeline.run_passes(conversion.builder, conversion.request.passes, record.rewrites)
    fired = len(record.rewrites.fired)
    record.log_phase("rewrite", f"{fired} rewrites", f"{len(conversion.builder.nodes)} nodes")


def _store_weights(conversion: Conversion) -> None:
    """Store weights as ``weights=`` requests."""
    request, builder = conversion.request, conversion.builder
    record, weights = request.record, request.weights
    if weights is None:
        return
    if not isinstance(weights, WeightOptions):
        record.weights = store_half_weights(builder, weights, record.rewrites)
        record.log_phase("rewrite", str(record.weights))
        return
    with record.phase("round weights"):
        feeds = (
            None
            if conversion.program.fakes
            else example_feeds(builder, request, conversion.program)
        )
        record.weights = quantize_builder(
            builder, weights, feeds, request.max_error, record.rewrites
        )
    record.log_phase("round weights", str(record.weights).partition("\n")[0])


def _serialize_model(conversion: Conversion) -> None:
    """Make the ModelProto or LargeModel of the graph, and write its metadata."""
    request, builder = conversion.request, conversion.builder
    with request.record.phase("serialise"), pause_gc():
        convert_weights_to_inputs(builder, conversion.program)
        external_file = request.filename is not None
        large = request.large_model or needs_external_weights(
            builder, request.large_model_bytes, external_file, request.record
        )
        conversion.model = serialize_graph(builder, request, large)
        label_model(conversion.model, request, conversion.program, conversion.dims)


def _validate_model(conversion: Conversion) -> None:
    """Compare the model with eager, if requested."""
    request, program, model = conversion.request, conversion.program, conversion.model
    if not request.validate:
        return
    record, requested = request.record, request.validate
    accepted = record.accepted = requested if isinstance(requested, float) else None
    with record.phase("validate"):
        comparisons = record.comparisons = validate_model(model, request, program, accepted)
    call = module_and_call(request)[1]
    check_comparisons(
        comparisons,
        explain=lambda: explain_difference(
            comparisons, model, program, call, request.tables, accepted
        ),
    )
    record.log_phase("validate", "equal to eager")


def _write_file(conversion: Conversion) -> None:
    filename, record = conversion.request.filename, conversion.request.record
    if filename is None:
        return
    with record.phase("write"):
        write_model(conversion.model, filename, record)
    record.log_phase("write", str(filename))


STEPS: tuple[Callable[[Conversion], None], ...] = (
    _capture_program, _name_values, _build_graph, _run_passes,
    _store_weights, _serialize_model, _validate_model, _write_file,
)  # fmt: skip


# -- parts of steps, which `program.py` runs again


def fill_builder(conversion: Conversion) -> None:
    """Run one interpreter over the program, into the graph of the builder."""
    request, program, builder = conversion.request, conversion.program, conversion.builder
    builder.rename_dims = program.symbol_names
    builder.ctx = replace(builder.ctx, record=request.record)
    inputs = name_inputs(
        [str(node.target) for node in program.onnx_inputs()], conversion.input_names
    )
    names, order = output_plan(program, inputs, conversion.output_names)
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
        DynamoInterpreter(builder, program.get_weight, request.dispatcher, **arguments)
        if choices is None
        else FunctionInterpreter(
            builder, None, request.dispatcher, choices=choices, program=program, **arguments
        )
    )
    before = 0 if program.exported is None else count_guards(program.exported)
    interpreter.run(program.graph_module)
    if "custom_ops" in request.options.functions:
        add_body_guards(program, request, before)
    record_weights(program, interpreter.inputs)
    if choices is None:
        program.results.update(
            (name, node.name) for node, name in interpreter.values.items() if isinstance(name, str)
        )
        program.cases.update((node.name, case) for node, case in interpreter.cases.items())


def rebuild_graph(conversion: Conversion, passes: pipeline.PassOptions) -> GraphBuilder:
    """Build the graph of a conversion again, with other passes and without local functions."""
    rebuilt = copy(conversion)
    rebuilt.request = replace(conversion.request, functions=None)
    rebuilt.builder = GraphBuilder(conversion.request.opsets, target=conversion.request.target)
    fill_builder(rebuilt)
    if passes.optimize:
        pipeline.run_passes(rebuilt.builder, passes)
    return rebuilt.builder


def serialize_graph(builder: GraphBuilder, request: Request, large: bool) -> Any:
    """Return the graph as a ModelProto, or as a LargeModel."""
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
    write_metadata(model, program, make_doc_string(request.model, request.options.doc_string))


@contextmanager
def _explain_missing_dtype(program: Program, opset: int) -> Iterator[None]:
    """Explain an error of the conversion by a dtype that ONNX does not have at ``opset``, if
    any.
    """
    try:
        yield
    except OrtableError as error:
        newer_dtype = _find_newer_dtype(program, opset)
        if newer_dtype is None:
            raise
        node, dtype, first = newer_dtype
        spelled = str(dtype).removeprefix("torch.")
        where = str(node.meta.get("stack_trace") or "").strip().splitlines()
        raise ExportError(
            f"the model computes with {spelled} (node '{node.name}'), which ONNX has from opset "
            f"{first} on, and the target is opset {opset}: give target_opset={first} or a later one"
            + "".join(f"\n    {line.strip()}" for line in where[-2:])
        ) from error


def _find_newer_dtype(program: Program, opset: int) -> tuple[Node, torch.dtype, int] | None:
    """Find the first node with a dtype newer than ``opset``, the dtype, and the opset that has
    it.
    """
    seen: set[torch.dtype] = set()
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            value = node.meta.get("val")
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if not isinstance(tensor, torch.Tensor) or tensor.dtype in seen:
                    continue
                seen.add(tensor.dtype)
                first = _first_opset(tensor.dtype)
                if first is not None and first > opset:
                    return node, tensor.dtype, first
    return None


def _first_opset(dtype: torch.dtype) -> int | None:
    """Return the first opset whose Cast takes ``dtype``, None when there is none."""
    try:
        element = dtypes.from_torch(dtype)
    except UnsupportedDtype:  # complex32, quantized types: the conversion's own error says so
        return None
    for version in versions_of("Cast"):
        schema = find_schema("Cast", "", version)
        if schema is not None and element in schema.legal["T1"]:
            return version
    return None


# -- files: a new file replaces an old one atomically


def needs_external_weights(
    builder: Any, large_model_bytes: int | None, external_file: bool, record: ExportRecord
) -> bool:
    """Return whether weights are stored beside the model, and note it in ``record.steps``.

    They are with ``large_model_bytes`` or more; without that limit, where no protobuf file can
    hold them and there is an ``external_file``. (Otherwise the builder raises BuilderError.)
    """
    limit = proto_files.PROTO_LIMIT if large_model_bytes is None else large_model_bytes
    if large_model_bytes is None and not external_file:
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

    Every file is complete before it replaces an older one. ``record.verbose`` prints progress.
    Raises ExportError when the folder is missing or cannot be written to, disk or memory is full,
    or the model is over protobuf's limit of 2 GiB; nothing is left behind.
    """
    path = checked_path("filename", Path(filename))
    try:
        if isinstance(model, onnx.ModelProto):
            content = _serialize_proto(model)
            with FileSet(path) as files:
                files.publish(lambda renamed: content)
        else:
            progress = WeightProgress() if record is not None and record.verbose else None
            model.save(path, progress=progress, max_shard_bytes=max_shard_bytes)
    except OSError as error:
        raise ExportError(
            f"the model could not be written to '{path}': {error}. Nothing was left there; what "
            "was there before is unchanged"
        ) from error


def _serialize_proto(model: onnx.ModelProto) -> bytes:
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


MIN_PROGRESS_BYTES = 1 << 26  # smaller weights are written too fast to report progress


class WeightProgress:
    """Print how many of the weights of a large model are written, at every tenth."""

    def __init__(self) -> None:
        self._tenths = 0

    def __call__(self, done: int, total: int, name: str) -> None:
        tenths = 10 * done // total if total else 10
        if total >= MIN_PROGRESS_BYTES and tenths > self._tenths:
            self._tenths = tenths
            print(f"[to_onnx] write; {done / 1e6:.0f} of {total / 1e6:.0f} MB of weights")
