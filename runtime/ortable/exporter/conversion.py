"""Convert a model in steps that fill one `Conversion`: capture, build, optimize, write.

`to_onnx` and `export` call `convert`; `program.py` calls helpers of single steps again.
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
from ortable.compat.torch import pytree, unset_fake_temporarily
from ortable.compat.versions import check_versions
from ortable.errors import (
    BuilderError,
    ExportError,
    OrtableError,
    UnsupportedCase,
    UnsupportedDtype,
)
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
    calibration_feeds,
    check_comparisons,
    example_feeds,
    module_and_call,
    validate_model,
)
from ortable.exporter.signature.dataclass_nodes import unregister_on_exit, wrap_dataclasses
from ortable.exporter.signature.dynamic_shapes import parse_dim_expression
from ortable.exporter.signature.outputs import (
    choose_input_names,
    choose_output_names,
    name_inputs,
    name_output_dims,
    output_plan,
    write_dims,
)
from ortable.interpreter.assertions import lost_assertions
from ortable.interpreter.diagnostics.failures import wrap_error
from ortable.interpreter.interpreter import DynamoInterpreter
from ortable.ir.proto import write_model as proto_files
from ortable.ir.proto.atomic_files import FileSet, write_file
from ortable.ir.schemas import find_schema, versions_of
from ortable.passes import pipeline
from ortable.passes.older_opsets import write_in_older_opset
from ortable.passes.weight_quantization import WeightOptions

from .argument_overlaps import check_overlaps


@dataclass
class Conversion:
    """State of a conversion: the request, and the results of the steps so far.

    ``autocast_regions`` are the autocast regions that were active when the caller started the
    export. ``program`` is the captured torch graph. ``input_names`` and ``output_names`` are the
    requested names of ONNX values, None for default names. ``dims`` maps (output name, axis) to the
    caller's name of a dimension that is computed from others. ``builder`` has the ONNX graph, from
    which ``model``, a ModelProto or LargeModel, is serialized.
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
    """Check the arguments of to_onnx and run all `STEPS`."""
    check_versions("torch", "onnx")
    # torch.export creates its own fake mode, and tensors with data must stay real
    with unset_fake_temporarily(), unregister_on_exit():
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
    """Write the report, if requested, when the block ends, even if it ends with an error."""
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
    record = conversion.request.record
    program = conversion.program = make_program(conversion.request)
    _check_example_overlaps(conversion.request, program)
    record.steps, record.guards = program.notes, program.guards
    record.assertions = lost_assertions(program.graph_module)
    report_guards(program.guards, conversion.request.options.guards)
    record.log_phase("export", *filter(None, [record.strategy]), *program.notes)


def _check_example_overlaps(request: Request, program: Program) -> None:
    """Raise InputError if the example's arguments share memory that forward writes to."""
    names = [str(node.target) for node in program.user_inputs]
    written = {output.target for output in program.outputs if output.kind == "input"}
    if not written:
        return
    leaves = pytree.tree_leaves(wrap_dataclasses((request.args, request.kwargs)))
    if len(leaves) == len(names):  # an exported program has its own example
        indices = {index for index, name in enumerate(names) if name in written}
        check_overlaps(leaves, [f"'{name}'" for name in names], indices)


def _name_values(conversion: Conversion) -> None:
    request, program = conversion.request, conversion.program
    conversion.input_names = choose_input_names(program, request.input_names)
    conversion.output_names = choose_output_names(
        program, request.output_names, conversion.input_names
    )
    conversion.dims = name_output_dims(
        program, request.output_dynamic_shapes, conversion.output_names
    )


def _build_graph(conversion: Conversion) -> None:
    request, program = conversion.request, conversion.program
    record = request.record
    name = model_name(request.model, program)
    conversion.builder = GraphBuilder(request.built_opsets, target=request.target, name=name)
    with (
        record.phase("convert"),
        pause_gc(),
        _explain_missing_dtype(program, request.opset),
    ):
        fill_builder(conversion)
    dropped = [f"{len(record.assertions)} assertions dropped"] if record.assertions else []
    record.log_phase("convert", f"{len(conversion.builder.nodes)} nodes", *dropped)
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
            if conversion.program.fake_weight_inputs
            else example_feeds(builder, request, conversion.program)
        )
        calls = calibration_feeds(builder, request, conversion.program)
        if calls and feeds is None:
            raise ExportError("calibration needs an example call and weights with data")
        record.weights = quantize_builder(
            builder, weights, feeds, request.max_error, record.rewrites, calls
        )
    record.log_phase("round weights", str(record.weights).partition("\n")[0])


