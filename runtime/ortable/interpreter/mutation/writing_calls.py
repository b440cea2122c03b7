"""Operators of a library that write into their arguments, as torch functionalises them: one call
that returns the results and then the new values. Converted through a converter of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ortable.errors import UnsupportedCase
from ortable.ir.result import Res

Converter = Callable[..., Any]


def functional_call(
    find: Callable[[Any], Converter | None], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Converter, list[Any], dict[str, Any]] | None:
    """A converter of the call and its arguments, from the overload's own; None when ``find`` has
    none.

    The overload's converter is called with the arguments of its schema. It returns the results and
    then the new value of each argument that is written, in the order of the schema.
    Raises UnsupportedCase for a write into a part of a tensor.
    """
    overload = args[0]
    converter = find(overload) if hasattr(overload, "_schema") else None
    if converter is None:
        return None
    given, order, rest = functional_arguments(overload._schema, kwargs)
    bases = kwargs.get("_all_bases")
    if rest or (bases is not None and sorted(order) != list(range(len(bases)))):
        raise UnsupportedCase(
            f"{overload.name()} writes into a part of a tensor, or twice into one, which a "
            "converter does not see; copy the part before the call (x[0].clone())"
        )
    return _arranged(converter, bool(overload._schema.returns), order), [], given


def written_arguments(overload: Any) -> list[str]:
    """Names of the arguments that an overload writes into."""
    arguments = overload._schema.arguments
    return [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]


def functional_arguments(
    schema: Any, kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[int], dict[str, Any]]:
    """The arguments of a schema in those of its functional call; for each one that is written,
    which of the new values it is; what is left: sizes and places of views."""
    rest = dict(kwargs)
    bases = rest.pop("_all_bases", None)
    given: dict[str, Any] = {}
    order: list[int] = []
    for argument in schema.arguments:
        name = argument.name
        if argument.alias_info is None or not argument.alias_info.is_write:
            if name in rest:
                given[name] = rest.pop(name)
            continue
        if bases is None:
            given[name] = rest.pop(name, None)
            if given[name] is not None:
                order.append(len(order))
            continue
        index = rest.pop(f"_{name}_base_index", None)
        rest.pop(f"_{name}_alias", None)
        given[name] = None if index is None else bases[index]
        if index is not None:
            order.append(index)
    return given, order, rest


def _arranged(converter: Converter, has_results: bool, order: Sequence[int]) -> Converter:
    """``converter``, with its new values in torch's order; torch has a None in front when the
    operator returns nothing."""

    def convert(graph: Any, res: Res, **arguments: Any) -> list[Any]:
        count = len(res) - len(order)
        places = [*range(count)] if has_results else []
        places += [count + index for index in order]
        own = Res(
            [res.outputs[i] for i in places],
            [res.dtypes[i] for i in places],
            [res.shapes[i] for i in places],
        )
        returned = converter(graph, own, **arguments)
        names = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        found: list[Any] = [None] * len(res)
        for place, name in zip(places, names, strict=True):
            found[place] = name
        return found

    return convert
