"""What is put into the tensors of a form: numbers that few people think of.

In: the tensors that were drawn for a form. Out: tensors of the same dtypes and shapes with some
elements replaced. The graph of the form stays the same, so that all fills share one session.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from ortablegen.language.samples import TensorSample

Numbers = tuple[float | int, ...]
INF, NAN = float("inf"), float("nan")
# Put into one tensor alone: products of two overflow, and sums of those depend on the order. What
# such a number is added to is rounded with its size.
OF_GREAT_SIZE = ("max", "lowest", "huge", "beyond", "large")


def fills_of(dtype: torch.dtype) -> dict[str, Numbers]:
    """The numbers of each fill for tensors of a dtype."""
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
            "beyond": _beyond(dtype),
        }
    if dtype == torch.bool:
        return {"true": (True,), "false": (False,)}
    limits = torch.iinfo(dtype)
    found: dict[str, Numbers] = {
        "max": (limits.max,),
        "lowest": (limits.min,),
        "zeros": (0,),
        "near": (limits.max - 1, limits.min + 1),
    }
    if dtype in (torch.int64, torch.int32):
        found["beyond"] = _beyond(dtype)
    return found


def _beyond(dtype: torch.dtype) -> Numbers:
    """Whole numbers that a narrower float does not hold."""
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
    """The drawn tensors, then each fill: in the first tensor, and in all that it may change."""
    yield "drawn", list(tensors)
    first = next((i for i, t in enumerate(tensors) if t.numel()), None)
    if first is None:
        return
    may = [i for i, s in enumerate(samples) if tensors[i].numel() and not _is_index(i, s)]
    names: dict[str, None] = {}
    for place in may:
        names.update(dict.fromkeys(fills_of(tensors[place].dtype)))
    for name in names:
        every = [i for i in may if name in fills_of(tensors[i].dtype)]
        several = len(every) > 1 and name not in OF_GREAT_SIZE
        for places in [[every[0]], every] if several else [every[:1]]:
            suffix = "" if len(places) == 1 else " in all"
            yield (
                name + suffix,
                [
                    _filled(t, fills_of(t.dtype)[name], start=i) if i in places else t
                    for i, t in enumerate(tensors)
                ],
            )


def _is_index(place: int, sample: TensorSample) -> bool:
    """Whether a tensor may hold indices: whole numbers of a range, which few kernels check."""
    ints = not (sample.dtype.startswith(("float", "bfloat", "complex")) or sample.dtype == "bool")
    return ints and (place > 0 or sample.low is not None or sample.values is not None)


def _filled(tensor: torch.Tensor, numbers: Numbers, start: int) -> torch.Tensor:
    """Some elements replaced: one for each number, at least; every third for special ones."""
    flat = tensor.clone().reshape(-1)
    count = flat.numel()
    for turn, number in enumerate(numbers):
        flat[(start + 2 * turn + (count > 1)) % count] = number
    return flat.reshape(tensor.shape)
