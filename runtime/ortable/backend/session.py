"""Sessions of ONNX Runtime: providers checked first, threads as torch has them, settings applied
by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx import ModelProto, TensorProto

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


def _has_double(model: ModelProto) -> bool:
    """Whether products of float64 may be scaled: the fusion keeps factors in float32."""
    values = [*model.graph.input, *model.graph.output]
    return any(each.type.tensor_type.elem_type == TensorProto.DOUBLE for each in values)


def make_session(
    model: ModelProto, providers: Sequence[Any], session_options: Any, *, training: bool
) -> Any:
    """An `onnxruntime.InferenceSession` for `model`, which is handed over as bytes.

    Threads equal torch's, and they do not spin in graphs that train, nor in parts of a graph: torch
    needs the processors between two calls.  A SessionOptions object of the user is used as it is.

    :raises ProviderError: a provider is missing, or ONNX Runtime refuses the model
    """
    import onnxruntime
    import torch

    check_providers(providers)
    if session_options is None or isinstance(session_options, Mapping):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        if training:
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        add_entry = options.add_session_config_entry
        _apply(options, session_options or {}, "session_options", add_entry)
    else:
        options = session_options
    try:
        return onnxruntime.InferenceSession(
            model.SerializeToString(),
            options,
            providers=list(providers),
            disabled_optimizers=["MatMulScaleFusion"] if _has_double(model) else None,
        )
    except Exception as exc:
        raise ProviderError(
            f"ONNX Runtime {onnxruntime.__version__} refuses the model converted for opset "
            f"{model.opset_import[0].version} with providers {list(providers)}: {exc}\n"
            "Use option dump_prefix to keep the model, target_opset to try another opset."
        ) from exc
