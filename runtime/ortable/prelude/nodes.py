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
        names = list(inputs)
        for place, each in enumerate(names):
            if type(each) in (int, float):
                beside = names[place - 1 if place == len(names) - 1 else place + 1]
                names[place] = const(self._graph, each, self._graph.get_type(beside))
        return self._graph.make_node(op_type, names, outputs, **attrs)
