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

MAX_COMPARED_BYTES = 1 << 20  # bytes up to which the contents of initializers are compared
_PLAIN = frozenset({int, float, str, bool, bytes})


def merge_equal_nodes(graph: Graph) -> int:
    """Merge nodes with the same operator, inputs and attributes into the first one.

    Random operators, operators of other domains, nodes with subgraphs or tensors among their
    attributes, and nodes that make a graph output are left alone.
    """
    merged = 0
    fixed = {info.name for info in graph.outputs} | captured_by_protos(graph.nodes)
    seen: dict[Hashable, Node] = {}
    replacements: dict[str, str] = {}
    remaining: list[Node] = []
    for node in graph.nodes:
        if replacements:
            replace_inputs(node, replacements)
        for inner in inner_graphs(node) if node.attrs else ():
            merged += merge_equal_nodes(inner)
        key = _node_key(node)
        first = None if key is None else seen.setdefault(key, node)
        if first is None or first is node or not fixed.isdisjoint(node.outputs):
            remaining.append(node)
            continue
        for source, copy in zip(first.outputs, node.outputs, strict=True):
            if copy:
                replacements[copy] = source
                editing.merge_knowledge(graph, source, copy)
        merged += 1
    if replacements:
        graph.successors.update(replacements)
        graph.nodes[:] = remaining
        graph.outdate_uses()
        editing.drop_dead_results(graph)
    return merged


def _node_key(node: Node) -> Hashable | None:
    """A key that is equal for nodes that compute the same; None for a node that is left alone."""
    if node.domain or not node.inputs or node.op_type in RANDOM:
        return None
    attributes: list[Hashable] = []
    for name, value in node.attrs.items():
        items = value if isinstance(value, (list, tuple)) else (value,)
        if not _PLAIN.issuperset(map(type, items)):
            return None
        attributes.append((name, repr(value)))  # as text: -0.0 is not 0.0, 1.0 is not 1
    shape = tuple(map(bool, node.outputs))
    return (node.op_type, tuple(node.inputs), tuple(attributes), shape)


def merge_equal_initializers(graph: Graph, buffers: bool = False) -> int:
    """Merge initializers with equal content into the first one.

    Arrays of less than 1 MiB are compared by type, shape and bytes, larger ones by identity, and
    tensors of torch by memory: a weight may change later, and each keeps its name. With
    ``buffers``, tensors that are no parameters are compared as arrays are.

    Initializers that are inputs or outputs too, that a GraphProto reads, or whose data is not
    readable are left alone.
    """
    fixed = {info.name for info in (*graph.inputs, *graph.outputs)}
    fixed |= captured_by_protos(graph.nodes)
    first: dict[Hashable, str] = {}
    replacements: dict[str, str] = {}
    for names in _group_by_type(graph.initializers_dict, fixed):
        for name in names:
            value = graph.initializers_dict[name]
            contents = buffers and not name.endswith(TRANSPOSED) and not _is_parameter(value)
            key = _content_key(value, contents)
            other = name if key is None else first.setdefault(key, name)
            if other != name:
                replacements[name] = other
                editing.merge_knowledge(graph, other, name)
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


def _group_by_type(values: dict[str, Any], fixed: set[str]) -> list[list[str]]:
    """Names of initializers by type and shape, without groups of one: only these are compared."""
    groups: dict[Hashable, list[str]] = {}
    for name, value in values.items():
        if name not in fixed:
            key = (initializers.dtype_of(value), initializers.shape_of(value))
            groups.setdefault(key, []).append(name)
    return [names for names in groups.values() if len(names) > 1]


def _is_parameter(value: Any) -> bool:
    return type(value).__name__ == "Parameter" or getattr(value, "requires_grad", False)


def _content_key(value: Any, contents: bool) -> Hashable | None:
    """A key that is equal for initializers with equal content; None for one without readable
    data.
    """
    if not initializers.is_readable(value):
        return None
    torch_value = initializers.is_torch(value)
    if initializers.nbytes_of(value) < MAX_COMPARED_BYTES and (contents or not torch_value):
        return initializers.content_key(initializers.to_numpy(value))
    return initializers.storage_key(value) if torch_value else ("object", id(value))
