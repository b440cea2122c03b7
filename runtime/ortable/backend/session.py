"""Sessions of ONNX Runtime: providers checked first, threads as torch has them, settings applied
by name."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, TensorProto

from ortable.errors import OptionError, ProviderError

__all__ = ["check_providers", "make_run_options", "make_session", "provider_names"]

_PACKAGES = {
    "CUDAExecutionProvider": "onnxruntime-gpu",
    "TensorrtExecutionProvider": "onnxruntime-gpu",
    "NvTensorRTRTXExecutionProvider": "onnxruntime-trt-rtx",
    "ROCMExecutionProvider": "onnxruntime-rocm",
    "MIGraphXExecutionProvider": "onnxruntime-migraphx",
    "OpenVINOExecutionProvider": "onnxruntime-openvino",
    "DmlExecutionProvider": "onnxruntime-directml",
    "QNNExecutionProvider": "onnxruntime-qnn",
    "CANNExecutionProvider": "onnxruntime-cann",
    "WebGpuExecutionProvider": "onnxruntime-webgpu",
}


def provider_names(providers: Sequence[Any]) -> tuple[str, ...]:
    """Names only, of providers that may be `(name, options)` pairs."""
    return tuple(p if isinstance(p, str) else p[0] for p in providers)


def check_providers(providers: Sequence[Any]) -> None:
    """Raises ProviderError when the installed ONNX Runtime lacks one of `providers`.

    The message lists those it has and the package to install.
    """
    import onnxruntime

    available = onnxruntime.get_available_providers()
    for name in provider_names(providers):
        if name in available:
            continue
        known = onnxruntime.get_all_providers()
        if name in _PACKAGES:
            remedy = f"Install the package {_PACKAGES[name]!r} in place of 'onnxruntime'."
        elif name in known:
            remedy = "Install a build of ONNX Runtime that has it."
        else:
            remedy = f"ONNX Runtime knows no such provider; it knows: {', '.join(known)}."
        raise ProviderError(
            f"Execution provider {name!r} is not available in the installed onnxruntime "
            f"{onnxruntime.__version__}, which has: {', '.join(available)}. {remedy}"
        )


def _apply(target: Any, settings: Mapping[str, Any], what: str, add_entry: Any) -> None:
    """Sets attributes of an options object by name; a name with a dot is a config entry."""
    for name, value in settings.items():
        if "." in name:
            add_entry(name, str(value))
        elif name.startswith("_") or not hasattr(target, name) or callable(getattr(target, name)):
            known = [n for n in dir(target) if n[0] != "_" and not callable(getattr(target, n))]
            raise OptionError(
                f"{what} has no setting {name!r}. Known: {', '.join(known)}; config entries have a "
                "dot in their name, such as 'session.intra_op.allow_spinning'."
            )
        else:
            setattr(target, name, value)


def make_run_options(given: Any) -> Any:
    """The RunOptions of every call: the user's object, or a new one with the user's settings."""
    import onnxruntime

    if given is None or isinstance(given, Mapping):
        options = onnxruntime.RunOptions()
        _apply(options, given or {}, "run_options", options.add_run_config_entry)
        return options
    return given


def _has_double(graph: GraphProto) -> bool:
    """Whether a value of float64 stands anywhere in the graph, or is made there by a cast, a
    constant or a random operator."""
    values = [*graph.input, *graph.output, *graph.value_info]
    if any(each.type.tensor_type.elem_type == TensorProto.DOUBLE for each in values):
        return True
    if any(each.data_type == TensorProto.DOUBLE for each in graph.initializer):
        return True
    return any(_makes_double(att) for node in graph.node for att in node.attribute)


def _makes_double(attribute: AttributeProto) -> bool:
    if attribute.type == AttributeProto.GRAPH:
        return _has_double(attribute.g)
    if attribute.type == AttributeProto.TENSOR:
        return bool(attribute.t.data_type == TensorProto.DOUBLE)
    # `to` of Cast, `dtype` of EyeLike and of what draws random numbers
    return attribute.name in ("to", "dtype") and attribute.i == TensorProto.DOUBLE


def _has_double_in(model: ModelProto) -> bool:
    """Whether products of float64 may be scaled: the fusion keeps factors in float32."""
    if _has_double(model.graph):
        return True
    return any(
        _makes_double(att) for f in model.functions for node in f.node for att in node.attribute
    )


def make_session(
    model: ModelProto,
    providers: Sequence[Any],
    session_options: Any,
    *,
    training: bool,
    constants: Mapping[str, Any] | None = None,
) -> Any:
    """An `onnxruntime.InferenceSession` for `model`, which is handed over as bytes.

    Threads equal torch's, and they do not spin in graphs that train: torch needs the processors
    between two calls.  A SessionOptions object of the user is used as it is.

    :param constants: OrtValues of the initializers whose data are not in the model
    :raises ProviderError: a provider is missing, or ONNX Runtime refuses the model
    """
    import onnxruntime

    check_providers(providers)
    options = _session_options(session_options, training)
    if constants:
        values = [onnxruntime.OrtValue(value) for value in constants.values()]
        options.add_external_initializers(list(constants), values)
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=list(providers),
            disabled_optimizers=["MatMulScaleFusion"] if _has_double_in(model) else None,
        )
    except Exception as exc:
        raise ProviderError(
            f"ONNX Runtime {onnxruntime.__version__} refuses the model converted for opset "
            f"{model.opset_import[0].version} with providers {list(providers)}: {exc}\n"
            "Use option dump_prefix to keep the model, target_opset to try another opset."
        ) from exc


def _session_options(given: Any, training: bool) -> Any:
    """The user's object, or a new one with the defaults and the user's settings."""
    import onnxruntime
    import torch

    if given is not None and not isinstance(given, Mapping):
        return given
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    if training:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if share_arena():
        options.add_session_config_entry("session.use_env_allocators", "1")
    _apply(options, given or {}, "session_options", options.add_session_config_entry)
    return options


@functools.cache
def share_arena() -> bool:
    """Registers one arena for the whole process, which sessions share instead of growing one each;
    False when ONNX Runtime has none to share.  One that somebody else registered serves as well.
    """
    from onnxruntime.capi import _pybind_state as capi

    where = capi.OrtMemoryInfo(
        "Cpu", capi.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, capi.OrtMemType.DEFAULT
    )
    try:
        capi.create_and_register_allocator(where, None)
    except RuntimeError as exc:
        return "already" in str(exc)
    return True
