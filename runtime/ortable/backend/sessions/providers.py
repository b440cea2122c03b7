"""Select the execution providers of a graph, and the kernels that they have.

They are the requested ones, or those for the device of the graph's tensors, checked against the
installed ONNX Runtime.
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
_CPU_KERNEL_PROVIDERS = (
    "CPUExecutionProvider",
    "AzureExecutionProvider",
)  # their kernels are those of the CPU
# Providers that take torch's memory on a device as it is, and run on a stream of torch's.
SERVES = {
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
    """Devices other than the CPU in a graph, each with the first place where it occurs."""
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
    """Where a graph runs: `cpu`, or the accelerator of its tensors, `cuda:0`."""
    return next((device_text(device) for device in _find_accelerators(graph_module)), "cpu")


def resolve_providers(graph_module: GraphModule, options: OrtOptions) -> OrtOptions:
    """Return the options with the providers of this graph.

    These are the requested ones, or those for the device of its tensors. A provider of an
    accelerator gets the index of the tensors' device.

    Args:
        graph_module: the graph.
        options: those of the backend.

    Raises:
        ProviderError: tensors on two accelerators, or on one that no provider serves.
    """
    devices = _find_accelerators(graph_module)
    if not devices:
        return options if options.providers is not None else replace(options, providers=CPU)
    if len(devices) > 1:
        listed = ", ".join(f"{where} on {device}" for device, where in devices.items())
        raise ProviderError(
            f"A graph runs on one accelerator, and this one has {listed}. Compile the part of each "
            "device by itself."
        )
    [(device, where)] = devices.items()
    providers = options.providers
    if providers is None:
        _need_provider(device, where)
        providers = (SERVES[device.type][0], *CPU)
    check_argument(where, device, provider_names(providers))
    served = SERVES[device.type]
    return replace(
        options,
        providers=tuple(
            _with_index(provider, device, where)
            if provider_names([provider])[0] in served
            else provider
            for provider in providers
        ),
    )


def _need_provider(device: torch.device, where: str) -> None:
    """Raise ProviderError if the installed ONNX Runtime has no provider for a device."""
    import onnxruntime

    served = SERVES.get(device.type)
    if served is None:
        check_argument(where, device, CPU)
        return
    available = onnxruntime.get_available_providers()
    if served[0] not in available:
        raise ProviderError(
            f"{where} is on {device}, and the installed onnxruntime {onnxruntime.__version__} has "
            f"only: {', '.join(available)}. Install the package {PACKAGES[served[0]]!r} in place "
            "of 'onnxruntime', or move model and inputs to the CPU."
        )


def check_argument(where: str, device: torch.device, names: Sequence[str]) -> None:
    """Raise ProviderError if no provider in `names` takes memory of `device`."""
    if device.type in ("cpu", "meta"):
        return
    served = SERVES.get(device.type, ())
    if not set(served) & set(names):
        remedy = (
            f"Add {served[0]!r} to option 'providers' (or leave the option out)"
            if served
            else "ortable hands ONNX Runtime tensors of the CPU and of CUDA: move them there"
        )
        raise ProviderError(
            f"{where} is on {device}, and this graph runs with {', '.join(names)}, which takes "
            f"no memory of that device. {remedy}."
        )


def _with_index(provider: Any, device: torch.device, where: str) -> Any:
    name, settings = (provider, {}) if isinstance(provider, str) else provider
    index = device.index or 0
    if int(settings.get("device_id", index)) != index:
        raise ProviderError(
            f"{where} is on {device}, and option providers gives {name} device_id "
            f"{settings['device_id']}. Leave device_id out: it is that of the tensors."
        )
    return name, {**settings, "device_id": str(index)}


def device_of(value: Any) -> str:
    """The device of an argument or result: `cpu`, `cuda:0`, ..."""
    return device_text(value.device) if isinstance(value, torch.Tensor) else "cpu"


def device_text(device: torch.device) -> str:
    if device.type in ("cpu", "meta"):
        return "cpu"
    return f"{device.type}:{device.index or 0}"


def kernel_table(names: Sequence[str]) -> Mapping[str, Any]:
    """The kernels that decide where casts are needed.

    They are those of the CPU, those of CUDA with the CPU's as fallback, or, for another provider
    with kernels of its own, the CPU's with 16-bit floats wherever there is float32. ONNX Runtime
    refuses a node without any kernel, by name.
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
            param: (*types, *(h for h in halves if h in legal.get(param, ()) and h not in types))
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
