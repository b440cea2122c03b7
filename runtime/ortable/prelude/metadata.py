"""Dtypes and shapes of values for generated rules; None where they are unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dtypes
from ortable.dims import Dim, SymDim
from ortable.ir import Graph

from .complex_value import ComplexValue

Shape = tuple[Dim, ...]
Rules = tuple[tuple[int | None, Shape | None], ...]


def shape_or_none(graph: Graph, value: Any) -> Shape | None:
    """The shape of a result; ``()`` for a number; None when it is unknown."""
    if type(value) is str:
        return graph.get_shape(value) if graph.has_shape(value) else None
    if type(value) is ComplexValue:
        return shape_or_none(graph, value.real)
    return None if value is None else ()


def shapes_or_none(graph: Graph, values: Sequence[Any]) -> list[Shape | None]:
    """The shapes of a list of results."""
    return [shape_or_none(graph, value) for value in values]


def dtype_or_none(graph: Graph, value: Any) -> int | None:
    """The dtype of a result; torch's default for a number; that of the first one for a list."""
    if type(value) is str:
        return graph.get_type(value) if graph.has_type(value) else None
    if type(value) is ComplexValue:
        return value.dtype
    if isinstance(value, list | tuple):
        return dtype_or_none(graph, value[0]) if value else None
    return None if value is None else number_dtype(value)


def number_dtype(value: Any) -> int:
    """The dtype that torch gives a Python number: bool, int64, the default float, the default
    complex."""
    if isinstance(value, bool):
        return dtypes.boolean
    if isinstance(value, int | SymDim):
        return dtypes.int64
    if isinstance(value, complex):
        return dtypes.complex128 if default_float() == dtypes.float64 else dtypes.complex64
    return default_float()


def default_float() -> int:
    """``torch.get_default_dtype()`` as an ONNX dtype."""
    import torch

    return dtypes.from_torch(torch.get_default_dtype())


def given_shape(sizes: Any) -> Shape | None:
    """A shape that the caller passes; None when it holds a -1, which must be inferred."""
    shape = (sizes,) if isinstance(sizes, int | SymDim) else tuple(sizes)
    return None if any(type(size) is int and size < 0 for size in shape) else shape


def scalar_shape() -> Shape:
    """The shape of a 0-d tensor."""
    return ()


def swap_dims(shape: Shape | None, first: int, second: int) -> Shape | None:
    """``shape`` with two dimensions exchanged (torch.transpose)."""
    if not shape:
        return shape
    sizes = list(shape)
    sizes[first], sizes[second] = sizes[second], sizes[first]
    return tuple(sizes)


def as_list(results: Any) -> list[Any]:
    """The results of an operator that returns a list; a single name becomes a list of one."""
    return [results] if isinstance(results, str) else list(results)
