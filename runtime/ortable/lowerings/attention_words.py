"""Lower-case words of the spec language for torch's fused transformer operators, which eval mode
without gradients takes."""

from __future__ import annotations

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.lowerings.special.error_functions import erf_of
from ortable.prelude.facts import Float, Int, Result, Results, dim_of, static
from ortable.prelude.values import cast, const, consts, permuted, reshape_to, unsqueezed

from .nn import wide_dtype

__all__ = ["gelu_of", "layer_normalized", "packed_attention"]


def packed_attention(
    graph: Graph,
    inputs: Results,
    heads: Int,
    weight: Result,
    bias: Result,
    mask: Result | None,
    mask_type: Int | None,
) -> Results:
    """Attention of query, key, value [N, L, E] through one weight [3 E, E] and bias [3 E].

    ``mask`` is True where a place is not looked at: [L, S] for type 0, [N, S] for 1, [N, H, L, S]
    for 2. Returns the joined heads [N, L, E] and the weights [N, H, L, S]; a row with no place to
    look at is NaN, as in torch.

    Raises:
        UnsupportedCase: the mask is not of bools, or has no type.
    """
    parts = [_heads(graph, x, place, heads, weight, bias) for place, x in enumerate(inputs)]
    query, key, value = parts
    make, dtype = graph.make_node, graph.get_type(inputs[0])
    size = int(static(dim_of(graph, weight, 1))) // heads
    scores = make("MatMul", [query, permuted(graph, key, [0, 1, 3, 2])])
    scores = make("Mul", [scores, const(graph, size**-0.5, dtype)])
    if mask is not None:
        if graph.get_type(mask) != dtypes.boolean or mask_type not in (0, 1, 2):
            raise UnsupportedCase("a mask of other values than bools")
        wide = unsqueezed(graph, mask, [1, 2]) if mask_type == 1 else mask
        scores = make("Where", [wide, const(graph, -float("inf"), dtype), scores])
    probs = make("Softmax", [scores], axis=-1)
    joined = permuted(graph, make("MatMul", [probs, value]), [0, 2, 1, 3])
    shape = [dim_of(graph, inputs[0], 0), dim_of(graph, inputs[0], 1), size * heads]
    return [reshape_to(graph, joined, shape), probs]


def layer_normalized(graph: Graph, x: Result, weight: Result, bias: Result, eps: Float) -> Result:
    """Layer normalization over the last axis, for float16 and bfloat16 through float32."""
    dtype = graph.get_type(x)
    wide = wide_dtype(dtype)
    parts = [cast(graph, each, wide) for each in (x, weight, bias)]
    return cast(graph, graph.make_node("LayerNormalization", parts, epsilon=eps), dtype)


def gelu_of(graph: Graph, x: Result) -> Result:
    """gelu with the error function."""
    dtype = graph.get_type(x)
    half, root = const(graph, 0.5, dtype), const(graph, 2**0.5, dtype)
    curve = erf_of(graph, graph.make_node("Div", [x, root]))
    grown = graph.make_node("Add", [curve, const(graph, 1, dtype)])
    return graph.make_node("Mul", [graph.make_node("Mul", [x, half]), grown])


def _heads(graph: Graph, x: str, place: int, heads: int, weight: str, bias: str) -> str:
    """[N, L, E] through the ``place``-th third of the packed weight: [N, H, L, E / H]."""
    embedding = int(static(dim_of(graph, weight, 1)))
    ends = [consts(graph, [(place + each) * embedding], dtypes.int64) for each in (0, 1)]
    axis = consts(graph, [0], dtypes.int64)
    matrix = graph.make_node("Slice", [weight, *ends, axis])
    shift = graph.make_node("Slice", [bias, *ends, axis])
    product = graph.make_node("MatMul", [x, permuted(graph, matrix, [1, 0])])
    found = graph.make_node("Add", [product, shift])
    shape = [dim_of(graph, x, 0), dim_of(graph, x, 1), heads, embedding // heads]
    return permuted(graph, reshape_to(graph, found, shape), [0, 2, 1, 3])
