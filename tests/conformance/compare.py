"""Results against eager's, element by element: in come a sample call, what eager gives and what
was found, out comes nothing or a Mismatch. check.py, compiled runs and gradients call it.

An element is right when it is within the tolerance of its dtype, or, failing that, when float64
shows it to be as exact as eager's: its error is at most twice the largest error that eager makes
*at this element*, over the call itself and a few calls whose inputs differ by one unit in the last
place. Eager's error at one input may be small by luck; over its neighbours it shows how many
digits the computation costs eager there. Another order of summation stays within that bound;
a wrong element does not, however inexact the elements beside it are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tests.conformance.drawn import implausible
from tests.conformance.samples import Call, seed

# relative and absolute, by dtype of the result
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
    found: Sequence[torch.Tensor],
    *,
    drawn: Mapping[int, str] | None = None,
) -> None:
    """Raise Mismatch unless ``found`` equals eager in number, dtype, shape and value.

    ``drawn``: places of outputs that depend on random numbers (``random``) or on memory as it was
    found (``memory``). The first are compared in dtype, shape and range, the others without values.
    """
    if len(expected) != len(found):
        raise Mismatch(f"{len(found)} outputs, eager has {len(expected)}")
    for place, (wanted, got) in enumerate(zip(expected, found, strict=True)):
        is_tensor = isinstance(wanted, torch.Tensor)
        is_complex = is_tensor and wanted.is_complex()
        wanted = as_real(wanted if is_tensor else torch.tensor(wanted))
        if is_tensor and wanted.dtype != got.dtype:
            raise Mismatch(f"output {place}: dtype {got.dtype}, eager has {wanted.dtype}")
        if is_tensor and wanted.shape != got.shape:
            shapes = f"shape {tuple(got.shape)}, eager has {tuple(wanted.shape)}"
            raise Mismatch(f"output {place}: {shapes}")
        if not is_tensor:
            got = got.reshape(wanted.shape).to(wanted.dtype)
        reason = (drawn or {}).get(place)
        if reason == "random":
            wrong = implausible(_draw, call, place, got)
            if wrong:
                raise Mismatch(f"output {place}: {wrong}")
        elif reason is None:
            _compare_values(call, place, wanted, got, is_complex)


def _compare_values(
    call: Call, place: int, wanted: torch.Tensor, got: torch.Tensor, is_complex: bool
) -> None:
    right = within_tolerance(got, wanted)
    if bool(right.all()) or points_to_the_same(call, place, wanted, got):
        return
    if wanted.dtype in WIDER:
        right = right | as_exact(got, wanted, _errors_of_call(call, place), is_complex)
    if not bool(right.all()):
        raise Mismatch(f"output {place}: {difference(got, wanted, right)}")


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """The real and imaginary parts of a complex tensor; any other as it is."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def within_tolerance(got: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """For each element, whether it is eager's within the tolerance of the dtype."""
    if wanted.dtype not in TOLERANCES:
        return got == wanted
    relative, absolute = TOLERANCES[wanted.dtype]
    return torch.isclose(
        got.double(), wanted.double(), rtol=relative, atol=absolute, equal_nan=True
    )


# -- as exact as eager ----------------------------------------------------------------------------

# What eager gives, and the same in float64, for a call and its neighbours: the call itself first.
Runs = Sequence[tuple[torch.Tensor, torch.Tensor]]


def as_exact(
    got: torch.Tensor, wanted: torch.Tensor, runs: Runs, is_complex: bool = False
) -> torch.Tensor:
    """For each element, whether float64 shows it to be as exact as eager's.

    Where eager overflows (or is NaN) in its narrow dtype only, the true value counts; where eager
    is finite, something that is not is wrong. The parts of a complex number (``is_complex``: the
    last axis) share the larger error of the two.
    """
    runs = [(as_real(eager).double(), as_real(true)) for eager, true in runs]
    runs = [run for run in runs if all(each.shape == wanted.shape for each in run)]
    if not runs or runs[0][1].dtype != torch.float64:
        return torch.zeros_like(wanted, dtype=torch.bool)
    true = runs[0][1]
    allowed = torch.zeros_like(true)
    for eager, exact in runs:
        error = (eager - exact).abs()
        allowed = torch.maximum(allowed, torch.where(torch.isfinite(error), error, 0.0))
    if is_complex and allowed.numel():
        allowed = allowed.amax(-1, keepdim=True)
    ours = (got.double() - true).abs()
    near = torch.isfinite(true) & torch.isfinite(wanted.double()) & (ours <= 2 * allowed)
    overflowed = torch.isfinite(true) & ~torch.isfinite(wanted.double())
    return near | (overflowed & within_tolerance(got, true.to(got.dtype)))


