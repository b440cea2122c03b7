"""What of onnxruntime is private or differs between 1.31 and 1.32. In come tensors and texts, out
come OrtValues and the lines that make them. Called by the backend, and by whoever feeds a session
without numpy."""

from __future__ import annotations

from typing import Any

import torch
from onnxruntime.capi import _pybind_state as capi
from onnxruntime.capi._pybind_state import OrtValue

__all__ = [
    "OrtValue",
    "as_complex",
    "bools_need_a_flag",
    "capi",
    "dlpack_source",
    "empty_loses_strides",
    "from_dlpack",
    "ort_value",
]

# 1.31: from_dlpack(capsule, is_bool_tensor=False). 1.32: from_dlpack(capsule).
from_dlpack = OrtValue.from_dlpack
_to_dlpack = torch._C._to_dlpack
_HOST = capi.OrtDevice(capi.OrtDevice.cpu(), capi.OrtDevice.default_memory(), 0)


def _bools_need_a_flag() -> bool:
    """Whether dlpack's own bools are refused, and bools come as bytes with a flag beside them.

    1.31 refuses kDLBool ("Unsupported code 6") and takes uint8 and True; 1.32 takes kDLBool, has
    no flag, and reads uint8 as uint8. What the library does decides, whatever its number.
    """
    try:
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
    return torch._C._from_dlpack(empty.to_dlpack()).stride() == (0, 0)


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
