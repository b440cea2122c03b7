"""Values of the debugger: tensors as numpy arrays and back, and arrays and ONNX nodes as short
text. Called by `run` and `comparing`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from onnx import NodeProto

from ortable.interpreter.complex_numbers import real_tensor
from ortable.ir import initializers


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A numpy array with the values of a tensor (copied: results must not alias); complex numbers
    are pairs along a last dimension."""
    return initializers.to_numpy(real_tensor(tensor.detach().cpu().resolve_neg())).copy()


def to_torch(value: Any) -> torch.Tensor:
    """A tensor with the values of a numpy array or scalar."""
    made: torch.Tensor = initializers.to_torch(np.array(value))
    return made.reshape(np.shape(value))


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
