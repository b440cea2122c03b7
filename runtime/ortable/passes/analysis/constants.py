"""Read the values of constants, and find producers by operator."""

from __future__ import annotations

import math

import numpy as np

from ortable.errors import BuilderError
from ortable.ir import Graph, Node, initializers
from ortable.ir.constants import get_constant, is_constant

_MAX_SMALL_SIZE = 4096  # elements of a constant that `small_constant` reads
_MAX_LARGE_SIZE = 1 << 26  # elements of a constant that `large_constant` reads


def small_constant(graph: Graph, name: str) -> np.ndarray | None:
    """Return the value of a readable constant of at most 4,096 elements, else None."""
    info = graph.values.get(name) if name else None
    if info is None or info.shape is None or not is_constant(graph, name):
        return None
    if isinstance(info.constant, np.ndarray):
        return info.constant if info.constant.size <= _MAX_SMALL_SIZE else None
    size = 1
    for dim in info.shape:
        if not isinstance(dim, int):
            return None
        size *= dim
    return _read_value(graph, name) if size <= _MAX_SMALL_SIZE else None


def large_constant(graph: Graph, name: str) -> np.ndarray | None:
    """Return the value of a readable constant of at most 2**26 elements, else None."""
    if not is_constant(graph, name) or not graph.has_shape(name):
        return None
    shape = graph.get_shape(name)
    if not all(isinstance(size, int) for size in shape) or math.prod(shape) > _MAX_LARGE_SIZE:
        return None
    return _read_value(graph, name)


def _read_value(graph: Graph, name: str) -> np.ndarray | None:
    scope: Graph | None = graph
    while scope is not None:
        stored = scope.initializers_dict.get(name)
        if stored is not None and not initializers.is_readable(stored):
            return None
        scope = scope.parent  # type: ignore[assignment]
    try:
        return np.asarray(get_constant(graph, name))
    except BuilderError:
        return None


def single_number(graph: Graph, name: str) -> np.ndarray | None:
    """Return the value of a readable constant of one element; None for any other result."""
    array = small_constant(graph, name)
    return array if array is not None and array.size == 1 else None


def is_number(graph: Graph, name: str, value: float) -> bool:
    """Whether a result is a constant of one element with this value."""
    array = single_number(graph, name)
    return array is not None and bool(array.reshape(-1)[0] == value)


def find_producer(graph: Graph, name: str, op: str) -> Node | None:
    """Return the node that has ``name`` as its first result, if its operator is ``op``."""
    info = graph.values.get(name)
    node: Node | None = None if info is None else info.producer
    return node if node is not None and node.key == op and node.outputs[0] == name else None
