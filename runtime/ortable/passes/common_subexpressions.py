"""Common subexpression elimination: merge equal nodes and equal initializers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ortable.ir import Graph, editing, initializers
from ortable.ir.captures import captured_by_protos, inner_graphs
from ortable.ir.editing import replace_inputs
from ortable.ir.node import Node
from ortable_generated.onnx.traits import RANDOM

from .weight_transposes import TRANSPOSED

MAX_COMPARED_BYTES = 1 << 20  # larger initializers are not compared by content
_COMPARABLE_TYPES = frozenset({int, float, str, bool, bytes})


def merge_equal_nodes(graph: Graph) -> int:
    """Merge nodes with the same operator, inputs and attributes into the first of them.

    The pass skips nodes without inputs, random operators, operators outside the ONNX domain, nodes
    with subgraphs or tensors as attributes, and nodes with a result that is a graph output or that
    a GraphProto reads.
    """
    merged = 0
    protected = {info.name for info in graph.outputs} | captured_by_protos(graph.nodes)
    first_by_key: dict[Hashable, Node] = {}
    replacements: dict[str, str] = {}
    remaining: list[Node] = []
    for node in graph.nodes:
        if replacements:
            replace_inputs(node, replacements)
        for inner in inner_graphs(node) if node.attrs else ():
            merged += merge_equal_nodes(inner)
        key = _node_key(node)
        first_equal = None if key is None else first_by_key.setdefault(key, node)
        if first_equal is None or first_equal is node or not protected.isdisjoint(node.outputs):
            remaining.append(node)
            continue
        for source, copy in zip(first_equal.outputs, node.outputs, strict=True):
            if copy:
                replacements[copy] = source
                editing.merge_facts(graph, source, copy)
        merged += 1
    if replacements:
        graph.successors.update(replacements)
        graph.nodes[:] = remaining
        graph.outdate_uses()
        editing.drop_dead_results(graph)
    return merged


def _node_key(node: Node) -> Hashable | None:
    """Return a key that is equal for nodes with equal results; None for a node to skip."""
    if node.domain or not node.inputs or node.op_type in RANDOM:
        return None
    attributes: list[Hashable] = []
    for name, value in sorted(node.attrs.items()):
        items = value if isinstance(value, (list, tuple)) else (value,)
        if not _COMPARABLE_TYPES.issuperset(map(type, items)):
            return None
        attributes.append((name, repr(value)))  # repr distinguishes -0.0 from 0.0 and 1.0 from 1
    present_outputs = tuple(map(bool, node.outputs))
    return (node.op_type, tuple(node.inputs), tuple(attributes), present_outputs)


def merge_equal_initializers(graph: Graph, buffers: bool = False) -> int:
    """Merge initializers with equal content into the first of them.

    Arrays of less than 1 MiB are compared by type, shape and bytes, and larger arrays by identity.
    Torch tensors are compared by storage, because a weight may change after conversion; with
    ``buffers``, small torch tensors are compared like arrays, except parameters and transposed
    weights.

    The pass skips initializers that are graph inputs or outputs, that a GraphProto reads, or whose
    data is not readable.
    """
    protected = {info.name for info in (*graph.inputs, *graph.outputs)}
    protected |= captured_by_protos(graph.nodes)
    first_by_key: dict[Hashable, str] = {}
    replacements: dict[str, str] = {}
    for names in _group_by_type(graph.initializers_dict, protected):
        for name in names:
            value = graph.initializers_dict[name]
            by_content = buffers and not name.endswith(TRANSPOSED) and not _is_parameter(value)
            key = _content_key(value, by_content)
            survivor = name if key is None else first_by_key.setdefault(key, name)
            if survivor != name:
                replacements[name] = survivor
                editing.merge_facts(graph, survivor, name)
    merged = len(replacements)
    for node in graph.nodes:
        if replacements:
            replace_inputs(node, replacements)
        for inner in inner_graphs(node) if node.attrs else ():
            merged += merge_equal_initializers(inner, buffers)
    for name in replacements:
        del graph.initializers_dict[name]
    if replacements:
        graph.outdate_uses()
        editing.drop_dead_results(graph)
    return merged


def _group_by_type(values: dict[str, Any], protected: set[str]) -> list[list[str]]:
    """Group initializer names by type and shape; drop groups of a single name."""
    groups: dict[Hashable, list[str]] = {}
    for name, value in values.items():
        if name not in protected:
            key = (initializers.dtype_of(value), initializers.shape_of(value))
            groups.setdefault(key, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _is_parameter(value: Any) -> bool:
    return type(value).__name__ == "Parameter" or getattr(value, "requires_grad", False)


def _content_key(value: Any, by_content: bool) -> Hashable | None:
    """Return a key of the content, the storage or the object; None if the data is not readable."""
    if not initializers.is_readable(value):
        return None
    torch_value = initializers.is_torch(value)
    if initializers.nbytes_of(value) < MAX_COMPARED_BYTES and (by_content or not torch_value):
        return initializers.content_key(initializers.to_numpy(value))
    return initializers.storage_key(value) if torch_value else ("object", id(value))
