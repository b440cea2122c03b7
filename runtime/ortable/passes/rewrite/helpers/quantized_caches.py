"""Words of the rules about attention over a cache of codes: keys and values as integers of 8 bits
with scales, and what ONNX Runtime's kernel takes beside them. In come results of a match; out go
facts and inputs of the kernel. Called by rules of ort_coded_cache."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.analysis.constants import small_constant
from ortable.passes.rewrite.helpers.attention import merged_heads
from ortable.passes.rewrite.helpers.caches import as_numbers
from ortable.passes.rewrite.helpers.numbers import is_float32, number_of
from ortable.passes.rewrite.helpers.shapes import known_rank
from ortable.prelude.facts import Bool, Float, Result, dim_of, is_static, shape_of
from ortable.prelude.shapes import expanded
from ortable.prelude.values import as_scalar, as_vec, cast, const, permuted, reshape_to

__all__ = ["coded_attention", "is_coded_cache", "share_coded_heads"]

_KERNEL = "com.microsoft::GroupQueryAttention"
_WIDTH = 8  # the kernel takes multiples of it
_BOUNDS = (-128.0, 127.0)


# -- facts


def is_coded_cache(
    graph: Graph,
    codes: Result,
    new: Result,
    inverse: Result,
    scale: Result,
    lowest: Result,
    highest: Result,
) -> Bool:
    """Whether int8 codes [B, G, T, D] end with those of new float32 heads [B, G, S, D], by scales
    that are constants, one for all or one for each head and channel."""
    if not (is_float32(graph, new) and known_rank(graph, new) == known_rank(graph, codes) == 4):
        return False
    if graph.get_type(codes) != dtypes.int8:
        return False
    own, other = shape_of(graph, new), shape_of(graph, codes)
    if not is_static([own[1], own[3]]) or own[3] < 1 or own[3] % _WIDTH:
        return False
    if not all(dims.always_equal(own[axis], other[axis]) for axis in (0, 1, 3)):
        return False
    if (number_of(graph, lowest), number_of(graph, highest)) != _BOUNDS:
        return False
    return _are_scales(graph, scale, inverse, (1, own[1], 1, own[3]))


def _are_scales(graph: Graph, scale: str, inverse: str, channels: tuple[int, ...]) -> bool:
    """Whether codes are multiplied with these scales, and numbers with their inverses, which is
    what the kernel computes of the scales."""
    scales, inverses = small_constant(graph, scale), small_constant(graph, inverse)
    if scales is None or inverses is None or scales.shape != inverses.shape:
        return False
    if scales.dtype != np.float32 or inverses.dtype != np.float32:
        return False
    if scales.shape != channels and scales.size != 1:
        return False
    usual = np.isfinite(scales) & (scales > 0) & np.isfinite(inverses)
    return bool(usual.all()) and bool((inverses == np.float32(1) / scales).all())


def share_coded_heads(
    graph: Graph, query: Result, keys: Result, values: Result, past: Result
) -> Bool:
    """Whether float32 queries [B, H, S, D] go with as many new keys and values [B, G, S, D], of G
    heads that divide H, and there are sizes that the kernel takes: B or S may be 1, or P, the
    codes before them, 0."""
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in (query, keys, values)):
        return False
    q, k, v = (list(shape_of(graph, x)) for x in (query, keys, values))
    if not is_static([q[1], k[1]]) or k[1] < 1 or q[1] < 1 or q[1] % k[1]:
        return False
    pairs = [(q[0], k[0]), (q[2], k[2]), (q[3], k[3]), *zip(k, v, strict=True)]
    sizes = [(q[0], 1), (q[2], 1), (dim_of(graph, past, 2), 0)]
    if all(isinstance(size, int) and size != taken for size, taken in sizes):
        return False
    return all(dims.always_equal(a, b) for a, b in pairs)


# -- attention


@dataclass(frozen=True)
class _Attention:
    """Attention over a cache of codes: results of the match, as the words below take them."""

    query: str
    new: tuple[str, str]  # keys and values
    past: tuple[str, str]
    scales: tuple[str, str]
    bias: str
    factor: float


def coded_attention(
    graph: Graph,
    query: Result,
    keys: Result,
    values: Result,
    past_keys: Result,
    past_values: Result,
    mask: Result,
    key_scale: Result,
    value_scale: Result,
    factor: Float,
) -> tuple[Result, Result, Result]:
    """Heads [B, H, S, D], and the codes of keys and values with the new ones, [B, G, P + S, D].

    ONNX Runtime's kernel GroupQueryAttention takes several new tokens (S) after others (P) of one
    text only (B), and so decides the graph where these sizes are free: in the other branch are the
    nodes that the kernel stands for.
    """
    scales = _channel_scales(graph, key_scale, keys), _channel_scales(graph, value_scale, values)
    bias = _bias_of_mask(graph, mask, past_keys, keys)
    given = _Attention(query, (keys, values), (past_keys, past_values), scales, bias, factor)
    alone = dim_of(graph, query, 0), dim_of(graph, query, 2)
    past = dim_of(graph, past_keys, 2)
    if any(dims.always_equal(each, 1) for each in alone) or dims.always_equal(past, 0):
        return _by_kernel(graph, given)
    tests = [(past, 0), *((each, 1) for each in alone)]
    asked = [_is_size(graph, *each) for each in tests if not isinstance(each[0], int)]
    takes = functools.reduce(lambda a, b: graph.make_node("Or", [a, b]), asked)
    branches = [graph.subgraph(name) for name in ("kernel", "nodes")]
    for branch, way in zip(branches, (_by_kernel, _by_nodes), strict=True):
        for result in way(branch, given):
            branch.make_tensor_output(result)
    made = graph.make_node("If", [takes], 3, then_branch=branches[0], else_branch=branches[1])
    total = _tokens(graph, past_keys, keys)
    batch, groups, _, width = shape_of(graph, keys)
    for result, kind in zip(made, (dtypes.float32, dtypes.int8, dtypes.int8), strict=True):
        graph.set_type(result, kind)
        coded = kind == dtypes.int8
        graph.set_shape(
            result, (batch, groups, total, width) if coded else tuple(shape_of(graph, query))
        )
    heads, all_keys, all_values = made
    return heads, all_keys, all_values


def _is_size(graph: Graph, size: Any, wanted: int) -> str:
    return graph.make_node("Equal", [as_scalar(graph, size), const(graph, wanted, dtypes.int64)])


def _by_kernel(graph: Graph, given: _Attention) -> tuple[str, str, str]:
    """The kernel, which rounds new keys and values; ``causal=0``, as the mask says it all."""
    batch, heads, count, width = shape_of(graph, given.query)
    keys, values = given.new
    total = _tokens(graph, given.past[0], keys)
    last = cast(graph, as_scalar(graph, total - 1), dtypes.int32)
    domain, _, name = _KERNEL.rpartition("::")
    made = graph.make_node(
        name,
        [
            *(merged_heads(graph, each) for each in (given.query, keys, values)),
            *given.past,
            expanded(graph, reshape_to(graph, last, [1]), [batch]),
            cast(graph, as_scalar(graph, total), dtypes.int32),
            *("", "", ""),
            given.bias,
            "",
            *given.scales,
        ],
        3,
        domain=domain,
        num_heads=heads,
        kv_num_heads=dim_of(graph, keys, 1),
        scale=given.factor,
        causal=0,
        k_quant_type="PER_CHANNEL",
        v_quant_type="PER_CHANNEL",
        kv_cache_bit_width=8,
    )
    rows, all_keys, all_values = made
    split = reshape_to(graph, rows, [batch, count, heads, width])
    return permuted(graph, split, [0, 2, 1, 3]), all_keys, all_values


def _by_nodes(graph: Graph, given: _Attention) -> tuple[str, str, str]:
    """The same as nodes; heads that share keys are an axis, so that no key is copied."""
    make = graph.make_node
    batch, heads, count, width = shape_of(graph, given.query)
    groups = dim_of(graph, given.new[0], 1)
    codes, floats = [], []
    for new, past, scale in zip(given.new, given.past, given.scales, strict=True):
        rounded = make("Round", [make("Mul", [new, make("Reciprocal", [scale])])])
        bounds = [const(graph, each, dtypes.float32) for each in _BOUNDS]
        new_codes = cast(graph, make("Clip", [rounded, *bounds]), dtypes.int8)
        codes.append(make("Concat", [past, new_codes], axis=2))
        whole = make("Mul", [cast(graph, codes[-1], dtypes.float32), scale])
        floats.append(make("Unsqueeze", [whole, as_vec(graph, 2)]))
    split = reshape_to(graph, given.query, [batch, groups, heads // groups, count, width])
    product = make("MatMul", [split, make("Transpose", [floats[0]], perm=[0, 1, 2, 4, 3])])
    scores = make("Mul", [product, const(graph, given.factor, dtypes.float32)])
    outer, inner = shape_of(graph, given.bias)[1], shape_of(graph, given.bias)[2:]
    shared = (groups, heads // groups) if not dims.always_equal(outer, 1) else (1, 1)
    bias = reshape_to(graph, given.bias, [shape_of(graph, given.bias)[0], *shared, *inner])
    probs = make("Softmax", [make("Add", [scores, bias])], axis=-1)
    found = reshape_to(graph, make("MatMul", [probs, floats[1]]), [batch, heads, count, width])
    return found, codes[0], codes[1]


def _tokens(graph: Graph, past: str, new: str) -> Any:
    return dim_of(graph, past, 2) + dim_of(graph, new, 2)


def _bias_of_mask(graph: Graph, mask: str, past: str, new: str) -> str:
    """What is added to scores [B, H, S, P + S], in its full length and width: numbers as they are,
    0 for bools that show a place, and -inf for those that hide it."""
    outer = list(shape_of(graph, mask))[:-2]
    sizes = [dim_of(graph, new, 2), _tokens(graph, past, new)]
    added = as_numbers(graph, mask)
    return expanded(graph, added, [*([1] * (2 - len(outer))), *outer, *sizes])


def _channel_scales(graph: Graph, scale: str, new: str) -> str:
    """Scales of each head and channel, float32[1, G, 1, D]."""
    groups, width = dim_of(graph, new, 1), dim_of(graph, new, 3)
    known = small_constant(graph, scale)
    assert isinstance(groups, int) and isinstance(width, int)
    assert known is not None  # is_coded_cache has seen all of it
    sizes = (1, groups, 1, width)
    if known.shape == sizes:
        return scale
    wide = np.ascontiguousarray(np.broadcast_to(known.reshape(-1), sizes))
    return graph.make_initializer("", wide)
