"""Compiled functions that go into files, for processes that neither trace nor convert: what
torch gets where it precompiles."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ortable.compat.torch import forget_for_dynamo, package_name, precompiles
from ortable.errors import OptionError, OrtableError, PrecompileError

from .compilation import Compilation

_log = logging.getLogger(__name__)


def is_asked(_: Compilation) -> bool:
    """Whether torch makes files of what is compiled now."""
    return precompiles() is not None


def check(compilation: Compilation) -> None:
    """Note what makes a file of this graph: nothing, where the backend or an option keeps functions
    out of dynamo's packages.

    Raises:
        OptionError: an option that works in this process only, where a file is asked for.
    """
    asked, autotune = precompiles(), compilation.options.autotune
    why = None
    if not compilation.is_native:
        why = "graphs of a backend that compares with torch stay in their process"
    elif autotune:
        why = "option 'autotune' needs torch's graph, which no file has"
    if why is None:
        compilation.kept = asked
        return
    if asked == "aot_compile":
        if autotune:
            raise OptionError(f"{why[0].upper()}{why[1:]}: remove it for aot_compile.")
        raise PrecompileError(f"aot_compile: {why}.")
    _log.info("not kept for other processes: %s", why)


def stays(compilation: Compilation) -> bool:
    """Whether what is compiled runs in this process alone."""
    return compilation.kept is None


def keep_for_processes(compilation: Compilation, made: Callable[..., Any]) -> Callable[..., Any]:
    """What dynamo calls, or keeps, of a compiled graph.

    `made` runs it; it is not what AOTAutograd returned where that does nothing but call the only
    compiled graph.

    Raises:
        PrecompileError: a file is asked for, and would not have the weights.
    """
    from ortable.backend.precompile.artifact import (  # imports inductor
        Precompiled,
        precompiled_content,
        record_for_dynamo,
    )

    graph_module, kept = compilation.graph_module, compilation.kept
    if any(True for _ in (*graph_module.parameters(), *graph_module.buffers())):
        # torch's wrapper passes them in front of the arguments, and the one that it loads does not
        why = "dynamo left weights in the graph (install_free_tensors), which no file has"
        if kept == "aot_compile":
            raise PrecompileError(f"aot_compile: {why}.").advised(
                "What to do: compile without torch._dynamo.config.install_free_tensors."
            )
        _log.info("not kept for other processes: %s", why)
        forget_for_dynamo(package_name(graph_module))
        return made
    wrapped = compilation.wrapped  # which knows its entry in torch's cache
    direct = None if made is wrapped else compilation.compiled[0][0]
    serialize = getattr(wrapped, "serialize", None)
    content = precompiled_content(direct, serialize, compilation.options)
    if kept == "aot_compile":
        return Precompiled(made, content)
    backend_id = package_name(graph_module)
    if backend_id is not None:
        try:
            record_for_dynamo(backend_id, content)
        except OrtableError as error:  # the function is compiled again in every process
            _log.info("%s is not kept for other processes: %s", backend_id, error)
    return made
