"""Lower-case words of the spec language for quantization, and for numbers as float32 has them."""

from __future__ import annotations

import numpy as np

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Dtype,
    Float,
    Int,
    Ints,
    Result,
    Results,
    dim_of,
    highest,
    lowest,
    rank_of,
)
from ortable.prelude.values import cast, const, reshape_to

from .nn import wide_dtype

__all__ = [
    "as_vector_of_one",
    "codes_of",
    "fake_quantized",
    "fits",
    "float32_below",
    "has_codes",
    "is_dequantized",
    "known_as",
    "one_scale",
    "rows_of",
    "within",
    "zero_codes",
]


def fake_quantized(
    graph: Graph, x: Result, factor: Result, zero: Result, low: Int, high: Int, narrow: Bool = False
) -> Results:
    """``x`` as codes between ``low`` and ``high`` and back, and where no code was clipped.

    ``narrow``: the way back is computed in the dtype of ``factor``, whatever that of ``x``.
    """
    make, kind = graph.make_node, wide_dtype(graph.get_type(x))
    inverse = cast(graph, make("Div", [const(graph, 1, graph.get_type(factor)), factor]), kind)
    zero, back = cast(graph, zero, kind), graph.get_type(factor) if narrow else kind
    bounds = [const(graph, low, kind), const(graph, high, kind)]
    rounded = make("Round", [make("Mul", [cast(graph, x, kind), inverse])])
    codes = make("Add", [rounded, zero])
    shifted = make("Sub", [make("Clip", [codes, *bounds]), zero])
    found = make("Mul", [cast(graph, shifted, back), cast(graph, factor, back)])
    found = cast(graph, found, graph.get_type(x))
    outside = make("Or", [make("Less", [codes, bounds[0]]), make("Greater", [codes, bounds[1]])])
    return [found, make("Not", [outside])]


def float32_below(value: Float) -> Float:
    """The greatest float32 that is not greater than a number."""
    near = np.float32(value)
    return float(near if float(near) <= value else np.nextafter(near, np.float32(-np.inf)))


def fits(graph: Graph, zero: Result | None, dtype: Dtype) -> Bool:
    """True when zero points are known to be values of ``dtype``, so that an ONNX operator of that
    dtype subtracts them as torch does: none at all, constants, or clipped ones."""
    if zero is None:
        return True
    known = _constant(graph, zero)
    if known is not None:
        return _within(known, dtype)
    node = graph.values[_before_widening(graph, zero)].producer
    if node is None or node.op_type not in ("Clip", "DynamicQuantizeLinear"):
        return False
    if node.op_type == "DynamicQuantizeLinear":
        return dtype == dtypes.uint8
    bounds = [_constant(graph, name) for name in node.inputs[1:3]]
    return all(bound is not None and _within(bound, dtype) for bound in bounds)


def zero_codes(
    graph: Graph, zero: Result | None, dtype: Dtype, shape: Ints | None = None
) -> Result | None:
    """Zero points that ``fits`` accepts, in ``dtype``, and perhaps in another shape."""
    if zero is None:
        return None
    known = _constant(graph, zero)
    if known is not None:
        codes = known.astype(dtypes.to_numpy(dtype))
        return graph.make_initializer("", codes if shape is None else codes.reshape(shape))
    found = cast(graph, _before_widening(graph, zero), dtype)
    return found if shape is None else reshape_to(graph, found, shape)


def known_as(graph: Graph, x: Result, shape: Ints) -> Result:
    """``x`` in another shape; a constant stays one."""
    known = _constant(graph, x)
    if known is None:
        return reshape_to(graph, x, shape)
    return graph.make_initializer("", known.reshape(shape))


def has_codes(graph: Graph, x: Result, zero: Result) -> Bool:
    """True when a zero point was chosen by the DynamicQuantizeLinear of ``x`` itself."""
    node = graph.values[_before_widening(graph, zero)].producer
    chosen = node is not None and node.op_type == "DynamicQuantizeLinear"
    return chosen and node.inputs[0] == x


def codes_of(graph: Graph, zero: Result) -> Result:
    """The codes that came with a zero point which ``has_codes``."""
    return graph.values[_before_widening(graph, zero)].producer.outputs[0]


def one_scale(graph: Graph, scale: Result) -> Result:
    """A scale of one element as 0-d float32, without a way through float64 and back."""
    source = _before_widening(graph, scale)
    return cast(graph, reshape_to(graph, source, []), dtypes.float32)


def as_vector_of_one(graph: Graph, x: Result, dtype: Dtype) -> Result:
    """A 0-d result in another dtype, as a vector of one element: what torch returns as the scale
    and the zero point that it chose."""
    return reshape_to(graph, cast(graph, x, dtype), [1])


def _before_widening(graph: Graph, name: str) -> str:
    """What a result of ``as_vector_of_one`` was, or what was cast to a dtype that keeps it."""
    node = graph.values[name].producer
    if node is not None and node.op_type == "Reshape" and graph.get_rank(node.inputs[0]) == 0:
        name = node.inputs[0]
        node = graph.values[name].producer
    if node is None or node.op_type != "Cast":
        return name
    before = graph.values[node.inputs[0]].dtype
    kept = {dtypes.float64: (dtypes.float32,), dtypes.int64: (dtypes.uint8, dtypes.int8)}
    return node.inputs[0] if before in kept.get(node.attrs["to"], ()) else name


def _constant(graph: Graph, name: str) -> np.ndarray | None:
    """The value of a constant that has data, None for other results."""
    try:
        return graph.get_constant(name) if graph.is_constant(name) else None
    except BuilderError:
        return None  # a tensor without data: its values are not known here


def _within(values: np.ndarray, dtype: Dtype) -> bool:
    inside = (values >= lowest(dtype)) & (values <= highest(dtype))
    return bool(np.all(inside & (values == np.rint(values))))


def within(graph: Graph, codes: Result, low: Int, high: Int) -> Result:
    """Integer codes clipped to two bounds; no node when these are the whole range of the dtype.

    It is the codes that are clipped, not what they stand for: ONNX Runtime's integer kernels end
    in a QuantizeLinear and begin with a DequantizeLinear, whatever is between.
    """
    dtype = graph.get_type(codes)
    if low <= lowest(dtype) and high >= highest(dtype):
        return codes
    bounds = [const(graph, low, dtype), const(graph, high, dtype)]
    return graph.make_node("Clip", [codes, *bounds])


def is_dequantized(graph: Graph, x: Result) -> Bool:
    """True when a float result is made of codes."""
    node = graph.values[x].producer
    return node is not None and node.op_type == "DequantizeLinear"


def rows_of(graph: Graph, x: Result) -> Result:
    """``x`` as a matrix of its last dimension. Where ``x`` is made of codes with one scale, the
    codes are reshaped, so that DequantizeLinear stays next to what reads it."""
    sizes = [-1, dim_of(graph, x, -1)]
    node = graph.values[x].producer
    if not is_dequantized(graph, x) or rank_of(graph, node.inputs[1]) > 0:
        return reshape_to(graph, x, sizes)
    codes = reshape_to(graph, node.inputs[0], sizes)
    return graph.make_node("DequantizeLinear", [codes, *node.inputs[1:]])
