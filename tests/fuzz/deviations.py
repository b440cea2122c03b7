"""Which difference from eager is one of those that stay (deviations.yaml). In comes a program, out
goes the reason, or None. `oracle` asks where a program differs."""

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


def _infinite(tensors: Tensors) -> bool:
    return any(not bool(each.isfinite().all()) for each in tensors)


def _extreme(tensors: Tensors) -> bool:
    return _infinite(tensors) or any(bool((each.abs() > LARGE).any()) for each in tensors)


def _beyond(tensors: Tensors) -> bool:
    """Whether the last of offsets, the second vector of ints, is not the number of indices."""
    ints = [each for each in tensors if each.dim() == 1 and not each.is_floating_point()]
    return len(ints) > 1 and int(ints[1][-1:].sum()) != len(ints[0])


def _singular(tensors: Tensors) -> bool:
    """Whether a matrix has less than full rank, or a tensor that is solved with as a square one."""
    matrices = [each.to(torch.complex128) for each in tensors if each.dim() > 1 and each.numel()]
    sides = [math.isqrt(each.numel()) for each in matrices]
    tall = [each for each, side in zip(matrices, sides, strict=True) if side**2 == each.numel()]
    matrices += [each.reshape(math.isqrt(each.numel()), -1) for each in tall if each.dim() > 2]
    return any(
        bool((torch.linalg.matrix_rank(each) < min(each.shape[-2:])).any())
        for each in matrices
        if not _infinite([each])
    )


def _overflowing(tensors: Tensors) -> bool:
    """Whether a complex number has an exponential beyond its dtype."""
    return any(
        bool((torch.view_as_real(each.resolve_conj()).abs() > limit).any())
        for each in tensors
        if each.is_complex()
        for limit in (88.0 if each.dtype == torch.complex64 else 709.0,)
    )


HOLDS: dict[str, Callable[[Tensors], bool]] = {
    "nan": lambda tensors: any(bool(each.isnan().any()) for each in tensors),
    "infinite": _infinite,
    "extreme": _extreme,
    "strided": lambda tensors: any(not each.is_contiguous() for each in tensors),
    "beyond": _beyond,
    "overflowing": _overflowing,
    "any": lambda tensors: True,
    "complex_infinite": lambda tensors: (
        any(each.is_complex() for each in tensors) and _infinite(tensors)
    ),
    "flat": lambda tensors: any(float(each.max() - each.min()) < 0.07 for each in tensors),
    "squares": lambda tensors: any(
        bool((each.abs() > torch.finfo(each.dtype).max ** 0.5).any())
        for each in tensors
        if each.is_floating_point()
    ),
    "mixed": lambda tensors: len({e.dtype for e in tensors if e.is_floating_point()}) > 1,
    "singular": _singular,
    "ties": lambda tensors: any(len(each.unique()) < each.numel() for each in tensors),
}


class Deviation(NamedTuple):
    """A row: an operator, in which * stands for any part, what its tensors must hold, why it
    differs then, and whether only where sizes are dynamic, or in gradients."""

    operator: str
    holds: str
    why: str
    dynamic: bool = False
    gradient: bool = False


@cache
def deviations() -> tuple[Deviation, ...]:
    """All rows, one for each operator."""
    found = yaml.safe_load((Path(__file__).parent / "deviations.yaml").read_text())
    return tuple(
        Deviation(name, **{key: value for key, value in each.items() if key != "op"})
        for each in found
        for name in (each["op"] if isinstance(each["op"], list) else [each["op"]])
    )


def listed(operator: str, dynamic: bool, gradient: bool = False) -> list[tuple[str, str]]:
    """What an operator must hold to differ, and why; ``dynamic``: in a program of dynamic sizes,
    ``gradient``: in one whose gradients are compared."""
    return [
        (row.holds, row.why)
        for row in deviations()
        if fnmatchcase(operator, row.operator)
        and dynamic >= row.dynamic
        and gradient >= row.gradient
    ]


def _listed(step: Step, dynamic: bool, gradient: bool) -> list[tuple[str, str]]:
    """The same for the operators of a step, those in the functions of control flow included."""
    called = {f"{space}::{name}" for space, name in _CALL.findall(step.text)}
    return [
        each for name in (*sorted(called), step.key) for each in listed(name, dynamic, gradient)
    ]


def deviation(program: Program, gradient: bool = False) -> str | None:
    """Why the program, with ``gradient`` its gradients too, may differ from eager; None where
    nothing that is listed excuses it."""
    if not any(_listed(step, program.dynamic, gradient) for step in program.steps):
        return None
    reasons: list[str] = []

    def look(step: Step, values: list[Any], made: list[Any]) -> list[Any]:
        given = [values[place] for place in step.operands]
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        for holds, why in _listed(step, program.dynamic, gradient):
            if HOLDS[holds](tensors):
                reasons.append(f"{step.key}: {why}")
        return made

    torch.manual_seed(1)
    run_steps(program, program.tensors(), look)
    return reasons[0] if reasons else None
