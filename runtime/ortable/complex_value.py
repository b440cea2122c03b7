"""Complex tensors while a graph is converted. ONNX Runtime has no complex kernels, so a complex
result is a pair of real results, which no ONNX node can take by accident: it is no name.

Where a complex tensor enters or leaves the graph it is one real tensor with a last dimension of 2,
torch.view_as_real's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .dims import SymDim

if TYPE_CHECKING:
    from .builder import GraphBuilder, Res

PARTS = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


@dataclass(frozen=True, slots=True)
class ComplexValue:
    """A complex tensor: the results that hold its parts, and its own (complex) dtype."""

    real: str
    imag: str
    dtype: int


def part_type(dtype: int | None) -> Any:
    """float32 for complex64, float64 for complex128; others as they are."""
    return PARTS.get(dtype, dtype) if dtype is not None else None


def complex_type(part: int | None) -> Any:
    """complex64 for float32 (and what is narrower), complex128 for float64; complex ones stay."""
    if part is None or dtypes.is_complex_type(part):
        return part
    return dtypes.complex128 if part == dtypes.float64 else dtypes.complex64


def split_pair(graph: GraphBuilder, name: str) -> ComplexValue:
    """The complex tensor that a real one with a last dimension of 2 stands for."""
    parts = []
    for place in (0, 1):
        index = graph.make_initializer("", np.array(place, dtype=np.int64))
        parts.append(graph.make_node("Gather", [name, index], axis=-1))
    return ComplexValue(parts[0], parts[1], complex_type(graph.get_type(name)))


def join_pair(graph: GraphBuilder, value: ComplexValue) -> str:
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


def each_part(
    graph: GraphBuilder,
    res: Res,
    converter: Callable[..., Any],
    given: Mapping[str, Any],
    **others: Any,
) -> Any:
    """``complex: parts(...)``: a converter of real tensors, called for the real parts of the
    arguments in ``given``, then for the imaginary ones.

    Real arguments among them have an imaginary part of zeros; all are cast to the parts of the
    result. A complex dtype among the other arguments becomes that of its parts.
    """
    if res.dtype is not None and not dtypes.is_complex_type(res.dtype):
        # torch drops the imaginary part, as full_like(x, 1, dtype=float32) does
        return converter(
            graph, res, **{k: _part(graph, v, 0, None) for k, v in given.items()}, **others
        )
    wanted = part_type(res.dtype)
    others = {
        name: part_type(value) if name == "dtype" and type(value) is int else value
        for name, value in others.items()
    }
    found = []
    for place, suffix in enumerate(("real", "imag")):
        arguments = {name: _part(graph, value, place, wanted) for name, value in given.items()}
        record = _part_record(graph, res, suffix)
        found.append(converter(graph, record, **arguments, **others))
    return _paired(graph, found[0], found[1])


def _part(graph: GraphBuilder, value: Any, place: int, wanted: int | None) -> Any:
    if isinstance(value, list | tuple):
        return [_part(graph, each, place, wanted) for each in value]
    if value.__class__ is ComplexValue:
        name = value.imag if place else value.real
    elif type(value) is str:
        from .prelude_pointwise import filled_like

        name = value
        if place:
            return filled_like(graph, value, 0, wanted or graph.get_type(value))
    elif isinstance(value, complex):
        return value.imag if place else value.real
    elif isinstance(value, bool | int | float | SymDim):
        return 0 if place else value
    else:
        return value
    if wanted is None or graph.get_type(name) == wanted:
        return name
    return graph.make_node("Cast", [name], to=wanted)


def _part_record(graph: GraphBuilder, res: Res, suffix: str) -> Res:
    names = [graph.unique_name(f"{name}_{suffix}") if name else "" for name in res.outputs]
    return type(res)(names, [part_type(dtype) for dtype in res.dtypes], res.shapes)


def _paired(graph: GraphBuilder, real: Any, imag: Any) -> Any:
    if isinstance(real, list | tuple):
        return [_paired(graph, a, b) for a, b in zip(real, imag, strict=True)]
    if not isinstance(real, str) or not isinstance(imag, str):
        return real
    return ComplexValue(real, imag, complex_type(graph.get_type(real)))
