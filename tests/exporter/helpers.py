"""Running an exported model and comparing it with eager, apart from ortable's own validation."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnxruntime
import torch
from torch.utils import _pytree as pytree

# Largest difference, relative to the largest expected value.
FLOAT32 = 1e-4


def feeds_of(
    model: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Tensors of a call by the names of the ONNX inputs, in the order of the call's leaves."""
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs or {})))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    names = [value.name for value in model.graph.input]
    assert len(names) == len(tensors), (names, [tuple(t.shape) for t in tensors])
    return {n: t.detach().contiguous().numpy() for n, t in zip(names, tensors, strict=True)}


def run_onnx(
    model: Any, feeds: Mapping[str, Any], entries: Mapping[str, str] | None = None
) -> list[torch.Tensor]:
    """Outputs of a ModelProto, or of a file, on ONNX Runtime's CPU provider, with entries of its
    session's configuration."""
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else os.fspath(model)
    options = onnxruntime.SessionOptions()
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return [torch.as_tensor(value) for value in session.run(None, dict(feeds))]


def eager(module: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> list:
    """Flat tensor results of a call of a copy of the module; the arguments are not changed."""
    module, args, kwargs = copy.deepcopy((module, tuple(args), dict(kwargs or {})))
    with torch.no_grad():
        returned = module(*args, **kwargs)
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(returned) if leaf is not None]


def assert_close(
    got: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], tolerance: float = FLOAT32
) -> None:
    """Same number of results, and of each the same dtype, shape and values."""
    assert len(got) == len(expected), (len(got), len(expected))
    for index, (value, wanted) in enumerate(zip(got, expected, strict=True)):
        assert value.dtype == wanted.dtype, (index, value.dtype, wanted.dtype)
        assert value.shape == wanted.shape, (index, value.shape, wanted.shape)
        if not wanted.is_floating_point():
            assert torch.equal(value, wanted), index
        elif wanted.numel():
            finite = wanted[wanted.isfinite()]
            scale = max(1.0, finite.abs().max().item()) if finite.numel() else 1.0
            torch.testing.assert_close(
                value, wanted, rtol=tolerance, atol=tolerance * scale, equal_nan=True
            )


def assert_same(
    model: Any,
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    tolerance: float = FLOAT32,
) -> list[torch.Tensor]:
    """The ONNX model returns what the module does on one call; returns the ONNX results."""
    got = run_onnx(model, feeds_of(model, args, kwargs))
    assert_close(got, eager(module, args, kwargs), tolerance)
    return got
