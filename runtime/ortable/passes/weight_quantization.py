"""Weights as integer codes of 4 or 8 bits with a scale for each group of them: what a user asks
for, how a matrix is rounded, and what was rounded. In come `WeightOptions` and matrices, out come
codes, scales and zero points as DequantizeLinear takes them, and how far they are from the matrix.
Called by rewrite words about codes, by `quantize` and by the front doors."""

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

BITS = {"int4": 4, "int8": 8}
Kind: TypeAlias = Literal["int4", "int8"]
Stored: TypeAlias = Literal["keep", "float32"]  # how half floats are kept, with the same numbers
STORED: tuple[Stored, ...] = ("keep", "float32")
_NOT_FINITE = "NaN, infinities or numbers near them have no codes"
_AT_ONCE = 1 << 18  # elements that are rounded at a time: what is computed of them stays in caches


@dataclass(frozen=True)
class WeightOptions:
    """How ``weights=`` stores the weights of linear layers and embeddings.

    A weight ``[N, K]`` of a linear layer, or of N embeddings, becomes integers in groups of
    ``group_size`` along K, each with a scale: ``weight = (code - zero point) * scale``. The last
    group of a row may be shorter.

    Args:
        kind: ``"int4"``, codes of 4 bits, or ``"int8"``, codes of 8 bits.
        group_size: how many codes share a scale: 16, 32, 64, 128 or 256. Small groups are more
            accurate, and need more bytes for their scales, 4 each.
        symmetric: the middle code stands for zero; False: each group has a zero point, for weights
            that lie to one side.
        activations: ``"int8"`` rounds what a weight is multiplied with to 8 bits as well, in groups
            of the same size, which is what makes products fast; ``"float32"`` leaves it as it
            is, and needs ``kind="int4"``.
        embeddings: round the tables of embeddings, too; False: linear layers alone.
        include: names of weights, as in the state_dict, or patterns of them (``"*.mlp.*"``); only
            these are rounded.
        exclude: names or patterns of weights that stay as they are, though `include` has them.

    Raises:
        OptionError: a value that is none of these.
    """

    kind: Kind = "int4"
    group_size: int = 32
    symmetric: bool = True
    activations: Literal["int8", "float32"] = "int8"
    embeddings: bool = True
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("include", "exclude"):
            given = getattr(self, name)
            patterns = (given,) if isinstance(given, str) else given
            if not isinstance(patterns, Sequence) or not all(isinstance(p, str) for p in patterns):
                raise OptionError(f"weights: {name} is a list of names of weights, not {given!r}")
            object.__setattr__(self, name, tuple(patterns))
        if self.kind not in BITS:
            raise OptionError(f"weights: kind is 'int4' or 'int8', not {self.kind!r}")
        if self.group_size not in (16, 32, 64, 128, 256) or isinstance(self.group_size, bool):
            raise OptionError(
                f"weights: group_size is 16, 32, 64, 128 or 256, not {self.group_size!r}"
            )
        for name in ("symmetric", "embeddings"):
            if not isinstance(getattr(self, name), bool):
                raise OptionError(f"weights: {name} is True or False, not {getattr(self, name)!r}")
        if self.activations not in ("int8", "float32"):
            raise OptionError(
                f"weights: activations is 'int8' or 'float32', not {self.activations!r}"
            )
        if self.kind == "int8" and self.activations == "float32":
            raise OptionError(
                "weights: kind 'int8' needs activations 'int8': ONNX Runtime multiplies floats "
                "with codes of 8 bits by turning the whole weight into floats at every call. For "
                "floats as they are take kind 'int4', or no weights=."
            )

    @property
    def bits(self) -> int:
        """Bits of a code."""
        return BITS[self.kind]

    @property
    def accuracy_level(self) -> int:
        """The attribute of ONNX Runtime's MatMulNBits: 4 rounds activations to int8, 1 does not."""
        return 4 if self.activations == "int8" else 1

    def chooses(self, name: str) -> bool:
        """Whether a weight is rounded, as far as its name decides.

        Args:
            name: as in the state_dict.
        """

        def listed(patterns: Sequence[str]) -> bool:
            return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

        return listed(self.include) and not listed(self.exclude)

    def without(self, names: Sequence[str]) -> WeightOptions:
        """The same, with more weights left as they are.

        Args:
            names: of these, no patterns.
        """
        return replace(self, exclude=(*self.exclude, *map(_literally, names)))


