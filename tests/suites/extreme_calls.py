"""Calls of an operator with integers at the limits of dtypes."""

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
    """A call to convert, and its tensors by name."""

    name: str
    sample: Sample
    values: Values
    fills: tuple[Fill, ...]


def extremes(dtype: torch.dtype) -> list[int]:
    """Return the limits of a dtype, and numbers around its width, 0, and 2**31."""
    limits = torch.iinfo(dtype)
    near = [limits.min, limits.max, -1, 0, 1, 2, limits.bits - 1, limits.bits, -limits.bits]
    far = [limits.min + 1, limits.max - 1, 2**31 - 1, 2**31, -(2**31)]
    return [n for n in dict.fromkeys([*near, *far]) if limits.min <= n <= limits.max]


def forms(entry: Entry, dtype: str) -> Iterator[Form]:
    """Yield the forms of an entry with tensors or results of a dtype."""
    for number, sample in enumerate(entry.samples[:SAMPLES]):
        if sample.random:
            continue
        values = static(parse_sample(sample, entry.schema))
        typed_calls = _make_typed_calls(values, dtype, numbers=number == 0)
        for name, call in [*typed_calls, *_request_dtype(entry, values, dtype)]:
            fills = tuple(_make_fills(call))
            if fills:
                yield Form(f"#{number} {name}", sample, call, fills)


def _make_typed_calls(values: Values, dtype: str, numbers: bool) -> Iterator[tuple[str, Values]]:
    """Yield the call with tensors of the dtype, and with ``numbers`` each number at the limits."""
    calls = [form.values for form in dtypes(values, (dtype,))]
    calls += [values] if any(leaf.dtype == dtype for leaf in leaves(values)) else []
    calls += [map_tensors(call_values, _enlarge) for call_values in calls] if numbers else []
    for index, call in enumerate(calls):
        yield f"tensors {index}", call
        for name, value in call.items() if numbers else ():
            if type(value) is int and name in SCALARS:
                for extreme in extremes(getattr(torch, dtype)):
                    yield f"{name}={extreme}", {**call, name: extreme}


def _enlarge(leaf: TensorSample) -> TensorSample:
    """Make a leaf larger than a vector register, so that both loops of a kernel run."""
    *rest, (size, name) = leaf.dims or ((1, None),)
    if size < 2:
        return leaf
    return replace(leaf, dims=(*rest, (size * 8, name)), values=None)


# Arguments that are numbers, and no dimension, size or count.
SCALARS = ("self", "other", "exponent", "value", "alpha", "beta", "min", "max", "threshold", "end")


def _request_dtype(entry: Entry, values: Values, dtype: str) -> Iterator[tuple[str, Values]]:
    dtype_names = [argument.name for argument in entry.schema.arguments if argument.name == "dtype"]
    if dtype_names and any(leaf.dtype.startswith("float") for leaf in leaves(values)):
        yield "requested", {**values, "dtype": dtype}


def _make_fills(values: Values) -> Iterator[Fill]:
    """Yield random tensors, limits in one tensor, and limits in all at every relative shift.

    The last are repeated without zeros in all tensors but the first.
    """
    samples = leaves(values)
    try:
        tensors = make_tensors(values)
    except Exception:  # the dtype cannot represent the bounds
        samples = [replace(leaf, low=None, high=None, values=None) for leaf in samples]
        tensors = [torch.ones(leaf.shape, dtype=getattr(torch, leaf.dtype)) for leaf in samples]
    indices = [i for i, tensor in enumerate(tensors) if tensor.numel() and _has_limits(tensor)]
    tensors = in_order(values, tensors)
    yield "drawn", tensors
    for index in indices:
        pool = _values_of(tensors[index].dtype)
        for start in range(0, len(pool), tensors[index].numel()):
            filled = _fill(tensors[index], pool, start)
            yield (
                f"x{index} from {start}",
                [filled if i == index else tensor for i, tensor in enumerate(tensors)],
            )
    for shift in range(14 if len(indices) > 1 else 0):
        for with_zero in (True, False):
            filled_tensors = list(tensors)
            for turn, index in enumerate(indices):
                pool = [
                    n for n in _values_of(tensors[index].dtype) if with_zero or not turn or n != 0
                ]
                filled_tensors[index] = _fill(tensors[index], pool, turn * shift)
            yield f"all by {shift}{'' if with_zero else ' without 0'}", filled_tensors


def _has_limits(tensor: torch.Tensor) -> bool:
    return tensor.dtype != torch.bool and not tensor.is_complex()


def _values_of(dtype: torch.dtype) -> Sequence[float]:
    return FLOATS if dtype.is_floating_point else extremes(dtype)


def _fill(tensor: torch.Tensor, pool: Sequence[float], start: int) -> torch.Tensor:
    numbers = [pool[(start + i) % len(pool)] for i in range(tensor.numel())]
    return torch.tensor(numbers, dtype=tensor.dtype).reshape(tensor.shape)
