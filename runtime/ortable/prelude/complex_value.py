"""Complex tensors while a graph is converted.

ONNX Runtime has no complex kernels, so a complex result is a pair of real results. It is no
name, so that no ONNX node can take it by accident. Where a complex tensor enters or leaves the
graph it is one real tensor with a last dimension of 2, torch.view_as_real's layout.
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
    """A complex tensor: the results that hold its parts, and its own (complex) dtype."""

    real: str
    imag: str
    dtype: int


P = ParamSpec("P")


def by_parts(function: Callable[Concatenate[Graph, Any, P], Any]) -> Callable[..., Any]:
    """Apply a function that only moves or adds elements of its first argument to both parts of a
    pair.
    """

    @wraps(function)
    def each_part(graph: Graph, x: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        if x.__class__ is not ComplexValue:
            return function(graph, x, *args, **kwargs)
        real = function(graph, x.real, *args, **kwargs)
        return ComplexValue(real, function(graph, x.imag, *args, **kwargs), x.dtype)

    return each_part


def part_type(dtype: int | None) -> Any:
    """float32 for complex64, float64 for complex128; others as they are."""
    return PARTS.get(dtype, dtype) if dtype is not None else None


def complex_type(part: int | None) -> Any:
    """complex64 for float32, complex128 for float64; complex ones stay. None for float16, whose
    complex32 ONNX does not have."""
    if part is None or dtypes.is_complex_type(part):
        return part
    if part == dtypes.float16:
        return None
    return dtypes.complex128 if part == dtypes.float64 else dtypes.complex64


def split_pair(graph: Graph, name: str) -> ComplexValue:
    """Split a real tensor with a last dimension of 2 into the parts of a complex one."""
    parts = []
    for part in (0, 1):
        index = graph.make_initializer("", np.array(part, dtype=np.int64))
        parts.append(graph.make_node("Gather", [name, index], axis=-1))
    return ComplexValue(parts[0], parts[1], complex_type(graph.get_type(name)))


def join_pair(graph: Graph, value: ComplexValue) -> str:
    """A complex tensor as a real one with a last dimension of 2."""
    last = graph.make_initializer("", np.array([-1], dtype=np.int64))
    parts = [graph.make_node("Unsqueeze", [part, last]) for part in (value.real, value.imag)]
    return graph.make_node("Concat", parts, axis=-1)


def contains_complex(values: Any) -> bool:
    """True when a converted argument, or one in a list of them, is a complex tensor."""
    for value in values:
        if value.__class__ is ComplexValue:
            return True
        if value.__class__ in (list, tuple) and contains_complex(value):
            return True
    return False
