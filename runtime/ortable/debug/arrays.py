"""Values of the debugger: tensors as numpy arrays and back, and arrays and ONNX nodes as short
text. Called by `run` and `comparing`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from onnx import NodeProto

from ortable import dtypes
from ortable.interpreter.complex_numbers import real_tensor

# dtypes that numpy only has through ml_dtypes: carried as integers of the same width
_CARRIERS = {
    torch.bfloat16: (torch.int16, dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.int8, dtypes.float8e4m3fn),
    torch.float8_e4m3fnuz: (torch.int8, dtypes.float8e4m3fnuz),
    torch.float8_e5m2: (torch.int8, dtypes.float8e5m2),
    torch.float8_e5m2fnuz: (torch.int8, dtypes.float8e5m2fnuz),
    torch.float8_e8m0fnu: (torch.int8, dtypes.float8e8m0),
}
_BY_NUMPY = {dtypes.to_numpy(onnx): (torch_t, c) for torch_t, (c, onnx) in _CARRIERS.items()}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A numpy array with the values of a tensor (copied: results must not alias); complex numbers
    are pairs along a last dimension."""
    tensor = real_tensor(tensor.detach().cpu().resolve_neg()).contiguous()
    carrier = _CARRIERS.get(tensor.dtype)
    if carrier is None:
        return tensor.numpy().copy()
    return tensor.view(carrier[0]).numpy().copy().view(dtypes.to_numpy(carrier[1]))


def to_torch(value: Any) -> torch.Tensor:
    """A tensor with the values of a numpy array or scalar."""
    array = np.array(value)
    found = _BY_NUMPY.get(array.dtype)
    if found is None:
        return torch.from_numpy(array)
    torch_type, carrier = found
    width = np.int16 if carrier is torch.int16 else np.int8
    return torch.from_numpy(array.view(width)).view(torch_type)


def describe(value: Any, most: int = 10) -> str:
    """One line: dtype, shape, and the values when there are at most `most`; else least, greatest
    and mean value, and how many are not finite."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(describe(item, most) for item in value)}]"
    if not isinstance(value, np.ndarray | np.generic):
        return repr(value)
    array = np.asarray(value)
    head = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    if array.size <= most:
        kind = np.float64 if array.dtype.kind in "fV" else array.dtype
        text = np.array2string(array.astype(kind), precision=6, separator=", ", threshold=most + 1)
        return f"{head} {' '.join(text.split())}"
    if array.dtype.kind == "b":
        return f"{head} {int(array.sum())} of {array.size} true"
    if array.dtype.kind not in "iufV":
        return head
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    rest = array.size - finite.size
    parts = [head]
    if finite.size:
        parts.append(f"min={finite.min():.6g} max={finite.max():.6g} mean={finite.mean():.6g}")
    if rest:
        parts.append(f"nan={int(np.isnan(numbers).sum())} inf={int(np.isinf(numbers).sum())}")
    return " ".join(parts)


def node_text(proto: NodeProto) -> str:
    """An ONNX node as a line: `Relu(x) -> y`."""
    name = f"{proto.domain}.{proto.op_type}" if proto.domain else proto.op_type
    return f"{name}({', '.join(proto.input)}) -> {', '.join(proto.output)}"
