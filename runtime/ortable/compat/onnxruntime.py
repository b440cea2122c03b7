"""Interfaces of onnxruntime that are private or differ between 1.31 and 1.32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .private import PrivateName, resolve_name
from .torch import from_dlpack as _from_dlpack
from .torch import to_dlpack as _to_dlpack
from .torch import unset_fake_temporarily as _with_real_tensors

NAMES: dict[str, PrivateName] = {
    "capi": PrivateName(
        "onnxruntime.capi._pybind_state", "module", "run sessions over the memory of tensors"
    ),
    "OrtValue": PrivateName(
        "onnxruntime.capi._pybind_state:OrtValue", "class", "pass the memory of tensors to sessions"
    ),
    "OrtDevice": PrivateName(
        "onnxruntime.capi.onnxruntime_inference_collection:OrtDevice",
        "class",
        "select the device of results",
    ),
}
capi: Any = resolve_name(NAMES["capi"])
OrtValue: Any = resolve_name(NAMES["OrtValue"])

# 1.31: from_dlpack(capsule, is_bool_tensor=False). 1.32: from_dlpack(capsule).
from_dlpack = OrtValue.from_dlpack
_CPU_DEVICE = capi.OrtDevice(capi.OrtDevice.cpu(), capi.OrtDevice.default_memory(), 0)


def _bools_need_a_flag() -> bool:
    """Whether dlpack bools are rejected, so that bools are passed as bytes with a flag.

    1.31 rejects kDLBool ("Unsupported code 6") and accepts uint8 with the flag True; 1.32 accepts
    kDLBool, has no flag, and reads uint8 as uint8. The check tests the behaviour, not the version.
    """
    try:
        with _with_real_tensors():  # an export under FakeTensorMode may be the first import
            from_dlpack(_to_dlpack(torch.zeros(1, dtype=torch.bool, device="cpu")))
    except RuntimeError:
        return True
    return False


bools_need_a_flag = _bools_need_a_flag()


def dlpack_source(tensor: str, is_bool: bool) -> str:
    """Return the source of an OrtValue over the memory of a dense tensor, as short as possible.

    In it, `feed` is `from_dlpack`, `dlpack` is torch's `to_dlpack`, and `as_bytes` makes a uint8
    view.
    """
    if not bools_need_a_flag:
        return f"feed(dlpack({tensor}))"
    # Passing the flag is faster than its default, even if it is False.
    return (
        f"feed(dlpack(as_bytes({tensor})), True)" if is_bool else f"feed(dlpack({tensor}), False)"
    )


def ort_value(tensor: torch.Tensor) -> Any:
    """Return an OrtValue over the memory of a dense tensor of real numbers or bools.

    torch gives an empty tensor the address 0, at which a kernel of 1.31 (InstanceNormalization)
    ends the process; an array of NumPy has another address.
    """
    if not tensor.numel() and tensor.dtype != torch.bfloat16:
        return OrtValue.ortvalue_from_numpy(tensor.numpy(force=True).copy(), _CPU_DEVICE)
    if bools_need_a_flag and tensor.dtype == torch.bool:
        return from_dlpack(_to_dlpack(tensor.view(torch.uint8)), True)
    return from_dlpack(_to_dlpack(tensor))


def _empty_loses_strides() -> bool:
    """Whether the dlpack strides of an empty tensor are 0; in 1.31 they are contiguous."""
    empty = OrtValue.ortvalue_from_shape_and_onnx_type([0, 2], 1, _CPU_DEVICE)
    return _from_dlpack(empty.to_dlpack()).stride() == (0, 0)


empty_loses_strides = _empty_loses_strides()


def as_complex(pairs: torch.Tensor) -> torch.Tensor:
    """View pairs of real numbers that ONNX Runtime computed as complex numbers.

    An empty tensor of 1.32 has strides that torch rejects, so a new one is returned.
    """
    try:
        return torch.view_as_complex(pairs)
    except RuntimeError:
        if pairs.numel():
            raise
        return torch.view_as_complex(pairs.new_empty(pairs.shape))


def bound_session(session: Any) -> Any:
    """Return the C object of an InferenceSession.

    Its `run_with_ort_values` and `run_with_ortvaluevector` accept and return OrtValues without a
    Python object around each.
    """
    return session._sess


def run_in_place(
    bound: Any,
    feeds: Mapping[str, Any],
    names: Sequence[str],
    sources: Mapping[str, str],
    options: Any,
) -> Any:
    """Run a session's C object with the outputs of ``sources`` in the memory of these inputs."""
    binding = capi.SessionIOBinding(bound)
    for name, value in feeds.items():
        binding.bind_ortvalue_input(name, value)
    for name in names:
        source = sources.get(name)
        if source is None:
            binding.bind_output(name, _CPU_DEVICE)
        else:
            binding.bind_ortvalue_output(name, feeds[source])
    bound.run_with_iobinding(binding, options)
    return binding.get_outputs()


def ort_device(text: str) -> Any:
    """Return the C object for a device that torch calls ``cpu`` or ``cuda:1``."""
    device_type, _, index = text.partition(":")
    return resolve_name(NAMES["OrtDevice"]).make(device_type, int(index or 0))._get_c_device()


def register_arena() -> bool:
    """Register a CPU arena for the whole process; return False if there is none to share."""
    memory_info = capi.OrtMemoryInfo(
        "Cpu", capi.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, capi.OrtMemType.DEFAULT
    )
    try:
        capi.create_and_register_allocator(memory_info, None)
    except RuntimeError as exc:
        return "already" in str(exc)
    return True


def unwrap_ort_value(value: Any) -> Any:
    """Return the C object of a public OrtValue, which does not own an array that it wraps."""
    return value._ortvalue


def tensor_at(values: Any, index: int) -> torch.Tensor:
    """Return a tensor over the memory of an OrtValue in an OrtValueVector, by its index.

    Iterating over the vector takes 30 microseconds.
    """
    return _from_dlpack(values.dlpack_at(index))


def tensor_over(value: Any) -> torch.Tensor:
    """Return a tensor over the memory of a public OrtValue, of a dtype that dlpack supports."""
    return _from_dlpack(value._ortvalue.to_dlpack())
