"""A converter of real tensors, called for the real and the imaginary parts of complex ones."""

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
    kinds = [dtypes.is_complex_type(each) for each in res.dtypes if each is not None]
    if len(set(kinds)) > 1:
        return _beside_real_ones(graph, res, converter, given, kinds, others)
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
    result = []
    for place, suffix in enumerate(("real", "imag")):
        arguments = {name: _part(graph, value, place, wanted) for name, value in given.items()}
        record = _part_record(graph, res, suffix)
        result.append(converter(graph, record, **arguments, **others))
    return _paired(graph, result[0], result[1])


def _beside_real_ones(
    graph: Graph,
    res: ResultSpec,
    converter: Callable[..., Any],
    given: Mapping[str, Any],
    kinds: Sequence[bool],
    others: Mapping[str, Any],
) -> list[Any]:
    """Real and complex results side by side: of the real ones only the first parts are kept."""
    results = []
    for place, suffix in enumerate(("real", "imag")):
        arguments = {name: _part(graph, value, place, None) for name, value in given.items()}
        results.append(converter(graph, _part_record(graph, res, suffix), **arguments, **others))
    pairs = zip(*results, kinds, strict=True)
    return [_paired(graph, a, b) if is_complex else a for a, b, is_complex in pairs]


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
    wanted, names = part_type(res.dtype), list(given)

    def of_parts(first: int, second: int, added: int | None) -> str:
        arguments: dict[str, Any] = {}
        for name, place in zip(names, (first, second, added), strict=False):
            arguments[name] = None if place is None else _part(graph, given[name], place, wanted)
        record = _part_record(graph, res, f"product{first}{second}")
        result: str = converter(graph, record, **arguments, **others)
        return result

    real = op.Sub(of_parts(0, 0, 0), of_parts(1, 1, None))
    imag = op.Add(of_parts(0, 1, 1), of_parts(1, 0, None))
    return _paired(graph, real, imag)


def _part(graph: Graph, value: Any, place: int, wanted: int | None) -> Any:
    if isinstance(value, list | tuple):
        return [_part(graph, each, place, wanted) for each in value]
    if value.__class__ is ComplexValue:
        name = value.imag if place else value.real
    elif type(value) is str:
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
    return OpBuilder(graph).Cast(name, to=wanted)


def _part_record(graph: Graph, res: ResultSpec, suffix: str) -> ResultSpec:
    names = [graph.unique_name(f"{name}_{suffix}") if name else "" for name in res.outputs]
    return type(res)(names, [part_type(dtype) for dtype in res.dtypes], res.shapes)


def _paired(graph: Graph, real: Any, imag: Any) -> Any:
    if isinstance(real, list | tuple):
        return [_paired(graph, a, b) for a, b in zip(real, imag, strict=True)]
    if not isinstance(real, str) or not isinstance(imag, str):
        return real
    return ComplexValue(real, imag, complex_type(graph.get_type(real)))
