"""Interfaces of onnxruntime that are private or differ between 1.31 and 1.32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .private import PrivateName, resolve_name
from .torch import from_dlpack as _from_dlpack
from .torch import to_dlpack as _to_dlpack
from .torch import unset_fake_temporarily as _with_memory

NAMES: dict[str, PrivateName] = {
    "capi": PrivateName(
        "onnxruntime.capi._pybind_state", "module", "run sessions over the memory of tensors"
    ),
    "OrtValue": PrivateName(
        "onnxruntime.capi._pybind_state:OrtValue", "class", "hand the memory of tensors to sessions"
    ),
    "OrtDevice": PrivateName(
        "onnxruntime.capi.onnxruntime_inference_collection:OrtDevice",
        "class",
        "say where results go",
    ),
}
capi: Any = resolve_name(NAMES["capi"])
OrtValue: Any = resolve_name(NAMES["OrtValue"])

# 1.31: from_dlpack(capsule, is_bool_tensor=False). 1.32: from_dlpack(capsule).
from_dlpack = OrtValue.from_dlpack
_CPU_DEVICE = capi.OrtDevice(capi.OrtDevice.cpu(), capi.OrtDevice.default_memory(), 0)


def _bools_need_a_flag() -> bool:
    """Whether dlpack bools are refused, and bools are passed as bytes with a flag.

    1.31 refuses kDLBool ("Unsupported code 6") and takes uint8 and True; 1.32 takes kDLBool, has
    no flag, and reads uint8 as uint8. Decided by behaviour, not by the version.
    """
    try:
        with _with_memory():  # the first import may be of an export of a model without weights
            from_dlpack(_to_dlpack(torch.zeros(1, dtype=torch.bool, device="cpu")))
    except RuntimeError:
        return True
    return False


bools_need_a_flag = _bools_need_a_flag()


def dlpack_source(tensor: str, is_bool: bool) -> str:
    """The source of an OrtValue over the memory of a dense tensor, as short as the version allows.

    `feed` is `from_dlpack`, `dlpack` torch's side, `as_bytes` a view.
    """
    if not bools_need_a_flag:
        return f"feed(dlpack({tensor}))"
    # The flag is passed even if it is False: filling in a default takes longer.
    return (
        f"feed(dlpack(as_bytes({tensor})), True)" if is_bool else f"feed(dlpack({tensor}), False)"
    )


def ort_value(tensor: torch.Tensor) -> Any:
    """An OrtValue over the memory of a dense tensor of real numbers or bools."""
    if bools_need_a_flag and tensor.dtype == torch.bool:
        return from_dlpack(_to_dlpack(tensor.view(torch.uint8)), True)
    return from_dlpack(_to_dlpack(tensor))


def _empty_loses_strides() -> bool:
    """Whether dlpack's strides of an empty tensor are 0; 1.31 gives contiguous ones."""
    empty = OrtValue.ortvalue_from_shape_and_onnx_type([0, 2], 1, _CPU_DEVICE)
    return _from_dlpack(empty.to_dlpack()).stride() == (0, 0)


empty_loses_strides = _empty_loses_strides()


def as_complex(pairs: torch.Tensor) -> torch.Tensor:
    """View pairs of real numbers that ONNX Runtime computed as complex numbers.

    An empty tensor of 1.32 has strides that torch refuses, and is made anew.
    """
    try:
        return torch.view_as_complex(pairs)
    except RuntimeError:
        if pairs.numel():
            raise
        return torch.view_as_complex(pairs.new_empty(pairs.shape))


def bound_session(session: Any) -> Any:
    """The C object of an InferenceSession.

    Its `run_with_ort_values` and `run_with_ortvaluevector` take and return OrtValues without a
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
    """Run the C object of a session with outputs in the memory of inputs.

    ``sources`` maps such outputs to inputs. Returns the outputs in the order of ``names``.
    """
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
    """The C object for a device that torch calls ``cpu`` or ``cuda:1``."""
    kind, _, index = text.partition(":")
    return resolve_name(NAMES["OrtDevice"]).make(kind, int(index or 0))._get_c_device()


def register_arena() -> bool:
    """Register a CPU arena for the whole process; False if there is none to share."""
    where = capi.OrtMemoryInfo(
        "Cpu", capi.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, capi.OrtMemType.DEFAULT
    )
    try:
        capi.create_and_register_allocator(where, None)
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
    """A tensor over the memory of a public OrtValue, of a type that dlpack supports."""
    return _from_dlpack(value._ortvalue.to_dlpack())
