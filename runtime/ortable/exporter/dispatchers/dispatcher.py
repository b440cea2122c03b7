"""Converters that a caller adds to the generated ones, by operator or torch function. A
dispatcher is asked for every operator and may answer with the generated converter, its own, or
one from another library. In come an operator and its generated converter, out goes the converter
to use. Called by the interpreter and by functionalize.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Concatenate

from ortable.builder import GraphBuilder, ResultSpec
from ortable.errors import OptionError

from .checked import CheckedConverter
from .custom_domains import checked_domains, node_converter
from .operator_names import operator_names

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
        """The converter to use for operator ``name``; ``native`` is the generated one, None when
        there is none."""
        return self.direct(name, target, native)

    def direct(self, name: str, target: Any, native: Converter | None) -> Converter | None:
        """The user's converter, else ``native``, else the one of the user's domain: those for
        which an operator is kept whole."""
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
        found = users.direct(name, target, native)
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
