"""Store a weight in transposed form if only Transposes read it.

The transposed weight is a view, so nothing is copied before the model is written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ortable.ir import Graph, editing, initializers
from ortable.ir.captures import captured_by_protos
from ortable.ir.node import Node

TRANSPOSED = "_transposed"  # suffix of the name of a weight that is stored transposed


def fold_weight_transposes(graph: Graph) -> int:
    """Replace an initializer that only equal Transposes read by ``<name>_transposed``."""
    transposes: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if _is_transpose(node) and node.inputs[0] in graph.initializers_dict:
            transposes.setdefault(node.inputs[0], []).append(node)
    if not transposes:
        return 0
    graph_names = {info.name for info in (*graph.inputs, *graph.outputs)}
    graph_names |= captured_by_protos(graph.nodes)
    folded: list[Node] = []
    for source, nodes in transposes.items():
        perm = _common_perm(graph, source, nodes, graph_names)
        if not perm:
            continue
        transposed = _transpose_initializer(graph, source, perm)
        for node in nodes:
            graph.replace_uses(node.outputs[0], transposed)
            editing.merge_facts(graph, transposed, node.outputs[0])
        folded += nodes
        del graph.initializers_dict[source]
    if folded:
        editing.remove_nodes(graph, folded)
        editing.drop_dead_results(graph)
    return len(folded)


def _is_transpose(node: Node) -> bool:
    return node.op_type == "Transpose" and not node.domain


def _common_perm(
    graph: Graph, source: str, nodes: list[Node], graph_names: set[str]
) -> tuple[int, ...]:
    """Return the common permutation of the Transposes if they are the only readers, else ()."""
    perms = {tuple(node.attrs.get("perm") or ()) for node in nodes}
    results = {node.outputs[0] for node in nodes}
    if len(perms) != 1 or not graph_names.isdisjoint({source, *results}):
        return ()
    if len(graph.uses(source)) != len(nodes) or not _can_transpose(graph.initializers_dict[source]):
        return ()
    return perms.pop()


def _can_transpose(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray) or initializers.is_torch(value)
    ) and initializers.is_readable(value)


def _transpose_initializer(graph: Graph, source: str, order: tuple[int, ...]) -> str:
    value = graph.initializers_dict[source]
    view = value.transpose(order) if isinstance(value, np.ndarray) else value.permute(order)
    return graph.make_initializer(graph.unique_name(f"{source}{TRANSPOSED}"), view)
