"""From a module to an exported program: the ways to call torch.export, and our error when none of
them works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram

from ..errors import ExportError
from . import dynamic_shapes as shapes
from .program import Request


def export_module(request: Request) -> tuple[ExportedProgram, Any, list[str]]:
    """``torch.export.export`` with our errors; also returns the dynamic shapes as torch took them,
    and in words what else was tried.

    Raises ExportError, with the input and the dimension when a dynamic shape does not fit.
    """
    mod, args, kwargs, options = request.model, request.args, request.kwargs, request.options
    arguments = shapes.bound_arguments(mod, args, kwargs)
    normalized = shapes.normalized(request.dynamic_shapes, arguments)
    failures: list[Exception] = []
    for strict in (options.strict, not options.strict) if options.fallback else (options.strict,):
        try:
            with shapes.small_sizes(normalized, arguments):
                program = torch.export.export(
                    mod, args, kwargs, dynamic_shapes=normalized, strict=strict
                )
        except Exception as error:  # forward is any Python code, torch.export raises many types
            failures.append(error)
            continue
        tried = [
            f"exported with strict={strict}, because strict={not strict} failed: {_headline(error)}"
            for error in failures
        ]
        request.record.strategy = f"torch.export, strict={strict}"
        return program, normalized, tried
    raise _export_failure(mod, failures[0], arguments, normalized) from failures[0]


def _headline(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _export_failure(
    mod: Any, error: Exception, arguments: Mapping[str, Any], dynamic_shapes: Any
) -> ExportError:
    found = shapes.explained(error, arguments, dynamic_shapes)
    if found is not None:
        return found
    text = (
        str(error)
        .partition("\nThe error above occurred when calling torch.export.export")[0]
        .strip()
    )
    return ExportError(
        f"torch.export could not trace {type(mod).__name__}: {type(error).__name__}: {text}\n"
        "Try ExportOptions(strict=True), or make the code independent of the values of tensors."
    )
