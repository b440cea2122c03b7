"""Create sessions of ONNX Runtime: apply settings, set torch's thread count, check providers."""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from ortable.compat.bisector import disabled_optimizers
from ortable.compat.providers import (
    apply_settings,
    check_configured,
    check_providers,
    has_config_entry,
    record_assignment,
)
from ortable.compat.scoped_patch import restore_on_exit
from ortable.errors import OptionError, ProviderError
from ortable.interpreter.diagnostics.runtime_errors import locate_error

# Providers that report all their options; other providers may report only some.
_REPORTING_PROVIDERS = ("AzureExecutionProvider", "CPUExecutionProvider", "CUDAExecutionProvider")


def check_session(session: Any, providers: Sequence[Any]) -> None:
    """Raise for problems of providers that ONNX Runtime ignores or only warns about.

    Args:
        session: the new session.
        providers: the requested providers.

    Raises:
        ProviderError: if a provider did not start (its libraries are missing).
        OptionError: if a provider does not have one of its options.
    """
    running = session.get_providers()
    for provider in providers:
        name, settings = (provider, {}) if isinstance(provider, str) else provider
        if name not in running:
            raise ProviderError(
                f"Execution provider {name!r} could not start; the session has "
                f"{', '.join(running)}. Its libraries or its device may be missing, or the "
                "libraries may be of another version: see ONNX Runtime's messages on stderr. "
                "onnxruntime.preload_dlls() loads CUDA and cuDNN from their Python packages."
            )
        reported = session.get_provider_options().get(name, {})
        _check_stream(name, settings, reported)
        unknown = sorted(set(settings) - set(reported))
        if unknown and name in _REPORTING_PROVIDERS:
            listed = f"known: {', '.join(sorted(reported))}" if reported else "it has none"
            raise OptionError(
                f"Execution provider {name!r} has no option {', '.join(unknown)}; {listed}."
            )


def _check_stream(name: str, settings: Mapping[str, Any], reported: Mapping[str, str]) -> None:
    """Raise if a session does not run on torch's stream, because torch could read results early."""
    requested, actual = settings.get("user_compute_stream"), reported.get("user_compute_stream")
    if requested is not None and actual is not None and int(actual) != int(requested):
        raise ProviderError(
            f"Execution provider {name!r} did not take torch's stream {requested}, but {actual}: "
            "its results would not be ordered with torch's. Update onnxruntime, or move model and "
            "inputs to the CPU."
        )


def make_run_options(settings: Any) -> Any:
    """Return the RunOptions of every call: the user's object, or one with the user's settings."""
    import onnxruntime

    if settings is None or isinstance(settings, Mapping):
        options = onnxruntime.RunOptions()
        apply_settings(options, settings or {}, "run_options", options.add_run_config_entry)
        return options
    return settings


def _has_double(part: GraphProto | FunctionProto) -> bool:
    """Whether a graph or function has a float64 value.

    MatMulScaleFusion would round factors of float64 values to float32. A cast, a constant or a
    random operator may create the value.
    """
    if isinstance(part, GraphProto):
        values = [*part.input, *part.output, *part.value_info]
        types = [value.type.tensor_type.elem_type for value in values]
        if TensorProto.DOUBLE in (
            *types,
            *(initializer.data_type for initializer in part.initializer),
        ):
            return True
    return any(_makes_double(attribute) for node in part.node for attribute in node.attribute)


def _makes_double(attribute: AttributeProto) -> bool:
    if attribute.type == AttributeProto.GRAPH:
        return _has_double(attribute.g)
    if attribute.type == AttributeProto.TENSOR:
        return bool(attribute.t.data_type == TensorProto.DOUBLE)
    # `to` of Cast, `dtype` of EyeLike and of random operators
    return attribute.name in ("to", "dtype") and attribute.i == TensorProto.DOUBLE


def _unsafe_optimizers(model: ModelProto) -> list[str]:
    """Return the names of ONNX Runtime's optimizers that break a model (docs/optimizers.md)."""
    from ortable_generated.optimizers import DISABLED, DISABLED_FOR

    names = list(DISABLED)
    if any(map(_has_double, (model.graph, *model.functions))):
        names += DISABLED_FOR["float64"]
    # The passes remove int8 activations, but the user may disable the passes.
    if _has_int8_activations(model):
        names += DISABLED_FOR["int8 activations"]
    return names


def _has_int8_activations(model: ModelProto) -> bool:
    """Whether activations are quantized to int8, or to a dtype that the model does not state."""
    graph = model.graph
    dtypes = {initializer.name: initializer.data_type for initializer in graph.initializer}
    for value in (*graph.input, *graph.value_info):
        dtypes[value.name] = value.type.tensor_type.elem_type
    for node in graph.node:
        if node.op_type == "Constant":
            dtypes.update((node.output[0], attribute.t.data_type) for attribute in node.attribute)
    constants = {initializer.name for initializer in graph.initializer}
    return any(
        _code_dtype(node, dtypes) in (TensorProto.INT8, TensorProto.UNDEFINED)
        for node in graph.node
        if node.op_type == "QuantizeLinear"
        or (node.op_type == "DequantizeLinear" and node.input[0] not in constants)
    )


