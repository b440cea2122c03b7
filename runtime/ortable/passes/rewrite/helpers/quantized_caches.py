"""Helpers of the rules about attention over a quantized KV cache.

Keys and values are int8 codes (quantized values) with scales. The helpers build the inputs of ONNX
Runtime's kernel.
Called by rules of ort_coded_cache.
"""

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

__all__ = ["is_quantized_cache", "quantized_attention", "share_quantized_heads"]

_KERNEL = "com.microsoft::GroupQueryAttention"
_WIDTH_MULTIPLE = 8  # the kernel requires a head width that is a multiple of this
_BOUNDS = (-128.0, 127.0)


# -- facts


def is_quantized_cache(
    graph: Graph,
    codes: Result,
    new: Result,
    inverse: Result,
    scale: Result,
    lowest: Result,
    highest: Result,
) -> Bool:
    """Whether the kernel supports int8 codes [B, G, T, D] of which the last are of ``new`` heads.

    ``new`` is float32 [B, G, S, D]. The scales must be constants, one for all elements or one for
    each head and channel.
    """
    if not (is_float32(graph, new) and known_rank(graph, new) == known_rank(graph, codes) == 4):
        return False
    if graph.get_type(codes) != dtypes.int8:
        return False
    new_shape, codes_shape = shape_of(graph, new), shape_of(graph, codes)
    if (
        not is_static([new_shape[1], new_shape[3]])
        or new_shape[3] < 1
        or new_shape[3] % _WIDTH_MULTIPLE
    ):
        return False
    if not all(dims.always_equal(new_shape[axis], codes_shape[axis]) for axis in (0, 1, 3)):
        return False
    if (number_of(graph, lowest), number_of(graph, highest)) != _BOUNDS:
        return False
    return _are_inverse_scales(graph, scale, inverse, (1, new_shape[1], 1, new_shape[3]))


def _are_inverse_scales(graph: Graph, scale: str, inverse: str, channels: tuple[int, ...]) -> bool:
    """Whether ``inverse`` equals the inverses of the scales, which the kernel computes itself."""
    scales, inverses = small_constant(graph, scale), small_constant(graph, inverse)
    if scales is None or inverses is None or scales.shape != inverses.shape:
        return False
    if scales.dtype != np.float32 or inverses.dtype != np.float32:
        return False
    if scales.shape != channels and scales.size != 1:
        return False
    is_valid = np.isfinite(scales) & (scales > 0) & np.isfinite(inverses)
    return bool(is_valid.all()) and bool((inverses == np.float32(1) / scales).all())


def share_quantized_heads(
    graph: Graph, query: Result, keys: Result, values: Result, past: Result
) -> Bool:
    """Whether float32 queries [B, H, S, D] fit new keys and values [B, G, S, D] and the kernel.

    G must divide H. The kernel requires that B or S is 1, or that P, the number of past positions,
    is 0. If one of these sizes is dynamic, the requirement is tested at run time.
    """
    if not all(is_float32(graph, x) and known_rank(graph, x) == 4 for x in (query, keys, values)):
        return False
    q, k, v = (list(shape_of(graph, x)) for x in (query, keys, values))
    if not is_static([q[1], k[1]]) or k[1] < 1 or q[1] < 1 or q[1] % k[1]:
        return False
    pairs = [(q[0], k[0]), (q[2], k[2]), (q[3], k[3]), *zip(k, v, strict=True)]
    sizes = [(q[0], 1), (q[2], 1), (dim_of(graph, past, 2), 0)]
    if all(isinstance(size, int) and size != required for size, required in sizes):
        return False
    return all(dims.always_equal(a, b) for a, b in pairs)


# -- attention


@dataclass(frozen=True)
class _CacheAttention:
    """The matched results of attention over a quantized cache."""

    query: str
    new: tuple[str, str]  # keys and values
    past: tuple[str, str]
    scales: tuple[str, str]
    bias: str
    factor: float


