"""ONNX nodes written as blocks of specs write them: ``op.Add(x, 2)``, with ``op = nodes(graph)``.

In come results, numbers and attributes, out go names of results. Called by words and lowerings."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ortable.ir import Graph

from .values import const


class nodes:
    """A graph's nodes by their operators: inputs are results, or numbers, which become constants in
    the dtype of the results beside them; keywords are ``outputs`` and attributes."""

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, op_type: str, inputs: Any, outputs: Any = None, **attrs: Any) -> Any:
        return self._graph.make_node(op_type, inputs, outputs, **attrs)

    def __getattr__(self, op_type: str) -> Callable[..., str]:
        return partial(self._make, op_type)

    def _make(self, op_type: str, *inputs: Any, outputs: Any = None, **attrs: Any) -> Any:
        types = [*map(type, inputs)]
        if int in types or float in types:
            inputs = tuple(self._constant(inputs, place) for place in range(len(inputs)))
        return self._graph.make_node(op_type, inputs, outputs, **attrs)

    def _constant(self, inputs: tuple[Any, ...], place: int) -> Any:
        """An input, or the constant that a number is, which is the last input or stands before its
        like."""
        value = inputs[place]
        if type(value) not in (int, float):
            return value
        beside = inputs[place - 1 if place == len(inputs) - 1 else place + 1]
        return const(self._graph, value, self._graph.get_type(beside))
