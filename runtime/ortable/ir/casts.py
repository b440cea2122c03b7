"""Choose which inputs of a node to cast, and to what, so that the runtime has a kernel for it.

Only casts to wider types that preserve every value are chosen. `node_maker` caches the choice by
operator and types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ortable import dtypes
from ortable_generated.kernels import WIDER
from ortable_generated.onnx.traits import DTYPE_SENSITIVE

KernelTable: TypeAlias = "Mapping[str, Sequence[tuple[Any, ...]]]"
Moves: TypeAlias = "dict[int, int]"  # input index -> element type to cast it to

NO_MOVES: Moves = {}
# torch computes half floats in float32 and rounds once. Where an opset does not allow half floats
# (bfloat16 before opset 22, for many operators), a cast to float32 is therefore exact enough.
HALF_DTYPES = (dtypes.float16, dtypes.bfloat16)


def choose_casts(
    table: KernelTable,
    key: str,
    opset: int,
    inputs: Sequence[int | None],
    outputs: Sequence[int | None],
) -> Moves | None:
    """Choose the input casts of a node so that a kernel supports its types.

    ``inputs`` and ``outputs`` are element types: 0 for an omitted input, None for an unknown type.
    ``key`` is that of the node. Half floats that ONNX does not allow at this opset are cast, too.

    Returns:
        A map from input index to dtype. It is empty if a kernel supports the node without casts, if
        an input type is unknown or invalid, or if the table lacks the operator. None if no casts to
        wider types lead to a kernel, or if casts would change the result (``DTYPE_SENSITIVE``).
    """
    row = _find_kernels(table, key, opset)
    if row is None:
        return NO_MOVES
    _, formal_inputs, formal_outputs, legal, kernels = row
    param_types: dict[str, int] = {}
    indices: dict[str, list[int]] = {}
    for index, dtype in enumerate(inputs):
        param = _type_param(formal_inputs, index)
        if not param or dtype == 0:
            continue
        if dtype is None:
            return NO_MOVES  # no choice is safe without the type
        if dtype not in legal.get(param, ()) and dtype not in HALF_DTYPES:
            return NO_MOVES  # the schema check reports it
        param_types[param] = dtype
        indices.setdefault(param, []).append(index)
    input_params = frozenset(param_types)
    for index, dtype in enumerate(outputs):
        param = _type_param(formal_outputs, index)
        if param and dtype and param not in param_types:
            param_types[param] = dtype
    best = _find_cheapest(param_types, input_params, legal, kernels)
    if best is None:
        return None
    if best and key in DTYPE_SENSITIVE:
        return None
    return {index: dtype for param, dtype in best.items() for index in indices[param]}


def _find_kernels(table: KernelTable, key: str, opset: int) -> tuple[Any, ...] | None:
    latest = None
    for row in table.get(key, ()):
        if row[0] <= opset:
            latest = row
    return latest


def _type_param(formals: Sequence[Any], index: int) -> str | None:
    """Return the type parameter of input or output ``index``, None if its type is not a parameter.

    In ``("T1", "T*")`` all inputs from index 1 on have the parameter ``T``.
    """
    if index < len(formals):
        formal = formals[index]
    else:
        formal = formals[-1] if formals else None
        if not isinstance(formal, str) or not formal.endswith("*"):
            return None
    return formal.rstrip("*") if isinstance(formal, str) else None


def _find_cheapest(
    param_types: dict[str, int],
    castable: frozenset[str],
    legal: Mapping[str, Sequence[int]],
    kernels: Sequence[Mapping[str, Sequence[int]]],
) -> dict[str, int] | None:
    """Return the casts (type parameter to dtype) that lead to a kernel, or None if there are none.

    The fewest parameters are cast, to the first possible types of `WIDER`, which are the cheapest.
    """
    best: dict[str, int] | None = None
    best_cost = (0, 0)
    for kernel in kernels:
        moves: dict[str, int] = {}
        cost = 0
        for param, dtype in param_types.items():
            allowed = kernel.get(param)
            if allowed is None or dtype in allowed:
                continue
            wider_type = None
            if param in castable:
                wider = WIDER.get(dtype, ())
                wider_type = next(
                    (
                        candidate
                        for candidate in wider
                        if candidate in allowed and candidate in legal[param]
                    ),
                    None,
                )
            if wider_type is None:
                break
            moves[param] = wider_type
            cost += wider.index(wider_type) + 1
        else:
            if not moves:
                return {}
            if best is None or (len(moves), cost) < best_cost:
                best, best_cost = moves, (len(moves), cost)
    return best
