"""What of onnxruntime is private or differs between 1.31 and 1.32."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .private import Private, resolve
from .torch import from_dlpack as _from_dlpack
from .torch import to_dlpack as _to_dlpack
from .torch import unset_fake_temporarily as _with_memory

NAMES: dict[str, Private] = {
    "capi": Private(
        "onnxruntime.capi._pybind_state", "module", "run sessions over the memory of tensors"
    ),
    "OrtValue": Private(
        "onnxruntime.capi._pybind_state:OrtValue", "class", "hand the memory of tensors to sessions"
    ),
    "OrtDevice": Private(
        "onnxruntime.capi.onnxruntime_inference_collection:OrtDevice",
        "class",
        "say where results go",
    ),
}
capi: Any = resolve(NAMES["capi"])
OrtValue: Any = resolve(NAMES["OrtValue"])

# 1.31: from_dlpack(capsule, is_bool_tensor=False). 1.32: from_dlpack(capsule).
from_dlpack = OrtValue.from_dlpack
_HOST = capi.OrtDevice(capi.OrtDevice.cpu(), capi.OrtDevice.default_memory(), 0)


def _bools_need_a_flag() -> bool:
    """Whether dlpack's own bools are refused, and bools come as bytes with a flag beside them.

    1.31 refuses kDLBool ("Unsupported code 6") and takes uint8 and True; 1.32 takes kDLBool, has
    no flag, and reads uint8 as uint8. What the library does decides, whatever its number.
    """
    try:
        with _with_memory():  # the first import may be of an export of a model without weights
            from_dlpack(_to_dlpack(torch.zeros(1, dtype=torch.bool, device="cpu")))
    except RuntimeError:
        return True
    return False


bools_need_a_flag = _bools_need_a_flag()


def dlpack_source(tensor: str, is_bool: bool) -> str:
    """The line of a call that makes an OrtValue over the memory of a dense tensor, as short as the
    installed version allows: `feed` is `from_dlpack`, `dlpack` torch's side, `as_bytes` a view."""
    if not bools_need_a_flag:
        return f"feed(dlpack({tensor}))"
    # The flag is given where it is False, too: filling in a default takes longer.
    return (
        f"feed(dlpack(as_bytes({tensor})), True)" if is_bool else f"feed(dlpack({tensor}), False)"
    )


def ort_value(tensor: torch.Tensor) -> Any:
    """An OrtValue over the memory of a dense tensor of real numbers or bools."""
    if bools_need_a_flag and tensor.dtype == torch.bool:
        return from_dlpack(_to_dlpack(tensor.view(torch.uint8)), True)
    return from_dlpack(_to_dlpack(tensor))


def _empty_loses_strides() -> bool:
    """Whether dlpack's strides of a tensor without elements are 0; 1.31 gives contiguous ones."""
    empty = OrtValue.ortvalue_from_shape_and_onnx_type([0, 2], 1, _HOST)
    return _from_dlpack(empty.to_dlpack()).stride() == (0, 0)


empty_loses_strides = _empty_loses_strides()


def as_complex(pairs: torch.Tensor) -> torch.Tensor:
    """Pairs of real numbers that ONNX Runtime computed as complex ones: a view, but for an empty
    tensor of 1.32, whose strides torch refuses."""
    try:
        return torch.view_as_complex(pairs)
    except RuntimeError:
        if pairs.numel():
            raise
        return torch.view_as_complex(pairs.new_empty(pairs.shape))


def bound_session(session: Any) -> Any:
    """The C object of an InferenceSession, whose `run_with_ort_values` and
    `run_with_ortvaluevector` take and give OrtValues without a Python object around each."""
    return session._sess


def in_memory_of(
    bound: Any,
    feeds: Mapping[str, Any],
    names: Sequence[str],
    sources: Mapping[str, str],
    options: Any,
) -> Any:
    """Runs the C object of a session; outputs in ``sources`` get the memory of the input that
    stands there. The outputs, in the order of ``names``."""
    binding = capi.SessionIOBinding(bound)
    for name, value in feeds.items():
        binding.bind_ortvalue_input(name, value)
    for name in names:
        source = sources.get(name)
        if source is None:
            binding.bind_output(name, _HOST)
        else:
            binding.bind_ortvalue_output(name, feeds[source])
    bound.run_with_iobinding(binding, options)
    return binding.get_outputs()


def device(text: str) -> Any:
    """The C object for a device that torch calls ``cpu`` or ``cuda:1``."""
    kind, _, index = text.partition(":")
    return resolve(NAMES["OrtDevice"]).make(kind, int(index or 0))._get_c_device()


def register_arena() -> bool:
    """Registers an arena on the CPU for the whole process; False where there is none to share."""
    where = capi.OrtMemoryInfo(
        "Cpu", capi.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, capi.OrtMemType.DEFAULT
    )
    try:
        capi.create_and_register_allocator(where, None)
    except RuntimeError as exc:
        return "already" in str(exc)
    return True


def tensor_over(value: Any) -> torch.Tensor:
    """A tensor over the memory of a public OrtValue, of what dlpack knows."""
    return _from_dlpack(value._ortvalue.to_dlpack())
