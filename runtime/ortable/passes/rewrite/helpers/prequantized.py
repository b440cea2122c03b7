"""Words of the rules about models that arrive quantised, whose weights are arithmetic of integer
codes: the same weights as DequantizeLinear takes them. In come the weight of a product, which is a
constant, and what it is multiplied with; out go facts, initializers and sums. Called by rules of
ort_codes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph
from ortable.ir.constants import get_constant, is_constant
from ortable.passes.analysis.dequantization import (
    CodedWeight,
    Parts,
    coded_weight,
    forget,
    parts_of,
    whole_numbers,
)
from ortable.prelude.facts import Bool, Opaque, Result
from ortable.prelude.values import consts

from .quantized_weights import accuracy_level

__all__ = [
    "coded_weight_of",
    "dequantized",
    "scaled_codes",
    "with_shifts",
]

# How far codes without their zero points are apart at most, of 8 bits and of 4.
_SPREAD = {True: 511, False: 31}


def coded_weight_of(graph: Graph, w: Result, last: Bool, whole: Bool = False) -> Opaque:
    """A weight [N, K] if ``last``, else [K, N], that is arithmetic of codes; None where it is none,
    or where kernels do not take them: codes of 8 bits where activations may not be rounded, and of
    a ``whole`` table shifts, or rows that are no whole groups."""
    if not _is_matrix(graph, w):
        return None
    wide = accuracy_level(graph) == 4

    def made() -> CodedWeight | None:
        parts = parts_of(graph, w, _SPREAD[wide])
        return None if parts is None else coded_weight(parts, last, wide)

    found = _computed(graph, made)
    if found is None or not whole:
        return found
    grouped = found.codes.shape[1] % (found.group or 128) == 0
    return found if found.shifts is None and grouped else None


def scaled_codes(graph: Graph, w: Result, scales: Result, product: Result) -> Opaque:
    """The weight whose product with codes [K, N], ``w``, is multiplied with a row of N scales; None
    where it is none, or where kernels do not take it."""
    if not _is_matrix(graph, w) or not is_constant(graph, scales) or not graph.has_shape(scales):
        return None
    outer = graph.get_shape(w)[1]
    row = [size for size in graph.get_shape(scales) if size != 1]
    if row != [outer] or graph.get_shape(scales)[-1] != outer:
        return None
    if not graph.has_shape(product) or graph.get_rank(scales) > graph.get_rank(product):
        return None
    if graph.get_shape(product)[-1] != outer:
        return None
    wide = accuracy_level(graph) == 4

    def made() -> CodedWeight | None:
        numbers = whole_numbers(graph, w, _SPREAD[wide])
        if numbers is None:
            return None
        return coded_weight(Parts(numbers, get_constant(graph, scales).reshape(1, -1)), False, wide)

    return _computed(graph, made)


def dequantized(graph: Graph, weight: Opaque) -> Result:
    """Such a weight [N, K] as DequantizeLinear: groups lie along K, scales of rows along N."""
    parts = (("codes", weight.codes), ("scales", weight.scales), ("zeros", weight.zeros))
    inputs = [None if part is None else _stored(graph, word, part) for word, part in parts]
    axis = 1 if weight.group else 0
    return graph.make_node("DequantizeLinear", inputs, axis=axis, block_size=int(weight.group))


def with_shifts(graph: Graph, rows: Result, x: Result, weight: Opaque) -> Result:
    """The product of ``x`` [..., K] and a weight, ``rows``, plus the floats that are added to every
    number of a group, times the sums of ``x`` over groups."""
    if weight.shifts is None:
        return rows
    groups = weight.shifts.shape[0]
    shape = [0] * (graph.get_rank(x) - 1) + [groups, weight.codes.shape[1] // groups]
    apart = graph.make_node("Reshape", [x, consts(graph, shape, dtypes.int64)])
    axes = consts(graph, [-1], dtypes.int64)
    sums = graph.make_node("ReduceSum", [apart, axes], keepdims=0)
    shifts = _stored(graph, "shifts", weight.shifts)
    return graph.make_node("Add", [rows, graph.make_node("MatMul", [sums, shifts])])


# -- inside


def _is_matrix(graph: Graph, w: Result) -> bool:
    """Whether it is a constant matrix of float32 that nodes compute."""
    info = graph.values.get(w)
    if info is None or info.producer is None or not is_constant(graph, w):
        return False
    if not graph.has_type(w) or graph.get_type(w) != dtypes.float32 or not graph.has_shape(w):
        return False
    shape = graph.get_shape(w)
    return len(shape) == 2 and all(isinstance(size, int) for size in shape)


def _computed(graph: Any, made: Any) -> CodedWeight | None:
    """What is made of values that are known; None where they are not at hand."""
    before = set(graph.computed_constants)
    try:
        found: CodedWeight | None = made()
    except BuilderError:
        found = None
    forget(graph, before)
    return found


def _stored(graph: Any, word: str, array: np.ndarray) -> str:
    made: str = graph.make_initializer(graph.unique_name(word), np.ascontiguousarray(array))
    return made
