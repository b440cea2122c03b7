"""Marks on the arguments of a graph: user-facing name, true strides, untracked writes.

Steps of `aot` and `partition` set the marks; `lower`, `partition` and the graph key read them.

The name of an argument is that of the parameter, buffer or function argument that dynamo read it
from; equal graphs share one conversion, which has the names of the first graph. Untracked writes
occur in PEFT, which swaps adapters through `weight.data`; torch does not count such writes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

_NAME, _STRIDES, _WRITTEN = "ortable_argument", "ortable_strides", "ortable_untracked_writes"
_MODULE_ACCESSES = ("._modules[", "._parameters[", "._buffers[")
# replacements from dynamo's sources to user-facing names
_REPLACEMENTS = (
    ("._modules['", "."), ("._parameters['", "."), ("._buffers['", "."), ("['", "."), ("']", ""),
    ('["', "."), ('"]', ""), ("[", "."), ("]", ""),
)  # fmt: skip
_ROOTS = ("L.self.", "L.", "G.")
_BASE_LAYER = "._modules['base_layer']"  # the layer inside every PEFT layer
_STALE_WARNING = (
    "ortable: freeze='on' (or 'trust') makes constants of weights of PEFT layers, which PEFT "
    "writes without a version change (merge_adapter, hotswap_adapter). Call ortable.refresh(model) "
    "after such a write, or set freeze to 'auto', which keeps these weights as inputs."
)


# -- names


def argument_names(graph_module: GraphModule) -> tuple[str, ...]:
    """Name the arguments of a dynamo graph: `layers.0.weight`, `x`, `batch.mask`.

    The names of weights in a single module are those of its state_dict; with several modules they
    start with the variable that holds the module.
    """
    nodes = graph_module.graph.find_nodes(op="placeholder")
    sources = [_source_of(node) for node in nodes]
    modules = {module for source in sources if (module := _module_of(source))}
    owner = modules.pop() if len(modules) == 1 else None
    return tuple(
        _format_source(source if _module_of(source) != owner else source[len(owner or "") :])
        or node.name
        for node, source in zip(nodes, sources, strict=True)
    )


def mark_argument_names(graph_module: GraphModule, names: Sequence[str]) -> None:
    """Mark the arguments of an AOTAutograd graph with the names of dynamo's arguments.

    Gradients and saved values keep their names in the graph.
    """
    for node in graph_module.graph.find_nodes(op="placeholder"):
        node.meta[_NAME] = _name_of_description(node.meta.get("desc"), names) or node.name


def mark_partition_argument_name(node: Node, arguments: Sequence[Node]) -> None:
    """Name an argument of a partition after its node, if the arguments of the graph have names."""
    if arguments and _NAME in arguments[0].meta:
        node.meta.setdefault(_NAME, node.name)


def argument_name(node: Node) -> str | None:
    """Return the name of an argument; None if it has no mark."""
    return node.meta.get(_NAME)


def _module_of(source: str) -> str:
    """Return the source of the outermost module of a parameter, `L['self']`; empty without one."""
    indices = [index for part in _MODULE_ACCESSES if (index := source.find(part)) > 0]
    return source[: min(indices)] if indices else ""


def _name_of_description(description: object, names: Sequence[str]) -> str | None:
    target = getattr(description, "target", None)  # set for a parameter or buffer
    if isinstance(target, str):
        return target
    index = getattr(description, "idx", None)
    base = getattr(description, "base", None)
    if base is not None:  # a part of a tensor subclass
        name = _name_of_description(base, names)
        part = getattr(description, "attr", index)
        return None if name is None else f"{name}.{part}"
    is_plain = type(description).__name__.startswith("Plain")
    return names[index] if is_plain and isinstance(index, int) and index < len(names) else None


def _format_source(source: str) -> str:
    """Convert `L['self']._modules['fc']._parameters['weight']` to `fc.weight`.

    The result is empty for a value that dynamo computes.
    """
    if "(" in source:
        return ""
    for old, new in _REPLACEMENTS:
        source = source.replace(old, new)
    for root in _ROOTS:
        source = source.removeprefix(root)
    return source.strip(".")


def _source_of(node: Node) -> str:
    """Return dynamo's source of an argument as Python text: `L['self']._modules['q']...`."""
    argument: Any = node.meta.get("grapharg")
    name = getattr(getattr(argument, "source", None), "name", "")
    return str(name() if callable(name) else name)


# -- strides


def mark_argument_strides(graph_module: GraphModule, arguments: Sequence[Any]) -> None:
    """Mark the arguments whose true strides differ from those of their nodes.

    These are arguments of a backward graph that the forward graph returned with other strides than
    torch traced. Symbolic strides get no mark.

    Args:
        graph_module: the graph of AOTAutograd.
        arguments: the example arguments of AOTAutograd, with the true strides.
    """
    nodes = graph_module.graph.find_nodes(op="placeholder")
    for node, argument in zip(nodes, arguments, strict=False):
        pair = (node.meta.get("val"), argument)
        if any(
            not isinstance(value, torch.Tensor) or value.layout is not torch.strided
            for value in pair
        ):
            continue
        traced, strides = (tensor.stride() for tensor in pair)
        if all(isinstance(stride, int) for stride in (*strides, *traced)) and strides != traced:
            node.meta[_STRIDES] = strides


def mark_unknown_strides(node: Node) -> None:
    """Mark an argument of a partition whose strides are unknown before the call."""
    node.meta.setdefault(_STRIDES, None)


def has_untraced_strides(node: Node) -> bool:
    """Whether the strides of an argument may differ from those of its node."""
    return _STRIDES in node.meta


def argument_strides(node: Node) -> tuple[int, ...] | None:
    """Return the true strides of an argument; None if unknown or equal to those of its node."""
    return node.meta.get(_STRIDES)


# -- writes


def find_untracked_writes(graph_module: GraphModule) -> frozenset[int]:
    """Return the positions of the arguments of a dynamo graph that PEFT may write to.

    They are the parameters and buffers of all layers with a `base_layer`, which include adapters.
    The result is empty unless PEFT is imported.
    """
    if "peft" not in sys.modules:
        return frozenset()
    names = [_source_of(node) for node in graph_module.graph.find_nodes(op="placeholder")]
    owners = tuple({name.partition(_BASE_LAYER)[0] for name in names if _BASE_LAYER in name})
    return frozenset(i for i, name in enumerate(names) if owners and name.startswith(owners))


def mark_untracked_writes(graph_module: GraphModule, positions: frozenset[int]) -> None:
    """Mark the arguments of an AOTAutograd graph that are at these positions of dynamo's graph."""
    for node in graph_module.graph.find_nodes(op="placeholder"):
        if getattr(node.meta.get("desc"), "idx", None) in positions:
            node.meta[_WRITTEN] = True


def warn_of_frozen_peft_weights() -> None:
    """Warn that option `freeze` makes constants of weights that PEFT writes to."""
    warnings.warn(_STALE_WARNING, RuntimeWarning, stacklevel=2)


def has_untracked_writes(node: Node) -> bool:
    """Whether PEFT may write to an argument without a version change."""
    return _WRITTEN in node.meta
