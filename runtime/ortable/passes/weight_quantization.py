"""Quantize weights to codes (integers of 4 or 8 bits) with a scale for each group.

Defines the options, the quantization of a matrix, and the record of quantized weights. Called by
rewrite helpers about quantized weights, by `quantize_weights` and by the entry points.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
import torch

from ortable.errors import OptionError, UnsupportedCase

BITS = {"int4": 4, "int8": 8, "float16": 16}
Kind: TypeAlias = Literal["int4", "int8", "float16"]
Stored: TypeAlias = Literal["keep", "float32"]  # the storage of half-precision weights
_STORAGE_MODES: tuple[Stored, ...] = ("keep", "float32")
_REST = "+float16"
KINDS = ("int4", "int8", "float16", "int4+float16", "int8+float16")  # names of options
_NOT_FINITE = "a weight with NaN, infinities or numbers near them cannot be quantized"
_CHUNK_ELEMENTS = 1 << 18  # elements quantized at a time, so that they fit into CPU caches


@dataclass(frozen=True)
class WeightOptions:
    """How ``weights=`` stores the weights of linear layers and embeddings.

    A weight ``[N, K]`` of a linear layer, or of N embeddings, is stored as integer codes in groups
    of ``group_size`` along K, each with a scale: ``weight = (code - zero point) * scale``. The last
    group of a row may be shorter.

    With ``kind="float16"``, or ``rest="float16"`` beside codes, the model computes in float16 where
    that is safe. Exports only.

    Args:
        kind: ``"int4"``, codes of 4 bits, ``"int8"``, codes of 8 bits, or ``"float16"``.
        group_size: how many codes share a scale: 16, 32, 64, 128 or 256. Small groups are more
            accurate, but need more bytes for their scales (4 bytes each).
        symmetric: whether the middle code represents zero. With False, each group has a zero point,
            for weights whose values are mostly positive or mostly negative.
        activations: ``"int8"`` also rounds activations to 8 bits, in groups of the same size, which
            makes matrix products fast; ``"float32"`` does not, and needs ``kind="int4"``.
        embeddings: whether to quantize embedding tables too, not only linear layers.
        include: names of weights, as in the state_dict, or patterns such as ``"*.mlp.*"``; only
            these weights are quantized.
        exclude: names or patterns of weights that are not quantized even if `include` selects them.
            With ``kind="float16"``, layers of these weights compute in float32.
        rest: ``"float16"`` makes a float16 model, whose scales, other weights and activations are
            float16; the default of ``kind="float16"``.
        keep_io: with float16, whether inputs and outputs of the model stay float32.
        keep_float32: with float16, operators (``"Softmax"``), and names or patterns of nodes and
            results, that compute in float32, beside those that do by themselves.

    Raises:
        OptionError: a value is not allowed.
    """

    kind: Kind = "int4"
    group_size: int = 32
    symmetric: bool = True
    activations: Literal["int8", "float32"] = "int8"
    embeddings: bool = True
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    rest: Literal["float32", "float16"] | None = None
    keep_io: bool = True
    keep_float32: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("include", "exclude", "keep_float32"):
            value = getattr(self, name)
            patterns = (value,) if isinstance(value, str) else value
            if not isinstance(patterns, Sequence) or not all(isinstance(p, str) for p in patterns):
                raise OptionError(f"weights: {name} is a list of names, not {value!r}")
            object.__setattr__(self, name, tuple(patterns))
        if self.kind not in BITS:
            raise OptionError(f"weights: kind is 'int4', 'int8' or 'float16', not {self.kind!r}")
        if self.group_size not in (16, 32, 64, 128, 256) or isinstance(self.group_size, bool):
            raise OptionError(
                f"weights: group_size is 16, 32, 64, 128 or 256, not {self.group_size!r}"
            )
        for name in ("symmetric", "embeddings", "keep_io"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"weights: {name} is True or False, not {getattr(self, name)!r}")
        if self.activations not in ("int8", "float32"):
            raise OptionError(
                f"weights: activations is 'int8' or 'float32', not {self.activations!r}"
            )
        if self.kind == "int8" and self.activations == "float32":
            raise OptionError(
                "weights: kind 'int8' needs activations 'int8': for float activations, ONNX "
                "Runtime would convert the whole weight to floats at every call. To keep float "
                "activations, use kind 'int4', or no weights=."
            )
        self._check_float16()

    def _check_float16(self) -> None:
        """Refuse options that do not go with the precision of the model."""
        if self.rest not in (None, "float32", "float16"):
            raise OptionError(f"weights: rest is 'float32' or 'float16', not {self.rest!r}")
        if self.kind == "float16" and self.rest == "float32":
            raise OptionError("weights: kind 'float16' needs rest 'float16'")
        names: tuple[str, ...] = ()
        if self.kind == "float16":
            names = ("group_size", "symmetric", "activations", "embeddings")
        elif not self.is_half:
            names = ("keep_io", "keep_float32")
        defaults = {option.name: option.default for option in fields(self)}
        for name in names:
            if getattr(self, name) != defaults[name]:
                needed = "rest 'float16'" if name.startswith("keep") else "kind 'int4' or 'int8'"
                raise OptionError(f"weights: {name} needs {needed}")

    @property
    def is_half(self) -> bool:
        """Whether the model computes in float16."""
        return "float16" in (self.kind, self.rest)

    @property
    def has_float16_rest(self) -> bool:
        """Whether the model computes in float16 around weights of codes."""
        return self.is_half and self.has_codes

    @property
    def has_codes(self) -> bool:
        """Whether weights become integer codes."""
        return self.kind != "float16"

    @property
    def bits(self) -> int:
        """The number of bits of a code."""
        return BITS[self.kind]

    @property
    def accuracy_level(self) -> int:
        """The attribute of ONNX Runtime's MatMulNBits: 4 rounds activations to int8, 1 does not."""
        return 4 if self.activations == "int8" else 1

    def chooses(self, name: str) -> bool:
        """Whether the name patterns select a weight for quantization.

        Args:
            name: the name of the weight in the state_dict.
        """

        def matches_any(patterns: Sequence[str]) -> bool:
            return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

        return matches_any(self.include) and not matches_any(self.exclude)

    def without(self, names: Sequence[str]) -> WeightOptions:
        """Return a copy of the options that excludes more weights.

        Args:
            names: exact names; pattern characters in them are escaped.
        """
        return replace(self, exclude=(*self.exclude, *map(_escape_pattern, names)))


