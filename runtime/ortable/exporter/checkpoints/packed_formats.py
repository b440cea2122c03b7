"""Read the tensors of a layer in the formats GPTQ, AWQ, compressed-tensors and torchao.

The first three pack codes into int32, the first in the low bits. They differ in the axis of
packing, in the order of columns and in what is stored of zero points. torchao has tensors of its
own classes, with a byte for each code. Called by `loader`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from ortable.errors import UnsupportedCase

from .operators import unpack_codes
from .weight_codes import WeightCodes, make_weight_codes

# The eight codes of an int of AWQ are those of these columns.
_AWQ_COLUMNS = (0, 4, 1, 5, 2, 6, 3, 7)
Tensors = Mapping[str, torch.Tensor]


def unpack_ints(packed: torch.Tensor, bits: int, count: int) -> torch.Tensor:
    """Return uint8 [R, count] of int32 [R, C], whose rows are streams of ``bits`` bits each."""
    stream = packed.contiguous().view(torch.uint8)
    if bits in (4, 8):
        return unpack_codes(stream, bits)[:, :count]
    all_bits = np.unpackbits(stream.numpy(), axis=1, count=count * bits, bitorder="little")
    codes = np.packbits(all_bits.reshape(len(stream), count, bits), axis=2, bitorder="little")
    return torch.from_numpy(codes[:, :, 0])


def read_gptq(tensors: Tensors, shape: tuple[int, int], settings: Mapping[str, Any]) -> WeightCodes:
    """Read GPTQ: ``qweight`` [K * bits / 32, N], ``qzeros`` [groups, N * bits / 32].

    Args:
        tensors: the tensors of the layer by role.
        shape: N and K.
        settings: ``quantization_config`` of config.json.

    Raises:
        UnsupportedCase: the layout is another one, or its groups have different sizes.
    """
    layout = settings.get("checkpoint_format") or settings.get("format") or "gptq"
    if layout not in ("gptq", "gptq_v2"):
        raise UnsupportedCase(f"GPTQ in the layout {layout!r}; save it as 'gptq'")
    outer, inner = shape
    bits = tensors["qweight"].shape[0] * 32 // inner
    if bits not in (2, 3, 4, 8):
        raise UnsupportedCase(f"GPTQ with {bits} bits")
    codes = unpack_ints(tensors["qweight"].t(), bits, inner)
    zeros = unpack_ints(tensors["qzeros"], bits, outer).t()
    if layout == "gptq":  # stores zero points minus 1
        zeros = (zeros + 1) & ((1 << bits) - 1)
    scales = tensors["scales"].t()
    order = _column_order(tensors.get("g_idx"), scales.shape[1], inner)
    if order is not None:
        codes = codes[:, order]
    return make_weight_codes(codes, scales, bits, zeros, order=order)


def read_awq(tensors: Tensors, shape: tuple[int, int], settings: Mapping[str, Any]) -> WeightCodes:
    """Read AWQ: ``qweight`` [K, N / 8] and ``qzeros`` [groups, N / 8], as AutoAWQ's GEMM has them.

    Args:
        tensors: the tensors of the layer by role.
        shape: N and K.
        settings: ``quantization_config`` of config.json.

    Raises:
        UnsupportedCase: the layout or the number of bits is another one.
    """
    names = (settings.get(name) for name in ("version", "checkpoint_format", "format"))
    layout = next((str(name).lower() for name in names if name), "gemm")
    if layout != "gemm" or settings.get("backend") == "llm-awq":
        raise UnsupportedCase(f"AWQ in the layout {layout!r}; save it as 'gemm'")
    outer = shape[0]
    bits = tensors["qweight"].shape[1] * 32 // outer
    if bits != 4:
        raise UnsupportedCase(f"AWQ with {bits} bits")
    columns = torch.arange(outer).reshape(-1, 8)[:, list(_AWQ_COLUMNS)].flatten()
    codes, zeros = (
        unpack_ints(tensors[name], bits, outer)[:, columns].t() for name in ("qweight", "qzeros")
    )
    return make_weight_codes(codes, tensors["scales"].t(), bits, zeros)


def read_compressed(
    tensors: Tensors, shape: tuple[int, int], settings: Mapping[str, Any]
) -> WeightCodes:
    """Read compressed-tensors, ``weight_packed`` [N, K * bits / 32] or ``weight`` int8 [N, K].

    Args:
        tensors: the tensors of the layer by role.
        shape: N and K.
        settings: ``quantization_config`` of config.json.

    Raises:
        UnsupportedCase: activations are quantized, too, or groups have different sizes.
    """
    for group in (settings.get("config_groups") or {}).values():
        if isinstance(group, Mapping) and group.get("input_activations"):
            raise UnsupportedCase("activations that are quantized, too (input_activations)")
    if settings.get("kv_cache_scheme"):
        raise UnsupportedCase("a cache that is quantized, too (kv_cache_scheme)")
    packed = tensors.get("weight_packed", tensors.get("weight"))
    if packed is None or packed.dtype not in (torch.int32, torch.int8):
        raise UnsupportedCase(f"weights that are no integers (format {settings.get('format')!r})")
    outer, inner = shape
    scales = tensors["weight_scale"]
    scales = scales.reshape(outer if scales.numel() >= outer else 1, -1).expand(outer, -1)
    zeros = tensors.get("weight_zero_point")
    if "weight_packed" in tensors:
        bits = packed.shape[1] * 32 // inner
        codes = unpack_ints(packed, bits, inner)
        if zeros is not None and zeros.dtype == torch.int32:
            zeros = unpack_ints(zeros.t(), bits, outer).t()
        elif zeros is not None:
            zeros = _shift_codes(zeros, 1 << (bits - 1))
    else:
        bits = 8
        codes = _shift_codes(packed, 128)
        zeros = None if zeros is None else _shift_codes(zeros, 128)
    if zeros is not None:
        zeros = zeros.reshape(-1, scales.shape[1]).expand(outer, -1)
    order = _column_order(tensors.get("weight_g_idx"), scales.shape[1], inner)
    if order is not None:
        codes = codes[:, order]
    return make_weight_codes(codes, scales, bits, zeros, order=order)


def read_torchao(weight: Any) -> WeightCodes:
    """Read a tensor of torchao that has a signed byte for each code.

    Args:
        weight: an `IntxUnpackedToInt8Tensor` or `Int8Tensor` [N, K].

    Raises:
        UnsupportedCase: the class is another one, or activations are quantized, too.
    """
    name = type(weight).__name__
    if name not in ("IntxUnpackedToInt8Tensor", "Int8Tensor"):
        raise UnsupportedCase(f"a torchao {name}")
    for attribute in ("activation_quantization", "act_quant_kwargs", "act_pre_scale"):
        if getattr(weight, attribute, None) is not None:
            raise UnsupportedCase(f"activations that are quantized, too ({attribute})")
    dtype = getattr(weight, "target_dtype", torch.int8)  # of 1 to 8 bits
    bits = int(str(dtype).removeprefix("torch.int"))
    groups = weight.qdata.shape[1] // weight.block_size[1]
    parts = {
        role: part.expand(len(weight.qdata), groups)
        for role, part in (("scales", weight.scale), ("zeros", weight.zero_point))
        if part is not None
    }
    middle, zeros = 1 << (bits - 1), parts.pop("zeros", None)
    if zeros is not None:
        zeros = _shift_codes(zeros, middle)
    return make_weight_codes(_shift_codes(weight.qdata, middle), parts["scales"], bits, zeros)


def _shift_codes(codes: torch.Tensor, middle: int) -> torch.Tensor:
    """Return signed codes plus the middle code as uint8."""
    if codes.is_floating_point() and not torch.equal(codes, codes.round()):
        raise UnsupportedCase("zero points that are no integers")
    return (codes.to(torch.int16) + middle).to(torch.uint8)


def _column_order(index: torch.Tensor | None, groups: int, inner: int) -> torch.Tensor | None:
    """Return the columns sorted by their groups ``index`` [K]; None if they are already.

    Raises UnsupportedCase if groups have different sizes.
    """
    if inner % groups:
        raise UnsupportedCase(f"{groups} groups of {inner} columns, which are not of one size")
    in_order = torch.arange(inner) // (inner // groups)
    if index is None or bool((index < 0).all()) or torch.equal(index.long(), in_order):
        return None
    order = index.argsort(stable=True)
    if not torch.equal(index[order].long(), in_order):
        raise UnsupportedCase("groups of columns that have different sizes (g_idx)")
    return order


Reader = Callable[[Tensors, tuple[int, int], Mapping[str, Any]], WeightCodes]
# By quant_method of config.json: the reader and the roles of which a quantized layer has one.
READERS: Mapping[str, tuple[Reader, tuple[str, ...]]] = {
    "gptq": (read_gptq, ("qweight",)),
    "awq": (read_awq, ("qweight",)),
    "compressed-tensors": (read_compressed, ("weight_packed", "weight_scale")),
}
