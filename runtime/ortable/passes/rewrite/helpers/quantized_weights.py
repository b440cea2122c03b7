"""Helpers of the rules about quantized weights.

They select the weights that `weights=` quantizes, compute their codes (quantized values) as inputs
of DequantizeLinear, and pack codes into bytes for ONNX Runtime's kernels. Called by rules of
weights and ort_weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.ir import Graph, initializers
from ortable.ir.casts import HALF_DTYPES
from ortable.ir.constants import is_constant
from ortable.passes.analysis.constants import large_constant
from ortable.passes.weight_quantization import (
    QuantizationRun,
    QuantizedWeight,
    SkippedWeight,
    quantize_matrix,
)
from ortable.prelude.facts import Bool, Int, Opaque, Result
from ortable.prelude.values import consts

__all__ = [
    "bits_product",
    "bits_rows",
    "can_quantize_weight",
    "packed_weight_of",
    "quantize_weight",
]

_ROW_GROUP_SIZE = 128  # the group size for kernels if all codes of a row share a scale
_BITS = {dtypes.int4: 4, dtypes.uint4: 4, dtypes.int8: 8, dtypes.uint8: 8}
_SIGN_OFFSET = {dtypes.int4: 8, dtypes.int8: 128}  # added to a signed code to make it unsigned


class PackedWeight(NamedTuple):
    """A weight [N, K] of a DequantizeLinear.

    ``codes``, ``scales`` and ``zeros`` are names; ``outer`` is N and ``inner`` is K; ``group`` is
    the number of codes of a group; ``last`` is whether K is the second axis of the codes.
    """

    codes: str
    scales: str
    zeros: str
    outer: int
    inner: int
    bits: int
    group: int
    last: bool


# -- weights that users request


def can_quantize_weight(
    graph: Graph, w: Result, transposed: Bool, half: Bool = False, table: Bool = False
) -> Bool:
    """Whether ``weights=`` quantizes a weight [K, N], or [N, K] if it is read ``transposed``.

    The weight is a float32 initializer (with ``half``, a half-precision one) with at least one
    group along K. With ``table``, it is an embedding table and has whole groups.
    """
    run = quantization_run_of(graph)
    if run is None or not run.options.chooses(weight_name(w)):
        return False
    if owner_of(graph, w) is None:
        return False
    if graph.get_type(w) not in (HALF_DTYPES if half else (dtypes.float32,)):
        return False
    shape, options = graph.get_shape(w), run.options
    if len(shape) != 2 or not all(isinstance(size, int) for size in shape):
        return False
    inner = shape[1] if transposed else shape[0]
    has_whole_groups = not table or (options.embeddings and inner % options.codes_per_scale == 0)
    return has_whole_groups and inner >= options.codes_per_scale and min(shape) > 0


def quantize_weight(graph: Graph, w: Result, transposed: Bool, axis: Int = 0) -> Result:
    """Return a weight, [K, N] for axis 0, [N, K] for axis 1, as DequantizeLinear of its codes."""
    run, codes = quantization_run_of(graph), weight_codes(graph, w, transposed, axis)
    assert run is not None
    group = run.options.codes_per_scale
    return graph.make_node("DequantizeLinear", list(codes), axis=axis, block_size=group)


def weight_codes(
    graph: Graph, w: Result, transposed: Bool, axis: Int
) -> tuple[Result, Result, Result | None]:
    """Return codes, scales and zero points of a weight, with groups along ``axis``."""
    run, owner = quantization_run_of(graph), owner_of(graph, w)
    assert run is not None and owner is not None
    stored = run.codes.get((w, axis))
    if stored is not None:
        return stored
    bits, group = run.options.bits_of(weight_name(w)), run.options.codes_per_scale
    quantized = run.tensors.get((w, transposed, bits))
    if quantized is None:
        stored_value = owner.initializers_dict[w]
        tensor = initializers.to_torch(stored_value, w)
        matrix = tensor.detach() if transposed else tensor.detach().t()
        try:
            moment = None if run.moment_of is None else run.moment_of(w)
            quantized = run.tensors[w, transposed, bits] = quantize_matrix(
                matrix, run.options, bits, moment
            )
        except UnsupportedCase as error:  # the rule skips the weight, and the report lists it
            shape = (int(matrix.shape[0]), int(matrix.shape[1]))
            run.kept[w] = SkippedWeight(weight_name(w), shape, error.message)
            raise
    sizes = (int(quantized.codes.shape[0]), int(quantized.codes.shape[1]))
    run.rounded[w] = QuantizedWeight(
        weight_name(w), sizes, bits, group, quantized.error, quantized.calibrated
    )
    parts = [quantized.codes, quantized.scales, quantized.zeros]
    name = weight_name(w)
    names: list[Any] = [
        None
        if part is None
        else _add_initializer(owner, f"{name}_{role}", part if axis else part.T)
        for part, role in zip(parts, ("codes", "scales", "zeros"), strict=True)
    ]
    run.codes[w, axis] = names[0], names[1], names[2]
    return run.codes[w, axis]


# -- codes in the layout of kernels


def accuracy_level(graph: Graph) -> Int:
    """Return accuracy_level of MatMulNBits: 4 for int8 activations, if requested, else 1."""
    run = quantization_run_of(graph)
    return 1 if run is None else run.options.accuracy_level


def packed_weight_of(
    graph: Graph,
    codes: Result,
    scales: Result,
    zeros: Result | None,
    axis: Int,
    size: Int,
    last: Bool,
    whole: Bool = False,
) -> Opaque:
    """Return the weight [N, K] of a DequantizeLinear if ONNX Runtime's low-bit kernels support it.

    Returns None otherwise. K is the second axis of the codes if ``last``. A scale belongs to a
    group along K, to a row, or to the whole weight. ``whole`` requires rows of whole groups. Codes
    are constants of 4 bits, or of 8 bits if activations may be rounded.
    """
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
    group_axis = int(last)
    if size:
        if axis % 2 != group_axis or size < 16 or size & (size - 1) or graph.get_rank(scales) != 2:
            return None
        group = size
    else:
        scale_shape = graph.get_shape(scales)
        if len(scale_shape) > 1 or (
            scale_shape and (axis % 2 == group_axis or scale_shape[0] not in (1, outer))
        ):
            return None
        group = _ROW_GROUP_SIZE
    if min(outer, inner) <= 0 or (whole and inner % group):
        return None
    return PackedWeight(codes, scales, zeros or "", outer, inner, bits, group, last)


def bits_product(graph: Graph, x: Result, weight: Opaque, bias: Result | None = None) -> Result:
    """Make the product of ``x`` [..., K] and a packed weight."""
    shape = (weight.outer, _group_count(weight), -1)  # the first code in the low bits
    codes = _store_once(
        graph, weight, "packed", lambda: _packed_codes(graph, weight).reshape(shape)
    )
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
    """Gather rows of a packed weight."""
    packed, rows = _find_stored(graph, weight, "packed"), (weight.outer, -1)
    if packed is None:
        codes = _store_once(
            graph, weight, "rows", lambda: _packed_codes(graph, weight).reshape(rows)
        )
    else:  # a product has stored the codes
        codes = graph.make_node("Reshape", [packed, consts(graph, rows, dtypes.int64)])
    return graph.make_node(
        "GatherBlockQuantized",
        [codes, indices, *_scales_and_zeros(graph, weight)],
        domain="com.microsoft",
        bits=weight.bits,
        block_size=weight.group,
        gather_axis=0,
        quantize_axis=1,
    )


# -- private helpers


def _scales_and_zeros(graph: Any, weight: PackedWeight) -> tuple[str, str | None]:
    """Return scales [N, groups] and packed zero points (None if all are the middle code)."""
    scales = _store_once(
        graph, weight, "scales", lambda: _by_group(weight, _constant_value(graph, weight.scales))
    )
    zeros = _zero_points(graph, weight)
    if zeros is None:
        return scales, None
    if weight.bits == 4:
        zeros = _pack_nibbles(np.pad(zeros, ((0, 0), (0, zeros.shape[1] % 2))))
    return scales, _store_once(graph, weight, "zeros", lambda: zeros)


def quantization_run_of(graph: Any) -> QuantizationRun | None:
    """Return the quantization run of the main graph, or None."""
    while graph.parent is not None:
        graph = graph.parent
    run: QuantizationRun | None = graph.rounding
    return run


def weight_name(w: str) -> str:
    """Return the name of a weight in the state_dict."""
    return w.removesuffix("_transposed")


def owner_of(graph: Any, w: str) -> Any:
    """Return the graph that has ``w`` as a readable initializer, or None."""
    while graph is not None and w not in graph.initializers_dict:
        graph = graph.parent
    if graph is None or not initializers.is_readable(graph.initializers_dict[w]):
        return None
    return graph


def _add_initializer(graph: Any, name: str, array: np.ndarray) -> str:
    stored: str = graph.make_initializer(graph.unique_name(name), np.ascontiguousarray(array))
    return stored


def _constant_value(graph: Any, name: str) -> np.ndarray:
    owner = owner_of(graph, name)
    if owner is not None:
        return initializers.to_numpy(owner.initializers_dict[name], name)
    values = large_constant(graph, name)
    assert values is not None, name
    return values


def _group_count(weight: PackedWeight) -> int:
    return -(-weight.inner // weight.group)


def _packed_codes(graph: Any, weight: PackedWeight) -> np.ndarray:
    """Return unsigned packed codes; the last group is padded with the middle code."""
    codes = _unsigned_codes(graph, weight, weight.codes)
    if not weight.last:
        codes = codes.T
    missing = _group_count(weight) * weight.group - weight.inner
    if missing:
        middle = 1 << (weight.bits - 1)
        codes = np.pad(codes, ((0, 0), (0, missing)), constant_values=middle)
    return _pack_nibbles(codes) if weight.bits == 4 else np.ascontiguousarray(codes)


def _unsigned_codes(graph: Any, weight: PackedWeight, name: str) -> np.ndarray:
    """Return codes, or zero points, shifted to unsigned integers."""
    value = _constant_value(graph, name)
    code_bytes = value.view(np.uint8)
    sign_bit = _SIGN_OFFSET.get(graph.get_type(weight.codes), 0)
    if weight.bits == 4:
        return (code_bytes & 15) ^ np.uint8(sign_bit)  # adds 8 to signed 4-bit codes
    return code_bytes ^ np.uint8(sign_bit)


def _pack_nibbles(codes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(codes[:, 0::2] | (codes[:, 1::2] << 4))


def _zero_points(graph: Any, weight: PackedWeight) -> np.ndarray | None:
    middle = 1 << (weight.bits - 1)
    if not weight.zeros:
        if _SIGN_OFFSET.get(graph.get_type(weight.codes)):
            return None
        return np.zeros((weight.outer, _group_count(weight)), np.uint8)
    zeros = _by_group(weight, _unsigned_codes(graph, weight, weight.zeros))
    return None if bool((zeros == middle).all()) else zeros


def _by_group(weight: PackedWeight, value: np.ndarray) -> np.ndarray:
    """Return scales or zero points as [N, groups]."""
    if value.ndim == 2:
        return np.ascontiguousarray(value if weight.last else value.T)
    column = value.reshape(-1, 1)
    return np.ascontiguousarray(np.broadcast_to(column, (weight.outer, _group_count(weight))))


def _find_stored(graph: Any, weight: PackedWeight, role: str) -> str | None:
    """Return an initializer that was stored earlier for this role and quantized weight, or None."""
    run = quantization_run_of(graph)
    return None if run is None else run.packed.get((_source_name(graph, weight), role))


def _source_name(graph: Any, weight: PackedWeight) -> str:
    """Return the name from which initializer names derive: the quantized weight, or the codes."""
    run = quantization_run_of(graph)
    for (name, _), parts in () if run is None else run.codes.items():
        if parts[0] == weight.codes:
            return weight_name(name)
    return weight.codes


def _store_once(
    graph: Any, weight: PackedWeight, role: str, compute: Callable[[], np.ndarray]
) -> str:
    """Return the initializer for this role; compute and store it once for each quantized weight."""
    stored = _find_stored(graph, weight, role)
    if stored is not None:
        return stored
    source, run = _source_name(graph, weight), quantization_run_of(graph)
    name = _add_initializer(owner_of(graph, weight.codes) or graph, f"{source}_{role}", compute())
    if run is not None:
        run.packed[source, role] = name
    return name
