"""Serialize compiled functions for torch's precompilation.

A process that loads the file neither traces nor converts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from ortable.compat.torch import package_name, precompile_mode, remove_from_dynamo_package
from ortable.errors import OptionError, OrtableError, PrecompileError

from .compilation import Compilation

_log = logging.getLogger(__name__)


def is_serialization_requested(_: Compilation) -> bool:
    """Whether torch serializes the functions that it is compiling."""
    return precompile_mode() is not None


def decide_serialization(compilation: Compilation) -> None:
    """Set the kind of file for this graph; None if the backend or an option rules it out.

    Raises:
        OptionError: if a file is requested and an option works only in the compiling process.
        PrecompileError: if a file is requested and the backend works only in the compiling process.
    """
    requested, options = precompile_mode(), compilation.options
    in_torch = {"autotune": options.autotune, "torch_regions": options.torch_regions != "eager"}
    names = [name for name, is_set in in_torch.items() if is_set]
    reason = None
    if not compilation.is_native:
        reason = "graphs of a backend that compares results with torch cannot be serialized"
    elif names:
        reason = f"option {names[0]!r} needs torch's graph, which the file does not contain"
    if reason is None:
        compilation.serialization_mode = requested
        return
    if requested == "aot_compile":
        if names:
            raise OptionError(f"{reason[0].upper()}{reason[1:]}: remove it for aot_compile.")
        raise PrecompileError(f"aot_compile: {reason}.")
    _log.info("not serialized for other processes: %s", reason)


def is_not_serialized(compilation: Compilation) -> bool:
    """Whether the compiled function is not serialized."""
    return compilation.serialization_mode is None


def wrap_for_serialization(compilation: Compilation, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the callable for dynamo, serializable if possible.

    `run` is the function that AOTAutograd returned (`compilation.wrapped`), or the direct call of
    its only graph that `remove_wrapper` made.

    Raises:
        PrecompileError: if a file is requested that would not contain the weights.
    """
    from ortable.backend.precompile.artifact import (  # imports inductor
        Precompiled,
        precompiled_content,
        record_for_dynamo,
    )

    graph_module, requested = compilation.graph_module, compilation.serialization_mode
    if any(True for _ in (*graph_module.parameters(), *graph_module.buffers())):
        # torch passes weights before the arguments, except after loading the file
        reason = "dynamo left weights in the graph (install_free_tensors), which the file lacks"
        if requested == "aot_compile":
            raise PrecompileError(f"aot_compile: {reason}.").with_advice(
                "What to do: set torch._dynamo.config.install_free_tensors = False."
            )
        _log.info("not serialized for other processes: %s", reason)
        remove_from_dynamo_package(package_name(graph_module))
        return run
    wrapped = compilation.wrapped  # its method `serialize` makes the entry for torch's cache
    single_graph = None if run is wrapped else compilation.compiled[0][0]
    serialize = getattr(wrapped, "serialize", None)
    content = precompiled_content(single_graph, serialize, compilation.options)
    if requested == "aot_compile":
        return Precompiled(run, content)
    backend_id = package_name(graph_module)
    if backend_id is not None:
        try:
            record_for_dynamo(backend_id, content)
        except OrtableError as error:  # other processes then compile the function
            _log.info("%s is not serialized for other processes: %s", backend_id, error)
    return run
