"""Make sample calls at other sizes than those that a dynamic program was traced at.

check.py runs the converted model on them, which fails for a size that the model has as a constant.
A set of sizes is used when eager runs, the program's guards pass and torch's program agrees with
eager: then a different result is a defect of the converted model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance.compare import eager_of
from tests.conformance.samples import Call

MAX_ELEMENTS = 200_000
# Operators whose inputs must fulfil a condition that resized values may violate, and the condition.
INVARIANTS = {
    "_segment_reduce.lengths": "lengths add up to the size; torch's kernel does not check",
    "_segment_reduce.offsets": "offsets end at the size; torch's kernel does not check",
    "linalg.pinv.singular": "factors have full rank; a singular value near the bound is ambiguous",
}
# The size of each symbol.
Sizes = Mapping[Any, int]


@dataclass(frozen=True)
class Free:
    """The symbols of a program's inputs, the sizes that they were traced at, and their ranges."""

    shapes: tuple[tuple[Any, ...], ...]  # an int or an expression for each dimension
    traced: dict[Any, int]
    lowest: dict[Any, int]
    highest: dict[Any, int]


def other_sizes(
    program: Any, call: Call, is_same: Callable[[Call, list[Any], list[Any]], bool]
) -> list[Call]:
    """Return at most one call with smaller sizes and one with larger sizes.

    ``is_same(call, eager's results, the program's results)`` compares torch's program with eager.
    """
    if call.op in INVARIANTS:
        return []
    free = free_dimensions(program, call.tensors())
    if not free.traced:
        return []
    try:
        module = program.module()
    except Exception:
        return []
    resized_calls = []
    for assignments in (_smaller_sizes(free), _larger_sizes(free)):
        for sizes in assignments:
            resized = at_sizes(call, free, sizes)
            resized = resized and fulfilling(resized)
            if resized is not None and _is_accepted(module, resized, is_same):
                resized_calls.append(resized)
                break
    return resized_calls


