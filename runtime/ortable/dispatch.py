"""Types that the generated tables are made of: look-up tables of functions whose modules are
imported when one of their functions is first asked for, what a random operator draws, and what an
operator demands of its data. Made by generated code, read by the builder, the interpreter and the
backend."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

Function = Callable[..., Any]


class LazyFunctions(MutableMapping[str, Function]):
    """Operator name -> function, given as operator name -> ``"module.function"`` in one package.

    Keys, membership and length need no import; a value is imported once. Values may be replaced
    and added.
    """

    def __init__(self, package: str, places: Mapping[str, str]) -> None:
        self._package = package
        self._places = dict(places)
        self._found: dict[str, Function] = {}

    def __getitem__(self, name: str) -> Function:
        found = self._found.get(name)
        if found is None:
            module, _, function = self._places[name].partition(".")
            path = f"{self._package}.{module}"
            found = getattr(sys.modules.get(path) or import_module(path), function)
            self._found[name] = found
        return found

    def __setitem__(self, name: str, function: Function) -> None:
        self._places[name] = ""
        self._found[name] = function

    def __delitem__(self, name: str) -> None:
        del self._places[name]
        self._found.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Draw(NamedTuple):
    """One draw from torch's generator: a new tensor is filled by an in-place operator.

    `fill` names its overload (`"bernoulli_.float"`), called with the tensor and `args`.  The tensor
    has the shape of `like`, an argument of the operator or its result, and the strides of the
    result; `dtype` is that of the result where it is None.  `whole` tells that the tensor is the
    result of the operator, so that nothing is left to convert.
    """

    fill: str
    like: Any
    dtype: int | None
    args: tuple[Any, ...]
    whole: bool


class DataCheck(NamedTuple):
    """What an operator demands of the elements of a tensor: `low <= values < high`, where a bound
    of None demands nothing. `values` is a result of the graph, or a list of results with a list for
    each bound.

    `error` names the exception that torch raises, `message` is its text: `{value}` stands for an
    element out of range, `{low}` and `{high}` for the bounds,
    `{axis}` for the axis that the tensor picks from.
    """

    values: Any
    low: Any
    high: Any
    error: str
    message: str
    axis: Any = None
