"""Types of the generated tables: lazily imported functions, RNG calls, and data checks.

Generated code creates objects of these types; the builder, interpreter and backend read them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple

Function = Callable[..., Any]


class LazyFunctions(MutableMapping[str, Function]):
    """A mapping from operator names to functions that are imported on first use.

    ``paths`` maps operator names to ``"module.function"`` in one package. Keys, membership and
    length need no import. Values may be replaced and added.
    """

    def __init__(self, package: str, paths: Mapping[str, str]) -> None:
        self._package = package
        self._paths = dict(paths)
        self._functions: dict[str, Function] = {}

    def __getitem__(self, name: str) -> Function:
        function = self._functions.get(name)
        if function is None:
            module, _, attribute = self._paths[name].partition(".")
            path = f"{self._package}.{module}"
            function = getattr(sys.modules.get(path) or import_module(path), attribute)
            self._functions[name] = function
        return function

    def __setitem__(self, name: str, function: Function) -> None:
        self._paths[name] = ""
        self._functions[name] = function

    def __delitem__(self, name: str) -> None:
        del self._paths[name]
        self._functions.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


class RngCall(NamedTuple):
    """One call of torch's random number generator: an in-place operator fills a new tensor.

    `fill` is the overload (`"bernoulli_.float"`), which is called with the tensor and `args`. The
    tensor has the shape of `like`, an argument of the operator or its result, and the strides of
    the result; a `dtype` of None is the dtype of the result. With `is_result` the tensor is the
    result of the operator, so no further conversion is needed.
    """

    fill: str
    like: Any
    dtype: int | None
    args: tuple[Any, ...]
    is_result: bool


class DataCheck(NamedTuple):
    """A requirement of an operator on the elements of a tensor: `low <= values < high`.

    A bound of None is no requirement. `values` is a result of the graph, or a list of results with
    a list for each bound.

    `error` is the name of the exception that torch raises. `message` is its text, in which
    `{value}` is replaced by an element out of range, `{low}` and `{high}` by the bounds, and
    `{axis}` by `axis`, the axis that the elements index.
    """

    values: Any
    low: Any
    high: Any
    error: str
    message: str
    axis: Any = None
