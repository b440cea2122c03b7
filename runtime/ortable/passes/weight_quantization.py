"""Quantize weights to codes (integers of 4 or 8 bits) with a scale for each group.

Defines the options, the quantization of a matrix, and the record of quantized weights. Called by
rewrite helpers about quantized weights, by `quantize_weights` and by the entry points;
`code_search` finds the codes.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

import ml_dtypes
import numpy as np
import torch

from ortable.errors import OptionError, UnsupportedCase

from .code_search import search_codes
from .error_feedback import quantize_with_feedback

BITS = {"int4": 4, "int8": 8, "float16": 16}
# With 64 codes of 8 bits, a scale is as many bytes of a code as the float16 scales of GGUF files.
_GROUP_SIZES = {"int4": 32, "int8": 64}
Kind: TypeAlias = Literal["int4", "int8", "float16"]
Stored: TypeAlias = Literal["keep", "float32"]  # the storage of half-precision weights
_STORAGE_MODES: tuple[Stored, ...] = ("keep", "float32")
_REST = "+float16"
KINDS = ("int4", "int8", "float16", "int4+float16", "int8+float16")  # names of options
_NOT_FINITE = "a weight with NaN, infinities or numbers near them cannot be quantized"
_CHUNK_ELEMENTS = 1 << 17  # elements quantized at a time, so that they fit into CPU caches
_CALIBRATED_CHUNK_ELEMENTS = 1 << 25  # with calibration, which needs several copies of them


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
        group_size: how many codes share a scale: 16, 32, 64, 128 or 256; None for 64 with kind
            ``"int8"`` and 32 with ``"int4"``. Small groups are more accurate, but need more bytes
            for their scales (4 bytes each).
        bits: bits of a code, 4 or 8, by names of weights or patterns, for those that differ from
            `kind`: ``{"lm_head.weight": 8}``. The first pattern that matches counts.
        symmetric: whether the middle code represents zero. With False, each group has a zero point
            of the size of a code, which is more accurate.
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
    group_size: int | None = None
    bits: Mapping[str, int] | tuple[tuple[str, int], ...] = ()
    symmetric: bool = False
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
        if self.group_size not in (None, 16, 32, 64, 128, 256):
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
        self._check_bits()
        self._check_float16()

    def _check_bits(self) -> None:
        """Make `bits` pairs of patterns and numbers; refuse 8 bits with float activations."""
        try:
            items = self.bits.items() if isinstance(self.bits, Mapping) else self.bits
            pairs = tuple((pattern, bits) for pattern, bits in items)
        except (TypeError, ValueError):
            pairs = (("", 0),)
        if not all(isinstance(name, str) and bits in (4, 8) for name, bits in pairs):
            raise OptionError(f"weights: bits maps names of weights to 4 or 8, not {self.bits!r}")
        object.__setattr__(self, "bits", pairs)
        has_8_bits = self.kind == "int8" or any(bits == 8 for _, bits in pairs)
        if has_8_bits and self.activations == "float32":
            raise OptionError(
                "weights: kind 'int8' needs activations 'int8': for float activations, ONNX "
                "Runtime would convert the whole weight to floats at every call. To keep float "
                "activations, use kind 'int4', or no weights=."
            )

    def _check_float16(self) -> None:
        """Refuse options that do not go with the precision of the model."""
        if self.rest not in (None, "float32", "float16"):
            raise OptionError(f"weights: rest is 'float32' or 'float16', not {self.rest!r}")
        if self.kind == "float16" and self.rest == "float32":
            raise OptionError("weights: kind 'float16' needs rest 'float16'")
        names: tuple[str, ...] = ()
        if self.kind == "float16":
            names = ("group_size", "bits", "symmetric", "activations", "embeddings")
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
    def codes_per_scale(self) -> int:
        """The group size of this kind of codes."""
        return self.group_size or _GROUP_SIZES[self.kind]

    @property
    def accuracy_level(self) -> int:
        """The attribute of ONNX Runtime's MatMulNBits: 4 rounds activations to int8, 1 does not."""
        return 4 if self.activations == "int8" else 1

    @property
    def bit_pairs(self) -> tuple[tuple[str, int], ...]:
        """The patterns and numbers of `bits`."""
        assert isinstance(self.bits, tuple)  # since _check_bits
        return self.bits

    def bits_of(self, *names: str) -> int:
        """Return the bits of a code of a weight; 16 for float16.

        Args:
            names: the names of the weight in the state_dict.
        """
        for pattern, bits in self.bit_pairs:
            if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                return bits
        return BITS[self.kind]

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

    def with_bits(self, names: Sequence[str], bits: int) -> WeightOptions:
        """Return a copy of the options with other bits for some weights.

        Args:
            names: exact names; pattern characters in them are escaped.
            bits: 4 or 8.
        """
        pairs = tuple((_escape_pattern(name), bits) for name in names)
        return replace(self, bits=(*pairs, *self.bit_pairs))


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
        calibrated: whether inputs of the layer chose the codes.
    """

    name: str
    shape: tuple[int, ...]
    bits: int
    group_size: int
    error: float
    calibrated: bool = False


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
    ``tensors`` maps a name, whether the weight was transposed, and bits to the quantized matrix.
    ``moment_of`` returns the second moment [K, K] of the inputs of a weight's layers, by
    initializer name, or None. ``packed`` maps a state_dict name and a role to the initializer that
    kernels read.
    ``float32_nodes`` counts the nodes that stay in float32 in a float16 model, by operator and
    reason.
    """

    options: WeightOptions
    rounded: dict[str, QuantizedWeight] = field(default_factory=dict)
    kept: dict[str, SkippedWeight] = field(default_factory=dict)
    codes: dict[tuple[str, int], tuple[str, str, str | None]] = field(default_factory=dict)
    tensors: dict[tuple[str, bool, int], QuantizedTensor] = field(default_factory=dict)
    moment_of: Callable[[str], np.ndarray | None] | None = None
    packed: dict[tuple[str, str], str] = field(default_factory=dict)
    float32_nodes: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True)
