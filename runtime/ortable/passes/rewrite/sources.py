"""Where a result comes from: what words of rules ask that look further than their pattern."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ortable.errors import BuilderError
from ortable.ir import Graph, initializers
from ortable.ir.constants import get_constant, is_constant

from .matcher import small_constant

if TYPE_CHECKING:
    from ortable.ir.node import Node

_LARGEST = 1 << 26  # elements of a constant that is looked at


def maker_of(graph: Graph, x: str, op: str) -> Node | None:
    """The node whose first result this is, if it is of that operator."""
    info = graph.values.get(x)
    node: Node | None = None if info is None else info.producer
    return node if node is not None and node.key == op and node.outputs[0] == x else None


def whole_constant(graph: Graph, x: str) -> np.ndarray | None:
    """The value of a constant that can be read; larger ones, too, than patterns compare."""
    if not is_constant(graph, x) or not graph.has_shape(x):
        return None
    shape = graph.get_shape(x)
    if not all(isinstance(size, int) for size in shape) or math.prod(shape) > _LARGEST:
        return None
    stored = graph.initializers_dict.get(x)
    if stored is not None and not initializers.is_readable(stored):
        return None
    try:
        return np.asarray(get_constant(graph, x))
    except BuilderError:
        return None


def is_number(graph: Graph, x: str, value: float) -> bool:
    """Whether a result is a constant of one element with this value."""
    array = small_constant(graph, x)
    return array is not None and array.size == 1 and bool(array.reshape(-1)[0] == value)
