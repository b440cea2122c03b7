"""Operators on lists of tensors (`_foreach_add` and its like, of which optimizers are made) as
the operator that they apply to each tensor. Out comes a table for `decompositions`, whose table
AOTAutograd applies after torch has made their in-place forms functional. Called by
`decompositions`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ortable.compat.torch import all_operator_names

__all__ = ["foreach_table"]

_PREFIX = "aten::_foreach_"
# what an operator is called when it takes one tensor, where that is another name
_NAMES = {
    "norm.Scalar": "linalg_vector_norm", "zero.": "zeros_like",
    "maximum.Scalar": "clamp_min", "maximum.ScalarList": "clamp_min",
    "minimum.Scalar": "clamp_max", "minimum.ScalarList": "clamp_max",
}  # fmt: skip
# the positional argument that goes by name for one tensor: where it stands, and that name
_BY_NAME = {"norm": (2, "dtype"), "addcmul": (3, "value"), "addcdiv": (3, "value")}


def foreach_table() -> dict[Any, Callable[..., Any]]:
    """A decomposition for each functional `_foreach_` overload of the installed torch."""
    found: dict[Any, Callable[..., Any]] = {}
    for full in all_operator_names():
        name, _, overload = full.partition(".")
        if not name.startswith(_PREFIX) or name.endswith("_"):
            continue
        each = name.removeprefix(_PREFIX)
        single = getattr(torch.ops.aten, _NAMES.get(f"{each}.{overload}", each), None)
        listed = getattr(torch.ops.aten, name.removeprefix("aten::"))
        op = getattr(listed, overload or "default")
        if single is not None and not op._schema.is_mutable:
            found[op] = partial(_one_by_one, single, _BY_NAME.get(each))
    return found


def _one_by_one(
    single: Any, by_name: tuple[int, str] | None, *args: Any, **kwargs: Any
) -> list[Any]:
    """`single` of the first element of every list, of the second, and so on."""
    if by_name is not None and len(args) > by_name[0]:
        index, name = by_name
        args, kwargs = args[:index], {**kwargs, name: args[index]}
    count = next(len(arg) for arg in (*args, *kwargs.values()) if isinstance(arg, list | tuple))
    if isinstance(kwargs.get("value"), torch.Tensor):
        return _with_tensor_factors(single, args, kwargs["value"].unbind())
    return [
        single(
            *(_at(arg, place) for arg in args),
            **{name: _at(arg, place) for name, arg in kwargs.items()},
        )
        for place in range(count)
    ]


def _at(value: Any, place: int) -> Any:
    return value[place] if isinstance(value, list | tuple) else value


def _with_tensor_factors(single: Any, args: tuple[Any, ...], factors: Any) -> list[Any]:
    """addcmul and addcdiv with factors that are elements of a tensor."""
    divide = single is torch.ops.aten.addcdiv
    found = []
    for base, left, right, factor in zip(*args, factors, strict=True):
        term = left / right if divide else left * right
        found.append(base + factor * term)
    return found
