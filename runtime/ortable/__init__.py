"""PyTorch graphs to ONNX from tables, and ONNX Runtime behind ``torch.compile``.

    torch.compile(model, backend="ortable")          # works without importing ortable
    ortable.to_onnx(model, (x,), filename="m.onnx")  # returns an onnx.ModelProto, writes the file

Names are stable unless they are marked provisional or experimental (docs/releasing.md).

Export:
    export: converts a model to an OnnxProgram
    OnnxProgram: called like the module; methods save, validate, optimize and draw it
    ExportReport: the record of an export, ``program.report`` (provisional)
    Validation: the difference between a program and eager, ``program.validate()`` (provisional)
    to_onnx: converts a module, an exported program or a torch.fx graph to an ONNX model
    observe: records dynamic shapes of real calls, for an export or torch.compile (provisional)
    Observation: the dynamic shapes of recorded calls (provisional)
    ProofReport: a graph compared with eager at sizes 0, 1, small primes, the maximum (provisional)
    ExportOptions: how torch makes the graph to convert
    WeightOptions: which weights ``weights=`` stores as integers, and how (provisional)
    WeightReport: which weights were quantized, and the accuracy of the model (provisional)
    LargeModel: a model whose weights stay outside of protobuf (provisional)
    attach_weights: adds weights to a model that was exported without them
    match_input_parameters: the inputs of a model whose weights are inputs (provisional)
    export_language_model: writes a language model with its cache to files (provisional)
    load_quantized_checkpoint: a language model whose weights stay the codes of a file (provisional)
    CacheOptions: how ``cache=`` of export_language_model quantizes keys and values (provisional)
    OnnxLanguageModel: runs the files of export_language_model token by token (provisional)
    bypass_export_some_errors: works around known failures of torch.export (experimental)
    register_transformers: adds the format "ortable" to transformers' exporters (experimental)

torch.compile:
    onnx_custom_backend: the backend as a function, with its options as keywords
    OrtOptions: the options, checked by the constructor
    OrtOptionsDict: the names and types of the options, for ``options={...}``
    OrtBackend: a compiled graph (provisional)
    refresh: makes compiled graphs read their weights again
    get_decomposition_table: the decompositions that suit the converters (provisional)
    filter_decomposition_table: removes decompositions that converters replace (provisional)

Converters of your own:
    Dispatcher: converters by operator, which precede the generated ones (provisional)
    OxsDispatcher: a Dispatcher with onnxscript's converters for missing operators (experimental)
    from_seed_style: adapts a converter ``f(g, sts, outputs, *args)`` (experimental)
    Converter: the type of a converter, ``f(graph, res, *args, **kwargs)`` (provisional)
    ResultSpec: names, dtype and shape of the result, for a converter (provisional)
    load_specs: adds the operators of a YAML file
    LoadedSpecs: the operators that load_specs has added (provisional)
    supported_ops: every operator with a converter
    SupportedOp: an operator with a converter (provisional)

Graphs:
    GraphBuilder: builds, reads, optimizes and writes an ONNX graph
    Node: a node of a graph (provisional)
    DynamoInterpreter: converts a torch.fx graph into nodes (provisional)

Looking and comparing:
    bisect: finds the part that makes a model differ from eager, with file and line (provisional)
    Bisection: the result of bisect (provisional)
    Fault: the part that is wrong (provisional)
    first_difference: the first result of a compiled or exported model that differs from eager
    Comparison: the result of first_difference (provisional)
    Difference: the result that differs, and the spec entry that produced it (provisional)
    explain: the partitions and graph breaks of a model under torch.compile, with reasons
    Explanation: the result of explain (provisional)
    profile: the time of a call by module, line, operator and kernel (provisional)
    Profile: the result of profile (provisional)
    pretty_onnx: a model as text
    draw: a model as a picture, or as a graph of Model Explorer
    plot_dot: a model as a picture, on matplotlib axes (provisional)
    ExtendedReferenceEvaluator: onnx's evaluator with additional operators (experimental)
    onnx_debug_backend: a backend that runs node by node and compares with torch (experimental)

Errors (docs/errors.md; all of them are in ``ortable.errors``):
    errors: the module of the errors
    OrtableError: the base class of all errors
    ArgumentError: to_onnx lacks an argument; the message has the name for one of torch.onnx
    BuilderError: a graph cannot be built
    ConversionError: a converter failed, or its result differs from torch's
    ExportError: a model could not be converted to a torch graph or an ONNX model
    FallbackWarning: an operator that cannot be converted runs in torch
    FunctionNotFoundError: operators have no converter
    GradientsOnWarning: a model in eval mode is slow because gradients are enabled
    InputError: inputs do not fit the model
    KernelError: the target has no kernel for an operator and a type
    MismatchError: a result differs from eager's
    OptionError: an option is unknown, or its value is not accepted
    PrecompileError: a compiled graph cannot be saved to a file or loaded from it
    ProviderError: an execution provider is missing or failed
    RewriteError: rewrite rules undo one another
    SpecError: a spec file is wrong
    UnsupportedCase: a converter refuses these arguments
    UnsupportedDtype: ONNX does not have a dtype
    UntestedVersionWarning: torch, onnx or onnxruntime is newer than the tested versions
    VersionError: torch, onnx or onnxruntime is too old, or lacks an interface

Importing ortable is cheap: a name is loaded from its module when it is first used. The shell
command is ``ortable`` (``ortable --help``).
"""

