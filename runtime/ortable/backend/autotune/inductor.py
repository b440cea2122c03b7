"""Compile a graph of dynamo with inductor, for option `torch_regions`."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from ortable.backend.options import OrtOptions
from ortable.compat.torch import TracingContext
from ortable.errors import FallbackWarning, OptionError

_log = logging.getLogger(__name__)
# inductor draws the random numbers of eager
_SETTINGS = {"fallback_random": True}
_FAILED = "option torch_regions: inductor cannot compile a graph of {nodes} nodes ({reason})"
_warned = False


def compile_with_inductor(
    graph_module: GraphModule, args: Sequence[Any], options: OrtOptions
) -> Callable[..., Any] | None:
    """Compile a graph with inductor, forward and backward; its guards join those of dynamo.

    inductor's C++ compiler may be missing. The graph then runs in eager, with one warning per
    process, or the failure is an error if option `fallback` is "error".

    Args:
        graph_module: the graph of dynamo; inductor changes a copy.
        args: the arguments that the graph is compiled for.
        options: the options of the backend.

    Returns:
        The compiled callable, or None if inductor failed.

    Raises:
        OptionError: if inductor failed and option `fallback` is "error".
    """
    from ortable.compat.torch import inductor_compile, tracing

    graph_copy = GraphModule(graph_module, copy.deepcopy(graph_module.graph))
    graph_copy.meta.update(graph_module.meta)
    # AOTAutograd stores the metadata of inductor's graphs in a context of their own
    context = copy.copy(TracingContext.get())
    try:
        with tracing(context):
            return inductor_compile(graph_copy, list(args), options=_SETTINGS)  # type: ignore[no-any-return]
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]:.200}"
        message = _FAILED.format(nodes=len(graph_module.graph.nodes), reason=reason)
        if options.fallback == "error":
            raise OptionError(f"{message}.") from error
        _warn_once(f"{message}; it runs in eager", options)
        return None


def _warn_once(message: str, options: OrtOptions) -> None:
    global _warned
    _log.info("%s", message)
    if options.hints and not _warned:
        _warned = True
        warnings.warn(f"ortable: {message}.", FallbackWarning, stacklevel=2)
