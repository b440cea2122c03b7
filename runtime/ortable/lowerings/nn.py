"""Lower-case words of the spec language for networks: windows of convolutions and pools, reductions
that keep NaN, statistics of norms, masks of attention, reductions of losses."""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.factors import fits_attribute, with_epsilon
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Float,
    Int,
    Ints,
    Result,
    Results,
    Scalar,
    SymInt,
    SymInts,
    dim_of,
    rank_of,
    shape_of,
    static,
)
from ortable.prelude.sums import centred_over, marks_over, mean_over, summed_over
from ortable.prelude.values import (
    as_vec,
    cast,
    const,
    consts,
    filled,
    per_channel,
    permuted,
    reshape_to,
    unsqueezed,
)

__all__ = [
    "all_true",
    "any_true",
    "as_float",
    "attention_scaled",
    "batch_norm_known",
    "channels_first",
    "count_over",
    "divisible",
    "drawn_dropout",
    "extreme_index",
    "group_instances",
    "group_normalized",
    "grouped_product",
    "heads_as",
    "is_short_group",
    "is_short_layer",
    "loss_reduced",
    "machine_epsilon",
    "on_channels",
    "or_filled",
    "quotients",
    "reach_padding",
    "reduced_extreme",
    "rms_normalized",
    "rows_normalized",
    "same_pads",
    "scaled",
    "shared_heads",
    "wide_dtype",
    "without",
    "zero_where_masked",
]

# Up to here the normalising kernels of ONNX Runtime, which add up one by one, are as exact as torch
_MOST_INSTANCE = 2048
_MOST_LAYER = 16384


def wide_dtype(dtype: Dtype) -> Dtype:
    """The dtype in which torch accumulates: float32 for the 16 bit floats, the dtype itself for
    others."""
    return dtypes.float32 if dtype in (dtypes.float16, dtypes.bfloat16) else dtype


def without(axes: Ints, rank: Int) -> Ints:
    """The axes of a tensor of ``rank`` that are not in ``axes``."""
    return [axis for axis in range(rank) if axis not in axes]


def or_filled(
    graph: Graph, x: Result | None, shape: SymInts, value: Scalar, dtype: Dtype
) -> Result:
    """``x`` in ``dtype``, or a result of ``shape`` that holds ``value`` where torch lets ``x`` be
    None."""
    if x is not None:
        return cast(graph, x, dtype)
    if len(shape) == 1 and isinstance(shape[0], int):
        return consts(graph, [value] * shape[0], dtype)
    return filled(graph, shape, value, dtype)


def scaled(graph: Graph, x: Result, factor: Scalar) -> Result:
    """``x`` times a number; no node for 1."""
    if not isinstance(factor, dims.SymDim) and factor == 1:
        return x
    return graph.make_node("Mul", [x, const(graph, factor, graph.get_type(x))])


def attention_scaled(graph: Graph, x: Result, scale: Float | None, width: SymInt) -> Result:
    """Attention scores times ``scale``; by default over the square root of the width of a head.
    Heads without width have scores of 0, where ONNX Runtime's product over nothing leaves what
    was in memory."""
    if dims.same(width, 0):
        nothing = const(graph, 0, graph.get_type(x))
        return graph.make_node("Expand", [nothing, graph.make_node("Shape", [x])])
    if scale is not None:
        return scaled(graph, x, scale)
    if isinstance(width, dims.SymDim):
        root = graph.make_node("Sqrt", [const(graph, width, graph.get_type(x))])
        return graph.make_node("Div", [x, root])
    return scaled(graph, x, float(width) ** -0.5)


# -- reductions ---------------------------------------------------------------------------------


def count_over(graph: Graph, x: Result, axes: Ints) -> SymInt:
    """How many elements each result of a reduction over ``axes`` takes in."""
    return dims.prod([dim_of(graph, x, axis) for axis in axes])


