"""Constants by value, as far as rules look at them. In come a graph and a name, out goes an array
or None. Called by matchers, by the other analyses and by rewrite words."""

from __future__ import annotations

import math

import numpy as np

from ortable.errors import BuilderError
from ortable.ir import Graph, Node, initializers
from ortable.ir.constants import get_constant, is_constant

_SMALL = 4096  # elements of a constant that a pattern compares
_LARGEST = 1 << 26  # elements of a constant that is looked at


def small_constant(graph: Graph, name: str) -> np.ndarray | None:
    """The value of a constant of at most 4,096 elements that can be read; None for another."""
    info = graph.values.get(name) if name else None
    if info is None or info.shape is None or not is_constant(graph, name):
        return None
    if isinstance(info.constant, np.ndarray):
        return info.constant if info.constant.size <= _SMALL else None
    size = 1
    for dim in info.shape:
        if not isinstance(dim, int):
            return None
        size *= dim
    return _value(graph, name) if size <= _SMALL else None


def whole_constant(graph: Graph, name: str) -> np.ndarray | None:
    """The value of a constant that can be read; larger ones, too, than patterns compare."""
    if not is_constant(graph, name) or not graph.has_shape(name):
        return None
    shape = graph.get_shape(name)
    if not all(isinstance(size, int) for size in shape) or math.prod(shape) > _LARGEST:
        return None
    return _value(graph, name)


def _value(graph: Graph, name: str) -> np.ndarray | None:
    owner: Graph | None = graph
    while owner is not None:
        stored = owner.initializers_dict.get(name)
        if stored is not None and not initializers.is_readable(stored):
            return None
        owner = owner.parent  # type: ignore[assignment]
    try:
        return np.asarray(get_constant(graph, name))
    except BuilderError:
        return None


def single_number(graph: Graph, name: str) -> np.ndarray | None:
    """A constant of one element; None for any other result."""
    array = small_constant(graph, name)
    return array if array is not None and array.size == 1 else None


def is_number(graph: Graph, name: str, value: float) -> bool:
    """Whether a result is a constant of one element with this value."""
    array = single_number(graph, name)
    return array is not None and bool(array.reshape(-1)[0] == value)


def maker_of(graph: Graph, name: str, op: str) -> Node | None:
    """The node whose first result this is, if it is of that operator."""
    info = graph.values.get(name)
    node: Node | None = None if info is None else info.producer
    return node if node is not None and node.key == op and node.outputs[0] == name else None
