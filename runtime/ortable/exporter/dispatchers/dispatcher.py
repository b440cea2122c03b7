"""Converters that a caller adds to the generated ones, by operator or torch function. A
dispatcher is asked for every operator and may answer with the generated converter, its own, or
one from another library. In come an operator and its generated converter, out goes the converter
to use. Called by the interpreter and by functionalize.py."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate

from torch.fx import Node

from ortable.builder import GraphBuilder, ResultSpec
from ortable.errors import ConversionError, OptionError, OrtableError, UnsupportedCase
from ortable.exporter.dispatchers.custom_domains import checked_domains, node_converter
from ortable.exporter.dispatchers.operator_names import operator_names
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


# f(graph, res, *args, **kwargs): the name of the result, or a list of names.
Converter = Callable[Concatenate[GraphBuilder, ResultSpec, ...], Any]


class Dispatcher:
    """The user's converters, in front of the generated ones.

    Args:
        functions: ``{operator: f}`` with ``f(graph, res, *args, **kwargs)``, which adds nodes to
            ``graph`` and returns the name of the result, or a list of names. An operator is
            ``"aten::add.Tensor"``, ``"aten::add"`` (every overload that has no converter of its
            own here), ``torch.ops.aten.add.Tensor``, ``torch.ops.aten.add``, an operator of
            ``torch.library``, a higher-order one (``torch.ops.higher_order.cond``), or a torch
            function, method or Python operator that calls one: ``torch.nn.functional.celu``,
            ``"Tensor.relu"``, ``operator.add``. Arguments come as in the operator's schema.
        verbose: 1 prints each operator that is converted from here.
        custom_domains: ``{"mylib": "my.domain"}`` or ``{"mylib": ("my.domain", 2)}``: operators
            of the namespace ``mylib`` without a converter become nodes of that ONNX domain (and
            version). Tensors become inputs, numbers and texts attributes.

    Arguments of methods:
        name: an overload, ``"aten::add.Tensor"``.
        target: what the FX node calls.
        native: the generated converter; None when there is none.
        where, text: the method that prints, and its line.

    Raises:
        OptionError: a key that is no operator, or a torch function that may call several;
            something that is not callable; a domain that is not a name.
    """

    def __init__(
        self,
        functions: Mapping[Any, Converter] | None = None,
        verbose: int = 0,
        *,
        custom_domains: Mapping[str, str | tuple[str, int]] | None = None,
    ) -> None:
        self.functions: dict[str, CheckedConverter] = {}
        for key, function in (functions or {}).items():
            for name in operator_names(key):
                if not callable(function):
                    raise OptionError(
                        f"the converter of '{name}' is a function f(graph, res, *args), not "
                        f"{function!r}"
                    )
                if name in self.functions:
                    raise OptionError(f"two converters are given for '{name}'")
                self.functions[name] = CheckedConverter(function, name)
        self.verbose = verbose
        self.domains = checked_domains(custom_domains)
        self._said: set[str] = set()

    def find(self, name: str, target: Any, native: Converter | None) -> Converter | None:
        """The converter to use for operator ``name``: the user's, else ``native``, else the one of
        the user's domain."""
        own = self.own(name)
        if own is not None:
            self.say("find", f"'{name}' is converted by {own.label}")
            return own
        domain = self.domains.get(name.partition("::")[0]) if native is None else None
        if domain is None or not hasattr(target, "_schema"):
            return native
        self.say("find", f"'{name}' becomes a node of domain '{domain[0]}'")
        return node_converter(target, *domain)

    def own(self, name: str) -> CheckedConverter | None:
        """The user's converter of an overload, or of the operator that it belongs to."""
        return self.functions.get(name) or self.functions.get(name.partition(".")[0])

    def say(self, where: str, text: str) -> None:
        """Print a line once when ``verbose`` asks for it."""
        line = f"[{type(self).__name__}.{where}] {text}"
        if self.verbose and line not in self._said:
            self._said.add(line)
            print(line)


def checked_dispatcher(dispatcher: Any) -> Any:
    """A dispatcher, made from a dict of converters when one is given; None stays None.

    Raises OptionError for anything without a method ``find``.
    """
    text = isinstance(dispatcher, (str, bytes))  # texts have a method of that name
    if dispatcher is None or (callable(getattr(dispatcher, "find", None)) and not text):
        return dispatcher
    if isinstance(dispatcher, Mapping):
        return Dispatcher(dispatcher)
    raise OptionError(
        "dispatcher is a Dispatcher, a dict of converters by operator name, or an object with "
        "find(name, target, native), "
        f"not {type(dispatcher).__name__}"
    )


def _users(dispatcher: Any) -> Any:
    """The dispatcher of the caller, inside one that answers after it."""
    return getattr(dispatcher, "dispatcher", dispatcher)


def tell_unused(dispatcher: Any) -> None:
    """Print which of the user's converters no graph has asked for."""
    dispatcher = _users(dispatcher)
    functions = dispatcher.functions if isinstance(dispatcher, Dispatcher) else {}
    unused = sorted(name for name, converter in functions.items() if not converter.calls)
    if unused:
        print(f"[to_onnx] converters that were never called: {', '.join(unused)}")


def own_converter(dispatcher: Any, name: str) -> Converter | None:
    """The user's own converter of an operator, which must reach it whole; None when ``dispatcher``
    is no Dispatcher, or has none."""
    users = _users(dispatcher)
    return users.own(name) if isinstance(users, Dispatcher) else None


def direct_converter(dispatcher: Any, name: str, target: Any, native: Any) -> Converter | None:
    """The converter for which an operator is kept whole. (One that OxsDispatcher would borrow is
    not: a decomposition of ours comes first.)"""
    users = _users(dispatcher)
    found = native
    if isinstance(users, Dispatcher):
        found = Dispatcher.find(users, name, target, native)
        if found is not None or users is dispatcher or name.startswith(("aten::", "prims::")):
            return found
    return found if dispatcher is None else dispatcher.find(name, target, native)


def from_seed_style(function: Callable[..., Any]) -> Converter:
    """Adapt a converter written as ``f(g, sts, outputs, *args, **kwargs)``, where a false ``sts``
    asks for types and shapes.

    Args:
        function: the converter to adapt.
    """

    def convert(graph: Any, res: Any, *args: Any, **kwargs: Any) -> Any:
        known = None if res.dtype is None else {"dtypes": res.dtypes, "shapes": res.shapes}
        return function(graph, known, list(res.outputs), *args, **kwargs)

    convert.__qualname__ = getattr(function, "__qualname__", "converter")
    convert.__doc__ = function.__doc__
    convert.__wrapped__ = function  # type: ignore[attr-defined]
    return convert
