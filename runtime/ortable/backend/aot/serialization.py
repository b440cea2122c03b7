"""Serialize compiled functions for processes that neither trace nor convert, where torch
precompiles.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ortable.compat.torch import forget_for_dynamo, package_name, precompile_mode
from ortable.errors import OptionError, OrtableError, PrecompileError

from .compilation import Compilation

_log = logging.getLogger(__name__)


def is_requested(_: Compilation) -> bool:
    """Whether torch writes what is compiled now to files."""
    return precompile_mode() is not None


def decide_serialization(compilation: Compilation) -> None:
    """Set the kind of file for this graph, or none if the backend or an option rules it out.

    Raises:
        OptionError: an option that works in this process only, where a file is requested.
        PrecompileError: the backend works in this process only, where a file is requested.
    """
    requested, autotune = precompile_mode(), compilation.options.autotune
    why = None
    if not compilation.is_native:
        why = "graphs of a backend that compares with torch stay in their process"
    elif autotune:
        why = "option 'autotune' needs torch's graph, which no file has"
    if why is None:
        compilation.serialize_for = requested
        return
    if requested == "aot_compile":
        if autotune:
            raise OptionError(f"{why[0].upper()}{why[1:]}: remove it for aot_compile.")
        raise PrecompileError(f"aot_compile: {why}.")
    _log.info("not kept for other processes: %s", why)


def stays_in_process(compilation: Compilation) -> bool:
    """Whether what is compiled is used in this process only."""
    return compilation.serialize_for is None


def wrap_for_serialization(compilation: Compilation, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the callable for dynamo, serializable if possible.

    `run` runs the graph; it is not what AOTAutograd returned where that only calls the single
    compiled graph.

    Raises:
        PrecompileError: a file is requested, and would not have the weights.
    """
    from ortable.backend.precompile.artifact import (  # imports inductor
        Precompiled,
        precompiled_content,
        record_for_dynamo,
    )

    graph_module, requested = compilation.graph_module, compilation.serialize_for
    if any(True for _ in (*graph_module.parameters(), *graph_module.buffers())):
        # torch's wrapper passes them in front of the arguments, and the one that it loads does not
        why = "dynamo left weights in the graph (install_free_tensors), which no file has"
        if requested == "aot_compile":
            raise PrecompileError(f"aot_compile: {why}.").with_advice(
                "What to do: compile without torch._dynamo.config.install_free_tensors."
            )
        _log.info("not kept for other processes: %s", why)
        forget_for_dynamo(package_name(graph_module))
        return run
    wrapped = compilation.wrapped  # which knows its entry in torch's cache
    direct = None if run is wrapped else compilation.compiled[0][0]
    serialize = getattr(wrapped, "serialize", None)
    content = precompiled_content(direct, serialize, compilation.options)
    if requested == "aot_compile":
        return Precompiled(run, content)
    backend_id = package_name(graph_module)
    if backend_id is not None:
        try:
            record_for_dynamo(backend_id, content)
        except OrtableError as error:  # the function is compiled again in every process
            _log.info("%s is not kept for other processes: %s", backend_id, error)
    return run