def _code_dtype(node: NodeProto, dtypes: Mapping[str, int]) -> int:
    """Return the dtype of the codes of a node: `output_dtype`, or the zero point's dtype."""
    for attribute in node.attribute:
        if attribute.name == "output_dtype" and attribute.i:
            return int(attribute.i)
    if len(node.input) < 3 or not node.input[2]:
        return int(TensorProto.UINT8)
    return dtypes.get(node.input[2], TensorProto.UNDEFINED)


def make_session(
    model: ModelProto,
    providers: Sequence[Any],
    session_options: Any,
    *,
    training: bool,
    single_thread: bool = False,
    constants: Mapping[str, Any] | None = None,
) -> Any:
    """Create an `onnxruntime.InferenceSession` from the bytes of `model`.

    By default, the session has as many threads as torch. Its threads spin for microseconds only,
    because torch needs the processors between runs. The defaults also apply to settings that the
    user's SessionOptions object leaves unset.

    Args:
        model: the model.
        providers: the providers that run it.
        session_options: the user's object or settings.
        training: whether to use the defaults for training.
        single_thread: use one thread, unless the user requests more: for little work, other threads
            would start too late, behind threads of torch that still spin.
        constants: OrtValues of the initializers whose data are not in the model.

    Raises:
        ProviderError: if a provider is missing, or ONNX Runtime refuses the model.
        OptionError: if the session or a provider does not have one of the options.
    """
    import onnxruntime

    from ortable_generated.optimizers import ENABLED

    check_providers(providers)
    unsafe = _unsafe_optimizers(model)
    with _session_options(session_options, training, single_thread) as options:
        check_configured(options, providers)
        record_assignment(options, providers)
        if constants and options is session_options:
            model = _embed_constants(model, constants)
        elif constants:
            values = [onnxruntime.OrtValue(value) for value in constants.values()]
            options.add_external_initializers(list(constants), values)
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(),
                options,
                providers=list(providers),
                disabled_optimizers=[*unsafe, *disabled_optimizers(ENABLED)],
                enable_fallback=0,  # running on another provider is an error
            )
        except Exception as exc:
            raise _session_error(model, providers, exc) from exc
    check_session(session, providers)
    return session


def _embed_constants(model: ModelProto, constants: Mapping[str, Any]) -> ModelProto:
    """Copy a model, with the data of its external initializers included.

    `add_external_initializers` would add the data to the user's SessionOptions permanently.
    """
    result = ModelProto()
    result.CopyFrom(model)
    for proto in result.graph.initializer:
        value = constants.get(proto.name)
        if value is not None:
            proto.ClearField("external_data")
            proto.data_location = TensorProto.DEFAULT
            proto.raw_data = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return result


_MEMORY_ADVICE = (
    "What to do: use option freeze='off', which stores weights only in torch, or weights='int8' "
    "or 'int4', which makes them smaller; or give the process more memory and call again."
)


def _session_error(model: ModelProto, providers: Sequence[Any], error: Exception) -> ProviderError:
    import onnxruntime

    message, lines = locate_error(error, model)
    if isinstance(error, MemoryError) or "bad_alloc" in message or "bad allocation" in message:
        summary = "There is not enough memory for a session of ONNX Runtime"
        cause = message or type(error).__name__
        return ProviderError(f"{summary}: {cause}", details=str(error)).with_advice(_MEMORY_ADVICE)
    headline = (
        f"ONNX Runtime {onnxruntime.__version__} refuses the model converted for opset "
        f"{model.opset_import[0].version} with providers {list(providers)}: {message}"
    )
    return ProviderError("\n".join([headline, *lines]), details=str(error)).with_advice(
        "What to do: save the model with option dump_prefix, or set target_opset to another opset."
    )


@contextmanager
def _session_options(user_options: Any, training: bool, single_thread: bool) -> Iterator[Any]:
    """Yield new SessionOptions, or the user's object, completed while the block runs."""
    import onnxruntime
    import torch

    from ortable_generated.sessions import INFERENCE, TRAINING

    settings: dict[str, Any] = {**(TRAINING if training else INFERENCE)}  # docs/sessions.md
    if settings["intra_op_num_threads"] == "torch":
        settings["intra_op_num_threads"] = 1 if single_thread else torch.get_num_threads()
    if user_options is not None and not isinstance(user_options, Mapping):
        with _complete_options(user_options, settings):
            yield user_options
        return
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised with the same message
    if register_shared_arena():
        settings["session.use_env_allocators"] = "1"
    settings.update(user_options or {})
    apply_settings(options, settings, "session_options", options.add_session_config_entry)
    yield options


_COMPLETION = threading.Lock()


@contextmanager
def _complete_options(options: Any, settings: Mapping[str, Any]) -> Iterator[None]:
    """Add the settings that the user's object leaves unset.

    The number of threads depends on the graph, so it is restored after the block. Config entries
    stay, because ONNX Runtime cannot remove them.
    """
    entries = {name: value for name, value in settings.items() if "." in name}
    with _COMPLETION:
        for name, value in entries.items():
            if not has_config_entry(options, name):
                options.add_session_config_entry(name, value)
        threads = options.intra_op_num_threads
        with restore_on_exit(lambda: setattr(options, "intra_op_num_threads", threads)):
            options.intra_op_num_threads = threads or settings["intra_op_num_threads"]
            yield


@functools.cache
def register_shared_arena() -> bool:
    """Register one process-wide arena, which sessions share instead of growing their own.

    Return False if ONNX Runtime has no arena. An arena that other code registered is used.
    """
    from ortable.compat.onnxruntime import register_arena

    return register_arena()
