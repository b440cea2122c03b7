"""Entry points `to_onnx` and `export`, which convert a torch model to an ONNX model or program.

`arguments.py` checks the arguments; `conversion.py` has the steps.
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
# With a filename, a model of 2 GiB or more is returned as a LargeModel. This is rare; `Any` saves
# callers a type check.
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
            (``.pt2``), or a ``torch.fx.GraphModule``. With ``args``, torch.export exports a
            GraphModule of torch functions, methods or modules again; without, the tables of torch
            functions convert it.
        args: positional arguments of the example call. Tensors become inputs of the ONNX model,
            also inside containers and classes registered with torch's pytree; numbers and None
            become constants, except integers that ``dynamic_shapes`` marks, which are int64[1]
            inputs.
        kwargs: keyword arguments of the example call.
        input_names: names of the ONNX inputs, or a dict that replaces some; those of forward's
            parameters by default. Unused inputs stay inputs.
        output_names: names of the ONNX outputs; ``output_0``, ``output_1``... by default, numbered
            as torch returns them; a dict replaces some, ``"auto"`` uses the names of fields and
            keys. A result that is None has no ONNX output; numbers are 0-d tensors.
        target_opset: the ONNX opset of the model, an int or ``{domain: version}``; 18 by default,
            23 for ONNX Runtime.
        dynamic_shapes: which dimensions may vary, as in torch.export (``Dim`` objects keep their
            names); a string is ``Dim.DYNAMIC`` with that name.
        output_dynamic_shapes: names for dimensions of outputs, by output name or in the structure
            of the results.
        optimize: run the builder's passes (remove unused nodes and identities, merge equal nodes,
            fold constants as ExportOptions says) and the rewrites.
        rewrites: the rewrite rules that ``optimize`` applies: ``"default"``, ``"none"``,
            ``"all"``, or a list such as ``["default", "-cast_cast", "my_rules.yaml"]``, see
            docs/rewrites.md.
        target: None writes standard ONNX; ``"onnxruntime"`` may use its own operators.
        export_options: how torch captures the graph, see ExportOptions.
        dispatcher: custom converters: a dict by operator name, a Dispatcher, or an OxsDispatcher.
        export_modules_as_functions: True makes every submodule a local function of the domain
            ``aten_local_function``; a set of classes (or of their names) only their modules.
        inline: write no local functions: submodules stay in the graph, and calls of functions that
            converters added are replaced by the nodes of the function.
        external_threshold: with ``large_model``, the size in bytes from which a weight is kept
            outside of the ModelProto.
        validate: True: run the model with ONNX Runtime, compare with eager on the example call and
            on other sizes of its dynamic dimensions, and print the table. A float is the largest
            absolute difference accepted, instead of a tolerance for each precision.
        verbose: 0 prints nothing, 1 the steps, 2 also the nodes.
        report: the path of a Markdown report to write: versions, steps, seconds by phase,
            operators, and the results of validation.
        weights: ``"int4"`` or ``"int8"`` stores the weights of linear layers and embeddings as
            integers; `WeightOptions`, or a dict of its fields, selects the layers and the format.
            This needs opset 21, which is then the default. ``"float16"`` makes a float16 model of a
            float32 model, which computes in float32 where float16 is not safe; ``"int4+float16"``
            and ``"int8+float16"`` make one around integers. With ``return_builder``,
            ``builder.record.weights`` reports the accuracy. ``"float32"`` stores bfloat16 and
            float16 weights that the graph casts in float32; ``"keep"`` changes no weight, as None,
            and records their size. These two do not change the results of the model.
        max_error: with ``weights``, the largest error of an output on the example call: the root
            mean square of the difference, divided by that of the output. Layers with the largest
            errors get 8 bits in place of 4, or keep their weights, as many as necessary.
        calibration: with codes as ``weights``, calls with inputs like those that the model will
            get: a list of tuples of arguments, or of dicts of keyword arguments. The codes of each
            linear layer then minimize the error of its results on these inputs. Sizes may differ
            from those of the example call where ``dynamic_shapes`` allows it.
        large_model: return a LargeModel, whose weights stay in torch until they are saved beside
            the model.
        filename: a path to which the model is also written; an error leaves no partial file.
            Weights of 2 GiB or more go to ``filename + ".data"``, as with ``large_model``.
        return_builder: return ``(model, builder)``; ``builder.record`` lists the steps.

    Returns:
        ``onnx.ModelProto`` (or LargeModel), whose graph has the name of the module's class. If
        forward mutates buffers or inputs, their new values are outputs after the user's: those of
        a buffer are named as in the state_dict, those of an input ``<input>_mutated``.
        ``metadata_props`` list the versions and the steps of the capture.

    Arguments of ``torch.onnx.export`` with the same meaning are accepted (``opset_version``,
    ``verify``, the file as third argument...); for the rest the error names the equivalent.

    Raises:
        ArgumentError: an argument is unknown.
        OptionError: an option has an invalid value.
        InputError, ExportError: the example does not match forward, torch cannot export the model,
            a name or a dynamic shape is invalid, or validation fails.
        FunctionNotFoundError: operators have no converter; the error lists all of them.
        UnsupportedCase: a converter does not support the arguments of an operator.
        ConversionError: a converter failed, or its type or shape differs from torch's.
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

    The arguments are those of ``to_onnx``, except ``filename`` (``program.save(path)`` writes the
    model) and ``return_builder`` (``program.report`` lists the steps).

    Args:
        mod: see to_onnx.
        args: positional arguments of the example call.
        kwargs: keyword arguments of the example call.
        external_threshold: the size in bytes from which a weight is kept outside of the ModelProto,
            or written to the data file, if weights are external.
        large_model: keep the weights in torch instead of copying them into a ModelProto. The
            program then shares the module's tensors. Weights of 1.5 GiB or more are always kept
            in torch.

    Returns:
        OnnxProgram: a program to call, ``save``, ``validate``, or run as a ``session``.

    Raises:
        OrtableError: see to_onnx; ArgumentError for an unknown argument.
    """
    conversion = convert(mod, args, kwargs, keywords, large_model_bytes=LARGE_MODEL_BYTES)
    del conversion.builder  # frees memory: the builder is as large as the model
    return OnnxProgram(conversion)
