"""Convert tensors to numpy and back, and format arrays and ONNX nodes as short text."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from onnx import NodeProto

from ortable.interpreter.complex_numbers import real_tensor
from ortable.ir import initializers


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """Copy a tensor to a numpy array; complex numbers become pairs along a new last dimension.

    The array never shares memory with the tensor, because results must not alias.
    """
    return initializers.to_numpy(real_tensor(tensor.detach().cpu().resolve_neg())).copy()


def to_torch(value: Any) -> torch.Tensor:
    """Convert a numpy array or scalar to a tensor."""
    tensor: torch.Tensor = initializers.to_torch(np.array(value))
    return tensor.reshape(np.shape(value))


def describe_value(value: Any, max_values: int = 10) -> str:
    """Format dtype, shape, and the values if there are at most `max_values`, in one line.

    For a larger array of numbers the line has minimum, maximum, mean, and the number of non-finite
    values; for a larger array of bools the number of true ones.
    """
    if isinstance(value, list | tuple):
        return f"[{', '.join(describe_value(item, max_values) for item in value)}]"
    if not isinstance(value, np.ndarray | np.generic):
        return repr(value)
    array = np.asarray(value)
    head = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    if array.size <= max_values:
        dtype = np.float64 if array.dtype.kind in "fV" else array.dtype
        text = np.array2string(
            array.astype(dtype), precision=6, separator=", ", threshold=max_values + 1
        )
        return f"{head} {' '.join(text.split())}"
    if array.dtype.kind == "b":
        return f"{head} {int(array.sum())} of {array.size} true"
    if array.dtype.kind not in "iufV":
        return head
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    nonfinite = array.size - finite.size
    parts = [head]
    if finite.size:
        parts.append(f"min={finite.min():.6g} max={finite.max():.6g} mean={finite.mean():.6g}")
    if nonfinite:
        parts.append(f"nan={int(np.isnan(numbers).sum())} inf={int(np.isinf(numbers).sum())}")
    return " ".join(parts)


def format_node(proto: NodeProto) -> str:
    """Format an ONNX node as a line: `Relu(x) -> y`."""
    name = f"{proto.domain}.{proto.op_type}" if proto.domain else proto.op_type
    return f"{name}({', '.join(proto.input)}) -> {', '.join(proto.output)}"
