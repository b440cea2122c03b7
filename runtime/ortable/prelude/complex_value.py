"""Represent complex tensors during conversion.

ONNX Runtime has no complex kernels, so a complex tensor is a pair of real results. The pair is not
a string, so that it cannot be the input of an ONNX node by mistake. Inputs and outputs of the graph
are real tensors with a last dimension of 2, the layout of torch.view_as_real.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import numpy as np

from ortable import dtypes
from ortable.ir import Graph

PARTS = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


@dataclass(frozen=True, slots=True)
class ComplexValue:
    """A complex tensor: the results of its parts, and its complex dtype."""

    real: str
    imag: str
    dtype: int


P = ParamSpec("P")


def by_parts(function: Callable[Concatenate[Graph, Any, P], Any]) -> Callable[..., Any]:
    """Make a function apply to both parts of a complex first argument.

    The function must only move or add elements of that argument.
    """

    @wraps(function)
    def apply_to_parts(graph: Graph, x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        if x.__class__ is not ComplexValue:
            return function(graph, x, *args, **kwargs)
        real = function(graph, x.real, *args, **kwargs)
        return ComplexValue(real, function(graph, x.imag, *args, **kwargs), x.dtype)

    return apply_to_parts


def part_type(dtype: int | None) -> Any:
    """Return float32 for complex64 and float64 for complex128; other dtypes are unchanged."""
    return PARTS.get(dtype, dtype) if dtype is not None else None


def complex_type(part: int | None) -> Any:
    """Return the complex dtype of a part's dtype; None for float16, as ONNX has no complex32."""
    if part is None or dtypes.is_complex_type(part):
        return part
    if part == dtypes.float16:
        return None
    return dtypes.complex128 if part == dtypes.float64 else dtypes.complex64


def split_pair(graph: Graph, name: str) -> ComplexValue:
    """Convert a real tensor with a last dimension of 2, as of view_as_real, to a ComplexValue."""
    parts = []
    for part in (0, 1):
        index = graph.make_initializer("", np.array(part, dtype=np.int64))
        parts.append(graph.make_node("Gather", [name, index], axis=-1))
    return ComplexValue(parts[0], parts[1], complex_type(graph.get_type(name)))


def join_pair(graph: Graph, value: ComplexValue) -> str:
    """Convert a ComplexValue to a real tensor with a last dimension of 2, as view_as_real does."""
    last = graph.make_initializer("", np.array([-1], dtype=np.int64))
    parts = [graph.make_node("Unsqueeze", [part, last]) for part in (value.real, value.imag)]
    return graph.make_node("Concat", parts, axis=-1)


def contains_complex(values: Any) -> bool:
    """Whether any of the values, or any item of a list or tuple in them, is a ComplexValue."""
    for value in values:
        if value.__class__ is ComplexValue:
            return True
        if value.__class__ in (list, tuple) and contains_complex(value):
            return True
    return False
