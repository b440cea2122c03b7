"""Export backend for transformers: an exporter, and a runner that is called like the model.

`register_transformers` registers both. Importing this module imports transformers.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import onnx
import torch
from transformers.exporters.auto import EXPORT_BACKENDS, register_backend
from transformers.exporters.configs import DynamoConfig
from transformers.exporters.exporter_dynamo import (
    DynamoExporter,
    apply_patches,
    get_auto_dynamic_shapes,
    patch_forward_signature,
    patch_model_config,
    reset_model_state,
)
from transformers.exporters.metadata import (
    ExportMetadata,
    build_export_metadata,
    record_output_structure,
)
from transformers.exporters.runners.base import ModelRunner
from transformers.exporters.utils import (
    disambiguate_io_names,
    onnx_inputs,
    patch_model_outputs,
    prepare_for_export,
)

from ortable.builder import LargeModel
from ortable.compat.providers import CPU, CUDA
from ortable.errors import InputError, OptionError, OrtableError, ProviderError
from ortable.exporter.capture.guards import find_guards
from ortable.exporter.capture.workarounds import bypass_export_some_errors
from ortable.exporter.conversion import write_model
from ortable.exporter.frontend.export_request import ExportOptions
from ortable.exporter.frontend.module_state import exclusive_export
from ortable.exporter.reporting.sessions import make_session, run_session

from .program import OnnxProgram
from .to_onnx import export

FORMAT = "ortable"
_EXTERNAL_THRESHOLD = 1024  # weights of at least this many bytes are written beside the model
_MUTATED_SUFFIX = "_mutated"  # suffix of an output that is the new value of an input


@dataclass
class OrtableConfig(DynamoConfig):
    """Export settings for transformers: ``DynamoConfig`` and options of ``ortable.export``.

    Args:
        target_opset: as in ``ortable.export``; None for its default.
        optimize: run ortable's passes and rewrites.
        rewrites: names of the rewrites, as in ``ortable.export``.
        target: ``"onnxruntime"`` may use operators that only ONNX Runtime has.
        fallback: if torch.export fails with transformers' settings, try the other strategies of
            ``ortable.export``, inside ``bypass_export_some_errors``.
    """

    export_format: str = FORMAT

    target_opset: int | None = None
    optimize: bool = True
    rewrites: str | Sequence[str] = "default"
    target: Literal["onnxruntime"] | None = None
    fallback: bool = True


@dataclass(frozen=True)
class SavedProgram:
    """A saved program: the path of the ONNX file, whose large weights are in ``<path>.data``."""

    path: Path


class OrtableExporter(DynamoExporter):
    """Exporter of transformers models that calls ``ortable.export``.

    torch.export runs with the settings of transformers' ``DynamoExporter``. ONNX inputs and outputs
    have the names that transformers' ONNX exporter gives them: the path to each tensor
    (``past_key_values.layers.0.keys``), prefixed with ``input.`` and ``output.`` if an input and an
    output have the same path. Each input that forward mutates adds an output ``<input>_mutated`` at
    the end.
    """

    export_format = FORMAT
    config_class = OrtableConfig
    program_suffix = ".onnx"

    required_packages = ("torch", "onnx", "onnxruntime")
    tested_versions: Mapping[str, str] = MappingProxyType({})  # ortable checks versions itself

    # transformers 5.24 requires consent to load files that can run code; an ONNX file cannot
    requires_trust_remote_code = False

    @exclusive_export()
    def export_program(
        self, model: Any, sample_inputs: MutableMapping[str, Any], config: Any
    ) -> tuple[OnnxProgram, ExportMetadata]:
        """Export a model; return the program and transformers' metadata of it.

        Args:
            model: the model to export.
            sample_inputs: keyword arguments of an example call.
            config: an `OrtableConfig`.

        Returns:
            The program, and transformers' metadata.

        Raises:
            OrtableError: as ``ortable.export`` does.
            OptionError: the quantizer of ``config`` takes ONNX models instead of torch graphs.
        """
        quantizer = config.quantizer
        if quantizer is not None and not quantizer.quantizes_fx_graph:
            raise OptionError(
                f"{type(quantizer).__name__} quantizes ONNX models, which ortable does not support "
                "here: use a quantizer of torch graphs (PT2EQuantizer), or quantize the saved file"
            )
        samples = dict(sample_inputs)
        options = {
            "target_opset": config.target_opset,
            "optimize": config.optimize,
            "rewrites": config.rewrites,
            "target": config.target,
        }
        with patch_model_outputs(model) as traced:
            try:
                exported, metadata = super().export_program(model, sample_inputs, config)
            except Exception as error:  # forward is any Python code, torch raises many types
                if not config.fallback or quantizer is not None:
                    raise
                return self._export_with_fallbacks(model, samples, config, options, traced, error)
            if config.fallback and quantizer is None and find_guards(exported, None):
                merged = self._merge_branch_variants(model, samples, config, options, traced)
                if merged is not None:
                    return merged
            if not traced[0]:  # dynamo drops writes of forward to these lists
                _call_model(model, samples, traced)
        inputs, outputs = disambiguate_io_names(*traced[:2])
        program = export(exported, input_names=inputs, output_names=outputs, **options)
        record_output_structure(metadata, traced[2][-1])
        return program, metadata

    def _merge_branch_variants(
        self,
        model: Any,
        sample_inputs: MutableMapping[str, Any],
        config: OrtableConfig,
        options: Mapping[str, Any],
        traced: tuple[list[str], list[str], list[Any]],
    ) -> tuple[OnnxProgram, ExportMetadata] | None:
        """Export a model such that the program has several sides of its branches on sizes.

        Returns None, and restores the lists ``traced``, if that fails or there is only one side.
        """
        saved: list[list[Any]] = [list(collected) for collected in traced]
        with warnings.catch_warnings(record=True) as caught:  # emitted only if this program is used
            warnings.simplefilter("always")
            try:
                merged = self._export_with_fallbacks(
                    model, sample_inputs, config, options, traced, None
                )
            except OrtableError:
                merged = None
        if merged is not None and merged[0].report.record.sides > 1:
            for warning in caught:
                warnings.warn_explicit(
                    warning.message, warning.category, warning.filename, warning.lineno
                )
            return merged
        for collected, saved_items in zip(traced, saved, strict=True):
            collected[:] = saved_items
        return None

    def _export_with_fallbacks(
        self,
        model: Any,
        sample_inputs: MutableMapping[str, Any],
        config: OrtableConfig,
        options: Mapping[str, Any],
        traced: tuple[list[str], list[str], list[Any]],
        error: Exception | None,
    ) -> tuple[OnnxProgram, ExportMetadata]:
        """Export a model with the fallback strategies of ``ortable.export``.

        ``error`` is what torch.export raised with transformers' settings, None if it did not fail.
        """
        sample, flags = _call_model(model, sample_inputs, traced)
        inputs, outputs = disambiguate_io_names(list(traced[0]), list(traced[1]))
        returned = traced[2][-1]
        shapes = config.dynamic_shapes
        if config.dynamic and shapes is None:
            shapes = get_auto_dynamic_shapes(sample)
        try:
            with (
                torch.no_grad(),
                bypass_export_some_errors(patch_transformers=False),
                apply_patches("dynamo"),
                reset_model_state(model),
                patch_model_config(model, flags),
                patch_forward_signature(model, sample),
            ):
                program = export(
                    model,
                    (),
                    copy.deepcopy(dict(sample)),
                    dynamic_shapes=shapes,
                    input_names=inputs,
                    output_names=outputs,
                    export_options=ExportOptions(strict=config.strict, fallback=True),
                    **options,
                )
        except OrtableError as fallback_error:
            raise fallback_error from error
        metadata = build_export_metadata(
            model, sample, program.exported_program, self.required_packages
        )
        record_output_structure(metadata, returned)
        return program, metadata

    @classmethod
    def save_program(cls, program: OnnxProgram | SavedProgram, path: Any) -> None:
        """Write the model to ``path`` and its weights to ``<path>.data``, or raise ExportError."""
        if isinstance(program, SavedProgram):
            model = LargeModel.of_proto(onnx.load(program.path), _EXTERNAL_THRESHOLD)
            write_model(model, path)
        else:
            program.save(path, external_data=True)
        Path(
            f"{path}.data"
        ).touch()  # transformers expects both files, even if all weights are small

    @classmethod
    def program_files(cls, filename: str) -> list[str]:
        """Return the file names of a saved program."""
        return [filename, f"{filename}.data"]

    @classmethod
    def load_program(cls, path: Any) -> SavedProgram:
        """Return the saved program; ONNX Runtime reads the file when a runner is created."""
        return SavedProgram(Path(path))


class OrtableRunner(ModelRunner):
    """Runs a program with ONNX Runtime; it is called like the model, with arguments by name.

    Arguments that forward mutates, such as a ``StaticCache``, are written in place.

    Args:
        metadata: transformers' metadata of the export.
        session: the ONNX Runtime session of the model.
    """

    def __init__(self, metadata: ExportMetadata, session: Any) -> None:
        super().__init__(metadata)
        self.session = session
        self._names = [value.name for value in session.get_inputs()]
        outputs = [value.name for value in session.get_outputs()]
        input_by_output = {f"{name}{_MUTATED_SUFFIX}": name for name in self._names}
        count = self.out_spec.num_leaves - len(self.out_constants)
        self._outputs = outputs[:count]
        # outputs after `count` are new values of inputs and buffers; those of buffers are dropped
        self._written = {
            name: input_by_output[name] for name in outputs[count:] if name in input_by_output
        }

    @property
    def device(self) -> torch.device:
        """The device that the session runs on."""
        return torch.device("cuda" if CUDA in self.session.get_providers() else "cpu")

    @classmethod
    def from_program(
        cls,
        program: OnnxProgram | SavedProgram,
        metadata: ExportMetadata,
        device: Any = None,
        providers: Sequence[Any] | None = None,
        session_options: Any = None,
    ) -> OrtableRunner:
        """Return a runner with a new session.

        Args:
            program: the result of ``export_program`` or ``load_program``.
            metadata: the metadata of the export of the program.
            device: ``"cpu"`` or ``"cuda"``; None for the program's default.
            providers: execution providers, instead of ``device``.
            session_options: an ``onnxruntime.SessionOptions``, or a dict of its settings.

        Returns:
            The runner.

        Raises:
            OptionError: both ``device`` and ``providers`` are given, or a setting is unknown.
            ProviderError: the provider does not exist or could not start.
        """
        if device is not None and providers is not None:
            raise OptionError("give either device or providers: providers determine the device")
        if providers is None and device is not None:
            providers = _device_providers(torch.device(device))
        if isinstance(program, SavedProgram):
            session = make_session(program.path, providers, session_options)
        else:
            session = program.session(providers=providers, session_options=session_options or {})
        return cls(metadata, session)

    def __call__(
        self, share_inputs: bool = True, share_outputs: bool = False, **kwargs: Any
    ) -> Any:
        """Return the results of the model.

        ``share_inputs`` and ``share_outputs`` have no effect: inputs are never copied, results
        always are. Raises InputError if a tensor that the model takes is missing.
        """
        inputs = onnx_inputs(self._names, kwargs)
        missing = [name for name in self._names if name not in inputs]
        if missing:
            raise InputError(
                f"the model takes {', '.join(map(repr, missing))}, which is not in the arguments "
                f"{', '.join(map(repr, kwargs)) or '(none)'}"
            )
        results = run_session(self.session, inputs, [*self._outputs, *self._written])
        count = len(self._outputs)
        with torch.no_grad():
            for name, value in zip(self._written.values(), results[count:], strict=True):
                inputs[name].copy_(value)
        return self.unflatten(results[:count])


def _call_model(
    model: Any,
    sample_inputs: MutableMapping[str, Any],
    traced: tuple[list[str], list[str], list[Any]],
) -> tuple[MutableMapping[str, Any], dict[str, Any]]:
    """Call the model in eager mode, inside ``patch_model_outputs``.

    ``patch_model_outputs`` fills the lists ``traced``: input names, output names and results.
    Afterwards they hold this call only. Returns the inputs as transformers prepares them, and the
    flags that transformers sets in the configuration.
    """
    for collected in traced:
        collected.clear()
    model, sample, flags = prepare_for_export(model, sample_inputs)
    with torch.no_grad(), reset_model_state(model), patch_model_config(model, flags):
        model(**copy.deepcopy(dict(sample)))
    return sample, flags


def _device_providers(device: torch.device) -> list[Any]:
    if device.type == "cpu":
        return [CPU]
    if device.type == "cuda":
        return [(CUDA, {"device_id": device.index or 0}), CPU]
    raise ProviderError(f"ortable runs on cpu and cuda, not on {device}: give providers instead")


def register_ortable() -> None:
    """Register the exporter and the runner with transformers, once."""
    backend = EXPORT_BACKENDS.get(FORMAT)
    if backend is None or backend.exporter is not OrtableExporter:
        register_backend(OrtableExporter, OrtableRunner)
