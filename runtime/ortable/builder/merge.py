"""Passes that make a graph smaller without computing anything: nodes that compute the same become
one, and a weight that is only read transposed is kept transposed (a view: nothing is copied before
the model is written)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from . import constants, initializers, passes
from .captures import captured, captured_by_protos, subgraphs
from .node import Node
from .state import GraphState

if TYPE_CHECKING:
    from .graph import GraphBuilder

TURNED = "_transposed"  # behind the name of a weight that is kept transposed
_PLAIN = (int, float, str, bool, bytes)


def merge_equal_nodes(graph: GraphBuilder) -> int:
    """Of nodes with the same operator, inputs and attributes the first one stays; the others'
    readers read it. Random operators, operators of other domains, nodes with subgraphs or tensors
    among their attributes, and nodes that make a graph output are left alone."""
    merged = 0
    fixed = {info.name for info in graph.outputs} | captured_by_protos(graph.nodes)
    seen: dict[Hashable, Node] = {}
    readers: dict[str, str] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        if readers:
            passes.replace_inputs(node, readers)
        for inner in subgraphs(node) if node.attrs else ():
            if isinstance(inner, GraphState):
                merged += merge_equal_nodes(inner)  # type: ignore[arg-type]
        key = _key(node)
        first = None if key is None else seen.setdefault(key, node)
        if first is None or first is node or not fixed.isdisjoint(node.outputs):
            kept.append(node)
            continue
        for source, copy in zip(first.outputs, node.outputs, strict=True):
            if copy:
                readers[copy] = source
                passes.merge_knowledge(graph, source, copy)
        merged += 1
    if readers:
        graph.nodes[:] = kept
        passes.forget(graph)
    return merged


def _key(node: Node) -> Hashable | None:
    """What two nodes that compute the same have in common; None for a node that is left alone."""
    if node.domain or not node.inputs or node.op_type in constants.RANDOM:
        return None
    attributes: list[Hashable] = []
    for name, value in node.attrs.items():
        items = value if isinstance(value, (list, tuple)) else (value,)
        if not all(type(item) in _PLAIN for item in items):
            return None
        attributes.append((name, repr(value)))  # as text: -0.0 is not 0.0, 1.0 is not 1
    shape = tuple(bool(name) for name in node.outputs)
    return (node.op_type, tuple(node.inputs), tuple(attributes), shape)


def turn_weights(graph: GraphBuilder) -> int:
    """Transposes of an initializer that nothing else reads become the transposed initializer,
    ``<name>_transposed``."""
    turned = _turned(graph)
    if not turned:
        return 0
    readers: dict[str, str] = {}
    made: dict[str, str] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        if readers:
            passes.replace_inputs(node, readers)
        source = node.inputs[0] if node.op_type == "Transpose" and not node.domain else ""
        if source not in turned:
            kept.append(node)
            continue
        if source not in made:
            made[source] = _transposed(graph, source, turned[source])
        readers[node.outputs[0]] = made[source]
        passes.merge_knowledge(graph, made[source], node.outputs[0])
    graph.nodes[:] = kept
    for source in made:
        del graph.initializers_dict[source]
    passes.forget(graph)
    return len(readers)


def _turned(graph: GraphBuilder) -> dict[str, tuple[int, ...]]:
    """Initializers that are read by Transposes alone, all with the same permutation."""
    found: dict[str, tuple[int, ...]] = {}
    others = {info.name for info in (*graph.inputs, *graph.outputs)}
    for node in graph.nodes:
        if node.op_type == "Transpose" and not node.domain:
            source, order = node.inputs[0], tuple(node.attrs.get("perm") or ())
            if source in graph.initializers_dict and order:
                if found.setdefault(source, order) != order or node.outputs[0] in others:
                    others.add(source)
                continue
        others.update(node.inputs)
        if node.attrs:
            others |= captured(node)
    return {
        name: order
        for name, order in found.items()
        if name not in others and _can_turn(graph.initializers_dict[name])
    }


def _can_turn(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray) or initializers.is_torch(value)
    ) and initializers.is_readable(value)


def _transposed(graph: GraphBuilder, source: str, order: tuple[int, ...]) -> str:
    value = graph.initializers_dict[source]
    view = value.transpose(order) if isinstance(value, np.ndarray) else value.permute(order)
    return graph.make_initializer(graph.unique_name(f"{source}{TURNED}"), view)
