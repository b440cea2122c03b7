"""Texts of the cases of rewrites as tensors: what is drawn for an input, and other texts as
attributes of nodes."""

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
GROWTH = 3  # what dynamic sizes are larger by in a second run


@dataclass(frozen=True)
class Operand:
    """A tensor of a case: an input of the graph, or (``constant``) an initializer."""

    sample: TensorSample
    constant: bool

    @property
    def symbols(self) -> dict[str, int]:
        """Plain names of dynamic dimensions with their sizes in the case."""
        return {name: size for size, name in self.sample.dims if name and name.isidentifier()}


def operand(text: object) -> Operand | None:
    """``"f32[n=2,3]"`` or ``"const f32[3] = [1, 2, 3]"``; None for a text that is no tensor."""
    plain = str(text).strip()
    constant = plain.startswith("const ")
    plain = plain.removeprefix("const ").strip()
    sample = samples.tensor_sample(plain)
    return None if sample is None else Operand(sample, constant)


# -- sizes


def size_of(text: str, sizes: Mapping[str, Any]) -> Any:
    """A dimension written as a name, or as an expression of names: ``n``, ``2*n``."""
    tree = ast.parse(text, mode="eval").body
    unknown = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - set(sizes)
    if unknown:
        raise SampleProblem(f"'{text}' needs the size of {', '.join(sorted(unknown))}")
    return samples.evaluate_value(Expression(tree), dict(sizes))


def symbolic_shape(sample: TensorSample, symbols: Mapping[str, int]) -> tuple[Any, ...]:
    """Shape of an input of the builder."""
    known = {name: dims.make_symbol(name) for name in symbols}
    return tuple(size_of(name, known) if name else size for size, name in sample.dims)


def concrete_shape(sample: TensorSample, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Shape of a tensor that is fed."""
    return tuple(size_of(name, sizes) if name else size for size, name in sample.dims)


def several_sizes(symbols: Mapping[str, int]) -> list[dict[str, int]]:
    """Sizes of the dynamic dimensions that a graph is run at: as written, larger, and 1."""
    found = [dict(symbols)]
    if symbols:
        found.append({name: size + GROWTH for name, size in symbols.items()})
        found.append(dict.fromkeys(symbols, 1))
    return found


# -- tensors


def draw(
    sample: TensorSample,
    shape: tuple[int, ...],
    generator: torch.Generator,
    special: bool = False,
    zeros: bool = True,
    wrap: bool = False,
) -> torch.Tensor:
    """A tensor of the sample: given values, in its range, or random.

    ``special``: infinities, NaN and both zeros are among floats without a range. ``zeros``: False
    draws no integer 0, which a division would crash on. ``wrap``: bytes are among the largest, too.
    """
    dtype = getattr(torch, sample.dtype)
    if sample.values is not None:
        given = np.asarray(sample.values)
        if given.size != int(np.prod(shape)):
            given = np.resize(given, shape)  # at another size: the same numbers again
        return torch.tensor(given.tolist(), dtype=dtype).reshape(shape)
    low, high = sample.low, sample.high
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    if not (dtype.is_floating_point or dtype.is_complex):
        least = 0 if dtype == torch.uint8 and not wrap else -9
        bounds = int(low if low is not None else least), int(high if high is not None else 10)
        made = torch.randint(*bounds, shape, generator=generator).to(dtype)
        return made if zeros or low is not None else torch.where(made == 0, 1, made).to(dtype)
    if low is not None and high is not None:
        plain = torch.rand(shape, generator=generator, dtype=torch.float64)
        return (plain * (high - low) + low).to(dtype)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    made = torch.randn(shape, generator=generator, dtype=wide)
    if special:  # each of them about equally often, so that none is missing by chance
        count = made.numel()
        order = torch.randperm(max(count, len(SPECIAL)), generator=generator)[:count]
        table = torch.tensor(SPECIAL, dtype=torch.float64)
        chosen = table[order % len(SPECIAL)].reshape(shape)
        made = torch.where(torch.rand(shape, generator=generator) < 0.7, chosen, made)
    return made.to(dtype)


def is_free(sample: TensorSample) -> bool:
    """Whether any number may be drawn: a float without a range or given values."""
    floating = getattr(torch, sample.dtype).is_floating_point
    return bool(floating and sample.values is None and sample.low is None)


# -- attributes


def attribute(text: object) -> Any:
    """A literal, a dtype's name, a dict, or a word that is a string: ``NOTSET``."""
    if text is None or not isinstance(text, str):
        return [attribute(each) for each in text] if isinstance(text, (list, tuple)) else text
    found = operand(text)
    if found is not None:
        return to_numpy(draw(found.sample, found.sample.shape, torch.Generator().manual_seed(0)))
    try:
        return literal(ast.parse(text.strip(), mode="eval").body)
    except SyntaxError:
        return text


_WORDS = {"inf": float("inf"), "nan": float("nan"), "true": 1, "false": 0, "bool": dtypes.boolean}


def literal(tree: ast.expr) -> Any:
    """The value of a literal of the language; names are dtypes, else texts."""
    if isinstance(tree, ast.Constant):
        return tree.value
    if isinstance(tree, ast.Name):
        if tree.id in vocabulary.DTYPES:
            return getattr(dtypes, tree.id)
        return _WORDS.get(tree.id, tree.id)
    if isinstance(tree, (ast.List, ast.Tuple)):
        return [literal(each) for each in tree.elts]
    if isinstance(tree, ast.Dict):
        keys = [literal(key) for key in tree.keys if key is not None]
        return dict(zip(keys, map(literal, tree.values), strict=True))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return -literal(tree.operand)
    return samples.evaluate_value(Expression(tree), {"inf": float("inf"), "nan": float("nan")})
