"""Check names of execution providers and settings against the installed ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ortable.errors import OptionError, ProviderError

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
# packages with a provider; those that ended before ONNX Runtime 1.31, our floor, are left out
PACKAGES = {
    "CUDAExecutionProvider": "onnxruntime-gpu",
    "TensorrtExecutionProvider": "onnxruntime-gpu",
    "NvTensorRTRTXExecutionProvider": "onnxruntime-trt-rtx",
    "MIGraphXExecutionProvider": "onnxruntime-migraphx",
    "CANNExecutionProvider": "onnxruntime-cann",
    "WebGpuExecutionProvider": "onnxruntime-webgpu",
}


def provider_names(providers: Sequence[Any] | None) -> tuple[str, ...]:
    """Return the names of providers that may be `(name, options)` pairs; empty for None."""
    return tuple(p if isinstance(p, str) else p[0] for p in providers or ())


def check_providers(providers: Sequence[Any] | None) -> None:
    """Raise ProviderError, with a remedy, if the installed ONNX Runtime lacks a provider."""
    import onnxruntime

    available = onnxruntime.get_available_providers()
    for name in provider_names(providers):
        if name in available:
            continue
        supported = onnxruntime.get_all_providers()
        if name in PACKAGES:
            remedy = f"Install the package {PACKAGES[name]!r} in place of 'onnxruntime'."
        elif name in supported:
            remedy = "Install a build of ONNX Runtime 1.31 or newer that has it."
        else:
            remedy = f"ONNX Runtime has no such provider; it has: {', '.join(supported)}."
        raise ProviderError(
            f"Execution provider {name!r} is not available in the installed onnxruntime "
            f"{onnxruntime.__version__}, which has: {', '.join(available)}. {remedy}"
        )


def has_config_entry(options: Any, name: str) -> bool:
    """Whether a SessionOptions has a config entry of this name."""
    try:
        options.get_session_config_entry(name)
    except RuntimeError:
        return False
    return True


def apply_settings(target: Any, settings: Mapping[str, Any], what: str, add_entry: Any) -> None:
    """Set attributes of an options object by name; a name with a dot is a config entry.

    Raises:
        OptionError: a setting is unknown, or its value has another type.
    """
    for name, value in settings.items():
        if "." in name:
            add_entry(name, str(value))
        elif name.startswith("_") or not hasattr(target, name) or callable(getattr(target, name)):
            names = [n for n in dir(target) if n[0] != "_" and not callable(getattr(target, n))]
            raise OptionError(
                f"{what} has no setting {name!r}. Known: {', '.join(names)}; config entries have a "
                "dot in their name, such as 'session.intra_op.allow_spinning'."
            )
        else:
            _set_attribute(target, name, value, what)


def _set_attribute(target: Any, name: str, value: Any, object_name: str) -> None:
    old_value = getattr(target, name)
    try:
        setattr(target, name, value)
    except TypeError:
        raise OptionError(
            f"{object_name}: {name} must be of type {type(old_value).__name__}, got {value!r} "
            f"of type {type(value).__name__}."
        ) from None
