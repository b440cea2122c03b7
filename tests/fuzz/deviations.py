"""Which difference from eager is one of those that stay (deviations.yaml). In comes a program, out
goes the reason, or None. `oracle` asks where a program differs."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml

from .program import Program, Step, run_steps

LARGE = 2.0**20


def _infinite(tensor: torch.Tensor) -> bool:
    return not bool(tensor.isfinite().all())


def _extreme(tensor: torch.Tensor) -> bool:
    return _infinite(tensor) or bool((tensor.abs() > LARGE).any())


HOLDS: dict[str, Callable[[torch.Tensor], bool]] = {
    "nan": lambda tensor: bool(tensor.isnan().any()),
    "infinite": _infinite,
    "extreme": _extreme,
    "strided": lambda tensor: not tensor.is_contiguous(),
}


@cache
def deviations() -> dict[str, tuple[str, str]]:
    """What the tensors of an operator must hold, and why it then differs, by the operator's name,
    in which * stands for any part."""
    found = yaml.safe_load((Path(__file__).parent / "deviations.yaml").read_text())
    return {
        name: (each["holds"], each["why"])
        for each in found
        for name in (each["op"] if isinstance(each["op"], list) else [each["op"]])
    }


def listed(operator: str) -> tuple[str, str] | None:
    """The entry of an operator."""
    return next((e for name, e in deviations().items() if fnmatchcase(operator, name)), None)


def deviation(program: Program) -> str | None:
    """Why the program may differ from eager; None where nothing that is listed excuses it."""
    if not any(listed(_operator(step)) for step in program.steps):
        return None
    reasons: list[str] = []

    def look(step: Step, values: list[Any], made: list[Any]) -> list[Any]:
        holds, why = listed(_operator(step)) or ("", "")
        given = [values[place] for place in step.operands]
        tensors = [each for each in given if isinstance(each, torch.Tensor)]
        if holds and any(HOLDS[holds](each) for each in tensors):
            reasons.append(f"{_operator(step)}: {why}")
        return made

    torch.manual_seed(1)
    run_steps(program, program.tensors(), look)
    return reasons[0] if reasons else None


def _operator(step: Step) -> str:
    return step.key.partition(".")[0]
