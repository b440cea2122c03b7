"""Pass torch arguments to ONNX Runtime as OrtValues over the same memory, through dlpack.

Dense tensors are not copied, except 8-bit floats, which ONNX Runtime does not accept by dlpack.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import torch

from ortable import dtypes
from ortable.backend.roles import InputRole
from ortable.compat.onnxruntime import OrtValue, capi, ort_value
from ortable.compat.torch import FakeTensor
from ortable.errors import InputError

from .weights import WeightSet, watch_weights

_CACHED_DIMS = 4096
_HOST = capi.OrtDevice(capi.OrtDevice.cpu(), capi.OrtDevice.default_memory(), 0)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """View booleans as bytes, which ONNX Runtime 1.31 requires for dlpack."""
    return tensor.view(torch.uint8)


def float8_value(tensor: torch.Tensor, elem_type: int) -> Any:
    """Return an OrtValue with a copy of 8-bit floats.

    A numpy array over the tensor's memory would prevent the tensor from being resized later.
    """
    value = OrtValue.ortvalue_from_shape_and_onnx_type(list(tensor.shape), elem_type, _HOST)
    _bytes_of(value, tensor.numel()).copy_(tensor.detach().view(torch.uint8).reshape(-1))
    return value


def float8_tensor(value: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return the memory of an OrtValue of 8-bit floats as a tensor."""
    shape = value.shape()
    return _bytes_of(value, math.prod(shape)).view(dtype).view(shape)


def _bytes_of(value: Any, count: int) -> torch.Tensor:
    """Return the ``count`` bytes of an OrtValue as a tensor that keeps it alive."""
    if count == 0:
        return torch.empty(0, dtype=torch.uint8)
    buffer = (ctypes.c_uint8 * count).from_address(value.data_ptr())
    buffer.owner = value  # type: ignore[attr-defined]
    return torch.frombuffer(buffer, dtype=torch.uint8)


def as_pairs(tensor: torch.Tensor) -> torch.Tensor:
    """View complex numbers as real ones, with a last dimension of 2."""
    return torch.view_as_real(tensor.resolve_conj().resolve_neg())


def to_input_layout(role: InputRole, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor in the memory order of the graph's input, dense and real.

    The result is the tensor itself or a view of it if the permuted tensor is dense, otherwise a
    copy.
    """
    if role.permutation is not None:
        tensor = tensor.permute(role.permutation)
    tensor = tensor.contiguous()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return as_pairs(tensor).contiguous() if dtypes.is_complex_type(role.elem_type) else tensor


def check_memory(roles: Sequence[InputRole], args: Sequence[Any]) -> None:
    """Reject fake tensors and layouts without strides, which dynamo's example inputs do not show.

    Args:
        roles: the roles of the arguments.
        args: the arguments.

    Raises:
        InputError: if ONNX Runtime cannot read the elements of an argument.
    """
    for role in roles:
        value = args[role.index]
        if not isinstance(value, torch.Tensor):
            continue
        if not role.name and not value.is_mkldnn:  # dynamo drops to_dense() of an mkldnn tensor
            continue
        label = f"Argument {role.index} ({role.name})"
        if isinstance(value, FakeTensor):
            raise InputError(
                f"{label} is a fake tensor, which has no data, and ONNX Runtime needs data. Call "
                "the compiled model outside of FakeTensorMode, with weights and inputs that have "
                "values."
            )
        if value.layout is not torch.strided:
            raise InputError(
                f"{label} has layout {value.layout}, but ONNX Runtime accepts only dense tensors. "
                "Call to_dense() before the model."
            )


def feed_any(role: InputRole, tensor: torch.Tensor) -> Any:
    """Return an OrtValue for a tensor argument with any strides."""
    return _make_value(role, to_input_layout(role, tensor))


def _make_value(role: InputRole, tensor: torch.Tensor) -> Any:
    if role.elem_type in dtypes.FLOAT8_TYPES:
        return float8_value(tensor, role.elem_type)
    return ort_value(tensor)


def number_value(value: float | bool, is_bool: bool) -> Any:
    """Return a Python float or bool as a 0-d OrtValue."""
    dtype = torch.bool if is_bool else torch.float64
    return ort_value(torch.tensor(value, dtype=dtype, device="cpu"))


class DimensionValues:
    """Ints as int64[1] OrtValues, cached by value."""

    def __init__(self) -> None:
        self._values: dict[int, Any] = {}

    def __call__(self, value: int) -> Any:
        """Return the OrtValue of an int; raise InputError if a new value is no int."""
        cached = self._values.get(value)
        if cached is None:
            if not isinstance(value, int):
                raise InputError(
                    f"The graph expects an int, but got {value!r} of type {type(value).__name__}."
                )
            if len(self._values) >= _CACHED_DIMS:
                self._values.clear()
            cached = ort_value(torch.tensor([value], dtype=torch.int64, device="cpu"))
            self._values[value] = cached
        return cached


class BoundWeights(WeightSet):
    """OrtValues of weights that are inputs, reused by later calls.

    `now` holds the data pointers of the weights and their feeds. An OrtValue holds the memory of
    its weight, so an equal pointer means the same memory: no other tensor can be allocated there.
    The OrtValues copy nothing, so the next call sees values written in the meantime. All OrtValues
    are released when nothing else refers to one of the weights.
    """

    def __init__(self, roles: Sequence[InputRole]) -> None:
        self.roles = tuple(roles)
        self.now: tuple[list[int] | None, dict[str, Any]] = (None, {})
        if roles:
            watch_weights(self)

    def bind(self, tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
        """Return the feeds of these weights; cache them if they all use the weights' memory."""
        pointers = [tensor.data_ptr() for tensor in tensors]
        feeds: dict[str, Any] = {}
        is_alias = True
        for role, tensor, pointer in zip(self.roles, tensors, pointers, strict=True):
            # an OrtValue of `data`, an alias of the tensor, holds no reference to the tensor
            ordered = to_input_layout(role, tensor.data)
            is_alias = is_alias and ordered.data_ptr() == pointer  # a copy would become stale
            feeds[role.name] = _make_value(role, ordered)
        if is_alias:
            self.tensors = list(tensors)
            self.now = (pointers, feeds)
        return feeds

    def release(self) -> None:
        """Release the weights and their OrtValues."""
        self.now, self.tensors = (None, {}), ()
