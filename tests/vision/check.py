"""One model of timm or torchvision, eager, exported and compiled: builds it, calls it, and compares
every tensor that it returns, at another batch too. In comes ``library/family/mode``, out comes a
record. Called in the workers of __main__.py."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.utils import _pytree as pytree

import ortable
from ortable.errors import ExportError, FunctionNotFoundError, OrtableError
from tests.suites.model_check import Stop, described, differing, record_of, tried
from tests.suites.workers import Record

from . import models

FIRST, SECOND = 2, 3


def check_case(case: str) -> Record:
    """What comes of one case: exact, or what failed and where."""
    return record_of(case, _check)


def _check(name: str, mode: str) -> None:
    model = tried("unrunnable", lambda: models.build(name))
    second = SECOND if mode == "dynamic" else FIRST
    calls = [models.make(name, FIRST), models.make(name, second, seed=1)]
    expected = [tried("unrunnable", lambda c=call: eager(model, c)) for call in calls]
    if differing(eager(model, calls[0]), expected[0]):
        raise Stop("unrunnable", "eager", "its results differ from call to call")
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
        raise Stop("mismatch", place, difference)


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
            raise Stop("uncaptured", "torch.compile", "no graph reached the backend")
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


# -- what is said of a failure


def _failed(error: Exception, place: str = "") -> Stop:
    """The outcome that an error stands for: refusals have a name, and torch's own errors, which
    have no frame of ours below the last of torch's tracing, are torch's."""
    if isinstance(error, Stop):
        return error
    where, detail = described(error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, FunctionNotFoundError):
            return Stop("missing", place or where, described(cause)[1])
        if isinstance(cause, ExportError):
            return Stop("uncaptured", place or where, described(cause)[1])
        if isinstance(cause, OrtableError):
            return Stop("refused", place or where, described(cause)[1])
        cause = getattr(cause, "inner_exception", None) or cause.__cause__
    return Stop("error", place or where, detail)
