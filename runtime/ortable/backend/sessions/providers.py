"""Select the execution providers of a graph, and the kernels that they have.

The providers are the requested ones, or those for the device of the graph's tensors, checked
against the installed ONNX Runtime.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule

from ortable import dtypes
from ortable.backend.options import OrtOptions
from ortable.compat.providers import CUDA, PACKAGES, provider_names
from ortable.errors import ProviderError

CPU = ("CPUExecutionProvider",)
# Providers with the kernels of the CPU provider.
_CPU_KERNEL_PROVIDERS = ("CPUExecutionProvider", "AzureExecutionProvider")
# Device type -> providers that read torch's memory on such a device, and run on a torch stream.
PROVIDERS_BY_DEVICE = {
    "cuda": (
        "CUDAExecutionProvider",
        "TensorrtExecutionProvider",
        "NvTensorRTRTXExecutionProvider",
    )
}


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors of a node's value, which may be a list."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


def _find_accelerators(graph_module: GraphModule) -> dict[torch.device, str]:
    """Map each device of a graph except the CPU to the first node with a tensor on the device."""
    accelerators: dict[torch.device, str] = {}
    position = 0
    for node in graph_module.graph.nodes:
        location = f"Argument {position} ({node.name})" if node.op == "placeholder" else node.name
        position += node.op == "placeholder"
        for value in tensors_in(node.meta.get("val")):
            if value.device.type not in ("cpu", "meta"):
                accelerators.setdefault(value.device, location)
    return accelerators


def graph_device(graph_module: GraphModule) -> str:
    """Return the device of a graph: `cpu`, or the accelerator of its tensors, such as `cuda:0`."""
    return next((device_text(device) for device in _find_accelerators(graph_module)), "cpu")


def resolve_providers(graph_module: GraphModule, options: OrtOptions) -> OrtOptions:
    """Return the options with the providers of this graph.

    They are the requested providers, or, by default, those for the device of the graph's tensors. A
    provider of an accelerator gets the index of the device.

    Args:
        graph_module: the graph.
        options: the options of the backend.

    Raises:
        ProviderError: if tensors are on two accelerators, or on one that no provider supports, or
            if the user's `device_id` is another one.
    """
    devices = _find_accelerators(graph_module)
    if not devices:
        return options if options.providers is not None else replace(options, providers=CPU)
    if len(devices) > 1:
        locations = ", ".join(f"{location} on {device}" for device, location in devices.items())
        raise ProviderError(
            f"A graph can run on only one accelerator, but this graph has {locations}. Compile the "
            "parts for each device separately."
        )
    [(device, location)] = devices.items()
    providers = options.providers
    if providers is None:
        _require_provider(device, location)
        providers = (PROVIDERS_BY_DEVICE[device.type][0], *CPU)
    check_device_supported(location, device, provider_names(providers))
    supported = PROVIDERS_BY_DEVICE[device.type]
    return replace(
        options,
        providers=tuple(
            _with_index(provider, device, location)
            if provider_names([provider])[0] in supported
            else provider
            for provider in providers
        ),
    )


def _require_provider(device: torch.device, location: str) -> None:
    """Raise ProviderError if the installed ONNX Runtime has no provider for a device."""
    import onnxruntime

    supported = PROVIDERS_BY_DEVICE.get(device.type)
    if supported is None:
        check_device_supported(location, device, CPU)
        return
    available = onnxruntime.get_available_providers()
    if supported[0] not in available:
        raise ProviderError(
            f"{location} is on {device}, but the installed onnxruntime {onnxruntime.__version__} "
            f"has only the providers {', '.join(available)}. Install the package "
            f"{PACKAGES[supported[0]]!r} in place of 'onnxruntime', or move model and inputs to "
            "the CPU."
        )


def check_device_supported(location: str, device: torch.device, names: Sequence[str]) -> None:
    """Raise ProviderError if no provider in `names` accepts memory of `device`."""
    if device.type in ("cpu", "meta"):
        return
    served = PROVIDERS_BY_DEVICE.get(device.type, ())
    if not set(served) & set(names):
        remedy = (
            f"Add {served[0]!r} to option 'providers' (or remove the option)"
            if served
            else "ortable passes only CPU and CUDA tensors to ONNX Runtime: move the tensors there"
        )
        raise ProviderError(
            f"{location} is on {device}, but this graph runs with {', '.join(names)}, which cannot "
            f"access memory of that device. {remedy}."
        )


def _with_index(provider: Any, device: torch.device, location: str) -> Any:
    name, settings = (provider, {}) if isinstance(provider, str) else provider
    index = device.index or 0
    if int(settings.get("device_id", index)) != index:
        raise ProviderError(
            f"{location} is on {device}, but option providers sets device_id "
            f"{settings['device_id']} for {name}. Remove device_id; the device of the tensors is "
            "used."
        )
    return name, {**settings, "device_id": str(index)}


def device_of(value: Any) -> str:
    """Return the device of an argument or result: `cpu`, `cuda:0`, ..."""
    return device_text(value.device) if isinstance(value, torch.Tensor) else "cpu"


def device_text(device: torch.device) -> str:
    """Return the name of a device; `cpu` also for the device meta."""
    if device.type in ("cpu", "meta"):
        return "cpu"
    return f"{device.type}:{device.index or 0}"


def kernel_table(names: Sequence[str]) -> Mapping[str, Any]:
    """Return the table of kernels by which the conversion decides where casts are needed.

    It is the table of the CPU provider, or that of CUDA with the CPU as fallback. For other
    providers, whose kernels are not known, it is the table of the CPU with 16-bit floats added
    wherever float32 is supported: ONNX Runtime's error names a node without a kernel.
    """
    from ortable_generated.kernels import KERNELS_CPU

    if set(names) <= set(_CPU_KERNEL_PROVIDERS):
        return KERNELS_CPU
    if CUDA in names and set(names) <= {CUDA, *_CPU_KERNEL_PROVIDERS}:
        from ortable_generated.kernels_cuda import KERNELS_CUDA

        return KERNELS_CUDA
    return _accelerator_kernels()


@functools.cache
def _accelerator_kernels() -> Mapping[str, Any]:
    from ortable_generated.kernels import KERNELS_CPU

    halves = (dtypes.float16, dtypes.bfloat16)

    def widen_types(
        kernel: Mapping[str, Any], legal: Mapping[str, Any]
    ) -> dict[str, tuple[int, ...]]:
        return {
            param: (
                *types,
                *(half for half in halves if half in legal.get(param, ()) and half not in types),
            )
            if dtypes.float32 in types
            else tuple(types)
            for param, types in kernel.items()
        }

    return {
        key: tuple(
            (since, inputs, outputs, legal, tuple(widen_types(kernel, legal) for kernel in kernels))
            for since, inputs, outputs, legal, kernels in entries
        )
        for key, entries in KERNELS_CPU.items()
    }
