"""Look up the cost of a call relative to torch's kernel in the table of measured operators.

The backend leaves costly calls to torch (see `partition.placement`), and export reports list them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.fx import Node

from ortable.compat.torch import OpOverload
from ortable_generated.aten import traits
from ortable_generated.operator_cost import COSTS

from .calls import operator_key

# dtype -> the measured dtype whose cost it has: for example, half floats run through float32
_MEASURED_DTYPES = {
    "float16": "float32", "bfloat16": "float32", "float64": "float32", "complex128": "complex64",
    "int32": "int64", "int16": "int64", "int8": "int64", "uint8": "int64",
}  # fmt: skip


def find_cost_ratio(node: Node) -> int | None:
    """Return the time of a call's ONNX nodes divided by that of torch's CPU kernel.

    Args:
        node: a call whose arguments have `meta["val"]`; dynamic sizes count with their traced
            values.

    Returns:
        The ratio at large sizes. None if the table has no row, because the ratio is at most two or
        was not measured, or if the largest tensor is smaller than the row states.
    """
    tensors = _find_tensors(node)
    cost = _find_cost(node, tensors)
    if cost is None or max(map(_count_elements, tensors)) < cost[0]:
        return None
    return cost[1]


def is_costly_somewhere(node: Node) -> bool:
    """Whether the table has a row for the operator and dtype of a call, regardless of sizes."""
    return _find_cost(node, _find_tensors(node)) is not None


def _find_cost(node: Node, tensors: Sequence[torch.Tensor]) -> tuple[int, int] | None:
    """Return the row for a call: elements from which it is costly, and the ratio; None without."""
    key = operator_key(node)
    if not tensors or key in traits.VIEW:  # a view costs nothing in torch
        return None
    name = _name_dtype(tensors[0])
    names = [name, *([_MEASURED_DTYPES[name]] if name in _MEASURED_DTYPES else [])]
    result = node.meta.get("val")
    if isinstance(result, torch.Tensor):
        names = [*(f"{name} to {_name_dtype(result)}" for name in names), *names]
    default_costs = COSTS.get("*", {}) if isinstance(node.target, OpOverload) else {}
    rows = COSTS.get(key, {}), default_costs
    return next((row[name] for row in rows for name in names if name in row), None)


def _find_tensors(node: Node) -> list[torch.Tensor]:
    values = [argument.meta.get("val") for argument in node.all_input_nodes]
    leaves = [
        leaf
        for value in values
        for leaf in (value if isinstance(value, list | tuple) else (value,))
    ]
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _name_dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _count_elements(tensor: torch.Tensor) -> int:
    return math.prod(map(traced_size, tensor.shape))


def traced_size(size: int | torch.SymInt) -> int:
    """Return the traced value of a size, or 1 if it depends on data."""
    if isinstance(size, int):
        return size
    return int(size.node.hint) if size.node.has_hint() else 1
