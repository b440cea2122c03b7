"""Compare the results of a sample call with eager's, element by element.

An element is correct when it is within the tolerance of its dtype, or, failing that, when float64
shows that it is as exact as eager's: its error is at most twice the largest error that eager makes
*at this element*, over the call itself and a few calls whose inputs differ by one unit in the last
place. Eager's error at a single input may be small by luck; over its neighbours it shows how many
digits the computation costs eager there. Another order of summation stays within that bound; a
wrong element does not, however inexact the elements beside it are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance.drawn import implausible
from tests.conformance.samples import Call, seed

# (relative, absolute), by dtype of the result
TOLERANCES = {
    torch.float16: (5e-3, 5e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (1e-4, 2e-5),
    torch.float64: (1e-7, 1e-7),
}
NEIGHBOURS = 12
WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


class Mismatch(AssertionError):
    """A result that differs from eager's in value, dtype, shape or number."""


def compare(
    call: Call,
    expected: Sequence[Any],
    results: Sequence[torch.Tensor],
    *,
    draws: Mapping[int, str] | None = None,
) -> None:
    """Raise Mismatch unless ``results`` equal eager's in number, dtype, shape and value.

    ``draws`` maps nondeterministic outputs to the reason: values are not compared for ``memory``
    (uninitialised), and only their range is compared for ``random``.
    """
    if len(expected) != len(results):
        raise Mismatch(f"{len(results)} outputs, eager has {len(expected)}")
    for index, (eager, result) in enumerate(zip(expected, results, strict=True)):
        is_tensor = isinstance(eager, torch.Tensor)
        is_complex = is_tensor and eager.is_complex()
        eager = as_real(eager if is_tensor else torch.tensor(eager))
        if is_tensor and eager.dtype != result.dtype:
            raise Mismatch(f"output {index}: dtype {result.dtype}, eager has {eager.dtype}")
        if is_tensor and eager.shape != result.shape:
            shapes = f"shape {tuple(result.shape)}, eager has {tuple(eager.shape)}"
            raise Mismatch(f"output {index}: {shapes}")
        if not is_tensor:
            result = result.reshape(eager.shape).to(eager.dtype)
        reason = (draws or {}).get(index)
        if reason == "random":
            problem = implausible(_draw_result, call, index, result)
            if problem:
                raise Mismatch(f"output {index}: {problem}")
        elif reason is None:
            _compare_values(call, index, eager, result, is_complex)


def _compare_values(
    call: Call, index: int, expected: torch.Tensor, result: torch.Tensor, is_complex: bool
) -> None:
    correct = within_tolerance(result, expected)
    if bool(correct.all()) or points_to_the_same(call, index, expected, result):
        return
    if expected.dtype in WIDER:
        correct = correct | as_exact(result, expected, _run_neighbours(call, index), is_complex)
    if not bool(correct.all()):
        raise Mismatch(f"output {index}: {difference(result, expected, correct)}")


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """Return the real and imaginary parts of a complex tensor, and any other tensor unchanged."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def within_tolerance(result: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return for each element whether it equals eager's within the tolerance of the dtype."""
    if expected.dtype not in TOLERANCES:
        return result == expected
    relative, absolute = TOLERANCES[expected.dtype]
    return torch.isclose(
        result.double(), expected.double(), rtol=relative, atol=absolute, equal_nan=True
    )


# -- as exact as eager ----------------------------------------------------------------------------

# Eager's result and the float64 result, for the call itself and then for its neighbours.
Runs = Sequence[tuple[torch.Tensor, torch.Tensor]]


def as_exact(
    result: torch.Tensor, expected: torch.Tensor, runs: Runs, is_complex: bool = False
) -> torch.Tensor:
    """Return for each element whether float64 shows that it is as exact as eager's.

    Where eager overflows (or is NaN) only in its narrow dtype, the float64 value is expected. Both
    parts of a complex number (``is_complex``: the last axis) may have the larger error of the two.
    """
    runs = [(as_real(eager).double(), as_real(reference)) for eager, reference in runs]
    runs = [run for run in runs if all(tensor.shape == expected.shape for tensor in run)]
    if not runs or runs[0][1].dtype != torch.float64:
        return torch.zeros_like(expected, dtype=torch.bool)
    reference = runs[0][1]
    allowed = torch.zeros_like(reference)
    for eager, exact in runs:
        error = (eager - exact).abs()
        allowed = torch.maximum(allowed, torch.where(torch.isfinite(error), error, 0.0))
    if is_complex and allowed.numel():
        allowed = allowed.amax(-1, keepdim=True)
    distance = (result.double() - reference).abs()
    near = torch.isfinite(reference) & torch.isfinite(expected.double()) & (distance <= 2 * allowed)
    overflowed = torch.isfinite(reference) & ~torch.isfinite(expected.double())
    return near | (overflowed & within_tolerance(result, reference.to(result.dtype)))