def reduced_extreme(graph: Graph, x: Result, axes: Ints, keepdim: Bool, largest: Bool) -> Result:
    """The largest (or smallest) element over ``axes``; NaN wins, as in torch.

    ONNX leaves NaN open in ReduceMax, and ONNX Runtime skips it; the sum of ``x * 0`` would let
    infinities in, so NaN is looked for by itself.
    """
    dtype = graph.get_type(x)
    over = consts(graph, axes, dtypes.int64)
    # older opsets have no ReduceMax of bool, none has one of int16
    computed = {dtypes.boolean: dtypes.uint8, dtypes.int16: dtypes.int32}.get(dtype, dtype)
    op = "ReduceMax" if largest else "ReduceMin"
    found = cast(
        graph, graph.make_node(op, [cast(graph, x, computed), over], keepdims=int(keepdim)), dtype
    )
    if not dtypes.is_float_type(dtype):
        return found
    lost = graph.make_node("ReduceMax", [_nan_bytes(graph, x), over], keepdims=int(keepdim))
    mask = cast(graph, lost, dtypes.boolean)
    return graph.make_node("Where", [mask, const(graph, float("nan"), dtype), found])


def extreme_index(graph: Graph, x: Result, axis: Int, keepdim: Bool, largest: Bool) -> Result:
    """The int64 index of the first largest (or smallest) element along ``axis``; the first NaN
    counts as both."""
    dtype = graph.get_type(x)
    op = "ArgMax" if largest else "ArgMin"
    value = cast(graph, x, dtypes.uint8) if dtype == dtypes.boolean else x
    if dtype in (dtypes.int16, dtypes.bfloat16, dtypes.float16):
        # ONNX allows them, ONNX Runtime has no kernel; the wider type orders them alike
        value = cast(graph, x, dtypes.int32 if dtype == dtypes.int16 else dtypes.float32)
    found = graph.make_node(op, [value], axis=axis, keepdims=int(keepdim))
    if not dtypes.is_float_type(dtype):
        return found
    lost = _nan_bytes(graph, x)
    first = graph.make_node("ArgMax", [lost], axis=axis, keepdims=int(keepdim))
    some = graph.make_node(
        "ReduceMax", [lost, consts(graph, [axis], dtypes.int64)], keepdims=int(keepdim)
    )
    return graph.make_node("Where", [cast(graph, some, dtypes.boolean), first, found])


def _nan_bytes(graph: Graph, x: str) -> str:
    """1 where ``x`` is NaN, as uint8: the type for which every opset has a ReduceMax and an
    ArgMax."""
    return cast(graph, graph.make_node("IsNaN", [x]), dtypes.uint8)


