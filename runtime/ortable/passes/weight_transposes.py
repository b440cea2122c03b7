"""A weight that is only read transposed is kept transposed: a view, so that nothing is copied
before the model is written."""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable.ir import Graph, editing, initializers
from ortable.ir.captures import captured
from ortable.ir.node import Node

TRANSPOSED = "_transposed"  # behind the name of a weight that is kept transposed


def fold_weight_transposes(graph: Graph) -> int:
    """Transposes of an initializer that nothing else reads become the transposed initializer,
    ``<name>_transposed``."""
    orders = _read_transposed(graph)
    if not orders:
        return 0
    readers: dict[str, str] = {}
    made: dict[str, str] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        if readers:
            editing.replace_inputs(node, readers)
        source = node.inputs[0] if node.op_type == "Transpose" and not node.domain else ""
        if source not in orders:
            kept.append(node)
            continue
        if source not in made:
            made[source] = _transposed(graph, source, orders[source])
        readers[node.outputs[0]] = made[source]
        editing.merge_knowledge(graph, made[source], node.outputs[0])
    graph.nodes[:] = kept
    for source in made:
        del graph.initializers_dict[source]
    editing.forget(graph)
    return len(readers)


def _read_transposed(graph: Graph) -> dict[str, tuple[int, ...]]:
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
        if name not in others and _can_transpose(graph.initializers_dict[name])
    }


def _can_transpose(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray) or initializers.is_torch(value)
    ) and initializers.is_readable(value)


def _transposed(graph: Graph, source: str, order: tuple[int, ...]) -> str:
    value = graph.initializers_dict[source]
    view = value.transpose(order) if isinstance(value, np.ndarray) else value.permute(order)
    return graph.make_initializer(graph.unique_name(f"{source}{TRANSPOSED}"), view)