def _escape_pattern(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def parse_weights(weights: Any) -> WeightOptions | Stored | None:
    """Parse the argument ``weights=``.

    Args:
        weights: None, ``"keep"``, ``"float32"``, ``"float16"``, ``"int4"``, ``"int8"``, the last
            two with ``"+float16"`` for the rest of the model, a dict of the fields of
            `WeightOptions`, or a `WeightOptions`.

    Raises:
        OptionError: the argument is none of these.
    """
    if weights is None or isinstance(weights, WeightOptions):
        return weights
    if isinstance(weights, str) and weights in _STORAGE_MODES:
        return weights  # type: ignore[return-value]
    if isinstance(weights, str) and weights in KINDS:
        kind: Any = weights.removesuffix(_REST)
        return WeightOptions(kind, rest=None if weights == kind else "float16")
    if isinstance(weights, Mapping):
        field_names = [option.name for option in fields(WeightOptions)]
        unknown = [name for name in weights if name not in field_names]
        if unknown:
            raise OptionError(
                f"weights: unknown field {unknown[0]!r}; known are {', '.join(field_names)}"
            )
        return WeightOptions(**weights)
    raise OptionError(
        f"weights is None, 'keep', 'float32', {', '.join(map(repr, KINDS))}, a dict such as "
        "{'kind': 'int4', 'group_size': 64}, or "
        f"ortable.WeightOptions(...), not {weights!r}"
    )


@dataclass(frozen=True)
class QuantizedWeight:
    """A weight that was quantized.

    Attributes:
        name: the initializer name, as in the state_dict.
        shape: [N, K].
        bits, group_size: the format of the codes; 16 and 0 for float16.
        error: RMS of (dequantized - weight), divided by the RMS of the weight.
    """

    name: str
    shape: tuple[int, ...]
    bits: int
    group_size: int
    error: float


@dataclass(frozen=True)
class SkippedWeight:
    """A selected weight that was not quantized.

    Attributes:
        name, shape: as in `QuantizedWeight`.
        why: the reason.
    """

    name: str
    shape: tuple[int, ...]
    why: str


@dataclass
class QuantizationRun:
    """The state of one run of the weight rules over a graph.

    ``rounded`` maps the initializer name of each quantized weight to the record of the weight;
    ``kept`` does so for each selected weight that was not quantized. ``codes`` maps the name of a
    weight and the axis of the groups to the results that hold codes, scales and zero points.
    ``tensors`` maps a name, and whether the weight was transposed, to the quantized matrix.
    ``packed`` maps a state_dict name and a role to the initializer that kernels read.
    ``float32_nodes`` counts the nodes that stay in float32 in a float16 model, by operator and
    reason.
    """

    options: WeightOptions
    rounded: dict[str, QuantizedWeight] = field(default_factory=dict)
    kept: dict[str, SkippedWeight] = field(default_factory=dict)
    codes: dict[tuple[str, int], tuple[str, str, str | None]] = field(default_factory=dict)
    tensors: dict[tuple[str, bool], QuantizedTensor] = field(default_factory=dict)
    packed: dict[tuple[str, str], str] = field(default_factory=dict)
    float32_nodes: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class QuantizedTensor:
    """A quantized matrix [N, K].

    ``codes`` [N, K] are int4, uint4, int8 or uint8; ``scales`` [N, groups] are float32; ``zeros``
    [N, groups] have the type of the codes, and are None if all are 0; ``error`` is the error of the
    `QuantizedWeight`.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    error: float


def quantize_matrix(weight: torch.Tensor, options: WeightOptions) -> QuantizedTensor:
    """Quantize a float32 weight [N, K] in groups along K, rounding to the nearest code.

    Symmetric codes are int4 (-8 to 7) or int8 (-128 to 127). The number of a group with the largest
    magnitude becomes the most negative code, so the scale may be negative. Asymmetric codes are
    uint4 or uint8 with a zero point, and represent 0 exactly.

    Raises:
        UnsupportedCase: the weight has NaN, infinities, or numbers whose squares overflow float32.
    """
    rows, inner = weight.shape
    size, symmetric = options.group_size, options.symmetric
    group_count = -(-inner // size)
    codes = np.empty((rows, group_count * size), np.int8 if symmetric else np.uint8)
    scales = np.empty((rows, group_count), np.float32)
    zeros = None if symmetric else np.empty((rows, group_count), np.uint8)
    squared_error = squared_sum = 0.0
    chunk_rows = max(1, _CHUNK_ELEMENTS // max(inner, 1))
    for begin in range(0, rows, chunk_rows):
        rows_slice = slice(begin, min(begin + chunk_rows, rows))
        grouped = weight[rows_slice].float()
        grouped = torch.nn.functional.pad(grouped, (0, group_count * size - inner)).reshape(
            -1, group_count, size
        )
        code, scale, zero = (_quantize_symmetric if symmetric else _quantize_asymmetric)(
            grouped, options.bits
        )
        codes[rows_slice] = code.to(torch.int8 if symmetric else torch.uint8).flatten(1).numpy()
        scales[rows_slice] = scale[..., 0].numpy()
        if zeros is not None and zero is not None:
            zeros[rows_slice] = zero[..., 0].to(torch.uint8).numpy()
            code -= zero
        squared_sum += grouped.flatten().dot(grouped.flatten()).item()
        difference = code.mul_(scale).sub_(grouped).flatten()
        squared_error += difference.dot(difference).item()
    if not math.isfinite(squared_sum):
        raise UnsupportedCase(_NOT_FINITE)
    error = (squared_error / squared_sum) ** 0.5 if squared_sum else 0.0
    codes = codes[:, :inner]
    if options.bits == 4:
        dtype = ml_dtypes.int4 if symmetric else ml_dtypes.uint4
        codes = (codes & 15).view(dtype)
        zeros = None if zeros is None else zeros.view(dtype)
    return QuantizedTensor(codes, scales, zeros, error)


def _quantize_symmetric(x: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor, None]:
    """Return codes and scales of groups [N, groups, size], as floats."""
    half = 1 << (bits - 1)
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    scale = torch.where(high > -low, high, low) / -half
    code = (x * _safe_reciprocal(scale)).round_().clamp_(-half, half - 1)
    return code, scale, None


def _quantize_asymmetric(
    x: torch.Tensor, bits: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return codes, scales and zero points of groups [N, groups, size], as floats."""
    top = (1 << bits) - 1
    low = x.amin(-1, keepdim=True).clamp_(max=0.0)
    high = x.amax(-1, keepdim=True).clamp_(min=0.0)
    scale = (high - low) / top
    inverse = _safe_reciprocal(scale)
    zero = (-low * inverse).round_().clamp_(0, top)
    return (x * inverse).round_().add_(zero).clamp_(0, top), scale, zero


def _safe_reciprocal(scale: torch.Tensor) -> torch.Tensor:
    """Return 1 / scale, and 0 where the scale is 0."""
    return torch.where(scale == 0, 0.0, scale.reciprocal())
