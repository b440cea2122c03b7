"""Runs an exported model with ONNX Runtime on the example inputs and compares every output with
eager torch. Shapes and dtypes are exact; floats agree within a tolerance of their precision."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import onnx
import torch
from torch.utils import _pytree as pytree

from ..errors import ExportError, OptionError
from ..interpreter.complex_numbers import real_tensor

# dtype -> (relative, absolute) tolerance; integers and booleans are equal.
TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-9),
    torch.float32: (1e-3, 1e-4),
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (5e-2, 5e-2),
}


def validate_model(
    model: Any,
    callee: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    inputs: Sequence[str | None],
    count: int,
) -> None:
    """Compare ``model`` with ``callee(*args, **kwargs)``.

    ``inputs`` has the ONNX name of each leaf of ``(args, kwargs)``, None for leaves that are
    constants of the model; ``count`` is the number of leading ONNX outputs that are results of the
    forward. Neither the module nor the arguments are changed.

    Raises:
        OptionError: there are no example inputs to run.
        ExportError: ONNX Runtime cannot run the model, or an output differs in number, dtype, shape
            or value.
    """
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
    if len(leaves) != len(inputs):
        raise OptionError(
            f"validate=True needs the example inputs of the model: {len(inputs)} values, "
            f"{len(leaves)} were given"
        )
    feeds = {
        name: _array(leaf) for name, leaf in zip(inputs, leaves, strict=True) if name is not None
    }
    expected = _eager(callee, args, kwargs)
    computed = _run(model, feeds)[:count]
    if len(computed) != len(expected):
        raise ExportError(
            f"validation failed: the model has {len(computed)} outputs, eager returns "
            f"{len(expected)}"
        )
    names = [output.name for output in _proto(model).graph.output]
    problems = [
        text
        for name, value, wanted in zip(names, computed, expected, strict=False)
        if (text := difference(name, value, wanted)) is not None
    ]
    if problems:
        raise ExportError(
            "validation failed, the ONNX model and eager differ:\n" + "\n".join(problems)
        )


def difference(name: str, value: torch.Tensor, expected: torch.Tensor) -> str | None:
    """How ``value`` differs from ``expected``, in words; None when it does not."""
    if value.dtype != expected.dtype or tuple(value.shape) != tuple(expected.shape):
        return (
            f"  '{name}': ONNX Runtime returns {value.dtype} {tuple(value.shape)}, "
            f"eager {expected.dtype} {tuple(expected.shape)}"
        )
    relative, absolute = TOLERANCES.get(value.dtype, (0.0, 0.0))
    if torch.allclose(value, expected, rtol=relative, atol=absolute, equal_nan=True):
        return None
    gap = (value.to(torch.float64) - expected.to(torch.float64)).abs()
    return (
        f"  '{name}': largest absolute difference {gap.nan_to_num(float('inf')).max().item():.3g}"
    )


def _eager(callee: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    module = copy.deepcopy(callee) if isinstance(callee, torch.nn.Module) else callee
    given, named = pytree.tree_map(_cloned, (tuple(args), dict(kwargs)))
    with torch.no_grad():
        returned = module(*given, **named)
    leaves = [leaf for leaf in pytree.tree_leaves(returned) if leaf is not None]
    return [
        real_tensor(leaf.detach().cpu()) if isinstance(leaf, torch.Tensor) else _scalar(leaf)
        for leaf in leaves
    ]


def _cloned(leaf: Any) -> Any:
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def _scalar(value: Any) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)


def _array(leaf: Any) -> Any:
    import numpy as np

    if isinstance(leaf, torch.Tensor):
        leaf = real_tensor(leaf)
        if leaf.dtype == torch.bfloat16:
            import ml_dtypes

            return (
                leaf.detach().cpu().contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
            )
        return leaf.detach().cpu().contiguous().numpy()
    return np.array([leaf], dtype=np.int64)


def _run(model: Any, feeds: dict[str, Any]) -> list[torch.Tensor]:
    import onnxruntime

    try:
        with tempfile.TemporaryDirectory() as folder:
            if isinstance(model, onnx.ModelProto):
                source: Any = model.SerializeToString()
            else:
                source = os.path.join(folder, "model.onnx")
                model.save(source)
            session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
            values = {name: _ort_value(onnxruntime, array) for name, array in feeds.items()}
            results = session.run_with_ort_values(None, values)
    except (
        Exception
    ) as error:  # onnxruntime raises its own classes, which derive from Exception only
        raise ExportError(
            f"validation failed, ONNX Runtime cannot run the model: {error}"
        ) from error
    return [_tensor(value) for value in results]


def _ort_value(onnxruntime: Any, array: Any) -> Any:
    if array.dtype.name == "bfloat16":
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(
            array, onnx.TensorProto.BFLOAT16
        )
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def _tensor(value: Any) -> torch.Tensor:
    if value.element_type() == onnx.TensorProto.BOOL:
        return torch.from_numpy(value.numpy().copy())
    return torch.from_dlpack(value._ortvalue.to_dlpack()).clone()


def _proto(model: Any) -> Any:
    return model if isinstance(model, onnx.ModelProto) else model.proto