def _run_neighbours(call: Call, index: int) -> Runs:
    """Return eager's result ``index`` and its float64 result, for the call and its neighbours."""
    runs = []
    for number in range(NEIGHBOURS + 1):
        near = call if number == 0 else neighbour(call, number)
        try:
            runs.append((eager_of(near)[index], eager_of(widened(near), wide=True)[index]))
        except Exception:  # torch refuses float64, or refuses a neighbour
            if number == 0:
                return []
    return [run for run in runs if all(isinstance(tensor, torch.Tensor) for tensor in run)]


def neighbour(call: Call, number: int) -> Call:
    """Return the call with floating-point numbers moved by at most one unit in the last place."""
    generator = torch.Generator().manual_seed(number)
    return _map_arguments(call, lambda tensor: nudged(tensor, generator))


def nudged(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return a copy with numbers moved by at most one unit in the last place; zeros stay."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.layout != torch.strided:
        return tensor
    eps = torch.finfo(tensor.dtype).eps
    signs = torch.randint(-1, 2, tensor.shape, generator=generator).double()
    wide = tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)
    moved = torch.where(torch.isfinite(wide), wide * (1 + eps * signs), wide)
    copy = tensor.detach().clone()
    copy.copy_(moved.to(tensor.dtype))
    return copy.requires_grad_(tensor.requires_grad)


def widened(call: Call) -> Call:
    """Return the call in float64 (complex128), dtypes among its arguments included."""
    return _map_arguments(
        call,
        lambda tensor: tensor.to(WIDER.get(tensor.dtype, tensor.dtype)),
        lambda leaf: WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf,
    )


def _map_arguments(
    call: Call,
    map_tensor: Callable[[torch.Tensor], torch.Tensor],
    map_other: Callable[[Any], Any] = lambda leaf: leaf,
) -> Call:
    args, kwargs = pytree.tree_map(
        lambda leaf: map_tensor(leaf) if isinstance(leaf, torch.Tensor) else map_other(leaf),
        (call.args, call.kwargs),
    )
    return replace(call, args=args, kwargs=kwargs)


def eager_of(call: Call, seed_number: int = 1, *, wide: bool = False) -> list[Any]:
    """Return the results of eager, seeded; ``wide`` makes float64 the default dtype."""
    default_dtype = torch.get_default_dtype()
    if wide:
        torch.set_default_dtype(torch.float64)
    try:
        seed(seed_number)
        result = call.module()(*[tensor.clone() for tensor in call.tensors()])
    finally:
        torch.set_default_dtype(default_dtype)
    return [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]


def _draw_result(call: Call, index: int, number: int) -> torch.Tensor:
    return as_real(eager_of(call, number)[index])


# -- indices --------------------------------------------------------------------------------------

# torch documents that these operators may return the index of any of several equal values.
ANY_OF_EQUAL = ("argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk")
# These operators return distinct indices along the axis.
_DISTINCT = ("argsort", "sort", "topk")


def points_to_the_same(call: Call, index: int, eager: torch.Tensor, result: torch.Tensor) -> bool:
    """Return whether index results select equal values, where torch leaves the choice open.

    The values are equal to the last bit, and each index occurs once where the operator sorts.
    """
    if call.op not in ANY_OF_EQUAL or index != (0 if call.op == "argsort" else 1):
        return False
    if eager.dtype != torch.int64 or call.kwargs.get("stable"):
        return False
    source = call.args[0]
    integers = [arg for arg in call.args[1:] if isinstance(arg, int) and not isinstance(arg, bool)]
    skipped = 1 if call.op in ("topk", "kthvalue") and "k" not in call.kwargs else 0
    dim = call.kwargs.get("dim", integers[skipped] if len(integers) > skipped else -1)
    if source.dim() == 0 or result.numel() == 0:
        return bool((result == eager).all())
    if not bool(((result >= 0) & (result < source.shape[dim])).all()):
        return False
    if result.dim() < source.dim():
        eager, result = eager.unsqueeze(dim), result.unsqueeze(dim)
    if call.op in _DISTINCT and bool((result.sort(dim).values.diff(dim=dim) == 0).any()):
        return False
    ours, theirs = (source.gather(dim, indices) for indices in (result, eager))
    return bool(((ours == theirs) | ((ours != ours) & (theirs != theirs))).all())


# -- messages -------------------------------------------------------------------------------------


def difference(result: torch.Tensor, expected: torch.Tensor, is_correct: torch.Tensor) -> str:
    """Describe the worst of the elements that are not correct, and count them."""
    wrong, expected_values = result[~is_correct], expected[~is_correct]
    gap = (wrong.double() - expected_values.double()).abs().nan_to_num(nan=float("inf"))
    worst = int(gap.argmax())
    return (
        f"{wrong[worst].item()} where eager has {expected_values[worst].item()} "
        f"({wrong.numel()} of {expected.numel()} differ)"
    )
