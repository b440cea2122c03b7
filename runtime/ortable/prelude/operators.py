"""Call the lowering of another operator: ``aten_sinh(x)`` in a block of a spec."""

from __future__ import annotations

from typing import Any

from ortable.ir import Graph, ResultSpec

from .complex_value import ComplexValue


def call_operator(graph: Graph, tables: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Lower another operator and return its results.

    The complex converter is used if an argument is complex or the operator has no other converter.
    The rules of its entry give dtypes and shapes.
    """
    case, arguments = graph.case, (*args, *kwargs.values())
    is_complex = name not in tables.CONVERTERS or any(map(_is_complex, arguments))
    facts = tables.RULES[name](graph, *args, **kwargs)
    dtypes, shapes = zip(*facts, strict=True)
    names = [graph.unique_name(f"{name.partition('::')[2]}{index}") for index in range(len(facts))]
    convert = (tables.COMPLEX_CONVERTERS if is_complex else tables.CONVERTERS)[name]
    result = convert(graph, ResultSpec(names, dtypes, shapes), *args, **kwargs)
    graph.case = case
    return result


def _is_complex(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_is_complex, value))
    return type(value) is ComplexValue
