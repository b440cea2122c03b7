"""Outcomes, comparisons and error texts that the checks of third-party models share."""

from __future__ import annotations

import copy
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ortable.errors import ExportError, FunctionNotFoundError, OrtableError

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
    """Return where two tensors differ: exactly for integers, by a tolerance for floats.

    Half precision may differ by four units in the last place of the largest number.
    """
    if not expected.numel() or not (expected.is_floating_point() or expected.is_complex()):
        return result != expected
    finite = expected[torch.isfinite(expected)].abs()
    units = 4 * torch.finfo(expected.dtype).eps
    largest = float(finite.max() if finite.numel() else 0.0)
    bound = max(LARGEST_RELATIVE, units) * largest + 1e-6
    relative = max(RELATIVE, units)
    return ~torch.isclose(result, expected, rtol=relative, atol=bound, equal_nan=True)


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.is_complex() else tensor.double()


# -- calls


def eager(model: torch.nn.Module, call: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    """Return every tensor that the model returns."""
    with torch.no_grad():
        return leaves(model(*copy.deepcopy(call)))


def leaves(value: Any) -> dict[str, torch.Tensor]:
    """Return tensors by their paths."""
    leaves_with_path, _ = pytree.tree_flatten_with_path(value)
    return {
        pytree.keystr(path) or "result": leaf.clone()
        for path, leaf in leaves_with_path
        if isinstance(leaf, torch.Tensor)
    }


def compile_model(model: torch.nn.Module) -> Callable[..., Any]:
    """Return the model under torch.compile; a call without a graph is an error."""
    torch._dynamo.reset()
    storage: dict[str, Any] = {}
    options = {"storage": storage, "fallback": "error"}
    function = torch.compile(model, backend="ortable", options=options)

    def call(*args: Any) -> Any:
        with torch.no_grad():
            result = function(*args)
        if not storage.get("instance"):
            raise Stop("uncaptured", "torch.compile", "no graph reached the backend")
        return result

    return call


def check_call(call: Callable[[], Any], expected: Mapping[str, torch.Tensor], where: str) -> None:
    """End the check unless a call returns the expected tensors."""
    try:
        result = call()
    except Exception as error:
        raise make_stop(error, where) from error
    if difference := differing(leaves(result), expected):
        raise Stop("mismatch", where, difference)


def make_stop(error: Exception, where: str = "") -> Stop:
    """Return the outcome for an error: refusals and failures of torch have types of their own."""
    if isinstance(error, Stop):
        return error
    origin, detail = described(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FunctionNotFoundError):
            return Stop("missing", where or origin, described(cause)[1])
        if isinstance(cause, ExportError):
            return Stop("uncaptured", where or origin, described(cause)[1])
        if isinstance(cause, OrtableError):
            return Stop("refused", where or origin, described(cause)[1])
        cause = getattr(cause, "inner_exception", None) or cause.__cause__
    return Stop("error", where or origin, detail)
