"""Find the listed deviation (deviations.yaml) that explains a difference from eager."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

from .program import Program, Step, run_steps

LARGE = 2.0**20
_CALL = re.compile(r"torch\.ops\.(\w+)\.(\w+)")


Tensors = Sequence[torch.Tensor]


def _has_infinite(tensors: Tensors) -> bool:
    return any(not bool(tensor.isfinite().all()) for tensor in tensors)


def _has_extreme(tensors: Tensors) -> bool:
    return _has_infinite(tensors) or any(bool((x.abs() > LARGE).any()) for x in tensors)


def _has_offsets_beyond(tensors: Tensors) -> bool:
    """Return whether the last offset, in the second int vector, is not the number of indices."""
    ints = [x for x in tensors if x.dim() == 1 and not x.is_floating_point()]
    return len(ints) > 1 and int(ints[1][-1:].sum()) != len(ints[0])


def _has_singular(tensors: Tensors) -> bool:
    """Return whether a matrix, or a tensor reshaped to a square, has less than full rank."""
    matrices = [x.to(torch.complex128) for x in tensors if x.dim() > 1 and x.numel()]
    sides = [math.isqrt(x.numel()) for x in matrices]
    squares = [x for x, side in zip(matrices, sides, strict=True) if side**2 == x.numel()]
    matrices += [x.reshape(math.isqrt(x.numel()), -1) for x in squares if x.dim() > 2]
    return any(
        bool((torch.linalg.matrix_rank(x) < min(x.shape[-2:])).any())
        for x in matrices
        if not _has_infinite([x])
    )


def _has_overflow(tensors: Tensors) -> bool:
    """Return whether the exponential of a complex number overflows its dtype."""
    return any(
        bool((torch.view_as_real(x.resolve_conj()).abs() > limit).any())
        for x in tensors
        if x.is_complex()
        for limit in (88.0 if x.dtype == torch.complex64 else 709.0,)
    )


HOLDS: dict[str, Callable[[Tensors], bool]] = {
    "nan": lambda tensors: any(bool(x.isnan().any()) for x in tensors),
    "infinite": _has_infinite,
    "extreme": _has_extreme,
    "strided": lambda tensors: any(not x.is_contiguous() for x in tensors),
    "beyond": _has_offsets_beyond,
    "overflowing": _has_overflow,
    "any": lambda tensors: True,
    "complex_infinite": lambda tensors: (
        any(x.is_complex() for x in tensors) and _has_infinite(tensors)
    ),
    "flat": lambda tensors: any(float(x.max() - x.min()) < 0.07 for x in tensors),
    "squares": lambda tensors: any(
        bool((x.abs() > torch.finfo(x.dtype).max ** 0.5).any())
        for x in tensors
        if x.is_floating_point()
    ),
    "mixed": lambda tensors: len({x.dtype for x in tensors if x.is_floating_point()}) > 1,
    "singular": _has_singular,
    "half": lambda tensors: any(x.dtype == torch.float16 for x in tensors),
    "ties": lambda tensors: any(len(x.unique()) < x.numel() for x in tensors),
}


class Deviation(NamedTuple):
    """A row of the file: an operator pattern, a property of its tensors, and the reason.

    ``dynamic`` and ``gradient`` limit it to programs with dynamic sizes, or to gradients.
    """

    operator: str
    holds: str
    why: str
    dynamic: bool = False
    gradient: bool = False


@cache
def deviations() -> tuple[Deviation, ...]:
    """Return all rows, one for each operator."""
    rows = yaml.safe_load((Path(__file__).parent / "deviations.yaml").read_text())
    return tuple(
        Deviation(name, **{key: value for key, value in row.items() if key != "op"})
        for row in rows
        for name in (row["op"] if isinstance(row["op"], list) else [row["op"]])
    )


def find_rows(operator: str, dynamic: bool, gradient: bool = False) -> list[tuple[str, str]]:
    """Return the property and the reason of each row that matches an operator."""
    return [
        (row.holds, row.why)
        for row in deviations()
        if fnmatchcase(operator, row.operator)
        and dynamic >= row.dynamic
        and gradient >= row.gradient
    ]


def _find_rows_of_step(step: Step, dynamic: bool, gradient: bool) -> list[tuple[str, str]]:
    """Return the rows of a step's operators, those in control flow included."""
    called = {f"{namespace}::{name}" for namespace, name in _CALL.findall(step.text)}
    return [
        row for name in (*sorted(called), step.key) for row in find_rows(name, dynamic, gradient)
    ]


def deviation(program: Program, gradient: bool = False) -> str | None:
    """Return why the program, or its gradients, may differ from eager; None if unexplained."""
    if not any(_find_rows_of_step(step, program.dynamic, gradient) for step in program.steps):
        return None
    reasons: list[str] = []

    def collect_reasons(step: Step, values: list[Any], results: list[Any]) -> list[Any]:
        operands = [values[index] for index in step.operands]
        tensors = [operand for operand in operands if isinstance(operand, torch.Tensor)]
        for holds, why in _find_rows_of_step(step, program.dynamic, gradient):
            if HOLDS[holds](tensors):
                reasons.append(f"{step.key}: {why}")
        return results

    torch.manual_seed(1)
    run_steps(program, program.tensors(), collect_reasons)
    return reasons[0] if reasons else None