_ADVICE = "What to do: give target_opset={}, or compute this by other operators."


def _write_in_older_opset(conversion: Conversion) -> None:
    request, builder = conversion.request, conversion.builder
    opset = request.written_opset
    if opset == request.opset:
        return
    if builder.functions:
        names = ", ".join(sorted(name for _, name in builder.functions))
        raise ExportError(
            f"the model has local functions ({names}), which need opset {request.opset} or later; "
            f"target_opset is {opset}"
        )
    with request.record.phase("rewrite"):
        try:
            write_in_older_opset(builder, opset)
        except BuilderError as error:
            nodes = conversion.program.graph_module.graph.nodes
            node = next((node for node in nodes if node.name == error.fx_node), None)
            if node is None:
                raise
            unsupported = UnsupportedCase(error.message)
            refusal = wrap_error(unsupported, node, request.tables.spec_files, builder)
            raise refusal.with_advice(_ADVICE.format(request.opset)) from error


def _serialize_model(conversion: Conversion) -> None:
    request, builder = conversion.request, conversion.builder
    with request.record.phase("serialise"), pause_gc():
        convert_weights_to_inputs(builder, conversion.program)
        has_filename = request.filename is not None
        is_large = request.large_model or needs_external_weights(
            builder, request.large_model_bytes, has_filename, request.record
        )
        conversion.model = serialize_graph(builder, request, is_large)
        label_model(conversion.model, request, conversion.program, conversion.dims)


