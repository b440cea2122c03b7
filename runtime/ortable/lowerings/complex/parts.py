"""Apply converters of real tensors to the real and imaginary parts of complex tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ortable import dtypes
from ortable.dims import SymDim
from ortable.ir import Graph, ResultSpec
from ortable.prelude.complex_value import ComplexValue, complex_type, part_type
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.pointwise import filled_like


def each_part(
    graph: Graph,
    res: ResultSpec,
    converter: Callable[..., Any],
    given: Mapping[str, Any],
    **others: Any,
) -> Any:
    """Lower ``complex: parts(...)``: call ``converter`` for the real, then for the imaginary parts.

    ``given`` holds the arguments to split; a real argument has an imaginary part of zeros. For a
    complex result, all parts are cast to its part dtype, and a complex ``dtype`` in ``others``
    becomes the dtype of its parts. For a real result, ``converter`` is called for the real parts
    only.
    """
    are_complex = [dtypes.is_complex_type(dtype) for dtype in res.dtypes if dtype is not None]
    if len(set(are_complex)) > 1:
        return _mixed_results(graph, res, converter, given, are_complex, others)
    if res.dtype is not None and not dtypes.is_complex_type(res.dtype):
        # torch drops the imaginary part, as full_like(x, 1, dtype=float32) does
        return converter(
            graph, res, **{k: _select_part(graph, v, 0, None) for k, v in given.items()}, **others
        )
    real_dtype = part_type(res.dtype)
    others = {
        name: part_type(value) if name == "dtype" and type(value) is int else value
        for name, value in others.items()
    }
    parts = []
    for part, suffix in enumerate(("real", "imag")):
        arguments = {
            name: _select_part(graph, value, part, real_dtype) for name, value in given.items()
        }
        part_spec = _part_spec(graph, res, suffix)
        parts.append(converter(graph, part_spec, **arguments, **others))
    return _make_pair(graph, parts[0], parts[1])


def _mixed_results(
    graph: Graph,
    res: ResultSpec,
    converter: Callable[..., Any],
    given: Mapping[str, Any],
    are_complex: Sequence[bool],
    others: Mapping[str, Any],
) -> list[Any]:
    """Convert an operator with real and complex results; real results use the real parts only."""
    results = []
    for part, suffix in enumerate(("real", "imag")):
        arguments = {name: _select_part(graph, value, part, None) for name, value in given.items()}
        results.append(converter(graph, _part_spec(graph, res, suffix), **arguments, **others))
    pairs = zip(*results, are_complex, strict=True)
    return [_make_pair(graph, a, b) if is_complex else a for a, b, is_complex in pairs]


def products_of_parts(
    graph: Graph,
    res: ResultSpec,
    converter: Callable[..., Any],
    given: Mapping[str, Any],
    **others: Any,
) -> Any:
    """Lower ``complex: products(a, b, c)``: call ``converter`` for the four products of the parts.

    ``converter`` takes real tensors, is linear in ``a`` and in ``b``, and adds ``c``.
    """
    op = OpBuilder(graph)
    real_dtype, names = part_type(res.dtype), list(given)

    def convert_parts(first: int, second: int, addend: int | None) -> str:
        arguments: dict[str, Any] = {}
        for name, part in zip(names, (first, second, addend), strict=False):
            arguments[name] = (
                None if part is None else _select_part(graph, given[name], part, real_dtype)
            )
        part_spec = _part_spec(graph, res, f"product{first}{second}")
        result: str = converter(graph, part_spec, **arguments, **others)
        return result

    real = op.Sub(convert_parts(0, 0, 0), convert_parts(1, 1, None))
    imag = op.Add(convert_parts(0, 1, 1), convert_parts(1, 0, None))
    return _make_pair(graph, real, imag)


def _select_part(graph: Graph, value: Any, part: int, dtype: int | None) -> Any:
    """Return the real (``part`` 0) or imaginary (1) part, cast to ``dtype`` unless it is None."""
    if isinstance(value, list | tuple):
        return [_select_part(graph, item, part, dtype) for item in value]
    if value.__class__ is ComplexValue:
        name = value.imag if part else value.real
    elif type(value) is str:
        name = value
        if part:
            return filled_like(graph, value, 0, dtype or graph.get_type(value))
    elif isinstance(value, complex):
        return value.imag if part else value.real
    elif isinstance(value, bool | int | float | SymDim):
        return 0 if part else value
    else:
        return value
    if dtype is None or graph.get_type(name) == dtype:
        return name
    return OpBuilder(graph).Cast(name, to=dtype)


def _part_spec(graph: Graph, res: ResultSpec, suffix: str) -> ResultSpec:
    names = [graph.unique_name(f"{name}_{suffix}") if name else "" for name in res.outputs]
    return type(res)(names, [part_type(dtype) for dtype in res.dtypes], res.shapes)


def _make_pair(graph: Graph, real: Any, imag: Any) -> Any:
    if isinstance(real, list | tuple):
        return [_make_pair(graph, a, b) for a, b in zip(real, imag, strict=True)]
    if not isinstance(real, str) or not isinstance(imag, str):
        return real
    return ComplexValue(real, imag, complex_type(graph.get_type(real)))
