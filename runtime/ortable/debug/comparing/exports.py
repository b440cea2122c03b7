"""An exported model against the module that it was made of. In come a program, a model or a path,
and a call, out comes a `Comparison`; called by `difference`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx
import torch

from ortable.errors import InputError, OrtableError
from ortable.exporter.account.sessions import proto_of
from ortable.exporter.export import export
from ortable.exporter.program import OnnxProgram, ProgramParts, parts_of

from ..compare import AskedTolerance
from .alone import Differs
from .describing import Way, captured, described
from .models import ModelWatch
from .records import Comparison
from .script import Exporting

_OURS = "com.microsoft"


def parts_of_export(
    model: Any, args: Sequence[Any], kwargs: Mapping[str, Any] | None, exported: Any
) -> ProgramParts:
    """What is compared: a program with what it was made of. A model alone does not have torch's
    graph: the module is exported again, and the model has to be what that makes.

    :raises InputError: the model has other inputs than the module's export
    """
    given = model if exported is None else exported
    if isinstance(given, OnnxProgram):
        return parts_of(given, args, kwargs)
    if isinstance(given, str | os.PathLike):
        given = onnx.load(os.fspath(given))
    opsets = {each.domain: each.version for each in given.opset_import}
    target = {"target": "onnxruntime"} if _OURS in opsets else {}
    fresh = export(model, tuple(args), dict(kwargs or {}), target_opset=opsets[""], **target)  # type: ignore[arg-type]
    parts = parts_of(fresh)
    wanted = [value.name for value in proto_of(parts.model).graph.input]
    names = [value.name for value in given.graph.input]
    if names != wanted:
        raise InputError(
            f"the model has the inputs {', '.join(names)}, and an export of the module has "
            f"{', '.join(wanted)}: give the OnnxProgram that `ortable.export` returned"
        )
    return replace(parts, model=given)


def compared_export(parts: ProgramParts, tolerance: AskedTolerance) -> Comparison:
    """The first result of an exported model that differs from eager's."""
    watch = ModelWatch(tolerance)
    watch.compare(parts)
    difference = None
    if watch.found is not None:
        difference = described(watch.found, watch, _way(parts, tolerance))
    elif watch.captured is not None:
        found = watch.captured
        difference = captured(
            found.name, "export", found.gap, found.expected, found.got, "torch.export"
        )
    return watch.tally.comparison(difference)


def _way(parts: ProgramParts, tolerance: AskedTolerance) -> Way:
    """How a script exports its operator."""
    opsets = {each.domain: each.version for each in proto_of(parts.model).opset_import}
    arguments: dict[str, Any] = {"target_opset": opsets[""]}
    arguments |= {"target": "onnxruntime"} if _OURS in opsets else {}
    arguments |= {} if parts.passes.optimize else {"optimize": False}
    return Way(_differ(arguments, tolerance), exporting=Exporting(arguments))


def _differ(arguments: Mapping[str, Any], tolerance: AskedTolerance) -> Differs:
    """Whether a function differs between eager and its export."""

    def differ(function: Any, args: Sequence[Any], dynamic: bool) -> bool:
        if dynamic:
            return False  # sizes of an export are free where it says so: the script has none
        watch = ModelWatch(tolerance)
        try:
            watch.compare(parts_of(export(_Call(function), tuple(args), **arguments)))
        except OrtableError:
            return False
        return watch.found is not None or watch.captured is not None

    return differ


class _Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)
