"""Calls of an operator with integers at their limits: dtypes, numbers of the call, and what its
tensors hold.

In comes an entry of specs/aten and a dtype, out come graphs to convert, each with its fills.
Called by `extreme_check`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from ortable.testing.entries import make_tensors
from ortablegen.aten.model import Sample
from ortablegen.aten.samples import parse_sample
from ortablegen.language.samples import TensorSample
from tests.derive.forms import Values, dtypes, leaves, map_tensors, static
from tests.derive.runner import Entry, in_order

DTYPES = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
SAMPLES = 3  # of an entry
INF = float("inf")
FLOATS = (
    float("nan"),
    INF,
    -INF,
    3e9,
    -3e9,
    1e20,
    -1e20,
    300.7,
    -1.5,
    2.0**31,
    -(2.0**63),
    65536.0,
)


Fill = tuple[str, list[torch.Tensor]]


@dataclass(frozen=True)
class Form:
    """A call to convert, and the tensors that it is run with, by name."""

    name: str
    sample: Sample
    values: Values
    fills: tuple[Fill, ...]


def extremes(dtype: torch.dtype) -> list[int]:
    """The limits of a dtype and what lies around its width, 0, and 2**31."""
    limits = torch.iinfo(dtype)
    near = [limits.min, limits.max, -1, 0, 1, 2, limits.bits - 1, limits.bits, -limits.bits]
    far = [limits.min + 1, limits.max - 1, 2**31 - 1, 2**31, -(2**31)]
    return [n for n in dict.fromkeys([*near, *far]) if limits.min <= n <= limits.max]


def forms(entry: Entry, dtype: str) -> Iterator[Form]:
    """The forms of an entry with tensors of a dtype, or whose result is asked for in it."""
    for number, sample in enumerate(entry.samples[:SAMPLES]):
        if sample.random:
            continue
        values = static(parse_sample(sample, entry.schema))
        typed = _typed(values, dtype, numbers=number == 0)
        for name, called in [*typed, *_requested(entry, values, dtype)]:
            fills = tuple(_fills(called))
            if fills:
                yield Form(f"#{number} {name}", sample, called, fills)


def _typed(values: Values, dtype: str, numbers: bool) -> Iterator[tuple[str, Values]]:
    """The call with tensors of the dtype, and with ``numbers`` each of its own at the limits."""
    typed = [form.values for form in dtypes(values, (dtype,))]
    typed += [values] if any(leaf.dtype == dtype for leaf in leaves(values)) else []
    typed += [map_tensors(each, _enlarged) for each in typed] if numbers else []
    for place, called in enumerate(typed):
        yield f"tensors {place}", called
        for name, value in called.items() if numbers else ():
            if type(value) is int and name in SCALARS:
                for extreme in extremes(getattr(torch, dtype)):
                    yield f"{name}={extreme}", {**called, name: extreme}


def _enlarged(leaf: TensorSample) -> TensorSample:
    """Kernels take several elements at once, and the rest in another way."""
    *rest, (last, name) = leaf.dims or ((1, None),)
    if last < 2:
        return leaf
    return replace(leaf, dims=(*rest, (last * 8, name)), values=None)


# Numbers of calls that are no dimension, size or count.
SCALARS = ("self", "other", "exponent", "value", "alpha", "beta", "min", "max", "threshold", "end")


def _requested(entry: Entry, values: Values, dtype: str) -> Iterator[tuple[str, Values]]:
    named = [each.name for each in entry.schema.arguments if each.name == "dtype"]
    if named and any(leaf.dtype.startswith("float") for leaf in leaves(values)):
        yield "requested", {**values, "dtype": dtype}


def _fills(values: Values) -> Iterator[Fill]:
    """What the tensors of a call hold: drawn, limits in one of them, limits in all at every shift
    against each other, and the same without a zero behind the first."""
    samples = leaves(values)
    try:
        drawn = make_tensors(values)
    except Exception:  # bounds that the dtype does not hold
        samples = [replace(leaf, low=None, high=None, values=None) for leaf in samples]
        drawn = [torch.ones(leaf.shape, dtype=getattr(torch, leaf.dtype)) for leaf in samples]
    places = [i for i, tensor in enumerate(drawn) if tensor.numel() and _has_limits(tensor)]
    drawn = in_order(values, drawn)
    yield "drawn", drawn
    for place in places:
        pool = _pool(drawn[place].dtype)
        for start in range(0, len(pool), drawn[place].numel()):
            filled = _filled(drawn[place], pool, start)
            yield (
                f"x{place} from {start}",
                [filled if i == place else tensor for i, tensor in enumerate(drawn)],
            )
    for shift in range(14 if len(places) > 1 else 0):
        for zero in (True, False):
            tensors = list(drawn)
            for turn, place in enumerate(places):
                pool = [n for n in _pool(drawn[place].dtype) if zero or not turn or n != 0]
                tensors[place] = _filled(drawn[place], pool, turn * shift)
            yield f"all by {shift}{'' if zero else ' without 0'}", tensors


def _has_limits(tensor: torch.Tensor) -> bool:
    return tensor.dtype != torch.bool and not tensor.is_complex()


def _pool(dtype: torch.dtype) -> Sequence[float]:
    return FLOATS if dtype.is_floating_point else extremes(dtype)


def _filled(tensor: torch.Tensor, pool: Sequence[float], start: int) -> torch.Tensor:
    numbers = [pool[(start + i) % len(pool)] for i in range(tensor.numel())]
    return torch.tensor(numbers, dtype=tensor.dtype).reshape(tensor.shape)