def _literally(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def checked_weights(given: Any) -> WeightOptions | Stored | None:
    """What a value of ``weights=`` asks for: None, ``"keep"``, ``"float32"``, ``"int4"``,
    ``"int8"``, a dict of the fields of `WeightOptions`, or one.

    Raises:
        OptionError: it is none of these.
    """
    if given is None or isinstance(given, WeightOptions):
        return given
    if isinstance(given, str) and given in STORED:
        return given  # type: ignore[return-value]
    if isinstance(given, str) and given in BITS:
        return WeightOptions(kind=given)  # type: ignore[arg-type]
    if isinstance(given, Mapping):
        known = [each.name for each in fields(WeightOptions)]
        unknown = [name for name in given if name not in known]
        if unknown:
            raise OptionError(
                f"weights: unknown field {unknown[0]!r}; known are {', '.join(known)}"
            )
        return WeightOptions(**given)
    raise OptionError(
        "weights is None, 'keep', 'float32', 'int4', 'int8', a dict such as "
        "{'kind': 'int4', 'group_size': 64}, or "
        f"ortable.WeightOptions(...), not {given!r}"
    )


@dataclass(frozen=True)
class QuantizedWeight:
    """A weight that was rounded.

    Attributes:
        name: of the initializer, as in the state_dict.
        shape: [N, K].
        bits, group_size: of its codes.
        error: root of the mean square of (codes - weight), divided by that of the weight.
    """

    name: str
    shape: tuple[int, int]
    bits: int
    group_size: int
    error: float


@dataclass(frozen=True)
class SkippedWeight:
    """A weight that is chosen, and has no codes.

    Attributes:
        name, shape: as in `Rounded`.
        why: the reason.
    """

    name: str
    shape: tuple[int, int]
    why: str


@dataclass
class QuantizationRun:
    """A run of the rules about weights over a graph: what is asked for, and what was done.

    ``rounded`` has a row for each weight by the name of its initializer, ``kept`` for each that has
    no codes; ``codes`` the results that
    hold codes, scales and zero points of a weight, by that name and the axis of the groups;
    ``made`` the codes, by the name and whether the weight was transposed; ``packed`` initializers
    that kernels read, by the name in the state_dict and what they hold."""

    options: WeightOptions
    rounded: dict[str, QuantizedWeight] = field(default_factory=dict)
    kept: dict[str, SkippedWeight] = field(default_factory=dict)
    codes: dict[tuple[str, int], tuple[str, str, str | None]] = field(default_factory=dict)
    made: dict[tuple[str, bool], QuantizedTensor] = field(default_factory=dict)
    packed: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True)
class QuantizedTensor:
    """A matrix [N, K] as codes: ``codes`` [N, K] of int4, uint4, int8 or uint8, ``scales``
    [N, groups] of float32, ``zeros`` [N, groups] like the codes, None where they are 0; ``error``
    as in `Rounded`."""

    codes: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    error: float


def rounded(weight: torch.Tensor, options: WeightOptions) -> QuantizedTensor:
    """A weight [N, K] of float32 as codes in groups along K, to the nearest code.

    Symmetric codes are int4 (-8 to 7) or int8 (-128 to 127); the number of a group that is largest
    in size becomes the most negative code, so its scale may be negative. Others are uint4 or uint8
    with a zero point, and 0 is one of their values.

    Raises:
        UnsupportedCase: the weight has NaN, infinities or numbers near them: it stays as it is.
    """
    rows, inner = weight.shape
    size, symmetric = options.group_size, options.symmetric
    groups = -(-inner // size)
    codes = np.empty((rows, groups * size), np.int8 if symmetric else np.uint8)
    scales = np.empty((rows, groups), np.float32)
    zeros = None if symmetric else np.empty((rows, groups), np.uint8)
    wrong = total = 0.0
    at_once = max(1, _AT_ONCE // max(inner, 1))
    for begin in range(0, rows, at_once):
        part = slice(begin, min(begin + at_once, rows))
        x = weight[part].float()
        x = torch.nn.functional.pad(x, (0, groups * size - inner)).reshape(-1, groups, size)
        code, scale, zero = (_symmetric if symmetric else _between)(x, options.bits)
        codes[part] = code.to(torch.int8 if symmetric else torch.uint8).flatten(1).numpy()
        scales[part] = scale[..., 0].numpy()
        if zeros is not None and zero is not None:
            zeros[part] = zero[..., 0].to(torch.uint8).numpy()
            code -= zero
        total += x.flatten().dot(x.flatten()).item()
        gap = code.mul_(scale).sub_(x).flatten()
        wrong += gap.dot(gap).item()
    if not math.isfinite(total):
        raise UnsupportedCase(_NOT_FINITE)
    error = (wrong / total) ** 0.5 if total else 0.0
    codes = codes[:, :inner]
    if options.bits == 4:
        kind = ml_dtypes.int4 if symmetric else ml_dtypes.uint4
        codes = (codes & 15).view(kind)
        zeros = None if zeros is None else zeros.view(kind)
    return QuantizedTensor(codes, scales, zeros, error)


def _symmetric(x: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor, None]:
    """Codes and scales of groups [N, groups, size], as floats."""
    half = 1 << (bits - 1)
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    scale = torch.where(high > -low, high, low) / -half
    code = (x * _inverse(scale)).round_().clamp_(-half, half - 1)
    return code, scale, None


def _between(x: torch.Tensor, bits: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, scales and zero points of groups [N, groups, size], as floats."""
    top = (1 << bits) - 1
    low = x.amin(-1, keepdim=True).clamp_(max=0.0)
    high = x.amax(-1, keepdim=True).clamp_(min=0.0)
    scale = (high - low) / top
    inverse = _inverse(scale)
    zero = (-low * inverse).round_().clamp_(0, top)
    return (x * inverse).round_().add_(zero).clamp_(0, top), scale, zero


def _inverse(scale: torch.Tensor) -> torch.Tensor:
    """1 / scale, and 0 for a group of zeros."""
    return torch.where(scale == 0, 0.0, scale.reciprocal())
