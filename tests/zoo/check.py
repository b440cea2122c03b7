"""Compare a program of the zoo with eager: compiled, trained for two steps, and exported.

A case is ``package/program/mode``. What torch's own backend ``aot_eager``, or torch.export, cannot
do either has the outcome ``uncaptured``.
"""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

import ortable
from tests.suites.model_check import (
    Stop,
    check_call,
    compile_model,
    described,
    differing,
    eager,
    leaves,
    make_stop,
    record_of,
    tried,
)
from tests.suites.workers import Record

from .program import LEFT_OUT, Program, read_builders

SIZES = (2, 3)
Build = Callable[[], Program]
Tensors = Mapping[str, torch.Tensor]


def check_case(case: str) -> Record:
    """Return the record of a case: exact, or the failure and its place."""
    return record_of(case, _check)


def _check(name: str, mode: str) -> None:
    def build() -> Program:
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(0)
        program = tried("unrunnable", read_builders()[name])
        for module in program.model.modules():
            if isinstance(module, torch.nn.modules.dropout._DropoutNd):
                module.p = 0.0
        return program

    if mode not in build().modes:
        raise Stop("exact", LEFT_OUT, "")
    {"compile": _check_compile, "train": _check_train, "export": _check_export}[mode](build)


def _make_calls(program: Program) -> list[tuple[Any, ...]]:
    calls = []
    for seed, size in enumerate(SIZES if program.dynamic else SIZES[:1] * 2):
        torch.manual_seed(seed)
        calls.append(tried("unrunnable", lambda n=size: program.make(n)))
    return calls


def _check_calls(runner: Callable[..., Any], calls: list[Any], expected: list[Tensors]) -> None:
    for where, call, results in zip(("run", "second call"), calls, expected, strict=True):
        check_call(lambda c=call: runner(*copy.deepcopy(c)), results, where)


# -- modes


def _check_compile(build: Build) -> None:
    program = build()
    model, calls = program.model.eval(), _make_calls(program)
    expected = _run_eager(model, calls)

    def check_torch() -> None:
        torch._dynamo.reset()
        with torch.no_grad():
            _check_calls(torch.compile(model, backend="aot_eager"), calls, expected)

    try:
        _check_calls(compile_model(model), calls, expected)
    except Stop as stop:
        _blame_torch(stop, check_torch)


def _run_eager(model: torch.nn.Module, calls: list[Any]) -> list[Tensors]:
    expected = [tried("unrunnable", lambda c=call: eager(model, c)) for call in calls]
    if differing(eager(model, calls[0]), expected[0]):
        raise Stop("unrunnable", "eager", "its results differ from call to call")
    return expected


def _check_train(build: Build) -> None:
    program = build()
    program.model.train()
    calls = _make_calls(program)
    expected = tried("unrunnable", lambda: _train(program, calls))
    options = {"fallback": "error"}
    try:
        _check_training(program, calls, expected, backend="ortable", options=options)
    except Stop as stop:
        _blame_torch(stop, lambda: _check_training(program, calls, expected, backend="aot_eager"))


def _check_training(program: Program, calls: list[Any], expected: Tensors, **options: Any) -> None:
    torch._dynamo.reset()
    try:
        trained = _train(program, calls, **options)
    except Exception as error:
        raise make_stop(error, "train") from error
    if difference := differing(trained, expected):
        raise Stop("mismatch", "train", difference)


def _train(program: Program, calls: list[Any], **options: Any) -> Tensors:
    """Train a copy of the model for a step with each call; return losses and the final state."""
    model = copy.deepcopy(program.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    function = torch.compile(model, **options) if options else model
    tensors = {}
    for number, call in enumerate(calls):
        torch.manual_seed(number)
        optimizer.zero_grad()
        loss = (program.loss or _mean_of_squares)(function(*copy.deepcopy(call)))
        loss.backward()
        optimizer.step()
        tensors[f"loss {number}"] = loss.detach()
    return {**tensors, **leaves(dict(model.state_dict()))}


def _mean_of_squares(result: Any) -> torch.Tensor:
    floats = [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
    return torch.stack(
        [x.abs().square().mean() for x in floats if x.is_floating_point() or x.is_complex()]
    ).sum()


def _check_export(build: Build) -> None:
    program = build()
    calls = _make_calls(program)
    expected = _run_eager(program.model.eval(), calls)
    shapes = _find_dynamic_shapes(program) if program.dynamic else None

    def check_torch() -> None:
        arguments = copy.deepcopy(calls[0])
        exported = torch.export.export(build().model.eval(), arguments, dynamic_shapes=shapes)
        _check_calls(exported.module(), calls, expected)

    try:  # a new model, because a call may fill a cache of the model
        _check_calls(_export(build, calls[0], shapes), calls, expected)
    except Stop as stop:
        _blame_torch(stop, check_torch)


def _find_dynamic_shapes(program: Program) -> Any:
    """Return dynamic shapes of the axes whose size depends on the number of samples."""
    small, large = (program.make(size) for size in SIZES)

    def find_axes(a: Any, b: Any) -> Any:
        if not isinstance(a, torch.Tensor):
            return None
        sizes = zip(a.shape, b.shape, strict=True)
        return {axis: torch.export.Dim.DYNAMIC for axis, (m, n) in enumerate(sizes) if m != n}

    shapes = pytree.tree_map(find_axes, small, large)
    parameters = inspect.signature(program.model.forward).parameters.values()
    for index, parameter in enumerate(parameters):
        # *args is one argument, of several shapes
        if parameter.kind is parameter.VAR_POSITIONAL and index < len(shapes):
            return (*shapes[:index], shapes[index:])
    return shapes


def _export(build: Build, call: tuple[Any, ...], shapes: Any) -> Any:
    """Export a new model; where that fails, with the other strategies and patches, as documented.

    The patches also make the outcome that of a new process: torch.compile turns the checks of
    torch.distributions off for good.
    """

    def export() -> Any:
        return ortable.export(build().model.eval(), copy.deepcopy(call), dynamic_shapes=shapes)

    try:
        return export()
    except Exception as error:
        first = make_stop(error)
    try:
        with ortable.bypass_export_some_errors():
            return export()
    except Exception as error:
        raise first from error


def _blame_torch(stop: Stop, check: Callable[[], None]) -> None:
    """End the check, as ``uncaptured`` where torch without ortable fails, too."""
    try:
        check()
    except Exception as error:
        raise Stop("uncaptured", "torch", f"{described(error)[1]} ({stop.detail})") from error
    raise stop