def any_true(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """Whether an element over ``axes`` is not 0; False for no elements."""
    marks = cast(graph, x, dtypes.boolean)
    return cast(graph, marks_over(graph, marks, axes, keepdim), dtypes.boolean)


def all_true(graph: Graph, x: Result, axes: Ints, keepdim: Bool) -> Result:
    """Whether no element over ``axes`` is 0; True for no elements."""
    zeros = graph.make_node("Not", [cast(graph, x, dtypes.boolean)])
    return graph.make_node("Not", [any_true(graph, zeros, axes, keepdim)])


def as_float(value: Scalar) -> Float:
    """A Scalar that must be known while converting, as a Python float.

    Raises:
        UnsupportedCase: only the running model knows it.
    """
    if isinstance(value, str):
        raise UnsupportedCase("a number in an attribute that only the running model knows")
    return float(static(value))


def loss_reduced(graph: Graph, x: Result, reduction: Int) -> Result:
    """The elements of a loss (torch's reduction 0), their mean (1), which is NaN for no elements,
    or their sum (2)."""
    if reduction == 0:
        return x
    dtype, axes = graph.get_type(x), list(range(rank_of(graph, x)))
    wide = cast(graph, x, wide_dtype(dtype))
    total = summed_over(graph, wide, axes, False)
    if reduction == 1:
        count = const(graph, dims.prod(shape_of(graph, x)), wide_dtype(dtype))
        total = graph.make_node("Div", [total, count])
    return cast(graph, total, dtype)


# -- norms --------------------------------------------------------------------------------------


def machine_epsilon(dtype: Dtype) -> Float:
    """The distance from 1 to the next number of a float dtype, which torch adds where ``eps`` is
    None."""
    return {dtypes.float16: 2.0**-10, dtypes.bfloat16: 2.0**-7, dtypes.float32: 2.0**-23}.get(
        dtype, 2.0**-52
    )


def batch_norm_known(
    graph: Graph,
    x: Result,
    gain: Result | None,
    shift: Result | None,
    mean: Result,
    variance: Result,
    eps: Float,
) -> Result:
    """Batch norm of [N, C, ...] with known statistics [C]; parameters may have another float dtype
    than ``x``."""
    dtype = wide_dtype(graph.get_type(x))
    shape = [dim_of(graph, x, 1)]
    parameters = [
        or_filled(graph, gain, shape, 1, dtype),
        or_filled(graph, shift, shape, 0, dtype),
        cast(graph, mean, dtype),
    ]
    spread, least = with_epsilon(graph, cast(graph, variance, dtype), eps)
    tensors = [cast(graph, x, dtype), *parameters, spread]
    found = graph.make_node("BatchNormalization", tensors, epsilon=least)
    return cast(graph, found, graph.get_type(x))


def group_normalized(
    graph: Graph, x: Result, groups: SymInt, gain: Result | None, shift: Result | None, eps: Float
) -> Results:
    """Group norm of [N, C, ...]: the normalised input, mean and 1/std of each group as [N, groups,
    1]."""
    dtype = wide_dtype(graph.get_type(x))
    shape = list(shape_of(graph, x))
    rest = dims.prod(shape[1:]) // groups
    flat = reshape_to(graph, cast(graph, x, dtype), [shape[0], groups, rest])
    away, mean, total = centred_over(graph, flat, [2])
    variance = graph.make_node("Div", [total, const(graph, rest, dtype)])
    spread_out = graph.make_node(
        "Sqrt", [graph.make_node("Add", [variance, const(graph, eps, dtype)])]
    )
    inverse = graph.make_node("Reciprocal", [spread_out])
    found = reshape_to(graph, graph.make_node("Mul", [away, inverse]), shape)
    found = on_channels(graph, found, gain, shift)
    return [cast(graph, found, graph.get_type(x)), mean, inverse]


def on_channels(graph: Graph, x: Result, gain: Result | None, shift: Result | None) -> Result:
    """``x`` [N, C, ...] times one number for each channel, plus another one; None leaves out."""
    for op, parameter in (("Mul", gain), ("Add", shift)):
        if parameter is not None:
            factor = per_channel(
                graph, cast(graph, parameter, graph.get_type(x)), rank_of(graph, x)
            )
            x = graph.make_node(op, [x, factor])
    return x


def rows_normalized(
    graph: Graph,
    x: Result,
    normalized: SymInts,
    gain: Result | None,
    shift: Result | None,
    eps: Float,
) -> Results:
    """Layer norm over the last dimensions, in the dtype of ``x``: the normalised input, mean and
    1/std of each row."""
    dtype, make = graph.get_type(x), graph.make_node
    rank = rank_of(graph, x)
    axes = list(range(rank - len(normalized), rank))
    away, mean, total = centred_over(graph, x, axes)
    variance = make("Div", [total, const(graph, dims.prod(normalized), dtype)])
    spread_out = make("Sqrt", [make("Add", [variance, const(graph, eps, dtype)])])
    inverse = make("Reciprocal", [spread_out])
    found = make("Mul", [away, inverse])
    for op, parameter in (("Mul", gain), ("Add", shift)):
        if parameter is not None:
            found = make(op, [found, cast(graph, parameter, dtype)])
    return [found, mean, inverse]


def is_short_layer(normalized: SymInts) -> Bool:
    """Whether LayerNormalization of so many elements is as exact as torch's; what is not known is
    taken to be short."""
    return not dims.prod(normalized) > _MOST_LAYER


def is_short_group(graph: Graph, x: Result, groups: SymInt) -> Bool:
    """Whether InstanceNormalization of groups of channels is as exact as torch's; what is not known
    is taken to be short."""
    return not dims.prod(shape_of(graph, x)[1:]) // groups > _MOST_INSTANCE


def group_instances(graph: Graph, x: Result, groups: Int, eps: Float) -> Result:
    """Group norm of float32 [N, C, ...] without its parameters, as an instance norm of the groups:
    one kernel, which takes the mean and then the squares of what is left."""
    shape = list(shape_of(graph, x))
    rest = dims.prod(shape[1:]) // groups
    fixed = isinstance(rest, int)
    # 0 takes the size of the batch from x, so only the last size is open
    wanted = None if fixed else consts(graph, [0, groups, -1], dtypes.int64)
    flat = (
        reshape_to(graph, x, [shape[0], groups, rest])
        if fixed
        else graph.make_node("Reshape", [x, wanted])
    )
    graph.set_shape(flat, (shape[0], groups, rest))
    ones, zeros = (consts(graph, [value] * groups, dtypes.float32) for value in (1.0, 0.0))
    found = graph.make_node("InstanceNormalization", [flat, ones, zeros], epsilon=eps)
    if fixed:
        return reshape_to(graph, found, shape)
    found = graph.make_node("Reshape", [found, graph.make_node("Shape", [x])])
    graph.set_shape(found, tuple(shape))
    return found


def rms_normalized(
    graph: Graph, x: Result, normalized: SymInts, gain: Result | None, eps: Float
) -> Result:
    """``x`` over the root of the mean of its squares along the last dimensions; one node from
    opset 23 on."""
    dtype = graph.get_type(x)
    first = rank_of(graph, x) - len(normalized)
    short = is_short_layer(normalized) and fits_attribute(graph, eps, x)
    if graph.opset >= 23 and short:
        factor = or_filled(graph, gain, normalized, 1, dtype)
        return graph.make_node("RMSNormalization", [x, factor], axis=first, epsilon=eps)
    axes = list(range(first, rank_of(graph, x)))
    square = mean_over(graph, graph.make_node("Mul", [x, x]), axes, True)
    shifted = graph.make_node("Add", [square, const(graph, eps, dtype)])
    found = graph.make_node("Div", [x, graph.make_node("Sqrt", [shifted])])
    return found if gain is None else graph.make_node("Mul", [found, cast(graph, gain, dtype)])


# -- random -------------------------------------------------------------------------------------


def drawn_dropout(graph: Graph, x: Result, p: Float) -> Results:
    """Dropout in training: [output, mask], drawn by ONNX's operator.

    The output is made of the mask: ONNX Runtime's EliminateDropout drops a Dropout whose mask
    nobody reads, also in training.

    Raises:
        UnsupportedCase: the graph is built for ONNX Runtime inside torch, where only torch's own
            generator gives the numbers of eager.
    """
    if graph.target == "onnxruntime":
        raise UnsupportedCase(
            "dropout: ONNX Runtime would draw numbers of its own and ignore torch.manual_seed"
        )
    ratio, training = const(graph, p, dtypes.float32), const(graph, True, dtypes.boolean)
    mask = graph.make_node("Dropout", [x, ratio, training], 2)[1]
    kind = graph.get_type(x)
    wide = wide_dtype(kind)
    kept = cast(graph, const(graph, 1 / (1 - p), kind), wide)
    factor = graph.make_node("Where", [mask, kept, const(graph, 0, wide)])
    return [cast(graph, graph.make_node("Mul", [cast(graph, x, wide), factor]), kind), mask]


# -- windows ------------------------------------------------------------------------------------


def same_pads(weight_sizes: SymInts, dilations: Ints) -> Ints:
    """Begin and end pads of ``padding='same'``: the odd element goes to the end."""
    total = [
        dilation * (size - 1)
        for size, dilation in zip(static(weight_sizes), dilations, strict=True)
    ]
    return [size // 2 for size in total] + [size - size // 2 for size in total]


def channels_first(graph: Graph, x: Result, groups: Int) -> Result:
    """[N, G*C, ...] -> [C, G*N, ...]: channels and batch exchanged inside each group of
    channels."""
    rank = rank_of(graph, x)
    if groups == 1:
        return permuted(graph, x, [1, 0, *range(2, rank)])
    shape = list(shape_of(graph, x))
    batch, channels, space = shape[0], static(shape[1]), shape[2:]
    blocks = reshape_to(graph, x, [batch, groups, channels // groups, *space])
    turned = permuted(graph, blocks, [2, 1, 0, *range(3, rank + 1)])
    return reshape_to(graph, turned, [channels // groups, batch * groups, *space])


def reach_padding(
    wanted: SymInts, have: SymInts, kernel: SymInts, strides: Ints, pads: Ints, dilations: Ints
) -> Ints:
    """``output_padding`` with which ConvTranspose of ``have`` covers ``wanted``.

    Where the sizes are dynamic it is the largest there can be, stride - 1, and the result must be
    cropped: what lies further changes nothing before it.
    """
    found = []
    for axis, stride in enumerate(strides):
        missing = wanted[axis] - (
            (have[axis] - 1) * stride - 2 * pads[axis] + dilations[axis] * (kernel[axis] - 1) + 1
        )
        found.append(max(missing, 0) if isinstance(missing, int) else stride - 1)
    return found


def divisible(sizes: SymInts, parts: SymInts) -> Bool:
    """True when each size is known and a positive multiple of its part."""
    pairs = list(zip(sizes, parts, strict=True))
    return all(
        isinstance(size, int)
        and isinstance(part, int)
        and size > 0
        and part > 0
        and size % part == 0
        for size, part in pairs
    )


def quotients(sizes: SymInts, parts: SymInts) -> Ints:
    """Each size divided by its part; use after ``divisible``."""
    return [size // part for size, part in zip(static(sizes), static(parts), strict=True)]


# -- attention ----------------------------------------------------------------------------------


def shared_heads(graph: Graph, x: Result, query: Result, repeat: Bool) -> Result:
    """Keys or values [..., G, S, D] of queries [..., H, L, D]; with ``repeat`` [..., H, S, D], each
    head as often as the queries share it. No node when G is H."""
    if not repeat:
        return x
    heads, own = dim_of(graph, query, -3), dim_of(graph, x, -3)
    if own is heads or own == heads:
        return x
    rank, shape = rank_of(graph, x), list(shape_of(graph, x))
    times = static(heads) // static(own)
    wide = unsqueezed(graph, x, [rank - 2])
    sizes = [*shape[: rank - 2], times, *shape[rank - 2 :]]
    spread_out = graph.make_node("Expand", [wide, as_vec(graph, sizes)])
    return reshape_to(graph, spread_out, [*shape[: rank - 3], heads, *shape[rank - 2 :]])


def heads_as(graph: Graph, x: Result, heads: SymInt) -> Result:
    """[..., H, R, D] -> [..., heads, H R / heads, D]: neighbouring heads as rows of one, or such
    rows as heads again; no node when the numbers are equal."""
    shape = list(shape_of(graph, x))
    own, rows = shape[-3:-1]
    if own is heads or own == heads:
        return x
    return reshape_to(graph, x, [*shape[:-3], heads, own * rows // heads, shape[-1]])


def grouped_product(graph: Graph, x: Result, y: Result) -> Result:
    """MatMul of heads [..., H, L, S] and heads [..., G, S, D], each of which H / G neighbours of
    the first share: these become rows of one head, so that nothing is copied."""
    rows = heads_as(graph, x, dim_of(graph, y, -3))
    return heads_as(graph, graph.make_node("MatMul", [rows, y]), dim_of(graph, x, -3))


def zero_where_masked(graph: Graph, x: Result, mask: Result | None) -> Result:
    """0 in the rows of an attention output that the mask hides from every key, where a softmax
    alone gives NaN."""
    if mask is None:
        return x
    last = consts(graph, [rank_of(graph, mask) - 1], dtypes.int64)
    if graph.get_type(mask) == dtypes.boolean:
        most = graph.make_node("ReduceMax", [cast(graph, mask, dtypes.uint8), last], keepdims=1)
        seen = cast(graph, most, dtypes.boolean)
        return graph.make_node("Where", [seen, x, const(graph, 0, graph.get_type(x))])
    most = graph.make_node("ReduceMax", [mask, last], keepdims=1)
    hidden = graph.make_node("Equal", [most, const(graph, float("-inf"), graph.get_type(mask))])
    return graph.make_node("Where", [hidden, const(graph, 0, graph.get_type(x)), x])
