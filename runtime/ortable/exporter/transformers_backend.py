"""ortable as a backend of transformers' own exporters: an exporter, and a runner called like the
model. `register_transformers` registers it; importing this module imports transformers.
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
_THRESHOLD = 1024  # bytes of a weight that is written beside the model
_WRITTEN = "_mutated"  # ends the name of an output that is the new value of an input


@dataclass
class OrtableConfig(DynamoConfig):
    """How transformers exports with ortable: its own ``DynamoConfig``, and options of
    ``ortable.export``.

    Args:
        target_opset: as in ``ortable.export``; None for its default.
        optimize: run ortable's passes and rewrites.
        rewrites: names of the rewrites, as in ``ortable.export``.
        target: ``"onnxruntime"`` may use operators of ONNX Runtime's own.
        fallback: where torch.export fails as transformers calls it, try the other strategies of
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
    """A program that was read back: the ONNX file, whose weights are in ``<path>.data``."""

    path: Path


class OrtableExporter(DynamoExporter):
    """Exports a model of transformers with ``ortable.export``.

    torch.export runs as transformers' ``DynamoExporter`` runs it. ONNX inputs and outputs have the
    names that transformers' ONNX exporter gives them: the way to each tensor
    (``past_key_values.layers.0.keys``), with ``input.`` and ``output.`` before it where both have
    one. An input that forward writes to has one more output at the end, ``<input>_mutated``.
    """

    export_format = FORMAT
    config_class = OrtableConfig
    program_suffix = ".onnx"

    required_packages = ("torch", "onnx", "onnxruntime")
    tested_versions: Mapping[str, str] = MappingProxyType(
        {}
    )  # ortable says itself what it is tested with

    # transformers 5.24 asks before it loads what runs code, as a pickle does: an ONNX file does not
    requires_trust_remote_code = False

    @exclusive_export()
    def export_program(
        self, model: Any, sample_inputs: MutableMapping[str, Any], config: Any
    ) -> tuple[OnnxProgram, ExportMetadata]:
        """The program, and transformers' record of it.

        Raises:
            OrtableError: as ``ortable.export`` does.
            OptionError: the quantizer of ``config`` takes ONNX models, not graphs of torch.
        """
        quantizer = config.quantizer
        if quantizer is not None and not quantizer.quantizes_fx_graph:
            raise OptionError(
                f"{type(quantizer).__name__} quantizes ONNX models, which ortable does not hand to "
                "it: take a quantizer of torch graphs (PT2EQuantizer), or quantize the saved file"
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
            if not traced[0]:  # dynamo keeps nothing of the lists that forward fills
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
        """Export a model with branches on sizes; None where each branch has only one variant."""
        saved: list[list[Any]] = [list(names) for names in traced]
        with warnings.catch_warnings(record=True) as caught:  # of a program that may not be taken
            warnings.simplefilter("always")
            try:
                merged = self._export_with_fallbacks(
                    model, sample_inputs, config, options, traced, None
                )
            except OrtableError:
                merged = None
        if merged is not None and merged[0].report.record.sides > 1:
            for word in caught:
                warnings.warn_explicit(word.message, word.category, word.filename, word.lineno)
            return merged
        for names, before in zip(traced, saved, strict=True):
            names[:] = before
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
        """Export a model that torch.export refused with ``error``."""
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
        except OrtableError as refused:
            raise refused from error
        metadata = build_export_metadata(
            model, sample, program.exported_program, self.required_packages
        )
        record_output_structure(metadata, returned)
        return program, metadata

    @classmethod
    def save_program(cls, program: OnnxProgram | SavedProgram, path: Any) -> None:
        """Write the model to ``path`` and its weights to ``<path>.data``.

        Raises ExportError when the folder is missing or cannot be written to.
        """
        if isinstance(program, SavedProgram):
            model = LargeModel.of_proto(onnx.load(program.path), _THRESHOLD)
            write_model(model, path)
        else:
            program.save(path, external_data=True)
        Path(f"{path}.data").touch()  # transformers asks for both files, of small models too

    @classmethod
    def program_files(cls, filename: str) -> list[str]:
        """The files of a saved program."""
        return [filename, f"{filename}.data"]

    @classmethod
    def load_program(cls, path: Any) -> SavedProgram:
        """The saved file; ONNX Runtime reads it when a runner is made."""
        return SavedProgram(Path(path))


class OrtableRunner(ModelRunner):
    """Runs a program with ONNX Runtime; called with the arguments of forward, returns what the
    model returns. Arguments that forward writes to, as a ``StaticCache``, are written to.

    Args:
        metadata: transformers' record of the export.
        session: of the model.
    """

    def __init__(self, metadata: ExportMetadata, session: Any) -> None:
        super().__init__(metadata)
        self.session = session
        self._names = [value.name for value in session.get_inputs()]
        outputs = [value.name for value in session.get_outputs()]
        written = {f"{name}{_WRITTEN}": name for name in self._names}
        count = self.out_spec.num_leaves - len(self.out_constants)
        self._outputs = outputs[:count]
        # the others are new values of inputs, and of buffers, which start anew in every call
        self._written = {name: written[name] for name in outputs[count:] if name in written}

    @property
    def device(self) -> torch.device:
        """Where ONNX Runtime computes."""
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
        """A runner with a session of its own.

        Args:
            program: what ``export_program`` or ``load_program`` returned.
            metadata: that was recorded with it.
            device: ``"cpu"`` or ``"cuda"``; None for the program's default.
            providers: execution providers, in place of ``device``.
            session_options: an ``onnxruntime.SessionOptions``, or a dict of its settings.

        Raises:
            OptionError: both ``device`` and ``providers`` are given, or a setting is unknown.
            ProviderError: there is no such provider, or it could not start.
        """
        if device is not None and providers is not None:
            raise OptionError("give a device, or providers: providers say which device it is")
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
        """What the model returns. Inputs are read in place and results are copies, whatever
        ``share_inputs`` and ``share_outputs`` say.

        Raises InputError for a call without a tensor that the model takes.
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

    The lists ``traced`` then have this call alone. Returns the inputs as transformers prepares
    them, and the flags that it puts into the configuration.
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
    """Put the exporter and the runner into transformers' table, once."""
    backend = EXPORT_BACKENDS.get(FORMAT)
    if backend is None or backend.exporter is not OrtableExporter:
        register_backend(OrtableExporter, OrtableRunner)
