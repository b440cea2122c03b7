"""Draw the tensors that samples describe, and evaluate other texts of samples as attributes."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ortable import dims, dtypes
from ortable.debug.arrays import to_numpy
from ortablegen.language import samples, vocabulary
from ortablegen.language.samples import Expression, SampleProblem, TensorSample

SPECIAL = (0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1.0, -1.0, 0.5, 2.0)
GROWTH = 3  # added to dynamic sizes in a second run


@dataclass(frozen=True)
class Operand:
    """A tensor of a sample: an input of the graph, or (``constant``) an initializer."""

    sample: TensorSample
    constant: bool

    @property
    def symbols(self) -> dict[str, int]:
        """The dynamic dimensions that are plain names, with their sizes in the sample."""
        return {name: size for size, name in self.sample.dims if name and name.isidentifier()}


def parse_operand(text: object) -> Operand | None:
    """Parse ``"f32[n=2,3]"`` or ``"const f32[3] = [1, 2, 3]"``; None for other texts."""
    stripped = str(text).strip()
    constant = stripped.startswith("const ")
    stripped = stripped.removeprefix("const ").strip()
    sample = samples.tensor_sample(stripped)
    return None if sample is None else Operand(sample, constant)


# -- sizes


def evaluate_size(text: str, sizes: Mapping[str, Any]) -> Any:
    """Evaluate a dimension, which is a name or an expression of names: ``n``, ``2*n``."""
    tree = ast.parse(text, mode="eval").body
    unknown = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - set(sizes)
    if unknown:
        raise SampleProblem(f"'{text}' needs the size of {', '.join(sorted(unknown))}")
    return samples.evaluate_value(Expression(tree), dict(sizes))


def symbolic_shape(sample: TensorSample, symbols: Mapping[str, int]) -> tuple[Any, ...]:
    """Make the shape of an input of the graph, with symbols for dynamic dimensions."""
    symbol_dims = {name: dims.make_symbol(name) for name in symbols}
    return tuple(evaluate_size(name, symbol_dims) if name else size for size, name in sample.dims)


def concrete_shape(sample: TensorSample, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Compute the shape of an input tensor at the given sizes."""
    return tuple(evaluate_size(name, sizes) if name else size for size, name in sample.dims)


def list_sizes(symbols: Mapping[str, int]) -> list[dict[str, int]]:
    """List the sizes that a graph runs at: as written, larger, and 1."""
    variants = [dict(symbols)]
    if symbols:
        variants.append({name: size + GROWTH for name, size in symbols.items()})
        variants.append(dict.fromkeys(symbols, 1))
    return variants


# -- tensors


def draw_tensor(
    sample: TensorSample,
    shape: tuple[int, ...],
    generator: torch.Generator,
    special: bool = False,
    zeros: bool = True,
    wrap: bool = False,
) -> torch.Tensor:
    """Draw a tensor of a sample: its given values, or random values in its range if it has one.

    ``special`` adds infinities, NaN and both zeros to floats without a range. ``zeros=False`` draws
    no integer 0, since a division by 0 would crash. ``wrap`` also draws the largest uint8 values.
    """
    dtype = getattr(torch, sample.dtype)
    if sample.values is not None:
        values = np.asarray(sample.values)
        if values.size != int(np.prod(shape)):
            values = np.resize(values, shape)  # repeat the given values for another size
        return torch.tensor(values.tolist(), dtype=dtype).reshape(shape)
    low, high = sample.low, sample.high
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        minimum = 0 if dtype == torch.uint8 and not wrap else -9
        bounds = int(low if low is not None else minimum), int(high if high is not None else 10)
        drawn = torch.randint(*bounds, shape, generator=generator).to(dtype)
        return drawn if zeros or low is not None else torch.where(drawn == 0, 1, drawn).to(dtype)
    if low is not None and high is not None:
        uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
        return (uniform * (high - low) + low).to(dtype)
    wide_dtype = torch.complex128 if dtype.is_complex else torch.float64
    drawn = torch.randn(shape, generator=generator, dtype=wide_dtype)
    if special:  # each special value about equally often, so that none is missing by chance
        count = drawn.numel()
        order = torch.randperm(max(count, len(SPECIAL)), generator=generator)[:count]
        table = torch.tensor(SPECIAL, dtype=torch.float64)
        specials = table[order % len(SPECIAL)].reshape(shape)
        drawn = torch.where(torch.rand(shape, generator=generator) < 0.7, specials, drawn)
    return drawn.to(dtype)


def is_free(sample: TensorSample) -> bool:
    """Whether any number may be drawn: the sample is a float without a range or given values."""
    floating = getattr(torch, sample.dtype).is_floating_point
    return bool(floating and sample.values is None and sample.low is None)


# -- attributes


def parse_attribute(text: object) -> Any:
    """Parse a literal, a dtype's name, a dict, or a word that is a string: ``NOTSET``."""
    if text is None or not isinstance(text, str):
        return [parse_attribute(item) for item in text] if isinstance(text, (list, tuple)) else text
    parsed = parse_operand(text)
    if parsed is not None:
        return to_numpy(
            draw_tensor(parsed.sample, parsed.sample.shape, torch.Generator().manual_seed(0))
        )
    try:
        return evaluate_literal(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        return text


_NAMED_VALUES = {
    "inf": float("inf"),
    "nan": float("nan"),
    "true": 1,
    "false": 0,
    "bool": dtypes.boolean,
}


def evaluate_literal(tree: ast.expr) -> Any:
    """Evaluate a literal of the spec language; a name is a dtype, a number, or else a string."""
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Name):
        if tree.id in vocabulary.DTYPES:
            return getattr(dtypes, tree.id)
        return _NAMED_VALUES.get(tree.id, tree.id)
    if isinstance(tree, (ast.List, ast.Tuple)):
        return [evaluate_literal(item) for item in tree.elts]
    if isinstance(tree, ast.Dict):
        keys = [evaluate_literal(key) for key in tree.keys if key is not None]
        return dict(zip(keys, map(evaluate_literal, tree.values), strict=True))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -evaluate_literal(tree.operand)
    return samples.evaluate_value(Expression(tree), {"inf": float("inf"), "nan": float("nan")})