def _errors_of_call(call: Call, place: int) -> Runs:
    """Eager's result ``place`` beside the one in float64, for the call and its neighbours."""
    runs = []
    for number in range(NEIGHBOURS + 1):
        near = call if number == 0 else neighbour(call, number)
        try:
            runs.append((eager_of(near)[place], eager_of(widened(near), wide=True)[place]))
        except Exception:  # torch refuses float64, or a neighbour: there is no evidence
            if number == 0:
                return []
    return [run for run in runs if all(isinstance(each, torch.Tensor) for each in run)]


def neighbour(call: Call, number: int) -> Call:
    """The call with every floating-point number moved by one unit in the last place, or not."""
    generator = torch.Generator().manual_seed(number)
    return _mapped(call, lambda tensor: nudged(tensor, generator))


def nudged(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A copy whose numbers moved by at most one unit in the last place; zeros stay."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.layout != torch.strided:
        return tensor
    eps = torch.finfo(tensor.dtype).eps
    signs = torch.randint(-1, 2, tensor.shape, generator=generator).double()
    wide = tensor.detach().to(torch.complex128 if tensor.is_complex() else torch.float64)
    moved = torch.where(torch.isfinite(wide), wide * (1 + eps * signs), wide)
    fresh = tensor.detach().clone()
    fresh.copy_(moved.to(tensor.dtype))
    return fresh.requires_grad_(tensor.requires_grad)


def widened(call: Call) -> Call:
    """The call in float64 (complex128), dtypes among its arguments included."""
    return _mapped(
        call,
        lambda tensor: tensor.to(WIDER.get(tensor.dtype, tensor.dtype)),
        lambda leaf: WIDER.get(leaf, leaf) if isinstance(leaf, torch.dtype) else leaf,
    )


def _mapped(
    call: Call,
    of_tensor: Callable[[torch.Tensor], torch.Tensor],
    of_other: Callable[[Any], Any] = lambda leaf: leaf,
) -> Call:
    args, kwargs = pytree.tree_map(
        lambda leaf: of_tensor(leaf) if isinstance(leaf, torch.Tensor) else of_other(leaf),
        (call.args, call.kwargs),
    )
    return replace(call, args=args, kwargs=kwargs)


def eager_of(call: Call, number: int = 1, *, wide: bool = False) -> list[Any]:
    """The results of eager, seeded; ``wide``: what it makes of ints is float64, too."""
    before = torch.get_default_dtype()
    if wide:
        torch.set_default_dtype(torch.float64)
    try:
        seed(number)
        result = call.module()(*[tensor.clone() for tensor in call.tensors()])
    finally:
        torch.set_default_dtype(before)
    return [leaf for leaf in pytree.tree_leaves(result) if leaf is not None]


def _draw(call: Call, place: int, number: int) -> torch.Tensor:
    return as_real(eager_of(call, number)[place])


# -- indices --------------------------------------------------------------------------------------

# Their indices are any of those that equal values have, says torch's documentation.
ANY_OF_EQUAL = ("argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk")
# Of these, no two indices along the axis are the same.
_DISTINCT = ("argsort", "sort", "topk")


def points_to_the_same(call: Call, place: int, wanted: torch.Tensor, got: torch.Tensor) -> bool:
    """Whether two results of indices pick equal values, where torch leaves the choice open: equal
    to the last bit, and each index once where the operator sorts. ``place``: which of the
    operator's results they are; values come before indices."""
    if call.op not in ANY_OF_EQUAL or place != (0 if call.op == "argsort" else 1):
        return False
    if wanted.dtype != torch.int64 or call.kwargs.get("stable"):
        return False
    source = call.args[0]
    others = [arg for arg in call.args[1:] if isinstance(arg, int) and not isinstance(arg, bool)]
    skipped = 1 if call.op in ("topk", "kthvalue") and "k" not in call.kwargs else 0
    dim = call.kwargs.get("dim", others[skipped] if len(others) > skipped else -1)
    if source.dim() == 0 or got.numel() == 0:
        return bool((got == wanted).all())
    if not bool(((got >= 0) & (got < source.shape[dim])).all()):
        return False
    if got.dim() < source.dim():
        wanted, got = wanted.unsqueeze(dim), got.unsqueeze(dim)
    if call.op in _DISTINCT and bool((got.sort(dim).values.diff(dim=dim) == 0).any()):
        return False
    ours, eagers = (source.gather(dim, index) for index in (got, wanted))
    return bool(((ours == eagers) | ((ours != ours) & (eagers != eagers))).all())


# -- words ----------------------------------------------------------------------------------------


def difference(got: torch.Tensor, wanted: torch.Tensor, right: torch.Tensor) -> str:
    """The worst of the elements that are not ``right``, and how many there are."""
    left, other = got[~right], wanted[~right]
    gap = (left.double() - other.double()).abs().nan_to_num(nan=float("inf"))
    worst = int(gap.argmax())
    return (
        f"{left[worst].item()} where eager has {other[worst].item()} "
        f"({left.numel()} of {wanted.numel()} differ)"
    )
