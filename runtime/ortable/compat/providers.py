"""Check names of execution providers and settings against the installed ONNX Runtime."""

from __future__ import annotations

import importlib.util
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ortable.errors import FallbackWarning, OptionError, ProviderError

CPU = "CPUExecutionProvider"
CUDA = "CUDAExecutionProvider"
# Packages with a provider, in place of onnxruntime. Those that ended before ONNX Runtime 1.31, our
# floor, are left out: of MIGraphX, CANN, DirectML, ROCm, and the older ones of the plugins below.
PACKAGES = {
    "CUDAExecutionProvider": "onnxruntime-gpu",
    "TensorrtExecutionProvider": "onnxruntime-gpu",
}
# Packages with the library of a plugin provider, beside onnxruntime. The module of the package has
# the same name, with underscores, and a function `get_library_path`.
PLUGIN_PACKAGES = {
    "NvTensorRTRTXExecutionProvider": "onnxruntime-ep-nv-tensorrt-rtx",
    "OpenVINOExecutionProvider": "onnxruntime-ep-openvino",
    "QNNExecutionProvider": "onnxruntime-qnn",
    "WebGpuExecutionProvider": "onnxruntime-ep-webgpu",
}
_ASSIGNMENT_ENTRY = "session.record_ep_graph_assignment_info"
_warned_nodes: set[tuple[str, str]] = set()  # provider and operator, with a warning in this process


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
        advice: tuple[str, ...] = ()
        if name in PACKAGES:
            remedy = f"Install the package {PACKAGES[name]!r} in place of 'onnxruntime'."
        elif name in PLUGIN_PACKAGES:
            remedy, advice = _plugin_advice(name)
        elif name in supported:
            remedy = "Install a build of ONNX Runtime 1.31 or newer that has it."
        else:
            remedy = (
                f"ONNX Runtime has no such provider; it has: {', '.join(supported)}. A plugin's "
                "provider has the name under which its library was registered."
            )
        error = ProviderError(
            f"Execution provider {name!r} is not available in the installed onnxruntime "
            f"{onnxruntime.__version__}, which has: {', '.join(available)}. {remedy}"
        )
        raise error.with_advice(*advice) if advice else error


def _plugin_advice(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the last sentence of the error about a missing plugin provider, and the advice."""
    package = PLUGIN_PACKAGES[name]
    module = package.replace("-", "_")
    lines = (
        "What to do: register the plugin's library once in the process, before the first session:",
        f"  import onnxruntime, {module}",
        f"  onnxruntime.register_execution_provider_library({name!r}, {module}.get_library_path())",
    )
    if importlib.util.find_spec(module) is None:
        remedy = f"Install the package {package!r} beside 'onnxruntime', and register its library."
    else:
        remedy = (
            f"The package {package!r} is installed, but its library is not registered, or it "
            "supports no device of this machine: onnxruntime.get_ep_devices() has none of it."
        )
    return remedy, lines


def is_plugin_provider(name: str) -> bool:
    """Whether a provider comes from a registered library that lists a device."""
    import onnxruntime

    return name != CPU and any(device.ep_name == name for device in onnxruntime.get_ep_devices())


def check_configured(options: Any, providers: Sequence[Any]) -> None:
    """Raise OptionError if a SessionOptions has providers already, which would be replaced."""
    if options.has_providers():
        names = ", ".join(provider_names(providers))
        raise OptionError(
            f"The SessionOptions object already has providers, but {names} would replace them. "
            "Leave out add_provider_for_devices, and name the provider in 'providers'; its option "
            "'device_id' is the index of one of its devices."
        )


# -- the nodes that a requested provider does not run


def record_assignment(options: Any, providers: Sequence[Any]) -> None:
    """Make a session record which provider runs each node, if the first one is not the CPU's."""
    if provider_names(providers)[:1] not in ((), (CPU,)):
        options.add_session_config_entry(_ASSIGNMENT_ENTRY, "1")


def count_cpu_nodes(session: Any) -> dict[str, int]:
    """Count by operator the nodes that run in the CPU provider though another one was requested.

    The result is empty for a session of the CPU provider, and for None.
    """
    if session is None or session.get_providers()[0] == CPU:
        return {}
    return dict(
        Counter(
            node.op_type
            for part in session.get_provider_graph_assignment_info()
            if part.ep_name == CPU
            for node in part.get_nodes()
        )
    )


def warn_cpu_nodes(session: Any, providers: Sequence[Any]) -> None:
    """Warn once per operator of nodes that run in the CPU provider, not in the requested one.

    The providers that tensors on CUDA select are no request: the CPU provider is one of them.
    """
    names = provider_names(providers)
    if names == (CUDA, CPU):
        return
    counts = count_cpu_nodes(session)
    if all((names[0], operator) in _warned_nodes for operator in counts):
        return
    _warned_nodes.update((names[0], operator) for operator in counts)
    listed = ", ".join(f"{operator} {count}" for operator, count in sorted(counts.items()))
    warnings.warn(
        f"{names[0]} leaves {sum(counts.values())} of a session's nodes to {CPU}: {listed}. "
        "The report of ortable.explain lists them for each graph. "
        "warnings.simplefilter('ignore', ortable.errors.FallbackWarning) silences this.",
        FallbackWarning,
        stacklevel=2,
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
