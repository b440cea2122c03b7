"""Return dtypes and shapes of values for generated rules; None if they are unknown."""

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
    """Return the shape of a result, ``()`` for a number, and None if it is unknown."""
    if type(value) is str:
        return graph.get_shape(value) if graph.has_shape(value) else None
    if type(value) is ComplexValue:
        return shape_or_none(graph, value.real)
    return None if value is None else ()


def shapes_or_none(graph: Graph, values: Sequence[Any]) -> list[Shape | None]:
    """Return the shapes of a list of results, with None for a shape that is unknown."""
    return [shape_or_none(graph, value) for value in values]


def dtype_or_none(graph: Graph, value: Any) -> int | None:
    """Return the dtype of a number, a result or a list's first item; None if it is unknown."""
    if type(value) is str:
        return graph.get_type(value) if graph.has_type(value) else None
    if type(value) is ComplexValue:
        return value.dtype
    if isinstance(value, list | tuple):
        return dtype_or_none(graph, value[0]) if value else None
    return None if value is None else number_dtype(value)


def number_dtype(value: Any) -> int:
    """Return torch's dtype of a Python number (bool, int64, the default float or complex)."""
    if isinstance(value, bool):
        return dtypes.boolean
    if isinstance(value, int | SymDim):
        return dtypes.int64
    if isinstance(value, complex):
        return dtypes.complex128 if default_float() == dtypes.float64 else dtypes.complex64
    return default_float()


def default_float() -> int:
    """Return ``torch.get_default_dtype()`` as an ONNX dtype."""
    import torch

    return dtypes.from_torch(torch.get_default_dtype())


def given_shape(sizes: Any) -> Shape | None:
    """Return a shape that the caller passes; None if it has a -1, which must be inferred."""
    shape = (sizes,) if isinstance(sizes, int | SymDim) else tuple(sizes)
    return None if any(type(size) is int and size < 0 for size in shape) else shape


def scalar_shape() -> Shape:
    """Return the shape of a 0-d tensor."""
    return ()


def swap_dims(shape: Shape | None, first: int, second: int) -> Shape | None:
    """Exchange two dimensions of ``shape``, as torch.transpose does."""
    if not shape:
        return shape
    sizes = list(shape)
    sizes[first], sizes[second] = sizes[second], sizes[first]
    return tuple(sizes)


def as_list(results: Any) -> list[Any]:
    """Return the results of an operator that returns a list; a single name becomes a list."""
    return [results] if isinstance(results, str) else list(results)
