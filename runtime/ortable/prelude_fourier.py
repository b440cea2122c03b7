"""Words for Fourier transforms: ONNX's DFT where ONNX Runtime computes it exactly, and what torch's
three kernels (c2c, r2c, c2r) need around it.

ONNX Runtime's DFT of a length that is no power of two loses digits with the length in float32 (3e-4
at 1000), and its inverse rounds through float32 in float64. So such lengths are computed forward in
float64; the inverse is the forward transform with real and imaginary parts exchanged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ortable import dims, dtypes
from ortable.complex_value import ComplexValue, complex_type, join_pair, part_type, split_pair
from ortable.dims import SymDim
from ortable.prelude import Bool, Int, Ints, Result, SymInt, SymInts, dim_of, rank_of
from ortable.prelude_complex import Complex, as_complex
from ortable.prelude_make import as_scalar, as_vec, cast, const, consts
from ortable.prelude_shape import counting

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder as Graph


def fourier(graph: Graph, x: Complex, axes: Ints, forward: Bool) -> Complex:
    """The unscaled transform along ``axes``, of a complex tensor or of a real one."""
    if type(x) is not ComplexValue and (not axes or not forward):
        x = as_complex(graph, x, complex_type(graph.get_type(x)))
    for axis in axes:
        x = _transformed(graph, x, axis, forward)
    return x


def half_spectrum(graph: Graph, x: Result, axis: Int) -> Complex:
    """The transform of a real tensor along one axis, without the half that mirrors the other."""
    found = fourier(graph, x, [axis], True)
    size = dim_of(graph, x, axis) // 2 + 1
    bounds = [as_vec(graph, 0), as_vec(graph, size), as_vec(graph, axis)]
    parts = [graph.make_node("Slice", [part, *bounds]) for part in (found.real, found.imag)]
    return ComplexValue(parts[0], parts[1], found.dtype)


def whole_spectrum(graph: Graph, x: Complex, axis: Int, size: SymInt) -> Complex:
    """The spectrum of a real tensor of ``size`` from the half of it that torch keeps."""
    places = counting(graph, 0, size, 1)
    half = as_scalar(graph, size // 2)
    mirrored = graph.make_node("Greater", [places, half])
    back = graph.make_node("Sub", [as_scalar(graph, size), places])
    index = graph.make_node("Where", [mirrored, back, places])
    parts = [graph.make_node("Gather", [p, index], axis=axis) for p in (x.real, x.imag)]
    part = graph.get_type(parts[0])
    sign = graph.make_node("Where", [mirrored, const(graph, -1, part), const(graph, 1, part)])
    after = rank_of(graph, x) - 1 - axis
    if after:
        spread = consts(graph, list(range(1, after + 1)), dtypes.int64)
        sign = graph.make_node("Unsqueeze", [sign, spread])
    return ComplexValue(parts[0], graph.make_node("Mul", [parts[1], sign]), x.dtype)


def fourier_scaled(graph: Graph, x: Complex, sizes: SymInts, normalization: Int) -> Complex:
    """``x``, real or complex, as torch's normalization asks: 0 as it is, 1 divided by the root of
    the number of elements that were transformed, 2 by the number."""
    count = dims.prod(list(sizes))
    if normalization == 0 or count == 0:
        return x
    if type(x) is ComplexValue:
        parts = [fourier_scaled(graph, part, sizes, normalization) for part in (x.real, x.imag)]
        return ComplexValue(parts[0], parts[1], x.dtype)
    part = graph.get_type(x)
    if isinstance(count, SymDim):
        below = cast(graph, as_scalar(graph, count), part)
        below = graph.make_node("Sqrt", [below]) if normalization == 1 else below
        return graph.make_node("Div", [x, below])
    factor = 1 / math.sqrt(count) if normalization == 1 else 1 / count
    return graph.make_node("Mul", [x, const(graph, factor, part)])


def _transformed(graph: Graph, x: Any, axis: int, forward: bool) -> Any:
    size = dim_of(graph, x, axis)
    if not forward:
        x = ComplexValue(x.imag, x.real, x.dtype)
    own = complex_type(x.dtype if type(x) is ComplexValue else graph.get_type(x))
    exact = isinstance(size, int) and size & (size - 1) == 0
    signal = _signal(graph, x, own if exact else dtypes.complex128)
    found = as_complex(graph, split_pair(graph, _dft(graph, signal, axis)), own)
    return found if forward else ComplexValue(found.imag, found.real, found.dtype)


def _signal(graph: Graph, x: Any, dtype: int) -> str:
    """What DFT takes: a last dimension of 2, or of 1 for a real signal."""
    if type(x) is ComplexValue:
        return join_pair(graph, as_complex(graph, x, dtype))
    real = cast(graph, x, part_type(dtype))
    return graph.make_node("Unsqueeze", [real, consts(graph, [-1], dtypes.int64)])


def _dft(graph: Graph, x: str, axis: int) -> str:
    """The DFT node along ``axis``; a signal without a batch dimension gets one."""
    lone = rank_of(graph, x) == 2
    if lone:
        x, axis = graph.make_node("Unsqueeze", [x, consts(graph, [0], dtypes.int64)]), axis + 1
    if graph.opset < 20:
        found = graph.make_node("DFT", [x], axis=axis)
    else:
        found = graph.make_node("DFT", [x, "", const(graph, axis, dtypes.int64)])
    return graph.make_node("Squeeze", [found, consts(graph, [0], dtypes.int64)]) if lone else found
