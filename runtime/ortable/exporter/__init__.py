"""From a PyTorch model to an ONNX model: export and to_onnx, their options, and the converters that
a caller may add. Public: export, OnnxProgram, ExportReport, Validation, to_onnx, ExportOptions,
Dispatcher, OxsDispatcher, from_seed_style, match_input_parameters, attach_weights. Called by users
and by `ortable.cli`; `backend` reads its options."""

from __future__ import annotations

from ortable.exporter.account.report import ExportReport
from ortable.exporter.account.validate import Validation
from ortable.exporter.capture.bypass import bypass_export_some_errors
from ortable.exporter.dispatchers.dispatcher import Converter, Dispatcher, from_seed_style
from ortable.exporter.dispatchers.onnxscript_dispatcher import OxsDispatcher
from ortable.exporter.request.fake_weights import match_input_parameters
from ortable.exporter.request.options import ExportOptions

from .attach import attach_weights
from .program import OnnxProgram
from .to_onnx import export, to_onnx

__all__ = [
    "Converter",
    "Dispatcher",
    "ExportOptions",
    "ExportReport",
    "OnnxProgram",
    "OxsDispatcher",
    "Validation",
    "attach_weights",
    "bypass_export_some_errors",
    "export",
    "from_seed_style",
    "match_input_parameters",
    "to_onnx",
]
