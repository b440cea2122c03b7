"""Shortcuts ``builder.op.MatMul(x, y)``: any operator by its name, arrays and numbers made
initializers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ortable.ir import Graph


class Ops:
    """``op.X(*inputs, outputs=None, name=None, domain="", **attrs)`` adds a node X.

    An input is a result name, None or ``""`` (omitted), or a value that becomes an initializer.
    Returns the name of the result, or a tuple of names when ``outputs`` asks for several."""

    __slots__ = ("_builder",)

    def __init__(self, builder: Graph) -> None:
        self._builder = builder

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {op_type!r}")
        builder = self._builder

        def make(
            *inputs: Any,
            outputs: int | str | Sequence[str] | None = None,
            name: str | None = None,
            domain: str = "",
            **attrs: Any,
        ) -> Any:
            names = [
                x if x is None or isinstance(x, str) else builder.make_initializer("", x)
                for x in inputs
            ]
            return builder.make_node(op_type, names, outputs, domain=domain, name=name, **attrs)

        return make
