"""Helpers of the rules about recurrent states.

They recognize a step of linear attention, gated or with the delta rule, and causal depthwise
convolutions. Called by rules of ort_recurrence.

For a state [batch, heads, keys, values], ``state = decay * state + key * value`` and
``result = query @ state`` are the step of gated linear attention (Yang et al., 2312.06635). The
gated delta rule (2412.06464) adds ``rate * (value - key @ state)`` instead of the value.
"""

from __future__ import annotations

from typing import Any

from ortable.ir import Graph
from ortable.passes.analysis.constants import find_producer
from ortable.passes.rewrite.helpers.numbers import is_float32
from ortable.prelude.facts import Bool, Result, SymInt, is_static, shape_of
from ortable.prelude.values import reshape_to
from ortable_generated.onnx.traits import KEEPS_ORDER

from .shapes import known_rank

__all__ = [
    "as_one_token",
    "is_depthwise_sequence",
    "is_state",
    "log_of_decay",
    "same_vectors",
]


def is_state(graph: Graph, state: Result) -> Bool:
    """Whether this is a float32 state [B, H, K, V] with H, K and V known and positive."""
    if not is_float32(graph, state) or known_rank(graph, state) != 4:
        return False
    _, *sizes = shape_of(graph, state)
    return is_static(sizes) and all(size > 0 for size in sizes)


def same_vectors(graph: Graph, row: Result | None, key: Result) -> Bool:
    """Whether the input ``row`` of a MatMul, if any, has the elements of ``key`` in order."""
    return row is None or _skip_views(graph, row) == _skip_views(graph, key)


def log_of_decay(graph: Graph, factor: Result) -> Result | None:
    """Return the input of the Exp of which ``factor`` is a view; None without such an Exp.

    The logarithm is not computed from the decay, because the decay is rounded.
    """
    node = find_producer(graph, _skip_views(graph, factor), "Exp")
    return None if node is None else node.inputs[0]


def as_one_token(graph: Graph, x: Result, batch: SymInt, width: SymInt) -> Result:
    """Return the elements of a step as the rows of one token, [B, 1, width]."""
    return reshape_to(graph, _skip_views(graph, x), [batch, 1, width])


# -- causal convolutions


def is_depthwise_sequence(
    graph: Graph, x: Result, weight: Result, bias: Result | None, attributes: Any
) -> Bool:
    """Whether a Conv, apart from its pads, convolves each channel of [B, C, L] at every position.

    The input is float32, and the weights are [C, 1, K] with C and K known.
    """
    if not _has_rank(graph, x, 3) or not _has_rank(graph, weight, 3):
        return False
    channels, inputs, width = shape_of(graph, weight)
    if (
        not is_static([channels, inputs, width])
        or inputs != 1
        or not channels
        or attributes.get("group", 1) != channels
    ):
        return False
    has_unit_steps = all(
        list(attributes.get(name) or [1]) == [1] for name in ("strides", "dilations")
    )
    has_valid_bias = bias is None or _has_rank(graph, bias, 1)
    return (
        has_unit_steps
        and has_valid_bias
        and attributes.get("auto_pad", "NOTSET") in ("NOTSET", b"NOTSET")
    )


def _has_rank(graph: Graph, x: Result, rank: int) -> bool:
    return is_float32(graph, x) and known_rank(graph, x) == rank and graph.has_shape(x)


# -- views


def _skip_views(graph: Graph, x: Result) -> Result:
    """Return the result of which ``x`` is a view that preserves the order of elements."""
    for _ in range(8):
        producers = [
            node for op in KEEPS_ORDER if (node := find_producer(graph, x, op)) is not None
        ]
        if not producers:
            break
        x = producers[0].inputs[0]
    return x
