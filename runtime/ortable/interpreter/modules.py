"""Leaf modules in graphs of torch.fx.symbolic_trace: their forward is traced once more, this time
through torch's own modules, into torch functions that the alias tables know.  Nothing of
torch.export is involved, so no sizes are needed."""

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
    """``module`` as a graph of torch functions; None when its forward depends on values or sizes.

    A GraphModule, or a module of ``torch.export.unflatten``, already is a graph.
    """
    if isinstance(module, GraphModule):
        return module
    graph = getattr(module, "graph", None)
    if isinstance(graph, Graph):
        return GraphModule(module, graph)
    try:
        traced = _ThroughModules().trace(module)
    except (
        Exception
    ):  # forward is any Python code: whatever it raises, it cannot be traced without example inputs
        return None
    return GraphModule(module, traced)


def is_guard(module: Any) -> bool:
    """True for the module that ``ExportedProgram.module()`` adds to check its inputs: it computes
    nothing."""
    return type(module).__name__ == "GuardsFn"


def module_operands(
    graph_module: GraphModule, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    """Operands of a submodule, one per placeholder: positional, by name, else the default of its
    forward.

    Raises ConversionError when an argument is missing, or is one too many, and UnsupportedCase for
    a forward of any number of arguments: FX has one placeholder for all of them.
    """
    inputs = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    names = [str(node.target) for node in inputs]
    variadic = [name for name in names if name.startswith("*")]
    if variadic:
        raise UnsupportedCase(
            f"the submodule takes any number of arguments ({', '.join(variadic)}), which its graph "
            "does not tell apart; give example inputs (args)"
        )
    operands: dict[str, Any] = {str(node.target): node.args[0] for node in inputs if node.args}
    operands.update(zip(names, args, strict=False))
    wrong = {
        "without": [name for name in names if name not in operands and name not in kwargs],
        "with the unknown": [name for name in kwargs if name not in names],
        "twice with": [name for name in kwargs if name in names[: len(args)]],
        "with too many by place:": [str(len(args))] if len(args) > len(names) else [],
    }
    operands.update(kwargs)
    if any(wrong.values()):
        text = "; ".join(f"{how} {', '.join(which)}" for how, which in wrong.items() if which)
        raise ConversionError(
            f"the submodule takes the arguments ({', '.join(names)}), and is called {text}"
        )
    return [operands[name] for name in names]


def find_attribute(module: Any, path: str, default: Any = ...) -> Any:
    """The attribute at a dotted path of ``module``; ``default`` when there is none, if one is
    given."""
    value = module
    for part in path.split("."):
        if not hasattr(value, part):
            if default is ...:
                raise AttributeError(f"{type(module).__name__} has no attribute '{path}'")
            return default
        value = getattr(value, part)
    return value