def free_dimensions(program: Any, tensors: Sequence[torch.Tensor]) -> Free:
    """Return the dimensions of a program's inputs that torch left free."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    names = program.graph_signature.user_inputs
    shapes: list[tuple[Any, ...]] = []
    traced: dict[Any, int] = {}
    for name, tensor in zip(names, tensors, strict=True):
        value = values.get(name)
        if not isinstance(value, torch.Tensor):
            shapes.append(tuple(tensor.shape))
            continue
        shape = tuple(d.node.expr if isinstance(d, torch.SymInt) else d for d in value.shape)
        shapes.append(shape)
        for expression, size in zip(shape, tensor.shape, strict=True):
            if getattr(expression, "is_Symbol", False):
                traced.setdefault(expression, size)
    ranges = program.range_constraints
    lowest, highest = {}, {}
    for symbol in traced:
        bounds = ranges.get(symbol)
        lowest[symbol] = _to_integer(getattr(bounds, "lower", 0), 0)
        highest[symbol] = _to_integer(getattr(bounds, "upper", None), MAX_ELEMENTS)
    return Free(tuple(shapes), traced, lowest, highest)


def _to_integer(bound: Any, default: int) -> int:
    """Return a bound as an int, ``default`` where it is infinite or missing."""
    return int(bound) if getattr(bound, "is_Integer", isinstance(bound, int)) else default


def _smaller_sizes(free: Free) -> Iterator[Sizes]:
    """Yield the smallest sizes, all sizes minus one, and single sizes minus one."""
    yield from _map_sizes(free, lambda symbol, size: free.lowest[symbol])
    yield from _map_sizes(free, lambda symbol, size: max(size - 1, free.lowest[symbol]))
    yield from _change_one_size(free, -1)


def _larger_sizes(free: Free) -> Iterator[Sizes]:
    """Yield twice the sizes plus one, all sizes plus one, and single sizes plus one."""
    yield from _map_sizes(free, lambda symbol, size: min(2 * size + 1, free.highest[symbol]))
    yield from _map_sizes(free, lambda symbol, size: min(size + 1, free.highest[symbol]))
    yield from _change_one_size(free, 1)


def _map_sizes(free: Free, change: Callable[[Any, int], int]) -> Iterator[Sizes]:
    sizes = {symbol: change(symbol, size) for symbol, size in free.traced.items()}
    if sizes != free.traced:
        yield sizes


def _change_one_size(free: Free, step: int, max_symbols: int = 4) -> Iterator[Sizes]:
    for symbol, size in list(free.traced.items())[:max_symbols]:
        if free.lowest[symbol] <= size + step <= free.highest[symbol]:
            yield {**free.traced, symbol: size + step}


def at_sizes(call: Call, free: Free, sizes: Sizes) -> Call | None:
    """Return the call with its tensors resized, None where a shape is no number."""
    tensors = []
    for tensor, shape in zip(call.tensors(), free.shapes, strict=True):
        new_sizes = [_evaluate(expression, sizes) for expression in shape]
        new_shape = [
            size if new is None else new for new, size in zip(new_sizes, tensor.shape, strict=True)
        ]
        resized = resize(tensor, new_shape)
        if resized is None:
            return None
        tensors.append(resized)
    return with_tensors(call, tensors)


def with_tensors(call: Call, tensors: Sequence[torch.Tensor]) -> Call:
    """Return the call with its tensors replaced, in order."""
    remaining = iter(tensors)
    args, kwargs = pytree.tree_map(
        lambda leaf: next(remaining) if isinstance(leaf, torch.Tensor) else leaf,
        (call.args, call.kwargs),
    )
    return replace(call, args=args, kwargs=kwargs)


def fulfilling(call: Call) -> Call | None:
    """Return the call with values that its operator accepts, None where there are none."""
    repair = _REPAIRS.get(call.op)
    return call if repair is None else repair(call)


def _sort_boundaries(call: Call) -> Call:
    """Sort the boundaries."""
    values, boundaries, *rest = call.args
    return replace(call, args=(values, boundaries.sort(-1).values, *rest))


def _sort_sequence(call: Call) -> Call | None:
    """Sort the sequence, or replace its sorter where it has one."""
    if call.kwargs.get("sorter") is not None:
        order = call.args[0].argsort(-1)
        return replace(call, kwargs={**call.kwargs, "sorter": order})
    return replace(call, args=(call.args[0].sort(-1).values, *call.args[1:]))


def _sort_offsets(call: Call) -> Call:
    """Make the offsets ascend from 0 to at most the number of indices."""
    offsets = call.kwargs.get("offsets")
    if offsets is None:
        return call
    ascending = offsets.sort().values.clamp(max=call.args[1].shape[0])
    return replace(call, kwargs={**call.kwargs, "offsets": ascending})


def _make_positive_definite(call: Call) -> Call:
    """Make the matrices positive definite; LAPACK leaves no factor of others."""
    matrix, *rest = call.args
    size = matrix.shape[-1]
    product = matrix @ matrix.mH + size * torch.eye(size, dtype=matrix.dtype)
    return replace(call, args=(product, *rest))


def _make_full_rank(call: Call) -> Call:
    """Keep the factors of a singular matrix far from a loss of rank."""
    factors = [
        factor + factor.shape[-1] * torch.eye(*factor.shape[-2:], dtype=factor.dtype)
        for factor in call.args[:2]
    ]
    return replace(call, args=(*factors, *call.args[2:]))


def _clamp_pivots(call: Call) -> Call:
    """Limit pivots to rows of the matrix, counted from 1; torch and ONNX Runtime do not check."""
    matrix, pivots, *rest = call.args
    return replace(call, args=(matrix, pivots.clamp(1, max(matrix.shape[-2], 1)), *rest))


# Functions that make resized values fulfil the conditions of an operator.
_REPAIRS: dict[str, Callable[[Call], Call | None]] = {
    "bucketize": _sort_boundaries,
    "linalg.cholesky_ex": _make_positive_definite,
    "linalg.matrix_sqrth": _make_positive_definite,
    "linalg.pinv.singular": _make_full_rank,
    "lu_unpack": _clamp_pivots,
    "nn.functional.embedding_bag": _sort_offsets,
    "searchsorted": _sort_sequence,
}


def _evaluate(expression: Any, sizes: Sizes) -> int | None:
    if isinstance(expression, int):
        return expression
    value = expression.xreplace(dict(sizes))
    return int(value) if isinstance(value, int) or value.is_Integer else None


def resize(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor | None:
    """Return a tensor of ``shape`` with the values of ``tensor``, cut at the end or repeated.

    Repeated floating-point numbers are a little smaller, so that no two rows are equal.
    """
    total = 1
    for new_size, size in zip(shape, tensor.shape, strict=True):
        total *= new_size
        if new_size < 0 or (new_size > 0 and size == 0):
            return None
    if total > MAX_ELEMENTS or tensor.layout != torch.strided:
        return None
    if tuple(shape) == tuple(tensor.shape):
        return tensor
    resized = tensor.detach()
    is_float = resized.is_floating_point() or resized.is_complex()
    generator = torch.Generator().manual_seed(0)
    for axis, new_size in enumerate(shape):
        size = resized.shape[axis]
        if new_size == size:
            continue
        resized = resized.index_select(axis, torch.arange(new_size) % max(size, 1))
        if new_size > size and is_float:
            factors = torch.ones(resized.shape, dtype=torch.float32)
            added = factors.narrow(axis, size, new_size - size)
            added.mul_(1 - 0.25 * torch.rand(added.shape, generator=generator))
            resized = resized * factors.to(resized.dtype)
    return resized.requires_grad_(tensor.requires_grad)


def _is_accepted(
    module: torch.nn.Module, call: Call, is_same: Callable[[Call, list[Any], list[Any]], bool]
) -> bool:
    try:
        expected = eager_of(call)
        result = module(*[tensor.clone() for tensor in call.tensors()])
    except Exception:
        return False
    results = [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]
    return is_same(call, expected, results)
