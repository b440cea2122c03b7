"""Converters that a caller adds to the generated ones, by the name of the torch operator.
A dispatcher is asked for every overload and may answer with the generated converter, its own, or
one from another library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import OptionError

Converter = Callable[..., Any]


class Dispatcher:
    """The user's converters, in front of the generated ones.

    Args:
        functions: ``{"aten::celu": f}`` or ``{"aten::add.Tensor": f}`` with ``f(graph, res, *args,
            **kwargs)``, which adds nodes to ``graph`` and returns the name of the result (see
            ``ortable.interpreter``). A name without an overload stands for the default overload,
            and for the others when nothing else is given for them.
        verbose: 1 prints each converter taken from here.

    Raises:
        OptionError: a name without a namespace, or something that is not callable.
    """

    def __init__(self, functions: Mapping[str, Converter] | None = None, verbose: int = 0) -> None:
        for name, function in (functions or {}).items():
            if not isinstance(name, str) or "::" not in name:
                raise OptionError(
                    "a converter is named after its operator, for example 'aten::relu', not "
                    f"{name!r}"
                )
            if not callable(function):
                raise OptionError(
                    f"the converter of '{name}' is a function f(graph, res, *args), not "
                    f"{function!r}"
                )
        self.functions = dict(functions or {})
        self.verbose = verbose

    def find(self, name: str, target: Any, native: Converter | None) -> Converter | None:
        """The converter to use for overload ``name``; ``native`` is the generated one, None when
        there is none."""
        found = self.functions.get(name) or self.functions.get(name.partition(".")[0])
        if found is None:
            return native
        if self.verbose:
            print(
                f"[{type(self).__name__}.find] '{name}' is converted by "
                f"{getattr(found, '__qualname__', found)}"
            )
        return found


def checked_dispatcher(dispatcher: Any) -> Any:
    """A dispatcher, made from a dict of converters when one is given; None stays None.

    Raises OptionError for anything without a method ``find``.
    """
    if dispatcher is None or callable(getattr(dispatcher, "find", None)):
        return dispatcher
    if isinstance(dispatcher, Mapping):
        return Dispatcher(dispatcher)
    raise OptionError(
        "dispatcher is a Dispatcher, a dict of converters by operator name, or an object with "
        "find(name, target, native), "
        f"not {type(dispatcher).__name__}"
    )


def from_seed_style(function: Callable[..., Any]) -> Converter:
    """Adapt a converter written as ``f(g, sts, outputs, *args, **kwargs)``, where a false ``sts``
    asks for types and shapes."""

    def convert(graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
        known = None if res.dtype is None else {"dtypes": res.dtypes, "shapes": res.shapes}
        return function(graph, known, list(res.outputs), *args, **kwargs)

    convert.__qualname__ = getattr(function, "__qualname__", "converter")
    convert.__doc__ = function.__doc__
    return convert
