"""Tensors that torch.export takes for dense ones, or fails on in words about something else: packed
for mkldnn, quantized, nested. In comes a request, out goes an error or nothing. Called by
strategies.py before torch is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ortable.compat.torch import pytree
from ortable.errors import InputError
from ortable.exporter.request.program import Request


def check_layouts(request: Request) -> None:
    """Raises InputError for such a tensor among the arguments, parameters and buffers, by its
    place."""
    for place, value in _places(request):
        for leaf in pytree.tree_leaves(value):
            what = _undense(leaf) if isinstance(leaf, torch.Tensor) else None
            if what is not None:
                raise InputError(f"{place} is {what}")


def check_not_nested(place: str, value: Any) -> None:
    """Raises InputError for an input of a given graph that not even has a shape."""
    if isinstance(value, torch.Tensor) and value.is_nested and value.layout is torch.strided:
        raise InputError(f"{place} is {_undense(value)}")


def _places(request: Request) -> Iterator[tuple[str, Any]]:
    yield from ((f"args[{index}]", value) for index, value in enumerate(request.args))
    yield from ((f"kwargs[{name!r}]", value) for name, value in request.kwargs.items())
    if isinstance(request.model, torch.nn.Module):
        named = (request.model.named_parameters(), request.model.named_buffers())
        for name, value in (pair for each in named for pair in each):
            if not value.is_mkldnn:  # which torch.export keeps, and the interpreter refuses
                yield f"'{name}' of the model", value


def _undense(tensor: torch.Tensor) -> str | None:
    """What to say of a tensor whose elements do not lie as its shape says."""
    if tensor.is_mkldnn:
        return f"of layout {tensor.layout}: an ONNX model takes dense tensors; give x.to_dense()"
    if tensor.is_quantized:
        return (
            f"a quantized tensor ({tensor.dtype}), which holds its scale inside: give "
            "x.dequantize(), or use quantization through torch.export, which keeps codes and "
            "scales apart"
        )
    if tensor.is_nested and tensor.layout is torch.strided:
        return (
            "a nested tensor: an ONNX model takes dense tensors; give "
            "torch.nested.to_padded_tensor(x, 0.0)"
        )
    return None
