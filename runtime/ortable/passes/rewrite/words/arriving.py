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
from ortable.passes.analysis.code_arithmetic import (
    CodedWeight,
    Parts,
    coded_weight,
    forget,
    parts_of,
    whole_numbers,
)
from ortable.prelude.facts import Bool, Int, Opaque, Result
from ortable.prelude.values import consts

from .codes import accuracy_level

__all__ = [
    "axis_of_codes",
    "code_scales",
    "code_shifts",
    "code_zeros",
    "coded_table",
    "coded_weight_of",
    "codes_of_weight",
    "group_of_codes",
    "group_sums",
    "has_shifts",
    "scaled_codes",
]

# How far codes without their zero points are apart at most, of 8 bits and of 4.
_SPREAD = {True: 511, False: 31}


def coded_weight_of(graph: Graph, w: Result, last: Bool) -> Opaque:
    """A weight [N, K] if ``last``, else [K, N], that is arithmetic of codes; None where it is none,
    or where kernels do not take them: codes of 8 bits where activations may not be rounded."""
    if not _is_matrix(graph, w):
        return None
    wide = accuracy_level(graph) == 4

    def made() -> CodedWeight | None:
        parts = parts_of(graph, w, _SPREAD[wide])
        return None if parts is None else coded_weight(parts, last, wide)

    return _computed(graph, made)


def coded_table(graph: Graph, w: Result) -> Opaque:
    """A table of embeddings [N, K] that is arithmetic of codes, in whole groups without shifts."""
    found = coded_weight_of(graph, w, True)
    if found is None or found.shifts is not None:
        return None
    size = found.group or 128
    return found if found.codes.shape[1] % size == 0 else None


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


def codes_of_weight(graph: Graph, weight: Opaque) -> Result:
    """The codes, [N, K]."""
    return _stored(graph, "codes", weight.codes)


def code_scales(graph: Graph, weight: Opaque) -> Result:
    """The scales: one for each group, [N, groups], or one for each row, [N]."""
    return _stored(graph, "scales", weight.scales)


def code_zeros(graph: Graph, weight: Opaque) -> Result | None:
    """The zero points, like the scales; None where they are 0."""
    return None if weight.zeros is None else _stored(graph, "zeros", weight.zeros)


def axis_of_codes(weight: Opaque) -> Int:
    """The axis of DequantizeLinear: groups lie along K, scales of rows along N."""
    return 1 if weight.group else 0


def group_of_codes(weight: Opaque) -> Int:
    """The attribute block_size of DequantizeLinear."""
    return int(weight.group)


def has_shifts(weight: Opaque) -> Bool:
    """Whether a float is added to every number of a group."""
    return weight.shifts is not None


def code_shifts(graph: Graph, weight: Opaque) -> Result:
    """These floats, [groups, N]."""
    return _stored(graph, "shifts", weight.shifts)


def group_sums(graph: Graph, x: Result, weight: Opaque) -> Result:
    """The sums of ``x`` [..., K] over groups, [..., groups]: what shifts are multiplied with."""
    groups = weight.shifts.shape[0]
    shape = [0] * (graph.get_rank(x) - 1) + [groups, weight.codes.shape[1] // groups]
    apart = graph.make_node("Reshape", [x, consts(graph, shape, dtypes.int64)])
    axes = consts(graph, [-1], dtypes.int64)
    sums: Result = graph.make_node("ReduceSum", [apart, axes], keepdims=0)
    return sums


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