def quantized_attention(
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
    """Make attention over a quantized cache.

    ONNX Runtime's kernel GroupQueryAttention supports several new tokens (S) after past tokens (P)
    only for B = 1. If these sizes are dynamic, an If chooses between the kernel and equivalent
    nodes.

    Returns:
        Heads [B, H, S, D], and the codes of all keys and values, [B, G, P + S, D].
    """
    scales = _channel_scales(graph, key_scale, keys), _channel_scales(graph, value_scale, values)
    bias = _bias_of_mask(graph, mask, past_keys, keys)
    attention = _CacheAttention(
        query, (keys, values), (past_keys, past_values), scales, bias, factor
    )
    unit_sizes = dim_of(graph, query, 0), dim_of(graph, query, 2)
    past = dim_of(graph, past_keys, 2)
    if any(dims.always_equal(size, 1) for size in unit_sizes) or dims.always_equal(past, 0):
        return _attend_with_kernel(graph, attention)
    tests = [(past, 0), *((size, 1) for size in unit_sizes)]
    conditions = [_make_size_test(graph, *test) for test in tests if not isinstance(test[0], int)]
    fits_kernel = functools.reduce(lambda a, b: graph.make_node("Or", [a, b]), conditions)
    branches = [graph.subgraph(name) for name in ("kernel", "nodes")]
    for branch, build in zip(branches, (_attend_with_kernel, _attend_with_nodes), strict=True):
        for result in build(branch, attention):
            branch.make_tensor_output(result)
    outputs = graph.make_node(
        "If", [fits_kernel], 3, then_branch=branches[0], else_branch=branches[1]
    )
    total = _token_count(graph, past_keys, keys)
    batch, groups, _, width = shape_of(graph, keys)
    for result, dtype in zip(outputs, (dtypes.float32, dtypes.int8, dtypes.int8), strict=True):
        graph.set_type(result, dtype)
        is_codes = dtype == dtypes.int8
        graph.set_shape(
            result, (batch, groups, total, width) if is_codes else tuple(shape_of(graph, query))
        )
    heads, all_keys, all_values = outputs
    return heads, all_keys, all_values


def _make_size_test(graph: Graph, size: Any, expected: int) -> str:
    return graph.make_node("Equal", [as_scalar(graph, size), const(graph, expected, dtypes.int64)])


def _attend_with_kernel(graph: Graph, attention: _CacheAttention) -> tuple[str, str, str]:
    """Make the kernel node, which quantizes new keys and values."""
    batch, heads, count, width = shape_of(graph, attention.query)
    keys, values = attention.new
    total = _token_count(graph, attention.past[0], keys)
    last_position = cast(graph, as_scalar(graph, total - 1), dtypes.int32)
    domain, _, name = _KERNEL.rpartition("::")
    outputs = graph.make_node(
        name,
        [
            *(merged_heads(graph, tensor) for tensor in (attention.query, keys, values)),
            *attention.past,
            expanded(graph, reshape_to(graph, last_position, [1]), [batch]),
            cast(graph, as_scalar(graph, total), dtypes.int32),
            *("", "", ""),
            attention.bias,
            "",
            *attention.scales,
        ],
        3,
        domain=domain,
        num_heads=heads,
        kv_num_heads=dim_of(graph, keys, 1),
        scale=attention.factor,
        causal=0,  # the mask already contains the causal mask
        k_quant_type="PER_CHANNEL",
        v_quant_type="PER_CHANNEL",
        kv_cache_bit_width=8,
    )
    rows, all_keys, all_values = outputs
    heads_last = reshape_to(graph, rows, [batch, count, heads, width])
    return permuted(graph, heads_last, [0, 2, 1, 3]), all_keys, all_values


def _attend_with_nodes(graph: Graph, attention: _CacheAttention) -> tuple[str, str, str]:
    """Make equivalent nodes; heads that share keys are an axis, so that keys are not copied."""
    make = graph.make_node
    batch, heads, count, width = shape_of(graph, attention.query)
    groups = dim_of(graph, attention.new[0], 1)
    codes, floats = [], []
    for new, past, scale in zip(attention.new, attention.past, attention.scales, strict=True):
        rounded = make("Round", [make("Mul", [new, make("Reciprocal", [scale])])])
        bounds = [const(graph, bound, dtypes.float32) for bound in _BOUNDS]
        new_codes = cast(graph, make("Clip", [rounded, *bounds]), dtypes.int8)
        codes.append(make("Concat", [past, new_codes], axis=2))
        dequantized = make("Mul", [cast(graph, codes[-1], dtypes.float32), scale])
        floats.append(make("Unsqueeze", [dequantized, as_vec(graph, 2)]))
    grouped = reshape_to(graph, attention.query, [batch, groups, heads // groups, count, width])
    product = make("MatMul", [grouped, make("Transpose", [floats[0]], perm=[0, 1, 2, 4, 3])])
    scores = make("Mul", [product, const(graph, attention.factor, dtypes.float32)])
    outer, inner = shape_of(graph, attention.bias)[1], shape_of(graph, attention.bias)[2:]
    group_axes = (groups, heads // groups) if not dims.always_equal(outer, 1) else (1, 1)
    bias = reshape_to(
        graph, attention.bias, [shape_of(graph, attention.bias)[0], *group_axes, *inner]
    )
    probs = make("Softmax", [make("Add", [scores, bias])], axis=-1)
    attended = reshape_to(graph, make("MatMul", [probs, floats[1]]), [batch, heads, count, width])
    return attended, codes[0], codes[1]


def _token_count(graph: Graph, past: str, new: str) -> Any:
    return dim_of(graph, past, 2) + dim_of(graph, new, 2)


def _bias_of_mask(graph: Graph, mask: str, past: str, new: str) -> str:
    """Return the mask as a bias of scores, expanded to [B or 1, H or 1, S, P + S]."""
    outer = list(shape_of(graph, mask))[:-2]
    sizes = [dim_of(graph, new, 2), _token_count(graph, past, new)]
    bias = as_numbers(graph, mask)
    return expanded(graph, bias, [*([1] * (2 - len(outer))), *outer, *sizes])


def _channel_scales(graph: Graph, scale: str, new: str) -> str:
    """Return the scales of each head and channel, float32[1, G, 1, D]."""
    groups, width = dim_of(graph, new, 1), dim_of(graph, new, 3)
    values = small_constant(graph, scale)
    assert isinstance(groups, int) and isinstance(width, int)
    assert values is not None  # is_quantized_cache has checked it
    sizes = (1, groups, 1, width)
    if values.shape == sizes:
        return scale
    broadcast_scales = np.ascontiguousarray(np.broadcast_to(values.reshape(-1), sizes))
    return graph.make_initializer("", broadcast_scales)
