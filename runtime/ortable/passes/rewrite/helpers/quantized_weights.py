"""Words of the rules about weights as integer codes: which weights `weights=` rounds, their codes
as DequantizeLinear takes them, and codes as ONNX Runtime's kernels take them, packed into bytes.
In come weights and the inputs of a DequantizeLinear of a match; out go facts and initializers.
Called by rules of weights and ort_weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph, initializers
from ortable.ir.casts import HALVES
from ortable.ir.constants import is_constant
from ortable.passes.analysis.constants import whole_constant
from ortable.passes.weight_quantization import (
    QuantizationRun,
    QuantizedWeight,
    SkippedWeight,
    rounded,
)
from ortable.prelude.facts import Bool, Int, Opaque, Result
from ortable.prelude.values import consts

__all__ = [
    "bits_product",
    "bits_rows",
    "packing",
    "rounded_weight",
    "rounds_weight",
]

_GROUP_OF_ROWS = 128  # codes of a group where a whole row shares one scale
_BITS = {dtypes.int4: 4, dtypes.uint4: 4, dtypes.int8: 8, dtypes.uint8: 8}
_MIDDLE = {dtypes.int4: 8, dtypes.int8: 128}  # what makes a code of that type one without a sign


class Packing(NamedTuple):
    """A weight [N, K] of a DequantizeLinear: names of codes, scales and zero points, its sizes,
    the bits of a code, the codes of a group, and whether K is the second axis of the codes."""

    codes: str
    scales: str
    zeros: str
    outer: int
    inner: int
    bits: int
    group: int
    last: bool


# -- weights that are asked for


def rounds_weight(
    graph: Graph, w: Result, transposed: Bool, half: Bool = False, table: Bool = False
) -> Bool:
    """Whether ``weights=`` rounds a weight [K, N], or [N, K] where the product reads it
    ``transposed``: an initializer of float32, or of ``half`` a float, with a group along K,
    or, as a ``table`` of embeddings, with whole groups."""
    rounding = rounding_of(graph)
    if rounding is None or not rounding.options.chooses(called(w)):
        return False
    if owner_of(graph, w) is None:
        return False
    if graph.get_type(w) not in (HALVES if half else (dtypes.float32,)):
        return False
    shape, options = graph.get_shape(w), rounding.options
    if len(shape) != 2 or not all(isinstance(size, int) for size in shape):
        return False
    inner = shape[1] if transposed else shape[0]
    whole = not table or (options.embeddings and inner % options.group_size == 0)
    return whole and inner >= options.group_size and min(shape) > 0


def rounded_weight(graph: Graph, w: Result, transposed: Bool, axis: Int = 0) -> Result:
    """Such a weight as DequantizeLinear of its codes, with groups along ``axis``: [K, N] for 0,
    [N, K] for 1."""
    rounding, codes = rounding_of(graph), weight_codes(graph, w, transposed, axis)
    assert rounding is not None
    group = rounding.options.group_size
    return graph.make_node("DequantizeLinear", list(codes), axis=axis, block_size=group)


def weight_codes(
    graph: Graph, w: Result, transposed: Bool, axis: Int
) -> tuple[Result, Result, Result | None]:
    """Codes, scales and zero points of such a weight, as DequantizeLinear takes them with groups
    along ``axis``."""
    rounding, owner = rounding_of(graph), owner_of(graph, w)
    assert rounding is not None and owner is not None
    known = rounding.codes.get((w, axis))
    if known is not None:
        return known
    found = rounding.made.get((w, transposed))
    if found is None:
        value = owner.initializers_dict[w]
        tensor = initializers.to_torch(value, w)
        matrix = tensor.detach() if transposed else tensor.detach().t()
        try:
            found = rounding.made[w, transposed] = rounded(matrix, rounding.options)
        except UnsupportedCase as error:  # the rule leaves the layer alone, the report names it
            shape = (int(matrix.shape[0]), int(matrix.shape[1]))
            rounding.kept[w] = SkippedWeight(called(w), shape, error.message)
            raise
    sizes = (int(found.codes.shape[0]), int(found.codes.shape[1]))
    bits, group = rounding.options.bits, rounding.options.group_size
    rounding.rounded[w] = QuantizedWeight(called(w), sizes, bits, group, found.error)
    parts = [found.codes, found.scales, found.zeros]
    name = called(w)
    names: list[Any] = [
        None if part is None else _stored(owner, f"{name}_{word}", part if axis else part.T)
        for part, word in zip(parts, ("codes", "scales", "zeros"), strict=True)
    ]
    rounding.codes[w, axis] = names[0], names[1], names[2]
    return rounding.codes[w, axis]


# -- codes as kernels take them


def accuracy_level(graph: Graph) -> Int:
    """The attribute of MatMulNBits: 1 computes with floats, 4 rounds activations to int8, which
    somebody asked for."""
    rounding = rounding_of(graph)
    return 1 if rounding is None else rounding.options.accuracy_level


def packing(
    graph: Graph,
    codes: Result,
    scales: Result,
    zeros: Result | None,
    axis: Int,
    size: Int,
    last: Bool,
    whole: Bool = False,
) -> Opaque:
    """The weight [N, K] of a DequantizeLinear, as kernels for codes of few bits take it; None where
    they do not. Groups go along K, the second axis of the codes if ``last``, or a row, or the
    weight, has one scale; a row is a number of groups where ``whole``. Codes are constants, of 4
    bits, or of 8 where activations may be rounded."""
    shape = graph.get_shape(codes) if graph.has_shape(codes) else ()
    bits = _BITS.get(graph.get_type(codes), 0)
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) != 2 or len(shape) != 2 or not bits:
        return None
    if graph.get_type(scales) != dtypes.float32 or (bits == 8 and accuracy_level(graph) != 4):
        return None
    if not all(is_constant(graph, name) for name in (codes, scales, *([zeros] if zeros else []))):
        return None
    outer, inner = sizes if last else reversed(sizes)
    along = int(last)
    if size:
        if axis % 2 != along or size < 16 or size & (size - 1) or graph.get_rank(scales) != 2:
            return None
        group = size
    else:
        rows = graph.get_shape(scales)
        if len(rows) > 1 or (rows and (axis % 2 == along or rows[0] not in (1, outer))):
            return None
        group = _GROUP_OF_ROWS
    if min(outer, inner) <= 0 or (whole and inner % group):
        return None
    return Packing(codes, scales, zeros or "", outer, inner, bits, group, last)


def bits_product(graph: Graph, x: Result, weight: Opaque, bias: Result | None = None) -> Result:
    """The product of ``x`` [..., K] and such a weight."""
    shape = (weight.outer, _groups(weight), -1)  # the first code in the low bits
    codes = _once(graph, weight, "packed", lambda: _packed(graph, weight).reshape(shape))
    return graph.make_node(
        "MatMulNBits",
        [x, codes, *_scales_and_zeros(graph, weight), None, bias],
        domain="com.microsoft",
        K=weight.inner,
        N=weight.outer,
        bits=weight.bits,
        block_size=weight.group,
        accuracy_level=accuracy_level(graph),
    )


def bits_rows(graph: Graph, weight: Opaque, indices: Result) -> Result:
    """Rows of such a weight."""
    kept, rows = _kept(graph, weight, "packed"), (weight.outer, -1)
    if kept is None:
        codes = _once(graph, weight, "rows", lambda: _packed(graph, weight).reshape(rows))
    else:  # those of a product
        codes = graph.make_node("Reshape", [kept, consts(graph, rows, dtypes.int64)])
    return graph.make_node(
        "GatherBlockQuantized",
        [codes, indices, *_scales_and_zeros(graph, weight)],
        domain="com.microsoft",
        bits=weight.bits,
        block_size=weight.group,
        gather_axis=0,
        quantize_axis=1,
    )


# -- inside


def _scales_and_zeros(graph: Any, weight: Packing) -> tuple[str, str | None]:
    """Scales [N, groups], and zero points, uint8 [N, bytes of a row of groups]: None where all are
    the middle code, which kernels take without them."""
    scales = _once(graph, weight, "scales", lambda: _spread(weight, _value(graph, weight.scales)))
    zeros = _zeros(graph, weight)
    if zeros is None:
        return scales, None
    if weight.bits == 4:
        zeros = _two_in_a_byte(np.pad(zeros, ((0, 0), (0, zeros.shape[1] % 2))))
    return scales, _once(graph, weight, "zeros", lambda: zeros)


def rounding_of(graph: Any) -> QuantizationRun | None:
    while graph.parent is not None:
        graph = graph.parent
    found: QuantizationRun | None = graph.rounding
    return found


def called(w: str) -> str:
    """The name of a weight in the state_dict."""
    return w.removesuffix("_transposed")


def owner_of(graph: Any, w: str) -> Any:
    """The graph whose initializer that is, if its value can be read."""
    while graph is not None and w not in graph.initializers_dict:
        graph = graph.parent
    if graph is None or not initializers.is_readable(graph.initializers_dict[w]):
        return None
    return graph


def _stored(graph: Any, name: str, array: np.ndarray) -> str:
    made: str = graph.make_initializer(graph.unique_name(name), np.ascontiguousarray(array))
    return made


def _value(graph: Any, name: str) -> np.ndarray:
    owner = owner_of(graph, name)
    if owner is not None:
        return initializers.to_numpy(owner.initializers_dict[name], name)
    found = whole_constant(graph, name)
    assert found is not None, name
    return found


def _groups(weight: Packing) -> int:
    return -(-weight.inner // weight.group)


def _packed(graph: Any, weight: Packing) -> np.ndarray:
    """Codes without a sign, [N, groups * group] or half as many bytes; what fills the last group
    is the middle code."""
    plain = _unsigned(graph, weight, weight.codes)
    if not weight.last:
        plain = plain.T
    missing = _groups(weight) * weight.group - weight.inner
    if missing:
        middle = 1 << (weight.bits - 1)
        plain = np.pad(plain, ((0, 0), (0, missing)), constant_values=middle)
    return _two_in_a_byte(plain) if weight.bits == 4 else np.ascontiguousarray(plain)


def _unsigned(graph: Any, weight: Packing, name: str) -> np.ndarray:
    """Codes, or zero points, of the same values without a sign."""
    value = _value(graph, name)
    plain = value.view(np.uint8)
    shift = _MIDDLE.get(graph.get_type(weight.codes), 0)
    if weight.bits == 4:
        return (plain & 15) ^ np.uint8(shift)  # adds 8 to a code of 4 bits with a sign
    return plain ^ np.uint8(shift)


def _two_in_a_byte(codes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(codes[:, 0::2] | (codes[:, 1::2] << 4))


def _zeros(graph: Any, weight: Packing) -> np.ndarray | None:
    middle = 1 << (weight.bits - 1)
    if not weight.zeros:
        if _MIDDLE.get(graph.get_type(weight.codes)):
            return None
        return np.zeros((weight.outer, _groups(weight)), np.uint8)
    plain = _spread(weight, _unsigned(graph, weight, weight.zeros))
    return None if bool((plain == middle).all()) else plain


def _spread(weight: Packing, value: np.ndarray) -> np.ndarray:
    """Scales or zero points as [N, groups]."""
    if value.ndim == 2:
        return np.ascontiguousarray(value if weight.last else value.T)
    column = value.reshape(-1, 1)
    return np.ascontiguousarray(np.broadcast_to(column, (weight.outer, _groups(weight))))


def _kept(graph: Any, weight: Packing, word: str) -> str | None:
    """An initializer that was made before of a weight that `weights=` rounds."""
    rounding = rounding_of(graph)
    return None if rounding is None else rounding.packed.get((_source(graph, weight), word))


def _source(graph: Any, weight: Packing) -> str:
    """What such initializers are called after: the weight that was rounded, or the codes."""
    rounding = rounding_of(graph)
    for (name, _), parts in () if rounding is None else rounding.codes.items():
        if parts[0] == weight.codes:
            return called(name)
    return weight.codes


def _once(graph: Any, weight: Packing, word: str, made: Callable[[], np.ndarray]) -> str:
    """An initializer that is stored once for each weight that `weights=` rounds."""
    kept = _kept(graph, weight, word)
    if kept is not None:
        return kept
    source, rounding = _source(graph, weight), rounding_of(graph)
    name = _stored(owner_of(graph, weight.codes) or graph, f"{source}_{word}", made())
    if rounding is not None:
        rounding.packed[source, word] = name
    return name