from __future__ import annotations

import logging as _logging
from typing import TYPE_CHECKING

__version__ = "0.1.0"  # pyproject.toml reads it from this line

# Each public name is listed twice, for type checkers and for the first use at run time;
# tests/packaging/test_public_names.py checks that the two lists are equal.
if TYPE_CHECKING:
    from . import errors as errors
    from .backend.aot.decompositions import filter_decomposition_table as filter_decomposition_table
    from .backend.aot.decompositions import get_decomposition_table as get_decomposition_table
    from .backend.aot.entry import onnx_custom_backend as onnx_custom_backend
    from .backend.execute.call import OrtBackend as OrtBackend
    from .backend.execute.weights import refresh as refresh
    from .backend.options import OrtOptions as OrtOptions
    from .backend.options import OrtOptionsDict as OrtOptionsDict
    from .builder import GraphBuilder as GraphBuilder
    from .builder import LargeModel as LargeModel
    from .builder import Node as Node
    from .builder import ResultSpec as ResultSpec
    from .debug.backend import onnx_debug_backend as onnx_debug_backend
    from .debug.bisection.records import Bisection as Bisection
    from .debug.bisection.records import Fault as Fault
    from .debug.bisection.search import bisect as bisect
    from .debug.comparing.records import Comparison as Comparison
    from .debug.comparing.records import Difference as Difference
    from .debug.difference import first_difference as first_difference
    from .debug.explain_call import explain as explain
    from .debug.explain_records import Explanation as Explanation
    from .debug.plot import draw as draw
    from .debug.plot import plot_dot as plot_dot
    from .debug.profiling.call import profile as profile
    from .debug.profiling.report import Profile as Profile
    from .debug.reference import ExtendedReferenceEvaluator as ExtendedReferenceEvaluator
    from .errors import ArgumentError as ArgumentError
    from .errors import BuilderError as BuilderError
    from .errors import ConversionError as ConversionError
    from .errors import ExportError as ExportError
    from .errors import FallbackWarning as FallbackWarning
    from .errors import FunctionNotFoundError as FunctionNotFoundError
    from .errors import GradientsOnWarning as GradientsOnWarning
    from .errors import InputError as InputError
    from .errors import KernelError as KernelError
    from .errors import MismatchError as MismatchError
    from .errors import OptionError as OptionError
    from .errors import OrtableError as OrtableError
    from .errors import PrecompileError as PrecompileError
    from .errors import ProviderError as ProviderError
    from .errors import RewriteError as RewriteError
    from .errors import SpecError as SpecError
    from .errors import UnsupportedCase as UnsupportedCase
    from .errors import UnsupportedDtype as UnsupportedDtype
    from .errors import UntestedVersionWarning as UntestedVersionWarning
    from .errors import VersionError as VersionError
    from .exporter.capture.workarounds import bypass_export_some_errors as bypass_export_some_errors
    from .exporter.checkpoints.loader import load_quantized_checkpoint as load_quantized_checkpoint
    from .exporter.dispatchers.dispatcher import Converter as Converter
    from .exporter.dispatchers.dispatcher import Dispatcher as Dispatcher
    from .exporter.dispatchers.dispatcher import from_seed_style as from_seed_style
    from .exporter.dispatchers.onnxscript_dispatcher import OxsDispatcher as OxsDispatcher
    from .exporter.frontend.export_request import ExportOptions as ExportOptions
    from .exporter.frontend.fake_weights import attach_weights as attach_weights
    from .exporter.frontend.fake_weights import match_input_parameters as match_input_parameters
    from .exporter.language_models.export import export_language_model as export_language_model
    from .exporter.language_models.quantized_kv_cache import CacheOptions as CacheOptions
    from .exporter.language_models.runner import OnnxLanguageModel as OnnxLanguageModel
    from .exporter.observation.proof import ProofReport as ProofReport
    from .exporter.observe import Observation as Observation
    from .exporter.observe import observe as observe
    from .exporter.program import OnnxProgram as OnnxProgram
    from .exporter.register_transformers import register_transformers as register_transformers
    from .exporter.reporting.quantization_report import WeightReport as WeightReport
    from .exporter.reporting.report import ExportReport as ExportReport
    from .exporter.reporting.validate import Validation as Validation
    from .exporter.to_onnx import export as export
    from .exporter.to_onnx import to_onnx as to_onnx
    from .interpreter.interpreter import DynamoInterpreter as DynamoInterpreter
    from .interpreter.user_specs import LoadedSpecs as LoadedSpecs
    from .interpreter.user_specs import SupportedOp as SupportedOp
    from .interpreter.user_specs import load_specs as load_specs
    from .interpreter.user_specs import supported_ops as supported_ops
    from .ir.proto.text import pretty_onnx as pretty_onnx
    from .passes.weight_quantization import WeightOptions as WeightOptions

