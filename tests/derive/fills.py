"""Fills of a form's tensors: special numbers at some elements.

Dtypes and shapes, and so the graph, stay the same, so that all fills share one session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from ortablegen.language.samples import TensorSample

Numbers = tuple[float | int, ...]
INF, NAN = float("inf"), float("nan")
# Fills of a single tensor, as products of two such numbers overflow, and sums depend on the order.
# Numbers that are added to them are rounded to their precision.
OF_GREAT_SIZE = ("max", "lowest", "huge", "beyond", "large")


def fills_of(dtype: torch.dtype) -> dict[str, Numbers]:
    """Return the numbers of each fill for tensors of a dtype."""
    if dtype.is_complex:
        return {"zeros": (0.0, -0.0), "tiny": (1e-30,), "large": (100.0,)}
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        return {
            "nan": (NAN,),
            "+inf": (INF,),
            "-inf": (-INF,),
            "infs": (INF, -INF),
            "zeros": (-0.0, 0.0),
            "denormal": (info.smallest_normal / 4, -info.smallest_normal / 8),
            "max": (info.max,),
            "lowest": (info.min,),
            "ties": (0.5, -0.5, 1.5, -1.5, 2.5, 1.0, -1.0),
            "large": (100.0, -90.0),
            "huge": (1e4,),
            "beyond": _beyond_precision(dtype),
        }
    if dtype == torch.bool:
        return {"true": (True,), "false": (False,)}
    limits = torch.iinfo(dtype)
    fills_by_name: dict[str, Numbers] = {
        "max": (limits.max,),
        "lowest": (limits.min,),
        "zeros": (0,),
        "near": (limits.max - 1, limits.min + 1),
    }
    if dtype in (torch.int64, torch.int32):
        fills_by_name["beyond"] = _beyond_precision(dtype)
    return fills_by_name


def _beyond_precision(dtype: torch.dtype) -> Numbers:
    """Return integers that a narrower float cannot represent."""
    if dtype == torch.int64:
        return (2**53 + 1, -(2**53) - 3, 2**40 + 1)
    if dtype == torch.int32:
        return (2**24 + 1, -(2**24) - 3, 2**30 + 1)
    if dtype == torch.float64:
        return (2.0**40 + 0.5,)
    return (2.0**23 + 1,) if dtype == torch.float32 else (1000.0,)


def fills(
    samples: Sequence[TensorSample], tensors: Sequence[torch.Tensor]
) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """Yield the random tensors, then each fill in the first tensor and in all that may change."""
    yield "drawn", list(tensors)
    first = next((i for i, t in enumerate(tensors) if t.numel()), None)
    if first is None:
        return
    changeable = [i for i, s in enumerate(samples) if tensors[i].numel() and not _is_index(i, s)]
    names: dict[str, None] = {}
    for index in changeable:
        names.update(dict.fromkeys(fills_of(tensors[index].dtype)))
    for name in names:
        candidates = [i for i in changeable if name in fills_of(tensors[i].dtype)]
        several = len(candidates) > 1 and name not in OF_GREAT_SIZE
        for indices in [[candidates[0]], candidates] if several else [candidates[:1]]:
            suffix = "" if len(indices) == 1 else " in all"
            yield (
                name + suffix,
                [
                    _fill(t, fills_of(t.dtype)[name], start=i) if i in indices else t
                    for i, t in enumerate(tensors)
                ],
            )


def _is_index(index: int, sample: TensorSample) -> bool:
    """Return whether a tensor may contain indices, which few kernels check."""
    ints = not (sample.dtype.startswith(("float", "bfloat", "complex")) or sample.dtype == "bool")
    return ints and (index > 0 or sample.low is not None or sample.values is not None)


def _fill(tensor: torch.Tensor, numbers: Numbers, start: int) -> torch.Tensor:
    """Return a copy with an element replaced by each number."""
    flat = tensor.clone().reshape(-1)
    count = flat.numel()
    for turn, number in enumerate(numbers):
        flat[(start + 2 * turn + (count > 1)) % count] = number
    return flat.reshape(tensor.shape)
