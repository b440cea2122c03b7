"""Compiled functions that go into files, for processes that neither trace nor convert: what torch
gets where it precompiles. In comes what AOTAutograd returned, out comes what `aot_compile` saves,
or the same with a note for dynamo; called by `entry`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ortable.backend.options import OrtOptions
from ortable.backend.precompile.callable import (
    Precompiled,
    precompiled_content,
    record_for_dynamo,
)
from ortable.compat.torch import forget_for_dynamo, package_name
from ortable.errors import OptionError, OrtableError, PrecompileError

from .skip_aot_wrapper import Compilations

__all__ = ["checked", "keep_for_processes"]

_log = logging.getLogger(__name__)


def checked(asked: str, options: OrtOptions, ours: bool) -> str | None:
    """`asked`, or None where this backend or an option keeps functions out of dynamo's packages.

    :param asked: what makes files of compiled graphs now: `precompiles` of compat
    :param ours: the graphs run in sessions of `execute.runner`
    :raises OptionError: an option that works in this process only, where a file is asked for
    """
    why = None
    if not ours:
        why = "graphs of a backend that compares with torch stay in their process"
    elif options.autotune:
        why = "option 'autotune' needs torch's graph, which no file has"
    if why is None:
        return asked
    if asked == "aot_compile":
        if options.autotune:
            raise OptionError(f"{why[0].upper()}{why[1:]}: remove it for aot_compile.")
        raise PrecompileError(f"aot_compile: {why}.")
    _log.info("not kept for other processes: %s", why)
    return None


def keep_for_processes(
    graph_module: Any,
    options: OrtOptions,
    kept: str,
    wrapped: Callable[..., Any],
    made: Callable[..., Any],
    compilations: Compilations,
) -> Callable[..., Any]:
    """What dynamo calls, or keeps, of a compiled graph.

    :param kept: what makes files of compiled graphs now: `precompiles` of compat
    :param wrapped: what AOTAutograd returned, which knows its entry in torch's cache
    :param made: what runs; not `wrapped` where that does nothing but call the only compiled graph
    :raises PrecompileError: a file is asked for, and would not have the weights
    """
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
    direct = None if made is wrapped else compilations[0][0]
    content = precompiled_content(direct, getattr(wrapped, "serialize", None), options)
    if kept == "aot_compile":
        return Precompiled(made, content)
    backend_id = package_name(graph_module)
    if backend_id is not None:
        try:
            record_for_dynamo(backend_id, content)
        except OrtableError as error:  # the function is compiled again in every process
            _log.info("%s is not kept for other processes: %s", backend_id, error)
    return made
