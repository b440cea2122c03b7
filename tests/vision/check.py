"""Compare a model of timm or torchvision with its export or compiled function.

A case is ``library/family/mode``. All results are compared, also for a second call.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

import ortable
from tests.suites.model_check import (
    Stop,
    check_call,
    compile_model,
    differing,
    eager,
    make_stop,
    record_of,
    tried,
)
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
        check_call(lambda c=call: runner(*copy.deepcopy(c)), results, where)


def export_model(model: torch.nn.Module, call: tuple[Any, ...], dynamic: bool) -> Any:
    """Return the model's program, with a static or a dynamic batch."""
    shapes = tuple({0: "batch"} for _ in call) if dynamic else None
    try:
        with _export_context(call):
            captured = ortable.export(model, copy.deepcopy(call), dynamic_shapes=shapes)
    except Exception as error:
        raise make_stop(error) from error
    return captured


def _export_context(call: tuple[Any, ...]) -> AbstractContextManager[Any]:
    """Return a context for torch.export; detectors, which take lists, need workarounds."""
    if isinstance(call[0], list):
        return ortable.bypass_export_some_errors()
    return nullcontext()
