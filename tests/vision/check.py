"""Compare a model of timm or torchvision with its export or compiled function.

A case is ``library/family/mode``. All results are compared, also for a second call.
"""

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
    """Return the record of a case: exact, or the failure and its place."""
    return record_of(case, _check)


def _check(name: str, mode: str) -> None:
    model = tried("unrunnable", lambda: models.build(name))
    second = SECOND if mode == "dynamic" else FIRST
    calls = [models.make(name, FIRST), models.make(name, second, seed=1)]
    expected = [tried("unrunnable", lambda c=call: eager(model, c)) for call in calls]
    if differing(eager(model, calls[0]), expected[0]):
        raise Stop("unrunnable", "eager", "its results differ from call to call")
    if mode == "compile":
        runner = compile_model(model)
    else:
        runner = export_model(model, calls[0], mode == "dynamic")
    for where, call, results in zip(("run", "second call"), calls, expected, strict=True):
        _check_call(lambda c=call: runner(*copy.deepcopy(c)), results, where)


def _check_call(call: Callable[[], Any], expected: Mapping[str, torch.Tensor], where: str) -> None:
    try:
        result = call()
    except Exception as error:
        raise _make_stop(error, where) from error
    if difference := differing(leaves(result), expected):
        raise Stop("mismatch", where, difference)


def export_model(model: torch.nn.Module, call: tuple[Any, ...], dynamic: bool) -> Any:
    """Return the model's program, with a static or a dynamic batch."""
    shapes = tuple({0: "batch"} for _ in call) if dynamic else None
    try:
        with _export_context(call):
            captured = ortable.export(model, copy.deepcopy(call), dynamic_shapes=shapes)
    except Exception as error:
        raise _make_stop(error) from error
    return captured


def _export_context(call: tuple[Any, ...]) -> AbstractContextManager[Any]:
    """Return a context for torch.export; detectors, which take lists, need workarounds."""
    if isinstance(call[0], list):
        return ortable.bypass_export_some_errors()
    return nullcontext()


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


# -- comparison with eager


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


# -- errors


def _make_stop(error: Exception, where: str = "") -> Stop:
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
