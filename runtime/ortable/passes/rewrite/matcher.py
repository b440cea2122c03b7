"""Queries of generated matchers about a graph: producers, readers and constants of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ortable.ir.editing import UseIndex
from ortable.ir.node import Node
from ortable.passes.analysis.constants import small_constant

_EMPTY: Mapping[str, Any] = {}


class Matcher:
    """The queries of generated matchers: producers and readers of results, values of constants."""

    def __init__(self, graph: Any, uses: UseIndex) -> None:
        self.graph = graph
        self.producers: dict[str, Node] = {}
        self.index = uses
        self.uses = uses.readers  # result -> readers, each once
        self.outputs: set[str] = {info.name for info in graph.outputs}
        self.reasons: list[str] = []

    # -- structure

    def producer(self, name: str, op: str) -> Node | None:
        """Return the node of this graph that produces the result, if it has operator ``op``."""
        node = self.producers.get(name)
        return node if node is not None and node.key == op else None

    def readers(self, name: str, op: str, place: int | None = None) -> Iterator[Node]:
        """Yield the nodes with operator ``op`` that read the result, at input ``place`` if set."""
        self.index.query_count += 1
        for node in list(self.uses.get(name, ())):
            if node.key != op:
                continue
            if place is None or (len(node.inputs) > place and node.inputs[place] == name):
                yield node

    def orders(self, node: Node) -> tuple[tuple[str, str], ...]:
        """Return both orders of the inputs of a commutative operator; equal inputs once."""
        first, second = node.inputs
        return ((first, second),) if first == second else ((first, second), (second, first))

    def plain(
        self, node: Node, mentioned: tuple[str, ...] = (), defaults: Mapping[str, Any] = _EMPTY
    ) -> bool:
        """Whether every attribute that the pattern does not mention has its default value."""
        for name, value in node.attrs.items():
            if name not in mentioned and (
                name not in defaults or not _equals_default(value, defaults[name])
            ):
                return False
        return True

    # -- constants

    def number(self, name: str, value: float) -> bool:
        """Whether the result is a one-element constant equal to ``value`` in its dtype."""
        info = self.graph.values.get(name) if name else None
        if info is None or info.constant is None:
            return False
        for size in info.shape or ():
            if size != 1:
                return False
        array = self.array(name)
        if array is None or array.size != 1:
            return False
        return bool(array.reshape(-1)[0] == _to_dtype(value, array.dtype))

    def numbers(self, name: str, values: list[Any]) -> bool:
        """Whether the result is a constant of rank 1 with these values."""
        array = self.array(name)
        return array is not None and array.ndim == 1 and array.tolist() == list(values)

    def array(self, name: str) -> np.ndarray | None:
        """Return the value of a small constant; None for any other result."""
        info = self.graph.values.get(name) if name else None
        if info is None or info.constant is None:
            return None
        if isinstance(info.constant, np.ndarray):
            return info.constant
        return small_constant(self.graph, name)

    # -- reasons for a missing match

    def refuse(self, why: str) -> None:
        """Record why nodes that have the operators of a pattern are not rewritten."""
        self.reasons.append(why)


@lru_cache(maxsize=256)
def _to_dtype(value: float, dtype: np.dtype[Any]) -> np.ndarray:
    return np.asarray(value).astype(dtype)


def _equals_default(value: Any, default: Any) -> bool:
    if isinstance(value, (list, tuple)) or isinstance(default, (list, tuple)):
        return list(value) == list(default or ())
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, float) and isinstance(default, float):
        return bool(np.float32(value) == np.float32(default))
    return bool(value == default)


def literal_equals(value: Any, wanted: Any) -> bool:
    """Whether an attribute equals a value of a pattern; floats compare as float32, as in ONNX."""
    return value is not None and _equals_default(value, wanted)
