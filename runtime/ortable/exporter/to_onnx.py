"""to_onnx: a module, an exported program or a torch.fx graph becomes an ONNX model.
The steps are: a graph of ATen operators (`capture/sources.py`), the interpreter, the graph passes
(`ortable.passes.pipeline`), serialisation, validation, the file. Called by users; nothing else in
`export` does."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Unpack, overload

import torch
from onnx import ModelProto

from ortable.compat.versions import check_versions
from ortable.exporter.account.certificate import rounded_builder
from ortable.exporter.account.first_difference import explained
from ortable.exporter.account.half_weights import stored_builder
from ortable.exporter.account.metadata import (
    annotate,
    description,
    model_name,
    note_weights,
    weight_names,
)
from ortable.exporter.account.report import reporting
from ortable.exporter.account.validate import (
    check_comparisons,
    example_feeds,
    module_and_call,
    validate_model,
)
from ortable.exporter.capture.dtype_versions import needing_opset
from ortable.exporter.capture.guards import count_guards, tell_guards
from ortable.exporter.capture.pt2 import opened
from ortable.exporter.capture.sources import make_program
from ortable.exporter.dispatchers.dispatcher import checked_dispatcher, tell_unused
from ortable.exporter.functions.custom_operators import FunctionBodies, add_guards_of_bodies
from ortable.exporter.functions.interpreter import FunctionInterpreter
from ortable.exporter.request.ambient import Region, outside_autocast, regions_around
from ortable.exporter.request.arguments import (
    check_file,
    check_flags,
    check_model,
    check_names,
    check_numbers,
    checked_opset,
    checked_rounding,
    checked_target,
    checked_validate,
)
from ortable.exporter.request.fake_weights import outside_fake_mode, weights_become_inputs
from ortable.exporter.request.function_choices import FunctionChoices, function_choices
from ortable.exporter.request.options import ExportOptions, checked_options
from ortable.exporter.request.program import Program, Request
from ortable.exporter.request.record import ExportRecord
from ortable.exporter.request.torch_onnx import answering
from ortable.exporter.request.turns import in_turn
from ortable.exporter.signature.dynamic_shapes import AdditionalInputs, resolved
from ortable.exporter.signature.inputs import checked_call, name_inputs
from ortable.exporter.signature.outputs import (
    chosen_inputs,
    chosen_outputs,
    name_output_dims,
    output_plan,
    write_dims,
)
from ortable.passes import pipeline
from ortable.passes.weight_codes import Stored, WeightOptions

from ..builder import GraphBuilder, LargeModel
from ..interpreter import DynamoInterpreter, generated_tables
from ..interpreter.assertions import lost_assertions
from .files import too_large, write_model
from .keywords import (
    Arguments,
    Converters,
    DynamicShapes,
    Model,
    PathName,
    ToOnnxKeywords,
    Weights,
)


@dataclass(frozen=True)
class Form:
    """How a graph is written as a model, and for which target: arguments of to_onnx."""

    options: ExportOptions
    target: str | None
    inline: bool
    large_model: bool
    external_threshold: int


@dataclass(frozen=True)
class Conversion:
    """What a conversion made and of what: the model (ModelProto or LargeModel), its builder, the
    checked request, the program, how the model is written, names given to dimensions of outputs,
    and the regions of autocast that were active where it was asked for."""

    model: Any
    builder: GraphBuilder
    request: Request
    program: Program
    form: Form
    dims: Mapping[tuple[str, int], str]
    around: tuple[Region, ...]
    recipe: Recipe


@dataclass(frozen=True)
class Recipe:
    """How a program becomes a graph: opsets, the passes that run, names of inputs and outputs."""

    opset: Any
    passes: pipeline.PassOptions
    inputs: Sequence[str] | None
    outputs: Sequence[str] | None


# A model of 2 GiB or more that is written to a file comes back as a LargeModel. Few are: `Any` says
# so, and asks no question at each of the others.
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    large_model: Literal[False] = False,
    filename: None = None,
    return_builder: Literal[False] = False,
    **keywords: Unpack[ToOnnxKeywords],
) -> ModelProto: ...
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    large_model: Literal[False] = False,
    filename: PathName,
    return_builder: Literal[False] = False,
    **keywords: Unpack[ToOnnxKeywords],
) -> ModelProto | Any: ...
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    large_model: Literal[True],
    filename: PathName | None = None,
    return_builder: Literal[False] = False,
    **keywords: Unpack[ToOnnxKeywords],
) -> LargeModel: ...
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    large_model: Literal[False] = False,
    filename: None = None,
    return_builder: Literal[True],
    **keywords: Unpack[ToOnnxKeywords],
) -> tuple[ModelProto, GraphBuilder]: ...
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    large_model: Literal[False] = False,
    filename: PathName,
    return_builder: Literal[True],
    **keywords: Unpack[ToOnnxKeywords],
) -> tuple[ModelProto | Any, GraphBuilder]: ...
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    large_model: Literal[True],
    filename: PathName | None = None,
    return_builder: Literal[True],
    **keywords: Unpack[ToOnnxKeywords],
) -> tuple[LargeModel, GraphBuilder]: ...
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    large_model: bool = False,
    filename: PathName | None = None,
    return_builder: bool = False,
    **keywords: Unpack[ToOnnxKeywords],
) -> ModelProto | LargeModel | tuple[ModelProto | LargeModel, GraphBuilder]: ...
@answering
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    input_names: Sequence[str] | Mapping[str, str] | None = None,
    output_names: Sequence[str] | Mapping[str, str] | None = None,
    target_opset: int | Mapping[str, int] | None = None,
    dynamic_shapes: DynamicShapes | None = None,
    output_dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    optimize: bool = True,
    rewrites: str | Sequence[str] = "default",
    target: Literal["onnxruntime"] | None = None,
    export_options: ExportOptions | None = None,
    dispatcher: Converters | None = None,
    export_modules_as_functions: bool | Collection[type[torch.nn.Module] | str] = False,
    inline: bool = False,
    large_model: bool = False,
    external_threshold: int = 1024,
    filename: PathName | None = None,
    validate: bool | float = False,
    verbose: int = 0,
    return_builder: bool = False,
    report: PathName | None = None,
    weights: Weights = None,
    max_error: float | None = None,
) -> ModelProto | LargeModel | tuple[ModelProto | LargeModel, GraphBuilder]:
    """Convert a PyTorch model into an ONNX model.

    Args:
        mod: a ``torch.nn.Module``, a ``torch.export.ExportedProgram`` or the path of a saved one
            (``.pt2``), or a ``torch.fx.GraphModule``. A GraphModule of torch functions, methods or
            modules is exported again by torch.export when ``args`` are given, and is converted
            through the tables of torch functions otherwise.
        args, kwargs: the example call. Tensors are inputs of the ONNX model, also inside
            containers and classes registered with torch's pytree; numbers and None are constants
            of it, except integers that ``dynamic_shapes`` marks: these are int64[1] inputs.
        input_names: names of the ONNX inputs, or a dict that replaces some; those of forward's
            parameters by default. Unused inputs stay inputs.
        output_names: names of the ONNX outputs; ``output_0``, ``output_1``... by default, numbered
            as torch returns them; a dict replaces some, ``"auto"`` takes the names of fields and
            keys. An output that is None in torch has no ONNX output; numbers are
            0-d tensors.
        target_opset: the ONNX opset of the model, an int or ``{domain: version}``; 18 by default,
            23 for ONNX Runtime.
        dynamic_shapes: which dimensions may vary, as in torch.export (``Dim`` objects keep their
            names); a string is ``Dim.DYNAMIC`` with that name.
        output_dynamic_shapes: names for dimensions of outputs, by output name or in the structure
            of the results.
        optimize: run the builder's passes (unused nodes, identities, equal nodes, and constants,
            see ExportOptions) and the rewrites.
        rewrites: the rules of rewriting that ``optimize`` applies: ``"default"``, ``"none"``,
            ``"all"``, or a list such as ``["default", "-cast_cast", "my_rules.yaml"]``, see
            docs/rewrites.md.
        target: None writes standard ONNX; ``"onnxruntime"`` may use its own operators.
        export_options: how torch makes the graph that is converted, see ExportOptions.
        dispatcher: converters of your own: a dict by operator name, a Dispatcher, or an
            OxsDispatcher.
        export_modules_as_functions: True: every submodule becomes a local function of the domain
            ``aten_local_function``; or a set of classes (or of their names): only their modules do.
        inline: write no local functions: submodules stay in the graph, and the calls of functions
            that converters have added are replaced by their nodes.
        large_model: return a LargeModel, whose weights stay in torch until they are saved beside
            the model.
        external_threshold: with ``large_model``, weights of so many bytes or more are kept outside.
        filename: a path to which the model is written, too; the files appear whole or not at all.
            Weights of 2 GiB or more go to ``filename + ".data"``, as with ``large_model``.
        validate: True: run the model with ONNX Runtime, compare with eager on the example call and
            on other sizes of its dynamic dimensions, and print the table. A float is the largest
            absolute difference accepted, instead of a tolerance for each precision.
        verbose: how much is printed: 1 the steps, 2 the nodes, too.
        return_builder: return ``(model, builder)``; ``builder.record`` says what was done.
        report: a file for a report in Markdown: versions, steps, seconds by phase,
            operators, and what validation found.
        weights: ``"int4"`` or ``"int8"`` stores the weights of linear layers and embeddings as
            integers; a dict of the fields of `WeightOptions`, or one, says which and how. With
            ``return_builder``, ``builder.record.weights`` says how accurate the model is.
            It needs opset 21, the default then. ``"keep"``: as they are, as None, and the record
            says what they take; ``"float32"``: weights of bfloat16 and float16 that the graph
            casts are stored in float32. Neither changes what the model computes.
        max_error: with ``weights``, how far an output may be from what it was on the example call:
            root of the mean square of the difference, over that of the output. Layers that are
            furthest off keep their weights, as many as that takes.

    Returns:
        ``onnx.ModelProto`` (or LargeModel), whose graph has the name of the module's class. A
        graph that writes in place returns the new values as outputs after the user's: those of a
        buffer are named as in the state_dict, those of an input ``<input>_mutated``.
        ``metadata_props`` say what made the model, and what torch did to the graph before it was
        converted.

    Arguments of ``torch.onnx.export`` that mean the same are taken (``opset_version``, ``verify``,
    the file as third argument...); for the others the error says what to write here.

    Raises:
        ArgumentError: an argument that is not one of these.
        OptionError: an option has a value that is not accepted.
        InputError, ExportError: the arguments do not fit, torch cannot export the model, a name is
            wrong, a dynamic shape does not fit, or validation fails.
        FunctionNotFoundError: operators have no converter; all of them are listed.
        UnsupportedCase: a converter refuses the arguments of an operator, with the reason.
        ConversionError: a converter failed, or made another type or shape than torch.
    """
    check_flags(return_builder=return_builder)
    made = convert(
        mod,
        args,
        kwargs,
        input_names=input_names,
        output_names=output_names,
        target_opset=target_opset,
        dynamic_shapes=dynamic_shapes,
        output_dynamic_shapes=output_dynamic_shapes,
        optimize=optimize,
        rewrites=rewrites,
        target=target,
        export_options=export_options,
        dispatcher=dispatcher,
        export_modules_as_functions=export_modules_as_functions,
        inline=inline,
        large_model=large_model,
        external_threshold=external_threshold,
        filename=filename,
        validate=validate,
        verbose=verbose,
        report=report,
        weights=weights,
        max_error=max_error,
    )
    return (made.model, made.builder) if return_builder else made.model


@in_turn
@outside_fake_mode
@outside_autocast
def convert(
    mod: Any,
    args: Any,
    kwargs: Any,
    *,
    input_names: Any,
    output_names: Any,
    target_opset: Any,
    dynamic_shapes: Any,
    output_dynamic_shapes: Any,
    optimize: bool,
    rewrites: Any,
    target: str | None,
    export_options: ExportOptions | None,
    dispatcher: Any,
    export_modules_as_functions: Any,
    inline: bool,
    large_model: bool,
    external_threshold: int,
    filename: Any,
    validate: bool | float,
    verbose: int,
    report: Any,
    weights: Any = None,
    max_error: Any = None,
    outgrown: int | None = None,
) -> Conversion:
    """What to_onnx and export do, see there. ``outgrown``: weights of so many bytes make a
    LargeModel of it; None: those that no protobuf file holds, where there is a file to write.
    """
    check_versions("torch", "onnx")
    check_flags(optimize=optimize, inline=inline, large_model=large_model)
    check_numbers(verbose, external_threshold)
    check_file("filename", filename)
    check_file("report", report)
    check_names("input_names", input_names)
    check_names("output_names", output_names, "auto")
    options = checked_options(export_options)
    rounding = checked_rounding(weights, max_error, validate, export_modules_as_functions)
    opset = checked_opset(target_opset, checked_target(target), _is_coded(rounding))
    passes = pipeline.chosen(
        optimize,
        rewrites,
        folding=options.constant_folding,
        weight_transposes=options.constant_folding and not large_model,
    )
    bodies = replace(passes, weight_transposes=False)  # functions hold weights as they are
    checked_validate(validate)
    dispatcher = checked_dispatcher(dispatcher)
    mod = check_model(opened(mod))
    args, kwargs = checked_call(args, kwargs, mod)
    extra = dynamic_shapes if isinstance(dynamic_shapes, AdditionalInputs) else None
    dynamic_shapes = resolved(dynamic_shapes, mod, args, kwargs)
    choices = function_choices(
        export_modules_as_functions,
        options,
        bodies,
        inline,
        external_threshold if large_model else None,
    )
    record = ExportRecord(verbose=verbose, progress=options.progress)
    tables = generated_tables()
    if "custom_ops" in options.functions:
        dispatcher = FunctionBodies(dispatcher, tables, bodies, inline)
    main = opset if isinstance(opset, int) else opset[""]
    request = Request(
        mod, args, kwargs, dynamic_shapes, options, tables, dispatcher, record, extra, main
    )
    form = Form(options, target, inline, large_model, external_threshold)
    with reporting(report, request) as results:
        results["program"] = program = _captured(request)
        given = chosen_inputs(program, input_names)
        returned = chosen_outputs(program, output_names, given)
        dims = name_output_dims(program, output_dynamic_shapes, returned)
        builder = GraphBuilder(opset, target=target, name=model_name(request.model, program))
        with record.phase("convert"), needing_opset(program, main):
            _convert(builder, request, program, given, returned, choices)
        _optimize(builder, request, passes)
        _round(builder, request, program, rounding, max_error)
        with record.phase("serialise"):
            weights_become_inputs(builder, program)
            large = large_model or too_large(builder, outgrown, filename is not None, record)
            model = serialised(builder, form, large)
            results["model"] = model
            write_dims(model, dims)
            annotate(model, program, description(request.model, options.doc_string))
        _validate(model, request, program, validate)
        _write(model, filename, record)
    recipe = Recipe(opset, passes, given, returned)
    return Conversion(model, builder, request, program, form, dims, regions_around(), recipe)


def converted_again(
    request: Request, program: Program, form: Form, recipe: Recipe, passes: pipeline.PassOptions
) -> GraphBuilder:
    """The graph of a program that was converted before, with other passes, and no module as a
    function."""
    builder = GraphBuilder(recipe.opset, target=form.target)
    _convert(builder, request, program, recipe.inputs, recipe.outputs, None)
    if passes.optimize:
        pipeline.run_passes(builder, passes)
    return builder


def _is_coded(weights: object) -> bool:
    """Whether weights become integers."""
    return isinstance(weights, WeightOptions)


def _captured(request: Request) -> Program:
    """The program to convert; the record has what it took to get there."""
    record = request.record
    program = make_program(request)
    record.steps, record.guards = program.notes, program.guards
    record.assertions = lost_assertions(program.graph_module)
    tell_guards(program.guards, request.options.guards)
    record.say("export", *filter(None, [record.strategy]), *program.notes)
    return program


def _tell_converted(builder: GraphBuilder, request: Request) -> None:
    record = request.record
    lost = [f"{len(record.assertions)} assertions dropped"] if record.assertions else []
    record.say("convert", f"{len(builder.nodes)} nodes", *lost)
    if record.verbose:
        tell_unused(request.dispatcher)


def _optimize(builder: GraphBuilder, request: Request, passes: pipeline.PassOptions) -> None:
    """Tells what was converted, and runs the passes."""
    _tell_converted(builder, request)
    record = request.record
    if not passes.optimize:
        return
    with record.phase("rewrite"):
        pipeline.run_passes(builder, passes, record.rewrites)
    fired = len(record.rewrites.fired)
    record.say("rewrite", f"{fired} rewrites", f"{len(builder.nodes)} nodes")


def _round(
    builder: GraphBuilder,
    request: Request,
    program: Program,
    weights: WeightOptions | Stored | None,
    max_error: float | None,
) -> None:
    if weights is None:
        return
    record = request.record
    if not isinstance(weights, WeightOptions):
        record.weights = stored_builder(builder, weights, record.rewrites)
        record.say("rewrite", str(record.weights))
        return
    with record.phase("round weights"):
        feeds = None if program.fakes else example_feeds(builder, request, program)
        record.weights = rounded_builder(builder, weights, feeds, max_error, record.rewrites)
    record.say("round weights", str(record.weights).partition("\n")[0])


def serialised(builder: GraphBuilder, form: Form, large: bool) -> Any:
    """The graph as a ModelProto, or as a LargeModel."""
    return builder.to_onnx(
        large_model=large,
        external_threshold=form.external_threshold,
        optimize=False,  # the passes have run, those that were asked for
        inline=form.inline,
        metadata=form.options.metadata,
        value_info=form.options.value_info,
    )


def _write(model: Any, filename: str | os.PathLike[str] | None, record: ExportRecord) -> None:
    if filename is None:
        return
    with record.phase("write"):
        write_model(model, filename, record)
    record.say("write", str(filename))


def _validate(model: Any, request: Request, program: Program, validate: bool | float) -> None:
    if not validate:
        return
    record = request.record
    accepted = record.accepted = validate if isinstance(validate, float) else None
    with record.phase("validate"):
        record.comparisons = validate_model(model, request, program, accepted)
    call = module_and_call(request)[1]
    check_comparisons(
        record.comparisons,
        explain=lambda: explained(
            record.comparisons, model, program, call, request.tables, accepted
        ),
    )
    record.say("validate", "equal to eager")


def _convert(
    builder: Any,
    request: Request,
    program: Program,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    choices: FunctionChoices | None,
) -> None:
    """Fills the graph of ``builder``: one interpreter over the program."""
    builder.rename_dims = program.symbol_names
    builder.ctx = replace(builder.ctx, record=request.record)
    inputs = name_inputs([str(node.target) for node in program.onnx_inputs()], input_names)
    names, order = output_plan(program, inputs, output_names)
    weights = weight_names(program, inputs, names, request.options.initializer_names)
    arguments: dict[str, Any] = {
        "input_names": inputs,
        "initializer_names": weights,
        "output_names": names,
        "output_order": order,
        "verbose": request.record.verbose,
    }
    interpreter = (
        DynamoInterpreter(builder, program.retrieve, request.dispatcher, **arguments)
        if choices is None
        else FunctionInterpreter(
            builder, None, request.dispatcher, choices=choices, program=program, **arguments
        )
    )
    before = 0 if program.exported is None else count_guards(program.exported)
    interpreter.run(program.graph_module)
    add_guards_of_bodies(program, request, before)
    note_weights(program, interpreter.inputs)
    if choices is None:
        program.results.update(
            (name, node.name) for node, name in interpreter.values.items() if isinstance(name, str)
        )
        program.cases.update((node.name, case) for node, case in interpreter.cases.items())
