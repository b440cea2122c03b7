"""Common subexpressions: nodes that compute the same become one, and so do initializers that hold
the same."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ortable.ir import Graph, editing, initializers
from ortable.ir.captures import captured_by_protos, inner_graphs
from ortable.ir.editing import replace_inputs
from ortable.ir.node import Node
from ortable_generated.onnx.traits import RANDOM

from .weight_transposes import TRANSPOSED

COMPARED = 1 << 20  # bytes up to which the contents of initializers are compared
_PLAIN = frozenset({int, float, str, bool, bytes})


def merge_equal_nodes(graph: Graph) -> int:
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
            replace_inputs(node, readers)
        for inner in inner_graphs(node) if node.attrs else ():
            merged += merge_equal_nodes(inner)
        key = _key(node)
        first = None if key is None else seen.setdefault(key, node)
        if first is None or first is node or not fixed.isdisjoint(node.outputs):
            kept.append(node)
            continue
        for source, copy in zip(first.outputs, node.outputs, strict=True):
            if copy:
                readers[copy] = source
                editing.merge_knowledge(graph, source, copy)
        merged += 1
    if readers:
        graph.successors.update(readers)
        graph.nodes[:] = kept
        graph.outdate_uses()
        editing.drop_dead_results(graph)
    return merged


def _key(node: Node) -> Hashable | None:
    """What two nodes that compute the same have in common; None for a node that is left alone."""
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
    """Of initializers that hold the same the first one stays. Arrays of less than 1 MiB are
    compared by type, shape and bytes; larger ones are the same when they are one object, and
    tensors of torch when they are the same memory: what a weight holds may change, and each keeps
    its name. With ``buffers``, tensors that are no parameters are compared as arrays are.

    Those that are inputs or outputs too, that a GraphProto reads, or whose data is not at hand
    are left alone."""
    fixed = {info.name for info in (*graph.inputs, *graph.outputs)}
    fixed |= captured_by_protos(graph.nodes)
    first: dict[Hashable, str] = {}
    readers: dict[str, str] = {}
    for names in _alike(graph.initializers_dict, fixed):
        for name in names:
            value = graph.initializers_dict[name]
            contents = buffers and not name.endswith(TRANSPOSED) and not _is_parameter(value)
            key = _content(value, contents)
            other = name if key is None else first.setdefault(key, name)
            if other != name:
                readers[name] = other
                editing.merge_knowledge(graph, other, name)
    merged = len(readers)
    for node in graph.nodes:
        if readers:
            replace_inputs(node, readers)
        for inner in inner_graphs(node) if node.attrs else ():
            merged += merge_equal_initializers(inner, buffers)
    for name in readers:
        del graph.initializers_dict[name]
    if readers:
        graph.outdate_uses()
        editing.drop_dead_results(graph)
    return merged


def _alike(values: dict[str, Any], fixed: set[str]) -> list[list[str]]:
    """Names of initializers of one type and shape, where there are several: only those are looked
    into."""
    found: dict[Hashable, list[str]] = {}
    for name, value in values.items():
        if name not in fixed:
            key = (initializers.dtype_of(value), initializers.shape_of(value))
            found.setdefault(key, []).append(name)
    return [names for names in found.values() if len(names) > 1]


def _is_parameter(value: Any) -> bool:
    return type(value).__name__ == "Parameter" or getattr(value, "requires_grad", False)


def _content(value: Any, contents: bool) -> Hashable | None:
    """What two initializers that hold the same have in common; None for one whose data is not at
    hand."""
    if not initializers.is_readable(value):
        return None
    torch_value = initializers.is_torch(value)
    if initializers.nbytes_of(value) < COMPARED and (contents or not torch_value):
        return initializers.content_key(initializers.to_numpy(value))
    return initializers.storage_key(value) if torch_value else ("object", id(value))
