"""Record calls of an exported model (OnnxProgram, ModelProto, LargeModel, or a file) for `profile`.

The model runs in a new session with the profiler of ONNX Runtime on.
"""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from onnx import ModelProto, ValueInfoProto

from ortable import dtypes
from ortable.backend.options import OrtOptions
from ortable.builder import LargeModel
from ortable.compat.providers import CPU
from ortable.errors import InputError, OptionError, OrtableError, ProviderError
from ortable.exporter.program import OnnxProgram
from ortable.exporter.reporting.sessions import array_of, make_session, ort_value, proto_of
from ortable.ir.proto.model_validation import load_model

from .join import inline_module_functions
from .record import GraphRecord, Recording, profile_settings, read_session, time_calls

_WARMUP_CALLS = 2  # before the measured calls
_DEFAULT_SIZE = 8  # of a dynamic dimension that `sizes` does not give
_SESSION_OPTIONS = ("providers", "session_options")


def is_onnx_model(model: Any) -> bool:
    """Whether a model is an ONNX model: OnnxProgram, ModelProto, LargeModel, or a path."""
    return isinstance(model, OnnxProgram | ModelProto | LargeModel | str | os.PathLike)


def record_model(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
    sizes: Mapping[str, int],
    calls: int,
) -> Recording:
    """Call an ONNX model in a new session, and read the profile of the session.

    Args:
        model: an OnnxProgram, a ModelProto, a LargeModel, or the path of a file.
        args: inputs in order; without `args` and `kwargs`, inputs are generated.
        kwargs: inputs by name.
        options: `providers` and `session_options`.
        sizes: sizes of named dimensions of generated inputs.
        calls: the number of measured calls.
    """
    unknown = sorted(set(options) - set(_SESSION_OPTIONS))
    if unknown:
        raise OptionError(
            f"An exported model has no option {unknown[0]!r}: its session takes "
            f"{' and '.join(_SESSION_OPTIONS)}; other options are for torch.compile."
        )
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "0"
        ort_options = OrtOptions.from_mapping(options)
        providers = list(ort_options.providers or [CPU])
        settings = profile_settings(ort_options.session_options, providers, base)
        notes: tuple[str, ...] = ()
        if isinstance(model, OnnxProgram) and (args or kwargs):
            session, proto, call = _make_program_session(
                model, args, kwargs, ort_options.providers, settings
            )
        else:
            session, proto = _make_model_session(model, providers, settings)
            feeds = (
                _bind_inputs(proto, args, kwargs) if args or kwargs else _make_inputs(proto, sizes)
            )
            if not (args or kwargs):
                notes = (f"generated inputs: {_format_feeds(feeds)}",)

            ort_values = {name: ort_value(array) for name, array in feeds.items()}
            _check_run(session, feeds, ort_values)

            def call() -> Any:
                return session.run_with_ort_values(None, ort_values)

        time_calls(call, _WARMUP_CALLS)
        windows = time_calls(call, calls)
        session_record = read_session(session, 0, proto, base)
        plain = [end - begin for begin, end in time_calls(call, calls)]
    graphs = [GraphRecord(1, "inference", _model_name(model, proto))]
    return Recording(windows, plain, graphs, [session_record], notes=notes)


def _model_name(model: Any, proto: ModelProto) -> str:
    if isinstance(model, str | os.PathLike):
        return os.path.basename(os.fspath(model))
    return proto.graph.name or "an ONNX model"


def _make_program_session(
    program: OnnxProgram, args: Any, kwargs: Any, providers: Any, settings: Any
) -> tuple[Any, ModelProto, Callable[[], Any]]:
    """Make a session of a copy of a program.

    Return the session, the model with inlined functions, and a function that calls the copy.
    """
    copied = copy.deepcopy(program)
    model = copied.model
    proto = proto_of(model)
    proto.CopyFrom(
        inline_module_functions(model.session_proto() if isinstance(model, LargeModel) else proto)
    )
    copied.initialize_inference_session(providers=providers, session_options=settings)
    return copied.session(), proto, lambda: copied(*args, **kwargs)


