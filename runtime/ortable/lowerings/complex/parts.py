"""Apply a converter of real tensors to the real and the imaginary parts of complex ones."""

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
    """``complex: parts(...)``: a converter of real tensors, called for the real parts of the
    arguments in ``given``, then for the imaginary ones.

    Real arguments among them have an imaginary part of zeros; all are cast to the parts of the
    result. A complex dtype among the other arguments becomes that of its parts.
    """
    kinds = [dtypes.is_complex_type(dtype) for dtype in res.dtypes if dtype is not None]
    if len(set(kinds)) > 1:
        return _mixed_results(graph, res, converter, given, kinds, others)
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
    result = []
    for part, suffix in enumerate(("real", "imag")):
        arguments = {
            name: _select_part(graph, value, part, real_dtype) for name, value in given.items()
        }
        record = _part_record(graph, res, suffix)
        result.append(converter(graph, record, **arguments, **others))
    return _make_pair(graph, result[0], result[1])


def _mixed_results(
    graph: Graph,
    res: ResultSpec,
    converter: Callable[..., Any],
    given: Mapping[str, Any],
    kinds: Sequence[bool],
    others: Mapping[str, Any],
) -> list[Any]:
    """Real and complex results of one operator: the real ones keep their first parts only."""
    results = []
    for part, suffix in enumerate(("real", "imag")):
        arguments = {name: _select_part(graph, value, part, None) for name, value in given.items()}
        results.append(converter(graph, _part_record(graph, res, suffix), **arguments, **others))
    pairs = zip(*results, kinds, strict=True)
    return [_make_pair(graph, a, b) if is_complex else a for a, b, is_complex in pairs]


def products_of_parts(
    graph: Graph,
    res: ResultSpec,
    converter: Callable[..., Any],
    given: Mapping[str, Any],
    **others: Any,
) -> Any:
    """``complex: products(a, b, c)``: a converter of real tensors that is linear in ``a`` and in
    ``b``, and adds ``c``, called for the four products of their parts."""
    op = OpBuilder(graph)
    real_dtype, names = part_type(res.dtype), list(given)

    def of_parts(first: int, second: int, added: int | None) -> str:
        arguments: dict[str, Any] = {}
        for name, part in zip(names, (first, second, added), strict=False):
            arguments[name] = (
                None if part is None else _select_part(graph, given[name], part, real_dtype)
            )
        record = _part_record(graph, res, f"product{first}{second}")
        result: str = converter(graph, record, **arguments, **others)
        return result

    real = op.Sub(of_parts(0, 0, 0), of_parts(1, 1, None))
    imag = op.Add(of_parts(0, 1, 1), of_parts(1, 0, None))
    return _make_pair(graph, real, imag)


def _select_part(graph: Graph, value: Any, part: int, dtype: int | None) -> Any:
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


def _part_record(graph: Graph, res: ResultSpec, suffix: str) -> ResultSpec:
    names = [graph.unique_name(f"{name}_{suffix}") if name else "" for name in res.outputs]
    return type(res)(names, [part_type(dtype) for dtype in res.dtypes], res.shapes)


def _make_pair(graph: Graph, real: Any, imag: Any) -> Any:
    if isinstance(real, list | tuple):
        return [_make_pair(graph, a, b) for a, b in zip(real, imag, strict=True)]
    if not isinstance(real, str) or not isinstance(imag, str):
        return real
    return ComplexValue(real, imag, complex_type(graph.get_type(real)))
