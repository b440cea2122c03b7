"""The entry points `to_onnx` and `export`: a module, an exported program or a torch.fx graph
becomes an ONNX model or an `OnnxProgram`.

`arguments.py` checks the arguments, `conversion.py` has the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Unpack, overload

from onnx import ModelProto

from ..builder import GraphBuilder, LargeModel
from .arguments import (
    Arguments,
    ExportKeywords,
    Keywords,
    Model,
    PathName,
    ToOnnxKeywords,
    accept_torch_onnx_args,
)
from .conversion import convert
from .program import LARGE_MODEL_BYTES, OnnxProgram


@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    large_model: Literal[False] = False,
    filename: None = None,
    return_builder: Literal[False] = False,
    **keywords: Unpack[Keywords],
) -> ModelProto: ...
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    large_model: Literal[True],
    filename: PathName | None = None,
    return_builder: Literal[False] = False,
    **keywords: Unpack[Keywords],
) -> LargeModel: ...
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    return_builder: Literal[True],
    filename: PathName | None = None,
    **keywords: Unpack[ExportKeywords],
) -> tuple[Any, GraphBuilder]: ...
# A model of 2 GiB or more that is written to a file is returned as a LargeModel. Few are: with
# `Any` the others need no check of the type.
@overload
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    **keywords: Unpack[ToOnnxKeywords],
) -> ModelProto | Any: ...
@accept_torch_onnx_args(ToOnnxKeywords)
def to_onnx(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    **keywords: Unpack[ToOnnxKeywords],
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
        external_threshold: with ``large_model``, weights of so many bytes or more are kept outside.
        validate: True: run the model with ONNX Runtime, compare with eager on the example call and
            on other sizes of its dynamic dimensions, and print the table. A float is the largest
            absolute difference accepted, instead of a tolerance for each precision.
        verbose: how much is printed: 1 the steps, 2 the nodes, too.
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
        large_model: return a LargeModel, whose weights stay in torch until they are saved beside
            the model.
        filename: a path to which the model is written, too; the files appear whole or not at all.
            Weights of 2 GiB or more go to ``filename + ".data"``, as with ``large_model``.
        return_builder: return ``(model, builder)``; ``builder.record`` says what was done.

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
    conversion = convert(mod, args, kwargs, keywords)
    model = conversion.model
    return (model, conversion.builder) if conversion.request.return_builder else model


@accept_torch_onnx_args(ExportKeywords)
def export(
    mod: Model,
    args: Arguments | None = (),
    kwargs: Mapping[str, Any] | None = None,
    **keywords: Unpack[ExportKeywords],
) -> OnnxProgram:
    """Export a PyTorch model to ONNX, as a program that is called like the model.

    The arguments are those of ``to_onnx`` and mean the same. Two are missing: ``filename``
    (``program.save(path)`` writes the model) and ``return_builder`` (``program.report`` says what
    was done).

    Args:
        external_threshold: weights of so many bytes or more are kept outside of the ModelProto, or
            written to another file, where weights are.
        large_model: keep the weights in torch instead of copying them into a ModelProto; so are
            those of 1.5 GiB or more in any case. The program then has the module's own tensors.

    Returns:
        OnnxProgram: call it, ``save`` it, ``validate`` it, make a ``session`` of it.

    Raises:
        OrtableError: as to_onnx does; ArgumentError for an argument that is not one of these.
    """
    conversion = convert(mod, args, kwargs, keywords, large_model_bytes=LARGE_MODEL_BYTES)
    del conversion.builder  # which is as large as the model
    return OnnxProgram(conversion)