class QuantizedTensor:
    """A quantized matrix [N, K].

    ``codes`` [N, K] are int4, uint4, int8 or uint8; ``scales`` [N, groups] are float32; ``zeros``
    [N, groups] have the type of the codes, and are None if all are 0; ``error`` and ``calibrated``
    are those of the `QuantizedWeight`.
    """

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    error: float
    calibrated: bool = False


def quantize_matrix(
    weight: torch.Tensor,
    options: WeightOptions,
    bits: int | None = None,
    moment: np.ndarray | None = None,
) -> QuantizedTensor:
    """Quantize a float32 weight [N, K] in groups along K.

    Symmetric codes are int4 (-8 to 7) or int8 (-128 to 127). Asymmetric codes are uint4 or uint8
    with a zero point, and represent 0 exactly. ``bits`` are those of ``options.kind`` by default.

    Args:
        weight: the weight, of any float dtype.
        options: the group size, and whether codes are symmetric.
        bits: the bits of a code.
        moment: the second moment [K, K] of the inputs that the weight is multiplied with; the codes
            then minimize the error of the products in place of that of the weight.

    Raises:
        UnsupportedCase: the weight has NaN, infinities, or numbers whose squares overflow float32.
    """
    bits = BITS[options.kind] if bits is None else bits
    rows, inner = weight.shape
    size, symmetric = options.codes_per_scale, options.symmetric
    group_count = -(-inner // size)
    padding = group_count * size - inner
    codes = np.empty((rows, group_count * size), np.uint8)
    scales = np.empty((rows, group_count), np.float32)
    zeros = None if symmetric else np.empty((rows, group_count), np.uint8)
    calibrated = moment is not None and bool(moment.any())
    chunk_elements = _CALIBRATED_CHUNK_ELEMENTS if calibrated else _CHUNK_ELEMENTS
    chunk_rows = max(1, chunk_elements // max(inner, 1))

    def quantize_rows(begin: int) -> tuple[float, float]:
        """Quantize a chunk; return the sums of squares of its errors and of its numbers."""
        chunk = slice(begin, min(begin + chunk_rows, rows))
        padded = torch.nn.functional.pad(weight[chunk].float(), (0, padding))
        x = np.ascontiguousarray(padded.reshape(-1, size).t().numpy())
        with np.errstate(over="ignore", invalid="ignore"):
            is_finite = math.isfinite((x * x).sum())
        if not is_finite:
            raise UnsupportedCase(_NOT_FINITE)
        if moment is None or not calibrated:
            coded = search_codes(x, bits, symmetric)
        else:
            columns = np.ascontiguousarray(padded.numpy().T)
            coded = quantize_with_feedback(columns, moment, bits, size, symmetric)
        stored = coded.steps if symmetric else coded.steps + coded.zeros
        codes[chunk] = stored.T.reshape(-1, group_count * size).astype(np.int16)
        scales[chunk] = coded.scales.reshape(-1, group_count)
        if zeros is not None:
            zeros[chunk] = coded.zeros.reshape(-1, group_count)
        return _sum_squares(coded.steps * coded.scales - x), _sum_squares(x)

    # the products of matrices in calibrated chunks have threads themselves
    with ThreadPoolExecutor(1 if calibrated else torch.get_num_threads()) as pool:
        sums = list(pool.map(quantize_rows, range(0, rows, chunk_rows)))
    squared_error, squared_sum = (sum(parts) for parts in zip(*sums, strict=True))
    error = (squared_error / squared_sum) ** 0.5 if squared_sum else 0.0
    return QuantizedTensor(
        _as_codes(codes[:, :inner], bits, symmetric),
        scales,
        None if zeros is None else _as_codes(zeros, bits, symmetric),
        error,
        calibrated,
    )


def _as_codes(values: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    """View bytes as codes of int4, uint4, int8 or uint8."""
    if bits == 8:
        return values.view(np.int8 if signed else np.uint8)
    return (values & 15).view(ml_dtypes.int4 if signed else ml_dtypes.uint4)


def _sum_squares(values: np.ndarray) -> float:
    """Return the sum of squares in float64, where those of tiny numbers do not underflow."""
    wide = values.astype(np.float64).ravel()
    return float(wide @ wide)
