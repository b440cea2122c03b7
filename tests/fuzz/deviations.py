"""Which difference from eager is one of those that stay (deviations.yaml). In comes a program, out
goes the reason, or None. `oracle` asks where a program differs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import yaml

from .program import Program, Step, run_steps

HOLDS: dict[str, Callable[[torch.Tensor], bool]] = {
    "nan": lambda tensor: bool(tensor.isnan().any()),
    "infinite": lambda tensor: not bool(tensor.isfinite().all()),
    "strided": lambda tensor: not tensor.is_contiguous(),
}


@cache
def deviations() -> dict[str, tuple[str, str]]:
    """What the tensors of an operator must hold, and why it then differs, by operator."""
    found = yaml.safe_load((Path(__file__).parent / "deviations.yaml").read_text())
    return {each["op"]: (each["holds"], each["why"]) for each in found}


def deviation(program: Program) -> str | None:
    """Why the program may differ from eager; None where nothing that is listed excuses it."""
    listed = deviations()
    if not any(_operator(step) in listed for step in program.steps):
        return None
    reasons: list[str] = []

    def look(step: Step, values: list[Any], made: list[Any]) -> list[Any]:
        holds, why = listed.get(_operator(step), ("", ""))
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
