"""OnnxProgram: an exported model that is called like its module, and saved, run, validated and
optimized. `export` makes it from a conversion.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import torch
from onnx import ModelProto
from torch.export import ExportedProgram

from ortable.builder import GraphBuilder, LargeModel
from ortable.compat.providers import CPU, CUDA
from ortable.errors import ExportError, InputError, OptionError, OrtableError
from ortable.exporter.conversion import write_model
from ortable.exporter.frontend.export_request import Program, Request
from ortable.exporter.frontend.fake_weights import attach_weights
from ortable.exporter.frontend.module_state import exclusive_export, use_autocast_regions
from ortable.exporter.reporting.example_sizes import UNBOUNDED, stated_ranges
from ortable.exporter.reporting.numeric_diff import with_outputs
from ortable.exporter.reporting.report import ExportReport, describe_model
from ortable.exporter.reporting.sessions import (
    make_load_error,
    make_session,
    proto_of,
    run_session,
)
from ortable.exporter.reporting.validate import Validation, validate_model
from ortable.ir.pictures.draw import draw
from ortable.ir.pictures.explorer import Overlay
from ortable.passes import pipeline

from .arguments import PathName, checked_path, checked_target
from .calling_convention import CallingConvention, make_calling_convention
from .conversion import Conversion, label_model, serialize_graph
from .observation.runners import ProgramRunner

# Weights of so many bytes are kept, and saved, outside of the ModelProto, as torch.onnx does: with
# its nodes it has to stay below protobuf's limit of 2 GiB.
LARGE_MODEL_BYTES = 1536 * 2**20
# Attributes of torch.onnx's programs, and their equivalents here.
_TORCH_ONNX_EQUIVALENTS = {
    "call_reference": "ortable.ExtendedReferenceEvaluator(program.model_proto).run(None, feeds)",
    "rename_axes": "dynamic_shapes={'x': {0: 'batch'}} and output_dynamic_shapes name dimensions",
    "run_decompositions": "ExportOptions(decomposition_table=...)",
    "diagnostics": "program.report",
    "save_diagnostics": "str(program.report)",
}


class OnnxProgram:
    """An exported model. `ortable.export` returns it.

    Call it as you call the module: ``program(x, mask=m)`` runs the model with ONNX Runtime and
    returns what the module returns, nested in the same way. Inputs are torch tensors, moved to
    the device of the session where they are elsewhere; nothing is cast. Results have no
    gradients; they are on the accelerator that an input is on, on the CPU otherwise.

    The weights are those of the moment of the export. Buffers that forward writes start from
    there in every call; arguments that it writes are written.

    Threads may share a program. ``copy.copy`` and ``copy.deepcopy`` give one with a session of
    its own; it is not pickled: ``save`` it.

    Args:
        made: the conversion; `ortable.export` makes it.
    """

    def __init__(self, made: Conversion) -> None:
        self._conversion = made
        self._lock = threading.Lock()
        self._session: Any = None
        self._convention: CallingConvention | None = None

    # -- contents

    @property
    def model(self) -> ModelProto | LargeModel:
        """What ``to_onnx`` returns: a ModelProto, or a LargeModel (``large_model=True``, or weights
        of 1.5 GiB or more), whose weights are the module's own tensors."""
        model: ModelProto | LargeModel = self._conversion.model
        return model

    @property
    def model_proto(self) -> ModelProto:
        """The model with its weights; the program's own where it is a ModelProto. After changes
        call ``release()``, for the session to be made again.

        Raises BuilderError for 2 GiB or more of weights: ``model`` has them outside.
        """
        model = self._conversion.model
        return model.to_proto() if isinstance(model, LargeModel) else model

    @property
    def exported_program(self) -> ExportedProgram | None:
        """The program of torch as it was converted, after decompositions; None where a graph was
        given.
        """
        return self._conversion.program.exported

    @property
    def report(self) -> ExportReport:
        """What the export did; ``print(program.report)`` writes it in Markdown."""
        return ExportReport(
            self._conversion.request, self._conversion.program, self._conversion.model
        )

    @property
    def input_names(self) -> list[str]:
        """Names of the ONNX inputs."""
        return [value.name for value in proto_of(self._conversion.model).graph.input]

    @property
    def output_names(self) -> list[str]:
        """Names of the ONNX outputs."""
        return [value.name for value in proto_of(self._conversion.model).graph.output]

    def __repr__(self) -> str:
        return describe_model(self._conversion.model, stated_ranges(self._conversion.program))

    # -- files and sessions

    def save(
        self,
        path: PathName,
        *,
        external_data: bool | None = None,
        max_shard_bytes: int | None = None,
    ) -> None:
        """Write the model to ``path``; the files appear whole or not at all.

        Args:
            path: of the model.
            external_data: True writes weights of 1024 bytes or more (``external_threshold`` of
                the export) to ``path + ".data"``, False everything to one file, None beside the
                model when they have 1.5 GiB or more, or the export was asked for a large model.
            max_shard_bytes: several data files of at most this size.

        Raises:
            ExportError: the folder is missing or cannot be written to, or one file cannot hold
                the model (protobuf's limit is 2 GiB).
            OptionError: a value that is not accepted.
        """
        if external_data is not None and not isinstance(external_data, bool):
            raise OptionError(f"external_data is True, False or None, not {external_data!r:.80}")
        if not isinstance(path, (str, os.PathLike)):
            raise OptionError(f"path is where to write the model, not {path!r:.80}")
        target = checked_path("path", Path(path))
        write_model(
            self._writable_model(external_data, max_shard_bytes),
            target,
            self._conversion.request.record,
            max_shard_bytes=max_shard_bytes,
        )

    def _writable_model(
        self, external_data: bool | None, shards: int | None
    ) -> ModelProto | LargeModel:
        """Return the model to write: one file, or weights beside it."""
        model = self._conversion.model
        if external_data is None and shards is None:
            return model
        if external_data is not False:
            if isinstance(model, LargeModel):
                return model
            return LargeModel.of_proto(model, self._conversion.request.external_threshold)
        if shards is not None:
            raise OptionError("max_shard_bytes is for external data; external_data is False")
        try:
            return self.model_proto
        except OrtableError as error:
            raise ExportError(
                f"external_data=False, and one file cannot hold the model: {error} Leave "
                "external_data out, and the weights go to a file beside it"
            ) from error

    def session(
        self,
        *,
        providers: Sequence[Any] | None = None,
        session_options: Any = None,
    ) -> Any:
        """An ``onnxruntime.InferenceSession`` of the model, with ONNX Runtime's own defaults.

        Without options it is the one that calls of the program use, made once; with options it is
        a new one. Weights that are outside of the model are handed over by address.

        Args:
            providers: names, or pairs of a name and a dict of options. By default CUDA where the
                module was on such a device and ONNX Runtime has it, and the CPU.
            session_options: an ``onnxruntime.SessionOptions``, or a dict of its settings, among
                them config entries (``{"intra_op_num_threads": 2, "session.use_env_allocators":
                "1"}``).

        Raises:
            ProviderError: a provider is missing or could not start.
            OptionError: ONNX Runtime has no such setting.
            ExportError: it cannot load the model.
        """
        if providers is None and session_options is None:
            return self._own_session()
        return self._new_session(providers, session_options)

    def initialize_inference_session(
        self, *, providers: Sequence[Any] | None = None, session_options: Any = None
    ) -> None:
        """Make the session that calls use, with the options of ``session``, in place of the one
        that there is.

        Args:
            providers: execution providers, in order of preference.
            session_options: an ``onnxruntime.SessionOptions``, or a dict of its settings.
        """
        session = self._new_session(providers, session_options)
        with self._lock:
            self._session = session

    def release(self) -> None:
        """Let the session go; the next call makes another."""
        with self._lock:
            self._session = None

    def _own_session(self) -> Any:
        session = self._session
        if session is None:
            with self._lock:
                if self._session is None:
                    self._session = self._new_session(None, None)
                session = self._session
        return session

    def _new_session(self, providers: Sequence[Any] | None, session_options: Any) -> Any:
        self._need_weights()
        if providers is None:
            providers = default_providers(self._conversion.program)
        try:
            return make_session(self._conversion.model, providers, session_options)
        except OrtableError:
            raise
        except Exception as error:  # onnxruntime's classes derive from Exception only
            raise make_load_error(error, "ONNX Runtime cannot load the model") from error

    def _need_weights(self) -> None:
        lacking = [name for name in self.input_names if name in self._conversion.program.fakes]
        if lacking:
            raise InputError(
                f"{len(lacking)} weights of the model have no data, among them '{lacking[0]}': "
                "give them with program.apply_weights(state_dict)"
            )

    # -- calls

    def _get_convention(self) -> CallingConvention:
        if self._convention is None:
            self._convention = make_calling_convention(
                self._conversion.model, self._conversion.request, self._conversion.program
            )
        return self._convention

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the module returns, computed by ONNX Runtime.

        Raises InputError for arguments that the model was not exported for: another structure,
        dtype or rank, a size that is not dynamic, another constant; the message says which.
        """
        convention = self._get_convention()
        leaves = convention.leaves(args, kwargs)
        names = convention.required_outputs
        values = self._run(self._own_session(), leaves, names) if names else []
        return convention.rebuild_outputs(dict(zip(names, values, strict=True)), leaves)

    def compute_values(
        self, value_names: Sequence[str], args: Sequence[Any] = (), kwargs: Any = None
    ) -> tuple[torch.Tensor, ...]:
        """Results inside the graph, by their ONNX names, in a call of the model.

        Raises InputError for a name that the graph does not have.

        Args:
            value_names: names of results of the graph.
            args, kwargs: the call, as the model takes it.
        """
        leaves = self._get_convention().leaves(args, kwargs or {})
        self._need_weights()
        graph = proto_of(self._conversion.model).graph
        result_names = {name for node in graph.node for name in node.output}
        result_names.update(value.name for value in (*graph.input, *graph.initializer))
        unknown = [name for name in value_names if name not in result_names]
        if unknown:
            raise InputError(f"the graph has no result {unknown[0]!r}")
        session = make_session(
            with_outputs(self._conversion.model, value_names),
            default_providers(self._conversion.program),
        )
        return tuple(self._run(session, leaves, list(value_names)))

    def _run(self, session: Any, leaves: Sequence[Any], names: Sequence[str]) -> list[torch.Tensor]:
        try:
            return run_session(session, self._get_convention().input_feeds(leaves), names)
        except Exception as error:  # onnxruntime's classes derive from Exception only
            raise ExportError(f"ONNX Runtime could not run the model: {error}") from error

    # -- validation and optimization

    @exclusive_export()
    def validate(self, *args: Any, **kwargs: Any) -> Validation:
        """Compare the model with the module, on this call and on other sizes of its dynamic
        dimensions; without arguments on the example of the export.

        The result is true when every output agrees, prints as a table, and raises with
        ``check()``. The module is compared as it is now, the model has the weights of its
        export.

        Args:
            args, kwargs: the call to compare.

        Raises:
            InputError: the model was not exported for such arguments.
            OptionError: there is no example, or weights have no data.
            ExportError: ONNX Runtime cannot load the model.
        """
        self._need_weights()
        conversion, request = self._conversion, self._make_request(args, kwargs)
        with use_autocast_regions(conversion.autocast_regions):
            return Validation(tuple(validate_model(conversion.model, request, conversion.program)))

    def _make_request(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Request:
        """Return the request with another call as the example, where one is given."""
        if not args and not kwargs:
            return self._conversion.request
        convention = self._get_convention()
        call = convention.unflatten_call(convention.leaves(args, kwargs))
        return replace(self._conversion.request, args=call[0], kwargs=call[1])

    def optimize(
        self,
        *,
        rewrites: str | Sequence[str] = "default",
        target: Literal["onnxruntime"] | None = None,
    ) -> OnnxProgram:
        """Run the passes and the rewrites of ``to_onnx(optimize=True)`` on the model, in place as
        in torch.onnx; returns the program itself.

        Args:
            rewrites: as in to_onnx: ``"default"``, ``"none"``, ``"all"``, or a list.
            target: ``"onnxruntime"`` may use operators of its own; None: that of the export.
        """
        request, model = self._conversion.request, self._conversion.model
        effective_target = request.target if target is None else checked_target(target)
        folding, large = request.options.constant_folding, isinstance(model, LargeModel)
        passes = pipeline.select_passes(
            True, rewrites, folding=folding, weight_transposes=folding and not request.large_model
        )
        builder = GraphBuilder(
            model.session_proto() if isinstance(model, LargeModel) else model,
            target=effective_target,
        )
        if isinstance(model, LargeModel):
            builder.initializers_dict.update(model.tensors)
        record = request.record
        with record.phase("rewrite"):
            pipeline.run_passes(builder, passes, record.rewrites)
        with record.phase("serialise"):
            changed = serialize_graph(builder, request, large)
            label_model(changed, request, self._conversion.program, self._conversion.dims)
        self._conversion.model = changed
        self.release()
        return self

    def apply_weights(self, weights: Mapping[str, Any] | torch.nn.Module) -> None:
        """Give a model of fake tensors its weights, see ``attach_weights``.

        Raises InputError for a program that has its weights, for one that is missing, or of
        another shape or dtype.

        Args:
            weights: tensors by name in the state_dict, or a module that has them.
        """
        if not self._conversion.program.fakes:
            raise InputError(
                "the program has its weights, and some may be stored transposed or folded: export "
                "the module with the new ones again"
            )
        self._conversion.model = attach_weights(self._conversion.model, weights)
        self.release()

    def draw(
        self,
        path: PathName | None = None,
        *,
        module: str | None = None,
        depth: int | None = None,
        fold: bool = True,
        weights: bool = True,
        attributes: bool = True,
        rankdir: Literal["TB", "LR", "BT", "RL"] = "TB",
        overlays: Sequence[Overlay] = (),
    ) -> Any:
        """A picture of the graph: matplotlib axes, or a file whose ending says the format
        (``.json``, a graph of Model Explorer; ``.svg``, ``.png``, ``.pdf``; ``.dot``), as
        `ortable.draw` makes it.

        Raises OptionError where there is no such module, OrtableError where graphviz (the extra
        ``[plot]``, and the program ``dot``) is absent; ``.json`` and ``.dot`` do without.

        Args:
            path: the file to write; None draws on matplotlib axes.
            module: draw this module only, by its path in the model or its class.
            depth: how many levels of modules are open; by default as many as fit.
            fold: draw the first of equal blocks in a row, and one box that counts the others.
            weights: show weights and constants.
            attributes: show attributes.
            rankdir: the direction of the graph, as graphviz names it.
            overlays: node data beside a ``.json``: ``"dtype"``, ``"rewrite"``, or a profile.
        """
        return draw(
            proto_of(self._conversion.model),
            None if path is None else checked_path("path", Path(path)),
            module=module,
            depth=depth,
            fold=fold,
            weights=weights,
            attributes=attributes,
            rankdir=rankdir,
            overlays=overlays,
        )

    # -- copies

    def __copy__(self) -> OnnxProgram:
        clone = OnnxProgram.__new__(OnnxProgram)
        clone.__dict__.update(self.__dict__)
        clone._conversion, clone._lock, clone._session = (
            copy(self._conversion),
            threading.Lock(),
            None,
        )
        return clone

    def __deepcopy__(self, memo: dict[int, Any]) -> OnnxProgram:
        """Copy the ModelProto; the conversion, and the tensors of a large model, are shared."""
        clone = self.__copy__()
        model, proto = self._conversion.model, ModelProto()
        proto.CopyFrom(proto_of(model))
        large = isinstance(model, LargeModel)
        clone._conversion.model = (
            LargeModel(proto, dict(model.tensors), model.nested) if large else proto
        )
        return clone

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "an OnnxProgram is not pickled: save(path) writes the model, and "
            "model_proto.SerializeToString() are its bytes"
        )

    if not TYPE_CHECKING:  # a type checker would believe that every name is there

        def __getattr__(self, name: str) -> NoReturn:
            answer = _TORCH_ONNX_EQUIVALENTS.get(name)
            hint = f"; in its place: {answer}" if answer else ""
            raise AttributeError(f"'OnnxProgram' object has no attribute {name!r}{hint}")


# -- for the debugger


def conversion_for(
    program: OnnxProgram, args: Sequence[Any] = (), kwargs: Any = None
) -> Conversion:
    """Return the conversion of a program, for a call; by default for the example of the export.

    Raises InputError: the model was not exported for such arguments, or weights have no data.
    """
    program._need_weights()
    conversion = copy(program._conversion)
    conversion.request = program._make_request(args, kwargs or {})
    return conversion


def default_providers(program: Program) -> list[str]:
    """Return CUDA where weights or inputs are there and ONNX Runtime supports it, and the CPU."""
    import onnxruntime

    tensors = [*(node.meta.get("val") for node in program.user_inputs), *program.weights.values()]
    cuda = any(
        isinstance(tensor, torch.Tensor) and tensor.device.type == "cuda" for tensor in tensors
    )
    return [CUDA, CPU] if cuda and CUDA in onnxruntime.get_available_providers() else [CPU]


# -- for `observe`, which proves programs


def make_runner(program: OnnxProgram) -> ProgramRunner:
    """Return a runner of the program for a proof."""
    model = program.model
    save = None if isinstance(model, LargeModel) else program.save
    return ProgramRunner(program, program._conversion.program, program._get_convention(), save)


def largest_sizes(program: OnnxProgram) -> dict[str, int]:
    """Return the largest size of each named dimension that has one."""
    sizes = program._get_convention().sizes
    largest: dict[str, int] = {}
    for symbol, (_, upper) in sizes.ranges.items():
        name = sizes.names.get(str(symbol), "")
        if upper < UNBOUNDED:
            largest[name] = min(upper, largest.get(name, upper))
    return largest


def refuse_empty(program: OnnxProgram, names: Collection[str]) -> None:
    """Make the program refuse calls in which dimensions of these names are 0.

    Eager takes them, and the model is wrong there, or crashes. A saved model has no such check.
    """
    convention = program._get_convention()
    program._convention = replace(convention, sizes=convention.sizes.without_empty(names))
