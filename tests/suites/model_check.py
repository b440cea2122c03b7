"""Outcomes, comparisons and error texts that the checks of third-party models share."""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .workers import Record

RELATIVE, LARGEST_RELATIVE = 1e-3, 2e-4


class Stop(Exception):
    """Ends a check with an outcome."""

    def __init__(self, outcome: str, where: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.where, self.detail = outcome, where, detail


def record_of(case: str, check: Callable[[str, str], None]) -> Record:
    """Check the model and mode of a case, and return its record."""
    name, mode = case.rpartition("/")[0], mode_of(case)
    warnings.simplefilter("ignore")
    try:
        check(name, mode)
    except Stop as stop:
        return Record(case, stop.outcome, stop.where, stop.detail)
    return Record(case, "exact")


def mode_of(case: str) -> str:
    """Return the mode of a case: static, dynamic..."""
    return case.rpartition("/")[2]


def count_exact(records: Sequence[Record], modes: Sequence[str]) -> Mapping[str, int]:
    """Return the number of exact cases of each mode."""
    exact = Counter(mode_of(record.case) for record in records if record.outcome == "exact")
    return {f"{mode} exact": exact[mode] for mode in modes}


def tried(outcome: str, function: Callable[[], Any], where: str = "") -> Any:
    """Return the result of a function; its error ends the check with an outcome."""
    try:
        return function()
    except Exception as error:
        location, detail = described(error)
        raise Stop(outcome, where or location, detail) from error


def frames(error: BaseException) -> list[Any]:
    """Return the stack frames of an error."""
    return list(traceback.extract_tb(error.__traceback__))


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes; dynamo wraps the errors of a backend."""
    visited: set[int] = set()
    while error is not None and id(error) not in visited:
        visited.add(id(error))
        yield error
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__


def described(error: BaseException) -> tuple[str, str]:
    """Return where an error was raised, and the start of its message."""
    location = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames(error)[-1:]]
    return "".join(location), f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def differing(results: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> str:
    """Describe the first difference; return "" if there is none."""
    if list(results) != list(expected):
        return f"it returns {list(results)}, not {list(expected)}"[:300]
    for name, tensor in expected.items():
        result = results[name]
        if result.dtype != tensor.dtype or result.shape != tensor.shape:
            text = f"{tensor.dtype} {list(tensor.shape)}"
            return f"{name} is {result.dtype} {list(result.shape)}, not {text}"
        wrong = _differ(result, tensor)
        if wrong.any():
            largest = float((_widen(result) - _widen(tensor)).abs()[wrong].max())
            return (
                f"{name}: {int(wrong.sum())} of {wrong.numel()} differ, by up to {largest:.3g} of "
                f"{float(_widen(tensor).abs().max()):.3g}"
            )
    return ""


def _differ(result: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return where two tensors differ: exactly for integers, by a tolerance for floats."""
    if not expected.numel() or not (expected.is_floating_point() or expected.is_complex()):
        return result != expected
    finite = expected[torch.isfinite(expected)].abs()
    bound = LARGEST_RELATIVE * float(finite.max() if finite.numel() else 0.0) + 1e-6
    return ~torch.isclose(result, expected, rtol=RELATIVE, atol=bound, equal_nan=True)


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_complex() else tensor.double()
