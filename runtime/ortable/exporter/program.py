"""Define OnnxProgram, an exported model to call, save, validate and optimize.

`export` creates it from a conversion.
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
from ortable.exporter.reporting.example_sizes import UNBOUNDED, named_dim_ranges
from ortable.exporter.reporting.numeric_diff import with_outputs
from ortable.exporter.reporting.report import ExportReport, describe_model
from ortable.exporter.reporting.sessions import (
    make_load_error,
    make_session,
    proto_of,
    run_session,
)
from ortable.exporter.reporting.validate import Validation, validate_model
from ortable.exporter.signature.dataclass_nodes import register_dataclasses, unregister_on_exit
from ortable.ir.pictures.draw import draw
from ortable.ir.pictures.explorer import Overlay
from ortable.lowerings.packed_rows import LENGTHS_CHECK
from ortable.passes import pipeline

from .arguments import PathName, checked_path, checked_target
from .calling_convention import CallingConvention, make_calling_convention
from .conversion import Conversion, label_model, serialize_graph
from .observation.runners import ProgramRunner

# Weights of at least this size in total are kept and saved outside of the ModelProto, as torch.onnx
# does. The margin below protobuf's limit of 2 GiB is for the nodes.
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

    Call it like the module: ``program(x, mask=m)`` runs the model with ONNX Runtime and returns the
    module's results, with the same nesting. Inputs are torch tensors, which are moved to the device
    of the session but never cast. Results have no gradients. They are on the device of the first
    input on an accelerator, or else on the CPU.

    The weights are those at the time of the export. Buffers that forward mutates start from their
    exported value in every call; arguments that it mutates are written in place.

    Threads may share a program. ``copy.copy`` and ``copy.deepcopy`` return a program with a
    separate session. A program cannot be pickled: ``save`` it.

    Args:
        made: the conversion, which `ortable.export` creates.
    """

    def __init__(self, made: Conversion) -> None:
        self._conversion = made
        self._lock = threading.Lock()
        self._session: Any = None
        self._convention: CallingConvention | None = None

    # -- contents

    @property
    def model(self) -> ModelProto | LargeModel:
        """The model as ``to_onnx`` returns it: a ModelProto or a LargeModel.

        It is a LargeModel with ``large_model=True`` or weights of 1.5 GiB or more. A LargeModel
        shares the memory of the module's weights that no pass changed.
        """
        model: ModelProto | LargeModel = self._conversion.model
        return model

    @property
    def model_proto(self) -> ModelProto:
        """The model as a ModelProto with its weights.

        If ``model`` is a ModelProto, this is the same object. Call ``release()`` after you change
        it, so that the session is created again. Raises BuilderError for 2 GiB or more of weights;
        ``model`` is then a LargeModel, which keeps weights outside of the ModelProto.
        """
        model = self._conversion.model
        return model.to_proto() if isinstance(model, LargeModel) else model

    @property
    def exported_program(self) -> ExportedProgram | None:
        """The exported program of torch after decompositions; None if a graph was converted."""
        return self._conversion.program.exported

    @property
    def report(self) -> ExportReport:
        """The report of the export; ``print(program.report)`` prints it as Markdown."""
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
        return describe_model(self._conversion.model, named_dim_ranges(self._conversion.program))

    # -- files and sessions

    def save(
        self,
        path: PathName,
        *,
        external_data: bool | None = None,
        max_shard_bytes: int | None = None,
    ) -> None:
        """Write the model to ``path``; an error leaves no partial file.

        Args:
            path: the file of the model.
            external_data: True writes weights of 1024 bytes or more (``external_threshold`` of the
                export) to ``path + ".data"``, False writes everything to one file. None writes the
                data file if the weights have 1.5 GiB or more, the export had ``large_model=True``,
                or ``max_shard_bytes`` is given.
            max_shard_bytes: split the data into several files of at most this size.

        Raises:
            ExportError: the folder is missing or not writable, or one file cannot hold the model
                (protobuf's limit is 2 GiB).
            OptionError: an option has an invalid value.
        """
        if external_data is not None and not isinstance(external_data, bool):
            raise OptionError(f"external_data is True, False or None, not {external_data!r:.80}")
        if not isinstance(path, (str, os.PathLike)):
            raise OptionError(f"path is the file to write the model to, not {path!r:.80}")
        target = checked_path("path", Path(path))
        write_model(
            self._writable_model(external_data, max_shard_bytes),
            target,
            self._conversion.request.record,
            max_shard_bytes=max_shard_bytes,
        )

    def _writable_model(
        self, external_data: bool | None, max_shard_bytes: int | None
    ) -> ModelProto | LargeModel:
        model = self._conversion.model
        if external_data is None and max_shard_bytes is None:
            return model
        if external_data is not False:
            if isinstance(model, LargeModel):
                return model
            return LargeModel.of_proto(model, self._conversion.request.external_threshold)
        if max_shard_bytes is not None:
            raise OptionError("max_shard_bytes is for external data; external_data is False")
        try:
            return self.model_proto
        except OrtableError as error:
            raise ExportError(
                f"external_data=False, and one file cannot hold the model: {error} Leave out "
                "external_data to write the weights to a file beside it"
            ) from error

    def session(
        self,
        *,
        providers: Sequence[Any] | None = None,
        session_options: Any = None,
    ) -> Any:
        """Return an ``onnxruntime.InferenceSession`` of the model, with ONNX Runtime's defaults.

        Without options this is the session that calls of the program use, created once; with
        options it is a new one. Weights outside of the model are passed by address, without a copy.

        Args:
            providers: names, or pairs of a name and a dict of options. By default CUDA if the
                module was on a CUDA device and ONNX Runtime supports it, and the CPU.
            session_options: an ``onnxruntime.SessionOptions``, or a dict of its settings and config
                entries (``{"intra_op_num_threads": 2, "session.use_env_allocators": "1"}``).

        Returns:
            The session.

        Raises:
            ProviderError: a provider is missing or could not start.
            OptionError: ONNX Runtime has no such setting.
            ExportError: ONNX Runtime cannot load the model.
        """
        if providers is None and session_options is None:
            return self._get_session()
        return self._create_session(providers, session_options)

    def initialize_inference_session(
        self, *, providers: Sequence[Any] | None = None, session_options: Any = None
    ) -> None:
        """Create the session that calls use, and replace the current one.

        Args:
            providers: execution providers, in order of preference.
            session_options: an ``onnxruntime.SessionOptions``, or a dict of its settings.
        """
        session = self._create_session(providers, session_options)
        with self._lock:
            self._session = session

    def release(self) -> None:
        """Drop the session; the next call creates a new one."""
        with self._lock:
            self._session = None

    def _get_session(self) -> Any:
        session = self._session
        if session is None:
            with self._lock:
                if self._session is None:
                    self._session = self._create_session(None, None)
                session = self._session
        return session

    def _create_session(self, providers: Sequence[Any] | None, session_options: Any) -> Any:
        self._check_weights()
        if providers is None:
            providers = default_providers(self._conversion.program)
        try:
            return make_session(self._conversion.model, providers, session_options)
        except OrtableError:
            raise
        except Exception as error:  # onnxruntime's classes derive from Exception only
            raise make_load_error(error, "ONNX Runtime cannot load the model") from error

    def _check_weights(self) -> None:
        missing = [
            name for name in self.input_names if name in self._conversion.program.fake_weight_inputs
        ]
        if missing:
            raise InputError(
                f"{len(missing)} weights of the model have no data, among them '{missing[0]}': "
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
        """Run the model with ONNX Runtime and return the module's results.

        Raises InputError, which names the argument, if its structure, dtype or rank, a static size
        or a constant differs from the export, or if the model does not accept its sizes.
        """
        convention = self._get_convention()
        leaves = convention.leaves(args, kwargs)
        names = convention.required_outputs
        values = self._run(self._get_session(), leaves, names) if names else []
        return convention.rebuild_outputs(dict(zip(names, values, strict=True)), leaves)

    def compute_values(
        self, value_names: Sequence[str], args: Sequence[Any] = (), kwargs: Any = None
    ) -> tuple[torch.Tensor, ...]:
        """Run the model and return intermediate results of the graph.

        Args:
            value_names: ONNX names of results of the graph.
            args: positional arguments of the call.
            kwargs: keyword arguments of the call.

        Returns:
            The results, in the order of ``value_names``.

        Raises:
            InputError: the graph has no result of that name, or the model was not exported for such
                arguments.
        """
        leaves = self._get_convention().leaves(args, kwargs or {})
        self._check_weights()
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
            if f"'{LENGTHS_CHECK}" in str(error):
                raise InputError(
                    "the lengths of packed sequences are 1 or more, at most the number of steps of "
                    "the padded input, and sorted with enforce_sorted=True, the longest first"
                ) from error
            raise ExportError(f"ONNX Runtime could not run the model: {error}") from error

    # -- validation and optimization

    @exclusive_export()
    def validate(self, *args: Any, **kwargs: Any) -> Validation:
        """Compare the model with the module on a call and on other sizes of dynamic dimensions.

        Without arguments, the call is the example of the export. The module is used in its current
        state; the model has the weights of the export.

        Args:
            args: positional arguments of the call.
            kwargs: keyword arguments of the call.

        Returns:
            Validation: true if every output agrees; prints as a table; ``check()`` raises if not.

        Raises:
            InputError: the model was not exported for such arguments.
            OptionError: there is no example, or weights have no data.
            ExportError: ONNX Runtime cannot load the model.
        """
        self._check_weights()
        conversion, request = self._conversion, self._make_request(args, kwargs)
        with use_autocast_regions(conversion.autocast_regions), unregister_on_exit():
            register_dataclasses((request.args, request.kwargs))
            return Validation(tuple(validate_model(conversion.model, request, conversion.program)))

    def _make_request(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Request:
        """Return the request with this call as the example; without arguments, the original one."""
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
        """Run the passes and rewrites of ``to_onnx(optimize=True)`` on the model, in place.

        Args:
            rewrites: as in to_onnx: ``"default"``, ``"none"``, ``"all"``, or a list.
            target: ``"onnxruntime"`` may use operators that only ONNX Runtime has; None is the
                target of the export.

        Returns:
            The program itself, as in torch.onnx.
        """
        request, model = self._conversion.request, self._conversion.model
        effective_target = request.target if target is None else checked_target(target)
        folding, large = request.options.constant_folding, isinstance(model, LargeModel)
        passes = pipeline.select_passes(
            True, rewrites, folding=folding, transform_weights=folding and not request.large_model
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
            optimized = serialize_graph(builder, request, large)
            label_model(optimized, request, self._conversion.program, self._conversion.dims)
        self._conversion.model = optimized
        self.release()
        return self

    def apply_weights(self, weights: Mapping[str, Any] | torch.nn.Module) -> None:
        """Attach weights to a model that was exported from fake tensors, see ``attach_weights``.

        Args:
            weights: tensors by name in the state_dict, or a module that has them.

        Raises:
            InputError: the program has its weights already, or a weight is missing or has another
                shape or dtype.
        """
        if not self._conversion.program.fake_weight_inputs:
            raise InputError(
                "the program has its weights already, and some may be stored transposed or folded: "
                "export the module again with the new weights"
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
        """Draw the graph on matplotlib axes, or to a file in the format of its extension.

        The formats are ``.json`` (Model Explorer), ``.svg``, ``.png``, ``.pdf`` and ``.dot``; see
        `ortable.draw`.

        Args:
            path: the file to write; None draws on matplotlib axes.
            module: draw only this module, given by its path in the model or its class.
            depth: the number of module levels to expand; by default as many as fit.
            fold: draw the first of consecutive equal blocks, and a box that counts the rest.
            weights: show weights and constants.
            attributes: show attributes.
            rankdir: the direction of the graph, as graphviz names it.
            overlays: node data for a ``.json`` file: ``"dtype"``, ``"rewrite"``, or a profile.

        Returns:
            The matplotlib axes, or None if ``path`` is given.

        Raises:
            OptionError: the model has no such module.
            OrtableError: graphviz (the extra ``[plot]`` and the program ``dot``) is missing;
                ``.json`` and ``.dot`` do not need it.
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
        """Copy the ModelProto; the copy shares torch's program, and the tensors of a LargeModel."""
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
            "an OnnxProgram cannot be pickled: save(path) writes the model, and "
            "model_proto.SerializeToString() returns its bytes"
        )

    if not TYPE_CHECKING:  # a type checker would accept every attribute name

        def __getattr__(self, name: str) -> NoReturn:
            equivalent = _TORCH_ONNX_EQUIVALENTS.get(name)
            hint = f"; instead use {equivalent}" if equivalent else ""
            raise AttributeError(f"'OnnxProgram' object has no attribute {name!r}{hint}")


# -- for the debugger


def conversion_for(
    program: OnnxProgram, args: Sequence[Any] = (), kwargs: Any = None
) -> Conversion:
    """Return a program's conversion with a call as the example, or else with the export's example.

    Raises InputError if the model was not exported for such arguments, or weights have no data.
    """
    program._check_weights()
    conversion = copy(program._conversion)
    conversion.request = program._make_request(args, kwargs or {})
    return conversion


def default_providers(program: Program) -> list[str]:
    """Return the CPU, after CUDA if a weight or input is on CUDA and ONNX Runtime supports it."""
    import onnxruntime

    tensors = [*(node.meta.get("val") for node in program.user_inputs), *program.weights.values()]
    has_cuda_tensor = any(
        isinstance(tensor, torch.Tensor) and tensor.device.type == "cuda" for tensor in tensors
    )
    return (
        [CUDA, CPU] if has_cuda_tensor and CUDA in onnxruntime.get_available_providers() else [CPU]
    )


# -- for `observe`, which proves programs


def make_runner(program: OnnxProgram) -> ProgramRunner:
    """Return the runner with which `observe` proves the program."""
    model = program.model
    save = None if isinstance(model, LargeModel) else program.save
    return ProgramRunner(program, program._conversion.program, program._get_convention(), save)


def largest_sizes(program: OnnxProgram) -> dict[str, int]:
    """Return the largest size of each dimension that has an upper bound, by name."""
    sizes = program._get_convention().sizes
    largest: dict[str, int] = {}
    for symbol, (_, upper) in sizes.ranges.items():
        name = sizes.names.get(str(symbol), "")
        if upper < UNBOUNDED:
            largest[name] = min(upper, largest.get(name, upper))
    return largest


def refuse_empty(program: OnnxProgram, names: Collection[str]) -> None:
    """Make the program reject calls in which a dimension of these names is 0.

    On such calls the model differs from eager, or crashes. A saved model has no such check.
    """
    convention = program._get_convention()
    program._convention = replace(convention, sizes=convention.sizes.without_empty(names))