def _make_model_session(
    model: Any, providers: Any, settings: dict[str, Any]
) -> tuple[Any, ModelProto]:
    """Make a session of a model; return the session and the inlined model."""
    source: Any = model.model if isinstance(model, OnnxProgram) else model
    if isinstance(source, str | os.PathLike):
        source = _load_file(source, settings)
    if isinstance(source, LargeModel):
        inlined: Any = LargeModel(inline_module_functions(source.session_proto()), source.tensors)
    else:
        inlined = inline_module_functions(source)
    try:
        return make_session(inlined, providers, settings), proto_of(inlined)
    except OrtableError:
        raise
    except Exception as error:  # onnxruntime's errors have no other common base class
        raise ProviderError(f"ONNX Runtime cannot load the model: {error}") from error


def _load_file(path: Any, settings: dict[str, Any]) -> ModelProto:
    """Load the model of a file without external weights.

    The session loads them from the folder that is added to `settings`.
    """
    try:
        model = load_model(path)
    except FileNotFoundError:
        raise InputError(f"no file {str(path)!r}") from None
    except OSError as error:
        raise InputError(f"{str(path)!r} is no ONNX model: {error}") from error
    key = "session.model_external_initializers_file_folder_path"
    settings.setdefault(key, str(Path(path).resolve().parent))
    return model


def _check_run(session: Any, feeds: Mapping[str, Any], ort_values: Mapping[str, Any]) -> None:
    """Run the session once on `ort_values`, which hold the `feeds`; raise InputError on failure."""
    try:
        session.run_with_ort_values(None, ort_values)
    except Exception as error:  # onnxruntime's errors have no other common base class
        raise InputError(
            f"ONNX Runtime could not run the model on {_format_feeds(feeds)}: {error}\n"
            "What to do: give inputs, or sizes of the generated inputs."
        ) from error


# -- inputs


def _input_values(model: ModelProto) -> list[ValueInfoProto]:
    """Return the inputs of the graph that are not weights."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in initializers]


def _bind_inputs(
    model: ModelProto, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Map input names to the arguments of a call, torch tensors and ints converted to arrays."""
    names = [value.name for value in _input_values(model)]
    if len(args) == 1 and isinstance(args[0], Mapping):  # feeds, as InferenceSession.run takes them
        args, kwargs = [], {**args[0], **kwargs}
    inputs = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(args) > len(names) or set(inputs) != set(names):
        raise InputError(
            f"the model has the inputs {', '.join(names)}, and the call gives {len(args)} by "
            "position" + (f" and {', '.join(map(str, kwargs))} by name" if kwargs else "")
        )
    return {
        name: array_of(item) if isinstance(item, torch.Tensor | int) else item
        for name, item in inputs.items()
    }


def _make_inputs(model: ModelProto, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Make inputs: random numbers for floats and complex, and ones for integers and bools.

    For most models, ones are valid indices, positions and masks.
    """
    values = _input_values(model)
    dims = {d.dim_param for v in values for d in v.type.tensor_type.shape.dim if d.dim_param}
    unknown = sorted(set(sizes) - dims)
    if unknown:
        raise OptionError(
            f"no input has a dimension {unknown[0]!r}; named dimensions: "
            f"{', '.join(sorted(dims)) or 'none'}"
        )
    invalid = [name for name, size in sizes.items() if type(size) is not int or size < 0]
    if invalid:
        raise OptionError(f"the size of {invalid[0]!r} is a number, not {sizes[invalid[0]]!r:.80}")
    generator = torch.Generator().manual_seed(0)
    inputs = {}
    for value in values:
        tensor_type = value.type.tensor_type
        if not tensor_type.elem_type:
            raise InputError(f"input {value.name!r} is not a tensor: give all inputs")
        shape = [_resolve_dim(dim, sizes) for dim in tensor_type.shape.dim]
        dtype = dtypes.to_torch(tensor_type.elem_type)
        if dtype.is_floating_point or dtype.is_complex:
            tensor = torch.randn(shape, generator=generator).to(dtype)
        else:
            tensor = torch.ones(shape, dtype=dtype)
        inputs[value.name] = array_of(tensor)
    return inputs


def _resolve_dim(dim: Any, sizes: Mapping[str, int]) -> int:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return int(sizes.get(dim.dim_param, _DEFAULT_SIZE))


def _format_feeds(feeds: Mapping[str, Any]) -> str:
    return ", ".join(f"{n} {a.dtype}[{', '.join(map(str, a.shape))}]" for n, a in feeds.items())
