"""Sample calls at other sizes than those that a dynamic program was traced at: in come the
exported program and its call, out come calls with one smaller and one larger set of sizes that
torch accepts. check.py runs the converted model on them; a size that was baked in shows there.

The free dimensions are those that torch says are free. A set of sizes is taken when eager runs, the
program's own guards let it pass and torch's program gives what eager gives: then the converted
model has no excuse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance.compare import eager_of
from tests.conformance.samples import Call

MOST_ELEMENTS = 200_000
# What their inputs must fulfil goes with the values, which other sizes need more of.
INVARIANTS = {
    "_segment_reduce.lengths": "lengths add up to the size; torch's kernel does not look",
    "_segment_reduce.offsets": "offsets end at the size; torch's kernel does not look",
    "linalg.pinv.singular": "factors have full rank; a singular value at the bound is kept or not",
}
# A dimension of one tensor: the number of a symbol, or a function of the symbols.
Sizes = Mapping[Any, int]


@dataclass(frozen=True)
class Free:
    """The symbols of a program's inputs, the sizes that they were traced at, and their ranges."""

    shapes: tuple[tuple[Any, ...], ...]  # an int or an expression for each dimension
    traced: dict[Any, int]
    lowest: dict[Any, int]
    highest: dict[Any, int]


def other_sizes(
    program: Any, call: Call, same: Callable[[Call, list[Any], list[Any]], bool]
) -> list[Call]:
    """At most one call with smaller sizes and one with larger ones.

    ``same(call, eager's, the program's)`` says whether torch's own program is right there.
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
    found = []
    for assignments in (_smaller(free), _larger(free)):
        for sizes in assignments:
            resized = at_sizes(call, free, sizes)
            resized = resized and fulfilling(resized)
            if resized is not None and _accepted(module, resized, same):
                found.append(resized)
                break
    return found


def free_dimensions(program: Any, tensors: Sequence[torch.Tensor]) -> Free:
    """What torch left free of the shapes of a program's inputs."""
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
        lowest[symbol] = _integer(getattr(bounds, "lower", 0), 0)
        highest[symbol] = _integer(getattr(bounds, "upper", None), MOST_ELEMENTS)
    return Free(tuple(shapes), traced, lowest, highest)


def _integer(bound: Any, otherwise: int) -> int:
    """A bound as an int; ``otherwise`` where it is infinite or not there."""
    return int(bound) if getattr(bound, "is_Integer", isinstance(bound, int)) else otherwise


def _smaller(free: Free) -> Iterator[Sizes]:
    """The smallest of everything, one less of everything, one less of one dimension."""
    yield from _changed(free, lambda symbol, size: free.lowest[symbol])
    yield from _changed(free, lambda symbol, size: max(size - 1, free.lowest[symbol]))
    yield from _one_by_one(free, -1)


def _larger(free: Free) -> Iterator[Sizes]:
    """Twice and one more of everything, one more of everything, one more of one dimension."""
    yield from _changed(free, lambda symbol, size: min(2 * size + 1, free.highest[symbol]))
    yield from _changed(free, lambda symbol, size: min(size + 1, free.highest[symbol]))
    yield from _one_by_one(free, 1)


def _changed(free: Free, rule: Callable[[Any, int], int]) -> Iterator[Sizes]:
    sizes = {symbol: rule(symbol, size) for symbol, size in free.traced.items()}
    if sizes != free.traced:
        yield sizes


def _one_by_one(free: Free, step: int, most: int = 4) -> Iterator[Sizes]:
    for symbol, size in list(free.traced.items())[:most]:
        if free.lowest[symbol] <= size + step <= free.highest[symbol]:
            yield {**free.traced, symbol: size + step}


def at_sizes(call: Call, free: Free, sizes: Sizes) -> Call | None:
    """The call with its tensors cut or grown; None where a shape does not come out."""
    fresh = []
    for tensor, shape in zip(call.tensors(), free.shapes, strict=True):
        wanted = [_evaluated(each, sizes) for each in shape]
        known = [
            size if new is None else new for new, size in zip(wanted, tensor.shape, strict=True)
        ]
        resized = resize(tensor, known)
        if resized is None:
            return None
        fresh.append(resized)
    return with_tensors(call, fresh)


def with_tensors(call: Call, tensors: Sequence[torch.Tensor]) -> Call:
    """The call with others in the place of its tensors, in order."""
    remaining = iter(tensors)
    args, kwargs = pytree.tree_map(
        lambda leaf: next(remaining) if isinstance(leaf, torch.Tensor) else leaf,
        (call.args, call.kwargs),
    )
    return replace(call, args=args, kwargs=kwargs)


