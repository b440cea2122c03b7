"""Words of the rules about recurrent states: one step of linear attention, gated or by the
delta rule, and causal convolutions of channels.

In come a state [batch, heads, keys, values] and what a step multiplies and adds; out go facts, and
the logarithm of a decay. ``state = decay * state + key * value`` and ``result = query @ state`` are
the step of gated linear attention (Yang et al., 2312.06635); the gated delta rule (2412.06464) adds
``rate * (value - key @ state)`` in place of the value. Called by rules of ort_recurrence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import maker_of, small_constant
from ortable.prelude.facts import Bool, Int, Result, SymInt, is_static, shape_of
from ortable.prelude.values import consts, reshape_to
from ortable_generated.onnx.traits import KEEPS_ORDER

from .numbers import is_float32
from .shapes import known_rank

__all__ = [
    "as_place",
    "decay_count",
    "is_column_of",
    "is_depthwise_sequence",
    "is_last_place",
    "is_line_of",
    "is_reader_of",
    "is_row_of",
    "is_state",
    "log_of_decay",
    "same_vectors",
    "windows_of",
]


def is_state(graph: Graph, state: Result) -> Bool:
    """Whether this is a float32 state [B, H, K, V] with H, K and V known and none of them 0."""
    if not is_float32(graph, state) or known_rank(graph, state) != 4:
        return False
    _, *sizes = shape_of(graph, state)
    return is_static(sizes) and all(size > 0 for size in sizes)


def is_column_of(graph: Graph, x: Result, state: Result) -> Bool:
    """Whether ``x`` is a key or query of each head of a state: [B, H, K, 1]."""
    batch, heads, keys, _ = shape_of(graph, state)
    return _has_shape(graph, x, [batch, heads, keys, 1])


def is_reader_of(graph: Graph, query: Result, state: Result, made: Result) -> Bool:
    """Whether ``made``, a product of a query and a state, is one value for each head and column:
    the query is [B, H, 1, K] of a MatMul, or [B, H, K, 1] of a sum over the keys."""
    batch, heads, keys, _ = shape_of(graph, state)
    if maker_of(graph, made, "MatMul") is not None:
        return _has_shape(graph, query, [batch, heads, 1, keys])
    return is_column_of(graph, query, state)


def is_row_of(graph: Graph, x: Result, state: Result, size: Int) -> Bool:
    """Whether ``x`` has this many elements for each head of a state, [B, H, size] or
    [B, H, 1, size]."""
    batch, heads, *_ = shape_of(graph, state)
    return _has_shape(graph, x, [batch, heads, size]) or _has_shape(
        graph, x, [batch, heads, 1, size]
    )


def is_line_of(graph: Graph, x: Result, state: Result) -> Bool:
    """Whether ``x`` is one row for each head of a state, [B, H, 1, V], so that a column times it is
    their outer product: [B, H, V] would be taken for a row for each head and key."""
    batch, heads, _, values = shape_of(graph, state)
    return _has_shape(graph, x, [batch, heads, 1, values])


def same_vectors(graph: Graph, row: Result | None, key: Result) -> Bool:
    """Whether the key that a MatMul takes has the elements of ``key`` in the same order; without a
    MatMul it is ``key`` itself."""
    return row is None or _viewed(graph, row) == _viewed(graph, key)


def log_of_decay(graph: Graph, factor: Result) -> Result | None:
    """The logarithm of what a state is multiplied by, as the graph has it: what the Exp takes that
    ``factor`` is a view of. None where it is computed otherwise: the logarithm of a number that was
    rounded is no longer the number."""
    node = maker_of(graph, _viewed(graph, factor), "Exp")
    return None if node is None else node.inputs[0]


def decay_count(graph: Graph, factor: Result, state: Result) -> Int:
    """How many decays a step has: one a head, one a head and key, 0 for another shape."""
    batch, heads, keys, _ = shape_of(graph, state)
    if _has_shape(graph, factor, [batch, heads, 1, 1]):
        return heads
    return heads * keys if is_column_of(graph, factor, state) else 0


def as_place(graph: Graph, x: Result, batch: SymInt, width: SymInt) -> Result:
    """The elements of a step as the rows of one place, [B, 1, width]; made of what ``x`` is a view
    of."""
    return reshape_to(graph, _viewed(graph, x), [batch, 1, width])


# -- causal convolutions


def is_depthwise_sequence(
    graph: Graph, x: Result, weight: Result, bias: Result | None, kept: Any
) -> Bool:
    """Whether attributes of a Conv, but for its pads, are those of a convolution of each channel of
    float32 [B, C, L] at every place, with weights [C, 1, K] and C and K known."""
    if not _has_rank(graph, x, 3) or not _has_rank(graph, weight, 3):
        return False
    channels, inputs, width = shape_of(graph, weight)
    if (
        not is_static([channels, inputs, width])
        or inputs != 1
        or not channels
        or kept.get("group", 1) != channels
    ):
        return False
    plain = all(list(kept.get(each) or [1]) == [1] for each in ("strides", "dilations"))
    biased = bias is None or _has_rank(graph, bias, 1)
    return plain and biased and kept.get("auto_pad", "NOTSET") in ("NOTSET", b"NOTSET")


def is_last_place(graph: Graph, part: Result, whole: Result, starts: Result) -> Bool:
    """Whether a Slice from one start takes the last place of [B, C, L] alone."""
    if not (graph.has_shape(part) and graph.has_shape(whole)):
        return False
    first, (*kept, one), (*before, size) = (
        small_constant(graph, starts),
        shape_of(graph, part),
        shape_of(graph, whole),
    )
    if first is None or first.size != 1 or not all(map(dims.same, kept, before)):
        return False
    start = int(first.reshape(-1)[0])
    return dims.same(one, 1) and (start == -1 or dims.same(size, start + 1))


def windows_of(graph: Graph, x: Result, width: Int) -> tuple[Result, Result]:
    """What a kernel of this width reads of [B, C, L] for the last place: the places before it, and
    the last one."""
    axis, last, end = (consts(graph, [each], dtypes.int64) for each in (2, -1, np.iinfo("i8").max))
    first = consts(graph, [-width], dtypes.int64)
    before = graph.make_node("Slice", [x, first, last, axis])
    return before, graph.make_node("Slice", [x, last, end, axis])


def _has_rank(graph: Graph, x: Result, rank: int) -> bool:
    return is_float32(graph, x) and known_rank(graph, x) == rank and graph.has_shape(x)


# -- shapes


def _has_shape(graph: Graph, x: Result, shape: Sequence[Any]) -> bool:
    if not is_float32(graph, x) or known_rank(graph, x) != len(shape):
        return False
    return all(map(dims.same, shape_of(graph, x), shape))


def _viewed(graph: Graph, x: Result) -> Result:
    """What ``x`` is a view of, with the elements in the same order."""
    for _ in range(8):
        made = [node for op in KEEPS_ORDER if (node := maker_of(graph, x, op)) is not None]
        if not made:
            break
        x = made[0].inputs[0]
    return x
