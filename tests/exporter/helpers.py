"""Helpers that run an exported model in ONNX Runtime and compare it with eager."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnxruntime
import torch
from torch.utils import _pytree as pytree

# Tolerance for float32, relative to the largest expected value.
FLOAT32 = 1e-4


def feeds_of(
    model: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the tensors of a call by the names of the ONNX inputs, in the order of the leaves."""
    leaves = pytree.tree_leaves((tuple(args), dict(kwargs or {})))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    names = [value.name for value in model.graph.input]
    assert len(names) == len(tensors), (names, [tuple(t.shape) for t in tensors])
    return {n: t.detach().contiguous().numpy() for n, t in zip(names, tensors, strict=True)}


def run_onnx(
    model: Any, feeds: Mapping[str, Any], entries: Mapping[str, str] | None = None
) -> list[torch.Tensor]:
    """Run a ModelProto or a model file on the CPU provider with entries of the session's config."""
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else os.fspath(model)
    options = onnxruntime.SessionOptions()
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return [torch.as_tensor(value) for value in session.run(None, dict(feeds))]


def eager(module: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> list:
    """Return the flat tensor results of a copied module, which leaves the arguments unchanged."""
    module, args, kwargs = copy.deepcopy((module, tuple(args), dict(kwargs or {})))
    with torch.no_grad():
        result = module(*args, **kwargs)
    return [torch.as_tensor(leaf) for leaf in pytree.tree_leaves(result) if leaf is not None]


def assert_close(
    results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], tolerance: float = FLOAT32
) -> None:
    """Check that the results agree in number, dtype, shape and values."""
    assert len(results) == len(expected), (len(results), len(expected))
    for index, (value, reference) in enumerate(zip(results, expected, strict=True)):
        assert value.dtype == reference.dtype, (index, value.dtype, reference.dtype)
        assert value.shape == reference.shape, (index, value.shape, reference.shape)
        if not reference.is_floating_point():
            assert torch.equal(value, reference), index
        elif reference.numel():
            finite = reference[reference.isfinite()]
            scale = max(1.0, finite.abs().max().item()) if finite.numel() else 1.0
            torch.testing.assert_close(
                value, reference, rtol=tolerance, atol=tolerance * scale, equal_nan=True
            )


def assert_same(
    model: Any,
    module: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    tolerance: float = FLOAT32,
) -> list[torch.Tensor]:
    """Check that the ONNX model and the module agree on a call; return the ONNX results."""
    results = run_onnx(model, feeds_of(model, args, kwargs))
    assert_close(results, eager(module, args, kwargs), tolerance)
    return results
