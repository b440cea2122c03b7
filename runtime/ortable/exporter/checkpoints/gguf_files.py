"""Read the tensors of GGUF files, the format of llama.cpp, with the package ``gguf``.

A type such as Q4_K stores codes in blocks, whose scales may have codes of their own: these become
float32. Called by `loader`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ortable.errors import InputError, VersionError

from .weight_codes import WeightCodes, make_weight_codes

# Architectures whose tensors differ from those of transformers by names, by the order of rows for
# rotary embeddings (True in the first place), and by norms that are stored as weight + 1 (in the
# second).
_ARCHITECTURES: Mapping[str, tuple[bool, bool]] = {
    "llama": (True, False),
    "qwen2": (False, False),
    "qwen3": (False, False),
    "phi3": (False, False),
    "gemma2": (False, True),
    "gemma3": (False, True),
}
Array = np.ndarray
# Codes, scales, bits, zero point and shifts of blocks; the arrays are [blocks, ...].
_Blocks = tuple[Array, Array, int, int, Array | None]


def import_gguf() -> Any:
    """Import the package ``gguf``.

    Raises:
        VersionError: it is not installed.
    """
    try:
        import gguf
    except ImportError as error:
        raise VersionError("GGUF files need the package gguf: pip install gguf") from error
    return gguf


class GgufTensors:
    """The tensors of a GGUF file, by their names in a model of transformers.

    Args:
        path: the file.
        config: the configuration of the model, which transformers reads from the file.
        names: the parameters of the model.

    Raises:
        InputError: the architecture is not supported, or a tensor has no parameter.
        VersionError: the package ``gguf`` is not installed.
    """

    def __init__(self, path: Path, config: Any, names: list[str]) -> None:
        self._gguf, self._config = import_gguf(), config
        reader = self._gguf.GGUFReader(path)
        architecture = _read_text(reader, "general.architecture")
        if architecture not in _ARCHITECTURES:
            raise InputError(
                f"{path} has the architecture {architecture!r}; GGUF files are read for "
                f"{', '.join(_ARCHITECTURES)}"
            )
        scaling = _read_text(reader, f"{architecture}.rope.scaling.type")
        if scaling not in ("", "none") and _rope_type(config) == "default":
            raise InputError(
                f"{path} scales rotary embeddings ({scaling}), which transformers does not read"
            )
        self._is_permuted, self._has_offset_norms = _ARCHITECTURES[architecture]
        self._tensors = {tensor.name: tensor for tensor in reader.tensors}
        self._sources = self._find_sources(architecture, names)
        ignored = sorted(self._tensors.keys() - self._sources.values() - {"rope_freqs.weight"})
        if ignored:
            raise InputError(f"{path} has tensors without a parameter in the model: {ignored}")

    def _find_sources(self, architecture: str, names: list[str]) -> dict[str, str]:
        """Return the name in the file by the name of the parameter."""
        architectures = self._gguf.MODEL_ARCH_NAMES.items()
        key = next(key for key, name in architectures if name == architecture)
        name_map = self._gguf.get_tensor_name_map(key, self._config.num_hidden_layers)
        sources: dict[str, str] = {}
        for name in names:
            module, _, role = name.rpartition(".")
            source = f"{name_map.get_name(module)}.{role}"
            if source in self._tensors:
                sources[name] = source
        return sources

    def rotary_factors(self) -> torch.Tensor | None:
        """Return the divisors of the rotary frequencies, which Llama 3.1 has, or None."""
        tensor = self._tensors.get("rope_freqs.weight")
        return None if tensor is None else torch.from_numpy(np.array(tensor.data))

    def read_tensors(self) -> Iterator[tuple[str, torch.Tensor | WeightCodes]]:
        """Yield each parameter with its value: codes, or float32 where a type is no codes."""
        for name, source in self._sources.items():
            tensor = self._tensors[source]
            value: Any = read_blocks(tensor.data, tensor.tensor_type.name)
            if value is None:
                floats = self._gguf.dequantize(tensor.data, tensor.tensor_type)
                value = torch.from_numpy(np.array(floats, np.float32))
            if self._is_permuted and (".attn_q." in source or ".attn_k." in source):
                value = _with_rows(value, self._row_order(source))
            if self._has_offset_norms and source.endswith("norm.weight"):
                value = value - 1
            yield name, value

    def _row_order(self, source: str) -> torch.Tensor:
        """Return the rows of queries or keys with the two halves of a head after one another."""
        is_query = ".attn_q." in source
        config = self._config
        heads = config.num_attention_heads if is_query else config.num_key_value_heads
        rows = int(self._tensors[source].shape[-1])
        return torch.arange(rows).reshape(heads, -1, 2).transpose(1, 2).flatten()


def _read_text(reader: Any, name: str) -> str:
    """Return the text of a field, "" if the file has no such field."""
    field = reader.fields.get(name)
    return "" if field is None else bytes(field.parts[field.data[0]]).decode()


def _rope_type(config: Any) -> str:
    parameters = getattr(config, "rope_parameters", None) or {}
    return str(parameters.get("rope_type", "default"))


def _with_rows(value: torch.Tensor | WeightCodes, rows: torch.Tensor) -> torch.Tensor | WeightCodes:
    if isinstance(value, torch.Tensor):
        return value[rows]
    return value.map_parts(lambda part: part[rows])


def read_blocks(data: Array, type_name: str) -> WeightCodes | None:
    """Return the codes of a tensor, or None if its type has none that kernels read.

    Args:
        data: uint8 [N, bytes of a row].
        type_name: the name of the type, such as Q4_K.
    """
    if type_name not in _BLOCK_READERS or data.ndim != 2:
        return None
    size, read = _BLOCK_READERS[type_name]
    rows = len(data)
    codes, scales, bits, zero, shifts = read(np.ascontiguousarray(data).reshape(-1, size))

    def by_row(array: Array) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array.reshape(rows, -1)))

    zeros = torch.full(by_row(scales).shape, zero, dtype=torch.uint8)
    return make_weight_codes(
        by_row(codes),
        by_row(scales),
        bits,
        zeros,
        shifts=None if shifts is None else by_row(shifts),
    )


# -- blocks, as gguf.quants and ggml-quants.c have them


def _read_half(blocks: Array, start: int) -> Array:
    """Return a float16 of each block as float32 [blocks, 1]."""
    return np.ascontiguousarray(blocks[:, start : start + 2]).view(np.float16).astype(np.float32)


def _bit_fields(data: Array, bits: int, width: int, count: int = 0) -> Array:
    """Return fields of ``bits`` of each byte: all lowest ones of ``width`` bytes come first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[: count or None, None]
    fields = (data.reshape(len(data), -1, 1, width) >> shifts) & np.uint8((1 << bits) - 1)
    return fields.reshape(len(data), -1)


