"""Join products of quantized weights that read the same rows, such as query, key and value.

MatMulNBits rounds the rows and starts the threads once for each product, which is a good part of
its time for one token. One product with the joined weights and a Split compute the same numbers.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ortable.ir import Graph, editing, initializers
from ortable.ir.captures import find_subgraphs, inner_graphs
from ortable.ir.node import Node

_KEY = "com.microsoft::MatMulNBits"
# Inputs of MatMulNBits: rows, codes, scales, zero points, group indices, bias. The parts of a
# weight have its N rows as first axis.
_CODES, _GROUP_INDICES = 1, 4


def join_products(graph: Graph) -> int:
    """Join products of the same rows in a graph and its subgraphs; return how many disappear.

    The parts of the weights must be initializers that nothing else reads, because they are stored
    joined in place of each alone.
    """
    count = 0
    groups: dict[Hashable, list[Node]] = {}
    for node in graph.nodes:
        for inner in inner_graphs(node) if node.attrs else ():
            count += join_products(inner)
        key = _group_key(graph, node)
        if key is not None:
            groups.setdefault(key, []).append(node)
    for nodes in groups.values():
        if len(nodes) > 1:
            _replace_products(graph, nodes)
            count += len(nodes) - 1
    return count


def _group_key(graph: Graph, node: Node) -> Hashable | None:
    """Return a key that is equal for products that can be joined; None for other nodes."""
    if node.key != _KEY or editing.is_output(graph, node.outputs[0]):
        return None
    parts = node.inputs[_CODES:]
    if len(parts) >= _GROUP_INDICES and parts[_GROUP_INDICES - _CODES]:
        return None
    types: list[Hashable] = []
    for name in parts:
        owner = _find_owner(graph, name)
        if owner is not None:
            types.append((id(owner), initializers.dtype_of(owner.initializers_dict[name])))
        elif name:
            return None
        else:
            types.append("")
    attributes = tuple(sorted((k, v) for k, v in node.attrs.items() if k != "N"))
    return (node.inputs[0], tuple(types), attributes)


def _find_owner(graph: Any, name: str) -> Any:
    """Return the graph with an initializer that a single node reads, or None."""
    is_inside = False
    while name and graph is not None:
        readers = graph.uses(name)
        interface = (*graph.inputs, *graph.outputs)  # an input replaces the initializer of its name
        if len(readers) != 1 or any(info.name == name for info in interface):
            return None
        if is_inside and len(find_subgraphs(readers[0])) > 1:  # each branch may read it
            return None
        if name in graph.initializers_dict:
            return graph if initializers.is_readable(graph.initializers_dict[name]) else None
        graph, is_inside = graph.parent, True
    return None


def _replace_products(graph: Graph, nodes: list[Node]) -> None:
    """Replace products of the same rows by one product and a Split."""
    first, sizes = nodes[0], [node.attrs["N"] for node in nodes]
    owners = {name: _find_owner(graph, name) for node in nodes for name in node.inputs[_CODES:]}
    inputs = [first.inputs[0]]
    for index in range(_CODES, len(first.inputs)):
        parts = [node.inputs[index] for node in nodes]
        inputs.append(_store_joined(owners[parts[0]], parts) if parts[0] else "")
    attributes = {**first.attrs, "N": sum(sizes)}
    name = graph.unique_name(f"{first.outputs[0]}_joined")
    rows = graph.insert_before(
        first, first.op_type, inputs, name, domain=first.domain, **attributes
    )
    pieces = graph.insert_before(
        first,
        "Split",
        [rows, graph.make_initializer("", np.array(sizes, np.int64))],
        len(sizes),
        axis=-1,
    )
    names = [node.outputs[0] for node in nodes]
    for old, piece in zip(names, pieces, strict=True):
        editing.merge_facts(graph, piece, old)
        graph.replace_uses(old, piece)
    graph.erase(*nodes)
    graph.rename(dict(zip(pieces, names, strict=True)))
    for name, owner in owners.items():
        if name:
            del owner.initializers_dict[name]
            editing.drop_dead_results(owner)


def _store_joined(owner: Any, names: list[str]) -> str:
    """Store the parts of weights as one initializer."""
    arrays = [initializers.to_numpy(owner.initializers_dict[name], name) for name in names]
    name = owner.unique_name(f"{names[0]}_joined")
    stored: str = owner.make_initializer(name, np.concatenate(arrays))
    return stored
