"""Build ONNX nodes in the notation of specs: ``op.Add(x, 2)``, with ``op = OpBuilder(graph)``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ortable.ir import Graph

from .values import const


class OpBuilder:
    """Appends nodes to a graph; each ONNX operator is a method.

    Inputs are results, or numbers, which become constants in the dtype of the result next to them.
    Keywords are ``outputs`` and attributes.
    """

    __slots__ = ("_graph",)

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __call__(self, op_type: str, inputs: Any, outputs: Any = None, **attrs: Any) -> Any:
        """Append a node with a list of inputs."""
        return self._graph.make_node(op_type, inputs, outputs, **attrs)

    def __getattr__(self, op_type: str) -> Callable[..., str]:
        return partial(self._make_node, op_type)

    def _make_node(self, op_type: str, *inputs: Any, outputs: Any = None, **attrs: Any) -> Any:
        types = [*map(type, inputs)]
        if int in types or float in types:
            inputs = tuple(self._as_constant(inputs, index) for index in range(len(inputs)))
        return self._graph.make_node(op_type, inputs, outputs, **attrs)

    def _as_constant(self, inputs: tuple[Any, ...], index: int) -> Any:
        """Convert a number to a constant in the dtype of the next input.

        The last input uses the dtype of the previous one.
        """
        value = inputs[index]
        if type(value) not in (int, float):
            return value
        neighbour = inputs[index - 1 if index == len(inputs) - 1 else index + 1]
        return const(self._graph, value, self._graph.get_type(neighbour))
