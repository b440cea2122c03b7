"""One model of timm or torchvision, eager, exported and compiled: builds it, calls it, and compares
every tensor that it returns, at another batch too. In comes ``library/family/mode``, out comes a
record. Called in the workers of __main__.py."""

from __future__ import annotations

import copy
import traceback
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import ortable
from ortable.errors import ExportError, FunctionNotFoundError, OrtableError
from tests.suites.workers import Record

from . import models

MODES = ("static", "dynamic", "compile")
RELATIVE, OF_LARGEST = 1e-3, 2e-4
FIRST, SECOND = 2, 3


class _Stop(Exception):
    """Ends a check with an outcome."""

    def __init__(self, outcome: str, where: str, detail: str) -> None:
        super().__init__(detail)
        self.outcome, self.where, self.detail = outcome, where, detail


def check_case(case: str) -> Record:
    """What comes of one case: exact, or what failed and where."""
    name, _, mode = case.rpartition("/")
    warnings.simplefilter("ignore")
    try:
        _check(name, mode)
    except _Stop as stop:
        return Record(case, stop.outcome, stop.where, stop.detail)
    return Record(case, "exact")


def _check(name: str, mode: str) -> None:
    model = _tried("unrunnable", lambda: models.build(name))
    second = SECOND if mode == "dynamic" else FIRST
    calls = [models.make(name, FIRST), models.make(name, second, seed=1)]
    expected = [_tried("unrunnable", lambda c=call: eager(model, c)) for call in calls]
    if differing(eager(model, calls[0]), expected[0]):
        raise _Stop("unrunnable", "eager", "its results differ from call to call")
    if mode == "compile":
        runner = compiled(model)
    else:
        runner = exported(model, calls[0], mode == "dynamic")
    for place, call, wanted in zip(("run", "second call"), calls, expected, strict=True):
        _compared(lambda c=call: runner(*copy.deepcopy(c)), wanted, place)


def _compared(made: Callable[[], Any], wanted: Mapping[str, torch.Tensor], place: str) -> None:
    try:
        got = made()
    except Exception as error:
        raise _failed(error, place) from error
    if difference := differing(leaves(got), wanted):
        raise _Stop("mismatch", place, difference)


def exported(model: torch.nn.Module, call: tuple[Any, ...], dynamic: bool) -> Any:
    """The model's program, with a dynamic batch or not."""
    shapes = tuple({0: "batch"} for _ in call) if dynamic else None
    try:
        with _region(call):
            captured = ortable.export(model, copy.deepcopy(call), dynamic_shapes=shapes)
    except Exception as error:
        raise _failed(error) from error
    return captured


def _region(call: tuple[Any, ...]) -> AbstractContextManager[Any]:
    """What torch.export cannot do with detectors, which take lists of pictures, is worked around
    as a user of them would."""
    if isinstance(call[0], list):
        return ortable.bypass_export_some_errors()
    return nullcontext()


def compiled(model: torch.nn.Module) -> Callable[..., Any]:
    """The model through torch.compile, which has to give our backend something to do."""
    torch._dynamo.reset()
    storage: dict[str, Any] = {}
    options = {"storage": storage, "fallback": "error"}
    function = torch.compile(model, backend="ortable", options=options)

    def call(*args: Any) -> Any:
        with torch.no_grad():
            result = function(*args)
        if not storage.get("instance"):
            raise _Stop("uncaptured", "torch.compile", "no graph reached the backend")
        return result

    return call


# -- eager, and comparing with it


def eager(model: torch.nn.Module, call: tuple[Any, ...]) -> dict[str, torch.Tensor]:
    """Every tensor that the model returns."""
    with torch.no_grad():
        return leaves(model(*copy.deepcopy(call)))


def leaves(value: Any) -> dict[str, torch.Tensor]:
    """Tensors by the way to them."""
    found, _ = pytree.tree_flatten_with_path(value)
    return {
        pytree.keystr(path) or "result": leaf.clone()
        for path, leaf in found
        if isinstance(leaf, torch.Tensor)
    }


def differing(got: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> str:
    """What differs first, empty when nothing does."""
    if list(got) != list(wanted):
        return f"it returns {list(got)}, not {list(wanted)}"[:300]
    for name, tensor in wanted.items():
        found = got[name]
        if found.dtype != tensor.dtype or found.shape != tensor.shape:
            return (
                f"{name} is {found.dtype} {list(found.shape)}, not {tensor.dtype} "
                f"{list(tensor.shape)}"
            )
        apart = _apart(found, tensor)
        if apart.any():
            furthest = float((found.double() - tensor.double()).abs()[apart].max())
            return (
                f"{name}: {int(apart.sum())} of {apart.numel()} differ, by up to {furthest:.3g} of "
                f"{float(tensor.double().abs().max()):.3g}"
            )
    return ""


def _apart(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """True where two tensors differ: numbers that are no floats, in anything."""
    if not wanted.numel() or not wanted.is_floating_point():
        return found != wanted
    finite = wanted[torch.isfinite(wanted)].abs()
    bound = OF_LARGEST * float(finite.max() if finite.numel() else 0.0) + 1e-6
    return ~torch.isclose(found, wanted, rtol=RELATIVE, atol=bound, equal_nan=True)


# -- what is said of a failure


def _tried(outcome: str, made: Callable[[], Any]) -> Any:
    try:
        return made()
    except Exception as error:
        raise _Stop(outcome, *described(error)) from error


def _failed(error: Exception, place: str = "") -> _Stop:
    """The outcome that an error stands for: refusals have a name, and torch's own errors, which
    have no frame of ours below the last of torch's tracing, are torch's."""
    if isinstance(error, _Stop):
        return error
    where, detail = described(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FunctionNotFoundError):
            return _Stop("missing", place or where, described(cause)[1])
        if isinstance(cause, ExportError):
            return _Stop("uncaptured", place or where, described(cause)[1])
        if isinstance(cause, OrtableError):
            return _Stop("refused", place or where, described(cause)[1])
        cause = getattr(cause, "inner_exception", None) or cause.__cause__
    return _Stop("error", place or where, detail)


def described(error: BaseException) -> tuple[str, str]:
    """Where an error was raised, and the first lines of what it says."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return place, f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"