def _read_q4_0(b: Array) -> _Blocks:
    return _bit_fields(b[:, 2:], 4, 16), _read_half(b, 0), 4, 8, None


def _read_q4_1(b: Array) -> _Blocks:
    return _bit_fields(b[:, 4:], 4, 16), _read_half(b, 0), 4, 0, _read_half(b, 2)


def _read_q5_0(b: Array) -> _Blocks:
    return _five_bits(b[:, 2:6], b[:, 6:]), _read_half(b, 0), 5, 16, None


def _read_q5_1(b: Array) -> _Blocks:
    return _five_bits(b[:, 4:8], b[:, 8:]), _read_half(b, 0), 5, 0, _read_half(b, 2)


def _five_bits(high: Array, low: Array) -> Array:
    high_bits = np.unpackbits(high, axis=1, bitorder="little")
    return _bit_fields(low, 4, 16) | (high_bits << 4)


def _read_q8_0(b: Array) -> _Blocks:
    return b[:, 2:] ^ np.uint8(128), _read_half(b, 0), 8, 128, None


def _read_q2_k(b: Array) -> _Blocks:
    scales = (_read_half(b, 80) * (b[:, :16] & 15)).astype(np.float32)
    shifts = -(_read_half(b, 82) * (b[:, :16] >> 4)).astype(np.float32)
    return _bit_fields(b[:, 16:80], 2, 32), scales, 2, 0, shifts


def _read_q3_k(b: Array) -> _Blocks:
    low, high = _bit_fields(b[:, 96:104], 4, 8), _bit_fields(b[:, 104:108], 2, 4)
    scales = _read_half(b, 108) * ((low | (high << 4)).astype(np.int8) - 32).astype(np.float32)
    codes = _bit_fields(b[:, 32:96], 2, 32) | (_bit_fields(b[:, :32], 1, 32) << 2)
    return codes, scales, 3, 4, None


def _scales_and_shifts(b: Array) -> tuple[Array, Array]:
    """Return the scales and the negative minima of Q4_K and Q5_K, 6 bits each in 12 bytes."""
    first, second, rest = b[:, 4:8], b[:, 8:12], b[:, 12:16]
    scales = np.concatenate([first & 63, (rest & 15) | ((first >> 6) << 4)], axis=1)
    minima = np.concatenate([second & 63, (rest >> 4) | ((second >> 6) << 4)], axis=1)
    return _read_half(b, 0) * scales.astype(np.float32), -(
        _read_half(b, 2) * minima.astype(np.float32)
    )


def _read_q4_k(b: Array) -> _Blocks:
    scales, shifts = _scales_and_shifts(b)
    return _bit_fields(b[:, 16:], 4, 32), scales, 4, 0, shifts


def _read_q5_k(b: Array) -> _Blocks:
    scales, shifts = _scales_and_shifts(b)
    codes = _bit_fields(b[:, 48:], 4, 32) | (_bit_fields(b[:, 16:48], 1, 32) << 4)
    return codes, scales, 5, 0, shifts


def _read_q6_k(b: Array) -> _Blocks:
    scales = _read_half(b, 208) * b[:, 192:208].view(np.int8).astype(np.float32)
    codes = _bit_fields(b[:, :128], 4, 64) | (_bit_fields(b[:, 128:192], 2, 32) << 4)
    return codes, scales, 6, 32, None


# By type: the bytes of a block and the function that reads blocks.
_BLOCK_READERS: Mapping[str, tuple[int, Callable[[Array], _Blocks]]] = {
    "Q4_0": (18, _read_q4_0),
    "Q4_1": (20, _read_q4_1),
    "Q5_0": (22, _read_q5_0),
    "Q5_1": (24, _read_q5_1),
    "Q8_0": (34, _read_q8_0),
    "Q2_K": (84, _read_q2_k),
    "Q3_K": (110, _read_q3_k),
    "Q4_K": (144, _read_q4_k),
    "Q5_K": (176, _read_q5_k),
    "Q6_K": (210, _read_q6_k),
}
