"""Which execution providers run a graph: those asked for, or what serves the device of its
tensors, checked against the installed ONNX Runtime; and which kernels they have."""

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
_PLAIN = ("CPUExecutionProvider", "AzureExecutionProvider")  # their kernels are those of the CPU
# Providers that take torch's memory on a device as it is, and run on a stream of torch's.
SERVES = {
    "cuda": (
        "CUDAExecutionProvider",
        "TensorrtExecutionProvider",
        "NvTensorRTRTXExecutionProvider",
    )
}


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a result of a node, which may be several."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)


def _devices(graph_module: GraphModule) -> dict[torch.device, str]:
    """Devices other than the CPU in a graph, each with a place where it is met first."""
    found: dict[torch.device, str] = {}
    position = 0
    for node in graph_module.graph.nodes:
        what = f"Argument {position} ({node.name})" if node.op == "placeholder" else node.name
        position += node.op == "placeholder"
        for value in tensors_in(node.meta.get("val")):
            if value.device.type not in ("cpu", "meta"):
                found.setdefault(value.device, what)
    return found


def graph_device(graph_module: GraphModule) -> str:
    """Where a graph runs: `cpu`, or the accelerator of its tensors, `cuda:0`."""
    return next((device_text(device) for device in _devices(graph_module)), "cpu")


def resolve_providers(graph_module: GraphModule, options: OrtOptions) -> OrtOptions:
    """The options with the providers that this graph runs with: those asked for, or what serves the
    device of its tensors. A provider of an accelerator is told which one the tensors are on.

    :raises ProviderError: tensors on two accelerators, or on one that no provider serves
    """
    devices = _devices(graph_module)
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
            _with_index(given, device, where) if provider_names([given])[0] in served else given
            for given in providers
        ),
    )


def _need_provider(device: torch.device, where: str) -> None:
    """Fails when the installed ONNX Runtime has no provider for a device."""
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
    """Fails when no provider in `names` takes memory of `device`."""
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


def _with_index(given: Any, device: torch.device, where: str) -> Any:
    """The provider with option `device_id` of the tensors."""
    name, settings = (given, {}) if isinstance(given, str) else given
    index = device.index or 0
    if int(settings.get("device_id", index)) != index:
        raise ProviderError(
            f"{where} is on {device}, and option providers gives {name} device_id "
            f"{settings['device_id']}. Leave device_id out: it is that of the tensors."
        )
    return name, {**settings, "device_id": str(index)}


def device_of(value: Any) -> str:
    """Where an argument or a result of the graph is: `cpu`, `cuda:0` ..."""
    return device_text(value.device) if isinstance(value, torch.Tensor) else "cpu"


def device_text(device: torch.device) -> str:
    if device.type in ("cpu", "meta"):
        return "cpu"
    return f"{device.type}:{device.index or 0}"


def kernel_table(names: Sequence[str]) -> Mapping[str, Any]:
    """The kernels that decide where casts are needed: those of the CPU, those of CUDA with the
    CPU's behind them, or, for another provider with kernels of its own, the CPU's with 16-bit
    floats wherever there is float32.

    ONNX Runtime refuses a node that has no kernel in the end, by name.
    """
    from ortable_generated.kernels import KERNELS_CPU

    if set(names) <= set(_PLAIN):
        return KERNELS_CPU
    if CUDA in names and set(names) <= {CUDA, *_PLAIN}:
        from ortable_generated.kernels_cuda import KERNELS_CUDA

        return KERNELS_CUDA
    return _accelerated()


@functools.cache
def _accelerated() -> Mapping[str, Any]:
    from ortable_generated.kernels import KERNELS_CPU

    halves = (dtypes.float16, dtypes.bfloat16)

    def widened(kernel: Mapping[str, Any], legal: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        return {
            param: (*types, *(h for h in halves if h in legal.get(param, ()) and h not in types))
            if dtypes.float32 in types
            else tuple(types)
            for param, types in kernel.items()
        }

    return {
        key: tuple(
            (since, inputs, outputs, legal, tuple(widened(kernel, legal) for kernel in kernels))
            for since, inputs, outputs, legal, kernels in entries
        )
        for key, entries in KERNELS_CPU.items()
    }
