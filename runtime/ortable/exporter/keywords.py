"""The types of to_onnx's arguments, for type checkers and for who passes the arguments on; what
they mean is said by `to_onnx`. Read by to_onnx.py."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

import torch

from ortable.exporter.dispatchers.dispatcher import Converter
from ortable.exporter.request.options import ExportOptions
from ortable.interpreter.calls import Dispatcher
from ortable.passes.weight_codes import WeightOptions

PathName: TypeAlias = str | os.PathLike[str]
Model: TypeAlias = torch.nn.Module | torch.export.ExportedProgram | PathName
Arguments: TypeAlias = tuple[Any, ...] | list[Any] | torch.Tensor
Converters: TypeAlias = Dispatcher | Mapping[Any, Converter]
# A structure like that of the arguments: dimensions by axis, as `Dim`, `Dim.DYNAMIC` or a name.
DynamicShapes: TypeAlias = (
    Mapping[str, Any]
    | tuple[Any, ...]
    | list[Any]
    | torch.export.ShapesCollection
    | torch.export.AdditionalInputs
)
Weights: TypeAlias = (
    Literal["keep", "float32", "int4", "int8"] | Mapping[str, Any] | WeightOptions | None
)


class ToOnnxKeywords(TypedDict, total=False):
    """Keywords of to_onnx that do not decide about the type of what it returns."""

    input_names: Sequence[str] | Mapping[str, str] | None
    output_names: Sequence[str] | Mapping[str, str] | None
    target_opset: int | Mapping[str, int] | None
    dynamic_shapes: DynamicShapes | None
    output_dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None
    optimize: bool
    rewrites: str | Sequence[str]
    target: Literal["onnxruntime"] | None
    export_options: ExportOptions | None
    dispatcher: Converters | None
    export_modules_as_functions: bool | Collection[type[torch.nn.Module] | str]
    inline: bool
    external_threshold: int
    validate: bool | float
    verbose: int
    report: PathName | None
    weights: Weights
    max_error: float | None
