"""Calls of one operator's lowering by another's: ``aten_sinh(x)`` in a block.

In come the generated tables, the name of an operator and its arguments, out go its results. Called
by generated converters."""

from __future__ import annotations

from typing import Any

from ortable.ir import Graph, ResultSpec

from .complex_value import ComplexValue


def call_operator(graph: Graph, tables: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """The results of an operator: of its form for complex tensors where an argument is one, or
    where it has no other. What it says of dtypes and shapes is by the rules of its entry."""
    case, given = graph.case, (*args, *kwargs.values())
    is_complex = name not in tables.CONVERTERS or any(map(_is_complex, given))
    rules = tables.RULES[name](graph, *args, **kwargs)
    dtypes, shapes = zip(*rules, strict=True)
    names = [graph.unique_name(f"{name.partition('::')[2]}{place}") for place in range(len(rules))]
    convert = (tables.COMPLEX_CONVERTERS if is_complex else tables.CONVERTERS)[name]
    result = convert(graph, ResultSpec(names, dtypes, shapes), *args, **kwargs)
    graph.case = case
    return result


def _is_complex(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_complex, value))
    return type(value) is ComplexValue
