"""Operators that return memory of an input although their schemas say that they do not: torch's
functionalisation takes their results for new tensors, and a write into either would be lost. In
come the graph of an exported program and the user's converters, out go decompositions that show
torch the views. Called by functionalize.py."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ortable.compat.torch import (
    OperatorBase,
    OpOverload,
    composite_kernel,
    is_alias_of,
    is_composite,
    pytree,
)
from ortable.compat.undone import undone
from ortable.errors import ExportError
from ortable.exporter.dispatchers.dispatcher import own_converter
from ortable.interpreter.mutation import writes
from ortable_generated.aten import traits


def hidden_views(
    graph_module: GraphModule, dispatcher: Any, mutates: Mapping[str, str]
) -> dict[OperatorBase, Callable[..., Any]]:
    """The bodies of composite operators of the graph that return memory of an input, or write into
    one, which their schemas do not say: ``meshgrid``, ``broadcast_tensors``, ``instance_norm`` with
    running statistics.

    ``mutates``: operator -> the flag with which it writes into its running statistics.

    Raises ExportError where a converter of the user's own takes such an operator whole.
    """
    found: dict[OperatorBase, Callable[..., Any]] = {}
    for node in operators_of(graph_module):
        target: Any = node.target
        if target in found:
            continue
        shown = _is_identity(node) or target.name() in traits.HIDDEN_VIEW
        if is_composite(target) and writes(node, mutates) is not None:
            found[target] = composite_body(target)
            continue
        if not shown and not _hides_a_view(node):
            continue
        if own_converter(dispatcher, target.name()) is not None:
            raise ExportError(
                f"node '{node.name}' ({target.name()}) returns memory of its input, and the graph "
                "writes in place; torch loses such a write where your converter takes the operator "
                "whole. Remedy: do not write in place, or leave the converter out."
            )
        if not shown:
            found[target] = composite_body(target)
    return found


def _hides_a_view(node: Node) -> bool:
    """Whether a composite operator returns memory of an input that its schema does not name."""
    target: Any = node.target
    schema = target._schema
    if schema.is_mutable or not is_composite(target) or target.name() in traits.FRESH:
        return False
    if target.name() in traits.IDENTITY_IN_EVAL:  # it draws: no decomposition would be the same
        return False
    return not any(r.alias_info is not None for r in schema.returns) and _returns_an_input(node)


@contextlib.contextmanager
def shown_views(graph_module: GraphModule) -> Iterator[None]:
    """For as long as the block runs, who reads dropout that does nothing reads its input, which it
    returns, and ``unsafe_split`` is ``split``: torch takes both for copies."""
    changed: list[tuple[Node, Any, Any, Any]] = []

    def undo() -> None:
        for user, target, args, kwargs in reversed(changed):
            user.target, user.args, user.kwargs = target, args, kwargs

    with undone(undo):
        for node in operators_of(graph_module):
            target: Any = node.target
            plain = traits.HIDDEN_VIEW.get(target.name())
            if plain is not None:
                changed.append((node, target, node.args, node.kwargs))
                node.target = _overload(plain)
            elif _is_identity(node):
                source = _given(node)["input"]
                for user in list(node.users):
                    changed.append((user, user.target, user.args, user.kwargs))
                    user.replace_input_with(node, source)
        yield


def _is_identity(node: Node) -> bool:
    """Whether ``node`` is dropout in eval mode, or that drops nothing: it returns its input."""
    target: Any = node.target
    if target.name() not in traits.IDENTITY_IN_EVAL:
        return False
    given = _given(node)
    return given.get("train") is False or given.get("p") == 0


def _overload(name: str) -> Any:
    """The overload ``aten::split.Tensor``."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _given(node: Node) -> dict[str, Any]:
    """The arguments of a call by name."""
    target: Any = node.target
    names = [argument.name for argument in target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _returns_an_input(node: Node) -> bool:
    """Whether a result of a call shares memory with an input, tried on tensors without memory of
    the sizes that were traced (torch's own examples would note what the call asks of sizes); true
    where that fails."""
    target: Any = node.target
    given = map_arg((node.args, node.kwargs), lambda each: each.meta.get("val"))
    args, kwargs = pytree.tree_map(_without_memory, given)
    inputs = [each for each in pytree.tree_leaves((args, kwargs)) if torch.is_tensor(each)]
    if not inputs:
        return False
    try:
        with torch.no_grad():
            results = pytree.tree_leaves(target(*args, **kwargs))
    except Exception:  # what torch raises for such tensors says nothing about memory
        return True
    tensors = [each for each in results if torch.is_tensor(each)]
    return any(is_alias_of(result, each) for result in tensors for each in inputs)


def _without_memory(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes, strides = ([_traced_size(n) for n in each] for each in (value.shape, value.stride()))
        return torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta")
    return _traced_size(value)


def _traced_size(value: Any) -> Any:
    """The number that a symbolic one was traced with; 2 for one that depends on data."""
    if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    return value.node.hint if value.node.has_hint() else 2


def composite_body(target: Any) -> Callable[..., Any]:
    """What a composite operator is made of. (``target.decompose`` would come back here for ever:
    torch registers the table's function as the operator's own composite kernel.)"""
    return composite_kernel(target)


def operators_of(graph_module: GraphModule) -> list[Node]:
    """The calls of overloads, in the graph and in the graphs inside it."""
    return [
        node
        for module in graphs_of(graph_module)
        for node in module.graph.nodes
        if isinstance(node.target, OpOverload)
    ]


def graphs_of(graph_module: GraphModule) -> list[GraphModule]:
    """The graph and the graphs inside it."""
    return [module for module in graph_module.modules() if isinstance(module, GraphModule)]