def fulfilling(call: Call) -> Call | None:
    """The call with values that fulfil what its operator asks of them; None where none do."""
    repair = _REPAIRS.get(call.op)
    return call if repair is None else repair(call)


def _sorted_boundaries(call: Call) -> Call:
    """Boundaries are sorted."""
    values, boundaries, *rest = call.args
    return replace(call, args=(values, boundaries.sort(-1).values, *rest))


def _sorted_sequence(call: Call) -> Call | None:
    """The sequence is sorted, by the sorter where one is given."""
    if call.kwargs.get("sorter") is not None:
        order = call.args[0].argsort(-1)
        return replace(call, kwargs={**call.kwargs, "sorter": order})
    return replace(call, args=(call.args[0].sort(-1).values, *call.args[1:]))


def _ascending_offsets(call: Call) -> Call:
    """Offsets ascend from 0, and none is beyond the indices."""
    offsets = call.kwargs.get("offsets")
    if offsets is None:
        return call
    ascending = offsets.sort().values.clamp(max=call.args[1].shape[0])
    return replace(call, kwargs={**call.kwargs, "offsets": ascending})


def _positive_definite(call: Call) -> Call:
    """Matrices are positive definite; of others LAPACK leaves no factor."""
    matrix, *rest = call.args
    size = matrix.shape[-1]
    product = matrix @ matrix.mH + size * torch.eye(size, dtype=matrix.dtype)
    return replace(call, args=(product, *rest))


def _of_full_rank(call: Call) -> Call:
    """The factors of a singular matrix are far from losing rank themselves."""
    factors = [
        each + each.shape[-1] * torch.eye(*each.shape[-2:], dtype=each.dtype)
        for each in call.args[:2]
    ]
    return replace(call, args=(*factors, *call.args[2:]))


def _rows_as_pivots(call: Call) -> Call:
    """Pivots are rows of the matrix, counted from 1; neither torch nor ONNX Runtime looks."""
    matrix, pivots, *rest = call.args
    return replace(call, args=(matrix, pivots.clamp(1, max(matrix.shape[-2], 1)), *rest))


# What makes the values of other sizes fulfil what an operator asks of them.
_REPAIRS: dict[str, Callable[[Call], Call | None]] = {
    "bucketize": _sorted_boundaries,
    "linalg.cholesky_ex": _positive_definite,
    "linalg.matrix_sqrth": _positive_definite,
    "linalg.pinv.singular": _of_full_rank,
    "lu_unpack": _rows_as_pivots,
    "nn.functional.embedding_bag": _ascending_offsets,
    "searchsorted": _sorted_sequence,
}


def _evaluated(expression: Any, sizes: Sizes) -> int | None:
    if isinstance(expression, int):
        return expression
    value = expression.xreplace(dict(sizes))
    return int(value) if isinstance(value, int) or value.is_Integer else None


def resize(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor | None:
    """A tensor of that shape whose values come from ``tensor``: cut at the end, or repeated from
    the start, floating-point numbers then a little smaller, so that no row comes twice."""
    total = 1
    for new, size in zip(shape, tensor.shape, strict=True):
        total *= new
        if new < 0 or (new > 0 and size == 0):
            return None
    if total > MOST_ELEMENTS or tensor.layout != torch.strided:
        return None
    if tuple(shape) == tuple(tensor.shape):
        return tensor
    fresh = tensor.detach()
    is_float = fresh.is_floating_point() or fresh.is_complex()
    generator = torch.Generator().manual_seed(0)
    for axis, new in enumerate(shape):
        size = fresh.shape[axis]
        if new == size:
            continue
        fresh = fresh.index_select(axis, torch.arange(new) % max(size, 1))
        if new > size and is_float:
            factors = torch.ones(fresh.shape, dtype=torch.float32)
            grown = factors.narrow(axis, size, new - size)
            grown.mul_(1 - 0.25 * torch.rand(grown.shape, generator=generator))
            fresh = fresh * factors.to(fresh.dtype)
    return fresh.requires_grad_(tensor.requires_grad)


def _accepted(
    module: torch.nn.Module, call: Call, same: Callable[[Call, list[Any], list[Any]], bool]
) -> bool:
    try:
        wanted = eager_of(call)
        result = module(*[tensor.clone() for tensor in call.tensors()])
    except Exception:
        return False
    given = [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]
    return same(call, wanted, given)
