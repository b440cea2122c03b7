"""What the checks of others' models share: how one ends with an outcome, how results differ from
eager's, and what is said of an error. Called by tests/hf and tests/vision; the causes of an error
by tests/conformance and tests/fuzz, too."""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from .workers import Record

RELATIVE, OF_LARGEST = 1e-3, 2e-4


class Stop(Exception):
    """Ends a check with an outcome."""

    def __init__(self, outcome: str, where: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.where, self.detail = outcome, where, detail


def record_of(case: str, check: Callable[[str, str], None]) -> Record:
    """What comes of a case, whose model and mode are checked: exact, or what failed and where."""
    name, mode = case.rpartition("/")[0], mode_of(case)
    warnings.simplefilter("ignore")
    try:
        check(name, mode)
    except Stop as stop:
        return Record(case, stop.outcome, stop.where, stop.detail)
    return Record(case, "exact")


def mode_of(case: str) -> str:
    """How a model is run: static, dynamic..."""
    return case.rpartition("/")[2]


def count_exact(records: Sequence[Record], modes: Sequence[str]) -> Mapping[str, int]:
    """How many cases of each mode are exact."""
    exact = Counter(mode_of(record.case) for record in records if record.outcome == "exact")
    return {f"{mode} exact": exact[mode] for mode in modes}


def tried(outcome: str, made: Callable[[], Any], where: str = "") -> Any:
    """What a function returns; its error ends the check with an outcome."""
    try:
        return made()
    except Exception as error:
        place, detail = described(error)
        raise Stop(outcome, where or place, detail) from error


def frames(error: BaseException) -> list[Any]:
    """The lines that an error went through."""
    return list(traceback.extract_tb(error.__traceback__))


def causes_of(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and what it was raised for: dynamo wraps what a backend raises."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = getattr(error, "inner_exception", None) or error.__cause__ or error.__context__


def described(error: BaseException) -> tuple[str, str]:
    """Where an error was raised, and the first lines of what it says."""
    places = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames(error)[-1:]]
    return "".join(places), f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def differing(got: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> str:
    """What differs first, empty when nothing does."""
    if list(got) != list(wanted):
        return f"it returns {list(got)}, not {list(wanted)}"[:300]
    for name, tensor in wanted.items():
        found = got[name]
        if found.dtype != tensor.dtype or found.shape != tensor.shape:
            known = f"{tensor.dtype} {list(tensor.shape)}"
            return f"{name} is {found.dtype} {list(found.shape)}, not {known}"
        apart = _apart(found, tensor)
        if apart.any():
            furthest = float((_wide(found) - _wide(tensor)).abs()[apart].max())
            return (
                f"{name}: {int(apart.sum())} of {apart.numel()} differ, by up to {furthest:.3g} of "
                f"{float(_wide(tensor).abs().max()):.3g}"
            )
    return ""


def _apart(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """True where two tensors differ: numbers that are no floats, in anything."""
    if not wanted.numel() or not (wanted.is_floating_point() or wanted.is_complex()):
        return found != wanted
    finite = wanted[torch.isfinite(wanted)].abs()
    bound = OF_LARGEST * float(finite.max() if finite.numel() else 0.0) + 1e-6
    return ~torch.isclose(found, wanted, rtol=RELATIVE, atol=bound, equal_nan=True)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_complex() else tensor.double()
