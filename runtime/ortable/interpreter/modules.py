"""Convert leaf modules of `torch.fx.symbolic_trace` to graphs of torch functions.

A second trace of `forward`, for which no module is a leaf, gives calls of functions that the alias
tables contain. Unlike torch.export, it needs no example inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Tracer

from ..errors import ConversionError, UnsupportedCase


class _ThroughModules(Tracer):
    """A tracer for which no module is a leaf."""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return False


def functional_form(module: torch.nn.Module) -> GraphModule | None:
    """Return a module as a graph of torch functions, or None if it cannot be traced."""
    if isinstance(module, GraphModule):
        return module
    graph = getattr(module, "graph", None)
    if isinstance(graph, Graph):
        return GraphModule(module, graph)
    try:
        traced = _ThroughModules().trace(module)
    except Exception:  # forward may raise any error if it depends on values or sizes
        return None
    return GraphModule(module, traced)


def is_guard(module: Any) -> bool:
    """Whether a module is the input check that ``ExportedProgram.module()`` adds."""
    return type(module).__name__ == "GuardsFn"


def module_operands(
    graph_module: GraphModule, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """Return the values of the placeholders of a submodule for a call, including defaults.

    Raises ConversionError if an argument is missing, unknown, or passed twice, and UnsupportedCase
    if forward has variadic arguments, for which FX has a single placeholder.
    """
    inputs = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    names = [str(node.target) for node in inputs]
    variadic = [name for name in names if name.startswith("*")]
    if variadic:
        raise UnsupportedCase(
            f"the submodule has variadic arguments ({', '.join(variadic)}), for which its graph "
            "has one placeholder; give example inputs (args)"
        )
    operands: dict[str, Any] = {str(node.target): node.args[0] for node in inputs if node.args}
    operands.update(zip(names, args, strict=False))
    mistakes = {
        "without": [name for name in names if name not in operands and name not in kwargs],
        "with the unknown": [name for name in kwargs if name not in names],
        "twice with": [name for name in kwargs if name in names[: len(args)]],
        "with too many positional arguments:": [str(len(args))] if len(args) > len(names) else [],
    }
    operands.update(kwargs)
    if any(mistakes.values()):
        text = "; ".join(
            f"{mistake} {', '.join(argument_names)}"
            for mistake, argument_names in mistakes.items()
            if argument_names
        )
        raise ConversionError(
            f"the submodule has the arguments ({', '.join(names)}), but is called {text}"
        )
    return [operands[name] for name in names]


def find_attribute(module: Any, path: str, default: Any = ...) -> Any:
    """Return the attribute at a dotted path, or ``default``.

    Raises AttributeError if there is neither an attribute nor a default.
    """
    value = module
    for part in path.split("."):
        if not hasattr(value, part):
            if default is ...:
                raise AttributeError(f"{type(module).__name__} has no attribute '{path}'")
            return default
        value = getattr(value, part)
    return value
