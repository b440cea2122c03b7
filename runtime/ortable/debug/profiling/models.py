"""Calls of an exported model with the profiler of ONNX Runtime on: an OnnxProgram, a ModelProto, a
LargeModel, or a file. In come the model, inputs or none, providers and settings of the session, out
comes a Recording. Called by `call`; what is asked is asked of a session of the profile's own."""

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
from ortable.exporter.account.sessions import array_of, make_session, ort_value, proto_of
from ortable.exporter.program import OnnxProgram
from ortable.ir.proto.trust import graph_of_file

from .join import named_and_inlined
from .record import GraphRecord, Recording, profile_settings, read_session, timed_calls

_WARM = 2  # calls before the first that counts
_UNKNOWN = 8  # what a size that is not given is
_OPTIONS = ("providers", "session_options")


def is_onnx_model(model: Any) -> bool:
    """Whether a model is one of ONNX: an exported program, a proto, the path of a file."""
    return isinstance(model, OnnxProgram | ModelProto | LargeModel | str | os.PathLike)


def record_model(
    model: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    options: Mapping[str, Any],
    sizes: Mapping[str, int],
    calls: int,
) -> Recording:
    """Calls a model in a session of its own, and reads its profile."""
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise OptionError(
            f"An exported model has no option {unknown[0]!r}: its session takes "
            f"{' and '.join(_OPTIONS)}; the others are of torch.compile."
        )
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "0"
        chosen = OrtOptions.from_mapping(options)
        providers = list(chosen.providers or [CPU])
        settings = profile_settings(chosen.session_options, providers, base)
        notes: tuple[str, ...] = ()
        if isinstance(model, OnnxProgram) and (args or kwargs):
            session, proto, call = _program(model, args, kwargs, chosen.providers, settings)
        else:
            session, proto = _session(model, providers, settings)
            feeds = _given(proto, args, kwargs) if args or kwargs else _made(proto, sizes)
            if not (args or kwargs):
                notes = (f"inputs were made: {_told(feeds)}",)

            values = {name: ort_value(array) for name, array in feeds.items()}
            _check(session, feeds, values)

            def call() -> Any:
                return session.run_with_ort_values(None, values)

        timed_calls(call, _WARM)
        windows = timed_calls(call, calls)
        read = read_session(session, 0, proto, base)
        plain = [end - begin for begin, end in timed_calls(call, calls)]
    graphs = [GraphRecord(1, "inference", _name(model, proto))]
    return Recording(windows, plain, graphs, [read], notes=notes)


def _name(model: Any, proto: ModelProto) -> str:
    if isinstance(model, str | os.PathLike):
        return os.path.basename(os.fspath(model))
    return proto.graph.name or "an ONNX model"


def _program(
    program: OnnxProgram, args: Any, kwargs: Any, providers: Any, settings: Any
) -> tuple[Any, ModelProto, Callable[[], Any]]:
    """A session of a program, the model in it, and what calls the program."""
    mine = copy.deepcopy(program)
    model = mine.model
    proto = proto_of(model)
    proto.CopyFrom(
        named_and_inlined(model.session_proto() if isinstance(model, LargeModel) else proto)
    )
    mine.initialize_inference_session(providers=providers, session_options=settings)
    return mine.session(), proto, lambda: mine(*args, **kwargs)


def _session(model: Any, providers: Any, settings: dict[str, Any]) -> tuple[Any, ModelProto]:
    """A session of a model, and the model in it."""
    source: Any = model.model if isinstance(model, OnnxProgram) else model
    if isinstance(source, str | os.PathLike):
        source = _file(source, settings)
    if isinstance(source, LargeModel):
        made: Any = LargeModel(named_and_inlined(source.session_proto()), source.tensors)
    else:
        made = named_and_inlined(source)
    try:
        return make_session(made, providers, settings), proto_of(made)
    except OrtableError:
        raise
    except Exception as error:  # onnxruntime's classes derive from Exception only
        raise ProviderError(f"ONNX Runtime cannot load the model: {error}") from error


def _file(path: Any, settings: dict[str, Any]) -> ModelProto:
    """The model of a file, whose weights beside it stay there."""
    try:
        model = graph_of_file(path)
    except FileNotFoundError:
        raise InputError(f"no file {str(path)!r}") from None
    except OSError as error:
        raise InputError(f"{str(path)!r} is no ONNX model: {error}") from error
    folder = "session.model_external_initializers_file_folder_path"
    settings.setdefault(folder, str(Path(path).resolve().parent))
    return model


def _check(session: Any, feeds: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    """Runs a session once."""
    try:
        session.run_with_ort_values(None, values)
    except Exception as error:  # onnxruntime's classes derive from Exception only
        raise InputError(
            f"ONNX Runtime could not run the model on {_told(feeds)}: {error}\n"
            "What to do: give inputs of your own, or the sizes of those that are made."
        ) from error


# -- inputs


def _inputs(model: ModelProto) -> list[ValueInfoProto]:
    """The inputs that a call gives: weights may stand among them, too."""
    held = {each.name for each in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in held]


def _given(model: ModelProto, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs of a call, by name."""
    names = [value.name for value in _inputs(model)]
    if len(args) == 1 and isinstance(args[0], Mapping):  # inputs as a session takes them
        args, kwargs = [], {**args[0], **kwargs}
    found = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(args) > len(names) or set(found) != set(names):
        raise InputError(
            f"the model has the inputs {', '.join(names)}, and the call gives {len(args)} by place"
            + (f" and {', '.join(map(str, kwargs))} by name" if kwargs else "")
        )
    return {
        name: array_of(each) if isinstance(each, torch.Tensor | int) else each
        for name, each in found.items()
    }


def _made(model: ModelProto, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Inputs for a model: random numbers, and ones where an integer or a bool is asked for, which
    are indices, positions and masks that fit most models.
    """
    values = _inputs(model)
    dims = {d.dim_param for v in values for d in v.type.tensor_type.shape.dim if d.dim_param}
    unknown = sorted(set(sizes) - dims)
    if unknown:
        raise OptionError(
            f"no input has a dimension {unknown[0]!r}; named are: "
            f"{', '.join(sorted(dims)) or 'none'}"
        )
    wrong = [n for n, size in sizes.items() if type(size) is not int or size < 0]
    if wrong:
        raise OptionError(f"the size of {wrong[0]!r} is a number, not {sizes[wrong[0]]!r:.80}")
    generator = torch.Generator().manual_seed(0)
    found = {}
    for value in values:
        kind = value.type.tensor_type
        if not kind.elem_type:
            raise InputError(f"input {value.name!r} is no tensor: give inputs of your own")
        shape = [_size(dim, sizes) for dim in kind.shape.dim]
        dtype = dtypes.to_torch(kind.elem_type)
        if dtype.is_floating_point or dtype.is_complex:
            made = torch.randn(shape, generator=generator).to(dtype)
        else:
            made = torch.ones(shape, dtype=dtype)
        found[value.name] = array_of(made)
    return found


def _size(dim: Any, sizes: Mapping[str, int]) -> int:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return int(sizes.get(dim.dim_param, _UNKNOWN))


def _told(feeds: Mapping[str, Any]) -> str:
    return ", ".join(f"{n} {a.dtype}[{', '.join(map(str, a.shape))}]" for n, a in feeds.items())
