"""Choose which inputs of a node to cast, and to what, so that the runtime has a kernel for it.

Only value-preserving casts to wider types are made; the choice is cached per operator and types.
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
# torch computes them in float32 and rounds once, so a schema version that does not allow them
# (bfloat16 before opset 22, for many operators) is one without a kernel for them.
HALVES = (dtypes.float16, dtypes.bfloat16)


def choose_casts(
    table: KernelTable,
    key: str,
    opset: int,
    inputs: Sequence[int | None],
    outputs: Sequence[int | None],
) -> Moves | None:
    """Choose the casts of a node; ``{}`` when a kernel takes it unchanged (or nothing is known).

    ``inputs`` are element types, 0 for an omitted one, None for an unknown one. A half float that
    ONNX does not allow at this opset is cast, too. Returns None when neither a kernel nor an exact
    cast to one exists.
    """
    entry = _find_entry(table, key, opset)
    if entry is None:
        return NO_MOVES
    _, formal_inputs, formal_outputs, legal, kernels = entry
    bound: dict[str, int] = {}
    where: dict[str, list[int]] = {}
    for index, dtype in enumerate(inputs):
        param = _type_param(formal_inputs, index)
        if not param or dtype == 0:
            continue
        if dtype is None:
            return NO_MOVES  # cannot choose without knowing
        if dtype not in legal.get(param, ()) and dtype not in HALVES:
            return NO_MOVES  # the schema check reports it
        bound[param] = dtype
        where.setdefault(param, []).append(index)
    from_inputs = frozenset(bound)
    for index, dtype in enumerate(outputs):
        param = _type_param(formal_outputs, index)
        if param and dtype and param not in bound:
            bound[param] = dtype
    best = _find_cheapest(bound, from_inputs, legal, kernels)
    if best is None:
        return None
    if best and key in DTYPE_SENSITIVE:
        return None
    return {index: dtype for param, dtype in best.items() for index in where[param]}


def _find_entry(table: KernelTable, key: str, opset: int) -> tuple[Any, ...] | None:
    latest = None
    for entry in table.get(key, ()):
        if entry[0] <= opset:
            latest = entry
    return latest


def _type_param(formals: Sequence[Any], index: int) -> str | None:
    """Type parameter of an actual input or output; the last formal repeats when it ends with
    ``*``."""
    if index < len(formals):
        formal = formals[index]
    else:
        formal = formals[-1] if formals else None
        if not isinstance(formal, str) or not formal.endswith("*"):
            return None
    return formal.rstrip("*") if isinstance(formal, str) else None


def _find_cheapest(
    bound: dict[str, int],
    movable: frozenset[str],
    legal: Mapping[str, Sequence[int]],
    kernels: Sequence[Mapping[str, Sequence[int]]],
) -> dict[str, int] | None:
    best: dict[str, int] | None = None
    best_cost = (0, 0)
    for kernel in kernels:
        moves: dict[str, int] = {}
        cost = 0
        for param, dtype in bound.items():
            allowed = kernel.get(param)
            if allowed is None or dtype in allowed:
                continue
            target = None
            if param in movable:
                wider = WIDER.get(dtype, ())
                target = next((t for t in wider if t in allowed and t in legal[param]), None)
            if target is None:
                break
            moves[param] = target
            cost += wider.index(target) + 1
        else:
            if not moves:
                return {}
            if best is None or (len(moves), cost) < best_cost:
                best, best_cost = moves, (len(moves), cost)
    return best
