"""A converter of the user, checked at each call: it must return the results that torch has, in
torch's types and shapes, and whatever goes wrong names it and its line. In comes a function, out
goes a converter. Called by dispatcher.py."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import Node

from ortable.errors import ConversionError, OrtableError, UnsupportedCase
from ortable.interpreter import results
from ortable.prelude.complex_value import ComplexValue


class CheckedConverter:
    """``function``, a converter of operator ``name``; called as converters are.

    Raises:
        ConversionError: the function failed, returned another number of results than torch has, or
            results of another type or shape.
        UnsupportedCase: the function raised it: it refuses the arguments.
    """

    __slots__ = ("calls", "function", "label", "name")

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function = function
        self.name = name
        self.calls = 0
        self.label = label_of(function)

    def __call__(self, graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        node = graph.origin  # a converter of a graph inside leaves another one
        try:
            returned = self.function(graph, res, *args, **kwargs)
        except (ConversionError, UnsupportedCase) as error:
            if error.fx_node is not None:
                raise  # of a graph inside, which says where
            raise type(error)(f"{self.label} refuses it: {error.message}") from error
        except Exception as error:  # any code of the user's
            raise ConversionError(self._failed(error)) from error
        graph.origin = node
        value = results.node_value(node) if isinstance(node, Node) else None
        returned = self._arranged(res, returned, isinstance(value, (list, tuple)))
        names = returned if isinstance(returned, (list, tuple)) else [returned]
        for index, (name, dtype, shape) in enumerate(
            zip(names, res.dtypes, res.shapes, strict=True)
        ):
            if dtype is None or isinstance(name, ComplexValue):
                continue
            if not name and not res.is_used(index):
                continue
            self._compare(graph, index, name, dtype, shape)
        return returned

    def _failed(self, error: Exception) -> str:
        ours = isinstance(error, OrtableError)
        text = error.message if isinstance(error, OrtableError) else str(error)
        kind = "" if ours else f"{type(error).__name__}: "
        frames = traceback.extract_tb(error.__traceback__)
        file = _file_of(self.function)
        inside = [frame for frame in frames if frame.filename == file]
        place = (
            f" (at {os.path.basename(inside[-1].filename)}:{inside[-1].lineno})" if inside else ""
        )
        return f"{self.label} failed{place}: {kind}{text}"

    def _arranged(self, res: Any, returned: Any, several: bool) -> Any:
        """What the interpreter expects: a list for an operator that returns several tensors or a
        list of them, one value otherwise."""
        found: Sequence[Any] = returned if isinstance(returned, (list, tuple)) else [returned]
        if len(found) != len(res):
            raise ConversionError(
                f"{self.label} returned {_count(len(found))}, torch has {_count(len(res))}"
            )
        return list(found) if several or len(res) != 1 else found[0]

    def _compare(self, graph: Any, index: int, name: Any, dtype: int, shape: Any) -> None:
        if not isinstance(name, str) or not name:
            raise ConversionError(
                f"{self.label} returned {name!r} for result {index}; a result is the name that "
                "graph.make_node returns"
            )
        difference = results.check_and_complete(graph, name, dtype, shape)
        if difference is not None:
            raise ConversionError(f"{self.label}, result '{name}': {difference}")


def label_of(function: Callable[..., Any]) -> str:
    """``converter 'my_celu' (model.py:12)``."""
    written = inspect.unwrap(function)
    name = getattr(written, "__qualname__", None) or repr(written)
    code = getattr(written, "__code__", None)
    place = f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})" if code else ""
    return f"converter '{name.rpartition('<locals>.')[2]}'{place}"


def _file_of(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code.co_filename if code else ""


def _count(number: int) -> str:
    return f"{number} result" + ("" if number == 1 else "s")