_PUBLIC: dict[str, str] = {
    "ArgumentError": "ortable.errors",
    "BuilderError": "ortable.errors",
    "Bisection": "ortable.debug.bisection.records",
    "CacheOptions": "ortable.exporter.language_models.quantized_kv_cache",
    "Comparison": "ortable.debug.comparing.records",
    "ConversionError": "ortable.errors",
    "Converter": "ortable.exporter.dispatchers.dispatcher",
    "Difference": "ortable.debug.comparing.records",
    "Dispatcher": "ortable.exporter.dispatchers.dispatcher",
    "DynamoInterpreter": "ortable.interpreter.interpreter",
    "ExportError": "ortable.errors",
    "ExportOptions": "ortable.exporter.frontend.export_request",
    "Explanation": "ortable.debug.explain_records",
    "ExportReport": "ortable.exporter.reporting.report",
    "ExtendedReferenceEvaluator": "ortable.debug.reference",
    "Fault": "ortable.debug.bisection.records",
    "FallbackWarning": "ortable.errors",
    "FunctionNotFoundError": "ortable.errors",
    "GraphBuilder": "ortable.builder",
    "GradientsOnWarning": "ortable.errors",
    "InputError": "ortable.errors",
    "KernelError": "ortable.errors",
    "LargeModel": "ortable.builder",
    "LoadedSpecs": "ortable.interpreter.user_specs",
    "MismatchError": "ortable.errors",
    "Node": "ortable.builder",
    "OnnxLanguageModel": "ortable.exporter.language_models.runner",
    "Observation": "ortable.exporter.observe",
    "OnnxProgram": "ortable.exporter.program",
    "OptionError": "ortable.errors",
    "OrtBackend": "ortable.backend.execute.call",
    "OrtOptions": "ortable.backend.options",
    "OrtOptionsDict": "ortable.backend.options",
    "OrtableError": "ortable.errors",
    "OxsDispatcher": "ortable.exporter.dispatchers.onnxscript_dispatcher",
    "PrecompileError": "ortable.errors",
    "Profile": "ortable.debug.profiling.report",
    "ProofReport": "ortable.exporter.observation.proof",
    "ProviderError": "ortable.errors",
    "ResultSpec": "ortable.builder",
    "RewriteError": "ortable.errors",
    "SpecError": "ortable.errors",
    "SupportedOp": "ortable.interpreter.user_specs",
    "UnsupportedCase": "ortable.errors",
    "UnsupportedDtype": "ortable.errors",
    "UntestedVersionWarning": "ortable.errors",
    "VersionError": "ortable.errors",
    "Validation": "ortable.exporter.reporting.validate",
    "WeightOptions": "ortable.passes.weight_quantization",
    "WeightReport": "ortable.exporter.reporting.quantization_report",
    "attach_weights": "ortable.exporter.frontend.fake_weights",
    "bisect": "ortable.debug.bisection.search",
    "bypass_export_some_errors": "ortable.exporter.capture.workarounds",
    "draw": "ortable.debug.plot",
    "errors": "ortable",
    "explain": "ortable.debug.explain_call",
    "export": "ortable.exporter.to_onnx",
    "export_language_model": "ortable.exporter.language_models.export",
    "filter_decomposition_table": "ortable.backend.aot.decompositions",
    "first_difference": "ortable.debug.difference",
    "from_seed_style": "ortable.exporter.dispatchers.dispatcher",
    "get_decomposition_table": "ortable.backend.aot.decompositions",
    "load_quantized_checkpoint": "ortable.exporter.checkpoints.loader",
    "load_specs": "ortable.interpreter.user_specs",
    "match_input_parameters": "ortable.exporter.frontend.fake_weights",
    "observe": "ortable.exporter.observe",
    "onnx_custom_backend": "ortable.backend.aot.entry",
    "onnx_debug_backend": "ortable.debug.backend",
    "plot_dot": "ortable.debug.plot",
    "pretty_onnx": "ortable.ir.proto.text",
    "profile": "ortable.debug.profiling.call",
    "refresh": "ortable.backend.execute.weights",
    "register_transformers": "ortable.exporter.register_transformers",
    "supported_ops": "ortable.interpreter.user_specs",
    "to_onnx": "ortable.exporter.to_onnx",
}

__all__ = sorted(_PUBLIC)

_logging.getLogger(__name__).addHandler(_logging.NullHandler())  # silent unless configured

if not TYPE_CHECKING:  # with it, type checkers would accept every misspelled name

    def __getattr__(name: str) -> object:
        import importlib

        module = _PUBLIC.get(name)
        if module is None:
            raise AttributeError(f"module 'ortable' has no attribute {name!r}")
        if module == "ortable":
            return importlib.import_module(f"ortable.{name}")
        value = getattr(importlib.import_module(module), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