def _validate_model(conversion: Conversion) -> None:
    request, program, model = conversion.request, conversion.program, conversion.model
    if not request.validate:
        return
    record, requested = request.record, request.validate
    tolerance = record.accepted = requested if isinstance(requested, float) else None
    with record.phase("validate"):
        comparisons = record.comparisons = validate_model(model, request, program, tolerance)
    call = module_and_call(request)[1]
    check_comparisons(
        comparisons,
        explain=lambda: explain_difference(
            comparisons, model, program, call, request.tables, tolerance
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
    _store_weights, _write_in_older_opset, _serialize_model, _validate_model, _write_file,
)  # fmt: skip


# -- parts of steps, which `program.py` and the debugger run again


def fill_builder(conversion: Conversion) -> None:
    """Add nodes to the builder's graph by interpreting the program.

    Fills ``initializers``, ``results`` and ``cases`` of the program.
    """
    request, program, builder = conversion.request, conversion.program, conversion.builder
    builder.rename_dims = {}
    for symbol, name in program.symbol_names.items():
        expression = parse_dim_expression(name)
        builder.rename_dims[symbol] = name if expression is None else expression
    builder.ctx = replace(builder.ctx, record=request.record)
    inputs = name_inputs(
        [str(node.target) for node in program.onnx_inputs()], conversion.input_names
    )
    names, order = output_plan(program, inputs, conversion.output_names)
    initializers = weight_names(program, inputs, names, request.options.initializer_names)
    arguments: dict[str, Any] = {
        "input_names": inputs,
        "initializer_names": initializers,
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
    guard_count = 0 if program.exported is None else count_guards(program.exported)
    interpreter.run(program.graph_module)
    if "custom_ops" in request.options.functions:
        add_body_guards(program, request, guard_count)
    record_weights(program, interpreter.inputs)
    if choices is None:
        program.results.update(
            (name, node.name) for node, name in interpreter.values.items() if isinstance(name, str)
        )
        program.cases.update((node.name, case) for node, case in interpreter.cases.items())


def rebuild_graph(conversion: Conversion, passes: pipeline.PassOptions) -> GraphBuilder:
    """Build the graph again with other passes and without local functions; return its builder."""
    rebuilt = copy(conversion)
    rebuilt.request = replace(conversion.request, functions=None)
    request = conversion.request
    rebuilt.builder = GraphBuilder(request.built_opsets, target=request.target)
    fill_builder(rebuilt)
    if passes.optimize:
        pipeline.run_passes(rebuilt.builder, passes)
    return rebuilt.builder


def serialize_graph(builder: GraphBuilder, request: Request, large: bool) -> Any:
    """Return the graph as a ModelProto, or as a LargeModel if ``large``."""
    return builder.to_onnx(
        large_model=large,
        external_threshold=request.external_threshold,
        optimize=False,  # the requested passes have run already
        inline=request.inline,
        metadata=request.options.metadata,
        value_info=request.options.value_info,
    )


def label_model(
    model: Any, request: Request, program: Program, dims: Mapping[tuple[str, int], str]
) -> None:
    """Write the caller's names of output dimensions, the doc string and the metadata."""
    write_dims(model, dims)
    write_metadata(model, program, make_doc_string(request.model, request.options.doc_string))


@contextmanager
def _explain_missing_dtype(program: Program, opset: int) -> Iterator[None]:
    """Replace an error by ExportError if the program has a dtype that ``opset`` lacks."""
    try:
        yield
    except OrtableError as error:
        newer_dtype = _find_newer_dtype(program, opset)
        if newer_dtype is None:
            raise
        node, dtype, first_opset = newer_dtype
        dtype_name = str(dtype).removeprefix("torch.")
        stack_lines = str(node.meta.get("stack_trace") or "").strip().splitlines()
        raise ExportError(
            f"the model computes with {dtype_name} (node '{node.name}'), which ONNX has from opset "
            f"{first_opset} on, and the target is opset {opset}: give target_opset={first_opset} "
            "or a later one" + "".join(f"\n    {line.strip()}" for line in stack_lines[-2:])
        ) from error


def _find_newer_dtype(program: Program, opset: int) -> tuple[Node, torch.dtype, int] | None:
    """Return the first node whose dtype needs a newer opset, with the dtype and its first opset."""
    checked: set[torch.dtype] = set()
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            value = node.meta.get("val")
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if not isinstance(tensor, torch.Tensor) or tensor.dtype in checked:
                    continue
                checked.add(tensor.dtype)
                first_opset = _first_opset(tensor.dtype)
                if first_opset is not None and first_opset > opset:
                    return node, tensor.dtype, first_opset
    return None


def _first_opset(dtype: torch.dtype) -> int | None:
    """Return the first opset whose Cast supports the dtype; None if ONNX does not have it."""
    try:
        element = dtypes.from_torch(dtype)
    except (
        UnsupportedDtype
    ):  # complex32, quantized types: the original error already names the dtype
        return None
    for version in versions_of("Cast"):
        schema = find_schema("Cast", "", version)
        if schema is not None and element in schema.legal["T1"]:
            return version
    return None


# -- write files


def needs_external_weights(
    builder: Any, large_model_bytes: int | None, external_file: bool, record: ExportRecord
) -> bool:
    """Whether the weights are stored beside the model; if so, add a note to ``record.steps``.

    They are from a total of ``large_model_bytes`` on. If ``large_model_bytes`` is None, the limit
    is protobuf's if the model is written to a file (``external_file``); without a file, they never
    are, and the builder raises BuilderError for a model above protobuf's limit.
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

    Every file is complete before it atomically replaces an older one. ``record.verbose`` prints
    progress; ``max_shard_bytes`` limits the size of a file of weights. Raises ExportError, and
    leaves no partial file, if the folder is missing or not writable, disk or memory is full, or the
    model exceeds protobuf's limit of 2 GiB.
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
            f"the model could not be written to '{path}': {error}. No partial file is left, and an "
            "older file at that path is unchanged"
        ) from error


def _serialize_proto(model: onnx.ModelProto) -> bytes:
    try:
        return model.SerializeToString()
    except ValueError as error:
        raise ExportError(
            "the model is too large for one protobuf file (2 GiB): use large_model=True, which "
            "writes the weights to files beside it"
        ) from error
    except (EncodeError, MemoryError) as error:  # protobuf's message is "Failed to serialize proto"
        raise ExportError(
            "there is not enough memory to serialize the model at once: use large_model=True, "
            "which writes the weights one by one to a file beside it. Nothing was written"
        ) from error


MIN_PROGRESS_BYTES = 1 << 26  # smaller weights are written too fast to report progress


class WeightProgress:
    """Prints the progress of writing the weights of a large model, in steps of 10 %."""

    def __init__(self) -> None:
        self._tenths = 0

    def __call__(self, done: int, total: int, name: str) -> None:
        """Print a line if another tenth of the weights is written: ``done`` of ``total`` bytes."""
        tenths = 10 * done // total if total else 10
        if total >= MIN_PROGRESS_BYTES and tenths > self._tenths:
            self._tenths = tenths
            print(f"[to_onnx] write; {done / 1e6:.0f} of {total / 1e6:.0f} MB of weights")
