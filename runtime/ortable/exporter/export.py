"""export: a module, an exported program or a torch.fx graph becomes an OnnxProgram. In come the
arguments of to_onnx, out goes the program. Called by users."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import torch

from ortable.exporter.request.options import ExportOptions
from ortable.exporter.request.torch_onnx import answering

from .keywords import Arguments, Converters, DynamicShapes, Model, PathName, Weights
from .program import OUTGROWN, OnnxProgram
from .to_onnx import convert


@answering
def export(
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
    validate: bool | float = False,
    verbose: int = 0,
    report: PathName | None = None,
    weights: Weights = None,
    max_error: float | None = None,
) -> OnnxProgram:
    """Export a PyTorch model to ONNX, as a program that is called like the model.

    The arguments are those of ``to_onnx`` and mean the same. Two are missing: ``filename``
    (``program.save(path)`` writes the model) and ``return_builder`` (``program.report`` says what
    was done).

    Args:
        large_model: keep the weights in torch instead of copying them into a ModelProto; so are
            those of 1.5 GiB or more in any case. The program then has the module's own tensors.
        external_threshold: weights of so many bytes or more are kept outside of the ModelProto, or
            written to another file, where weights are.

    Returns:
        OnnxProgram: call it, ``save`` it, ``validate`` it, make a ``session`` of it.

    Raises:
        OrtableError: as to_onnx does; ArgumentError for an argument that is not one of these.
    """
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
        filename=None,
        validate=validate,
        verbose=verbose,
        report=report,
        weights=weights,
        max_error=max_error,
        outgrown=OUTGROWN,
    )
    return OnnxProgram(made)
