"""Marks on the arguments of a graph of AOTAutograd: what people call them, where their memory lies
otherwise than it was traced, and which somebody writes without a trace. Steps of `aot.pipeline` and
`partition` set them; inputs, results and the key of a graph read them.

Names are those of the parameter, the buffer or the argument of the user's function that dynamo took
a value from; equal graphs share one conversion, which has the names of the first. PEFT merges
adapters into the weights of the layers that it wraps, and swaps adapters, with `weight.data`, which
leaves no trace."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

_NAME, _STRIDES, _WRITTEN = "ortable_argument", "ortable_strides", "ortable_untracked_writes"
_PARTS = ("._modules[", "._parameters[", "._buffers[")
# how dynamo writes where a value is, and what people call it
_SPELLINGS = (
    ("._modules['", "."), ("._parameters['", "."), ("._buffers['", "."), ("['", "."), ("']", ""),
    ('["', "."), ('"]', ""), ("[", "."), ("]", ""),
)  # fmt: skip
_ROOTS = ("L.self.", "L.", "G.")
_WRAPPED = "._modules['base_layer']"  # what every layer of PEFT calls the layer inside
_STALE = (
    "ortable: freeze='on' (or 'trust') makes constants of weights of PEFT's layers, which PEFT "
    "writes without a trace (merge_adapter, hotswap_adapter): call ortable.refresh(model) after "
    "that, or leave freeze at 'auto', which keeps these weights inputs."
)


# -- names


def argument_names(graph_module: GraphModule) -> tuple[str, ...]:
    """Name the arguments of a graph of dynamo: `layers.0.weight`, `x`, `batch.mask`. Those of one
    module are as in its state_dict; those of several start with the variable that holds it."""
    nodes = graph_module.graph.find_nodes(op="placeholder")
    sources = [_source_of(node) for node in nodes]
    modules = {module for source in sources if (module := _module_of(source))}
    around = modules.pop() if len(modules) == 1 else None
    return tuple(
        _readable(source if _module_of(source) != around else source[len(around or "") :])
        or node.name
        for node, source in zip(nodes, sources, strict=True)
    )


def mark_argument_names(graph_module: GraphModule, names: Sequence[str]) -> None:
    """Give the arguments of a graph of AOTAutograd the names of dynamo's; gradients and saved
    values keep those that they have in the graph."""
    for node in graph_module.graph.find_nodes(op="placeholder"):
        node.meta[_NAME] = _described(node.meta.get("desc"), names) or node.name


def mark_inner_name(node: Node, arguments: Sequence[Node]) -> None:
    """Give an argument of a partition the name of the value that it is, where the arguments of the
    whole graph have names."""
    if arguments and _NAME in arguments[0].meta:
        node.meta.setdefault(_NAME, node.name)


def argument_name(node: Node) -> str | None:
    """The name of an argument; None where nobody gave it one."""
    return node.meta.get(_NAME)


def _module_of(source: str) -> str:
    """The outermost module that holds a parameter, as dynamo writes it; empty for what no module
    holds."""
    places = [place for part in _PARTS if (place := source.find(part)) > 0]
    return source[: min(places)] if places else ""


def _described(description: object, names: Sequence[str]) -> str | None:
    """The name that a description of AOTAutograd stands for."""
    target = getattr(description, "target", None)  # of a parameter or buffer
    if isinstance(target, str):
        return target
    index = getattr(description, "idx", None)
    base = getattr(description, "base", None)
    if base is not None:  # a part of a tensor subclass
        whole = _described(base, names)
        part = getattr(description, "attr", index)
        return None if whole is None else f"{whole}.{part}"
    plain = type(description).__name__.startswith("Plain")
    return names[index] if plain and isinstance(index, int) and index < len(names) else None


def _readable(source: str) -> str:
    """`L['self']._modules['fc']._parameters['weight']` as `fc.weight`; empty for a value that
    dynamo computes."""
    if "(" in source:
        return ""
    for written, read in _SPELLINGS:
        source = source.replace(written, read)
    for root in _ROOTS:
        source = source.removeprefix(root)
    return source.strip(".")


def _source_of(node: Node) -> str:
    """Where dynamo found an argument, as Python text: `L['self']._modules['q']...`."""
    argument: Any = node.meta.get("grapharg")
    name = getattr(getattr(argument, "source", None), "name", "")
    return str(name() if callable(name) else name)


# -- strides


def mark_argument_strides(graph_module: GraphModule, arguments: Sequence[Any]) -> None:
    """Mark the arguments of a graph of AOTAutograd that have other strides than their nodes say:
    tensors that a forward graph saves, and whose strides it reports.

    Args:
        graph_module: the graph.
        arguments: what AOTAutograd compiles it for, with the true strides.
    """
    nodes = graph_module.graph.find_nodes(op="placeholder")
    for node, argument in zip(nodes, arguments, strict=False):
        pair = (node.meta.get("val"), argument)
        if any(not isinstance(t, torch.Tensor) or t.layout is not torch.strided for t in pair):
            continue
        traced, strides = (each.stride() for each in pair)
        if all(isinstance(step, int) for step in (*strides, *traced)) and strides != traced:
            node.meta[_STRIDES] = strides


def mark_any_strides(node: Node) -> None:
    """Mark an argument of a partition of whose strides nothing is known before the call."""
    node.meta.setdefault(_STRIDES, None)


def has_other_strides(node: Node) -> bool:
    """Whether an argument may have other strides than its node says."""
    return _STRIDES in node.meta


def argument_strides(node: Node) -> tuple[int, ...] | None:
    """The true strides of an argument; None where they are those of its node, or unknown."""
    return node.meta.get(_STRIDES)


# -- writes


def find_untracked_writes(graph_module: GraphModule) -> frozenset[int]:
    """Positions of the arguments of a graph of dynamo that are weights of PEFT's layers, their
    adapters included; none where nobody has imported PEFT, whatever their layers are called."""
    if "peft" not in sys.modules:
        return frozenset()
    names = [_source_of(node) for node in graph_module.graph.find_nodes(op="placeholder")]
    owners = tuple({name.partition(_WRAPPED)[0] for name in names if _WRAPPED in name})
    return frozenset(i for i, name in enumerate(names) if owners and name.startswith(owners))


def mark_untracked_writes(graph_module: GraphModule, positions: frozenset[int]) -> None:
    """Mark the arguments of a graph of AOTAutograd that are those of dynamo's graph."""
    for node in graph_module.graph.find_nodes(op="placeholder"):
        if getattr(node.meta.get("desc"), "idx", None) in positions:
            node.meta[_WRITTEN] = True


def warn_of_constants() -> None:
    """Warn that option `freeze` makes constants of such weights."""
    warnings.warn(_STALE, RuntimeWarning, stacklevel=2)


def has_untracked_writes(node: Node) -> bool:
    """Whether an argument is such a weight."""
    return _WRITTEN in node.meta
