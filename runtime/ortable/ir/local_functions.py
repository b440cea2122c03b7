"""Local functions: bodies that compute the same are one function. Bodies are compared as Python
values, before any protobuf is written."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from . import initializers
from .captures import captured, subgraphs
from .graph import Graph
from .node import Node
from .proto.walk import graphs_inside
from .proto.write_model import to_function
from .state import GraphState

_CONTENT = 4096  # elements up to which weights are compared by content, not by their memory
_REFERENCED = 1 << 16  # bytes from which constants are copied only when the model is written


class FunctionTable:
    """The functions of one model, by what they compute."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], dict[Hashable, str]] = {}

    def add(
        self,
        body: Graph,
        name: str,
        domain: str,
        doc_string: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        """Make ``body`` a function called ``name``, or ``name_1`` when another one has the name;
        returns the name of the function, an older one when it computes the same."""
        known = self._names.setdefault((domain, name), {})
        key = fingerprint(body)
        found = known.get(key)
        if found is not None:
            return found
        number = len(known)
        chosen = f"{name}_{number}" if number else name
        while (domain, chosen) in body.functions:
            number += 1
            chosen = f"{name}_{number}"
        known[key] = chosen
        within = (metadata or {}).get("module_path", "")
        proto = to_function(body, chosen, domain, _REFERENCED, within)
        domains = {"", *(called for called, _ in called_by_nodes(body.nodes))}
        imports = [each for each in proto.opset_import if each.domain in domains]
        del proto.opset_import[:]
        proto.opset_import.extend(imports)
        proto.doc_string = doc_string
        for entry, text in (metadata or {}).items():
            proto.metadata_props.add(key=entry, value=text)
        body.functions[domain, chosen] = proto
        return chosen


def fingerprint(graph: GraphState, numbers: dict[str, int] | None = None) -> Hashable:
    """What a graph computes, whatever its results and nodes are called: equal for equal bodies."""
    numbers = {"": 0} if numbers is None else numbers

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    inputs = tuple(number(info.name) for info in graph.inputs)
    constants = tuple(
        (number(name), _value_key(value)) for name, value in graph.initializers_dict.items()
    )
    nodes = tuple(
        (
            node.domain,
            node.op_type,
            tuple(map(number, node.inputs)),
            tuple((key, _value_key(value, numbers)) for key, value in node.attrs.items()),
            tuple(map(number, node.outputs)),
        )
        for node in graph.nodes
    )
    return inputs, constants, nodes, tuple(number(info.name) for info in graph.outputs)


def _value_key(value: Any, numbers: dict[str, int] | None = None) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(_value_key(item, numbers) for item in value)
    if isinstance(value, GraphState):
        return fingerprint(value, numbers)
    if isinstance(value, np.ndarray):
        return initializers.content_key(value)
    if initializers.is_torch(value):
        small = initializers.size_of(value) <= _CONTENT and initializers.is_readable(value)
        if small:
            return initializers.content_key(initializers.to_numpy(value))
        return initializers.storage_key(value) or id(value)
    if isinstance(value, TensorProto):
        return ("TensorProto", bytes(value.SerializeToString(deterministic=True)))
    if hasattr(value, "SerializeToString"):
        return (type(value).__name__, bytes(value.SerializeToString(deterministic=True)))
    return (type(value).__name__, repr(value))


def drop_unused_inputs(graph: GraphState) -> list[int]:
    """Remove the inputs that nothing reads; returns the places of those that are left."""
    read = {info.name for info in graph.outputs}
    for node in graph.nodes:
        read.update(node.inputs)
        read |= captured(node)
    kept = [place for place, info in enumerate(graph.inputs) if info.name in read]
    if len(kept) < len(graph.inputs):
        graph.inputs[:] = [graph.inputs[place] for place in kept]
    return kept


def called_by_nodes(nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """Operators of other domains than ONNX's as (domain, name), in graphs inside the nodes
    too."""
    found = []
    for node in nodes:
        if node.domain:
            found.append((node.domain, node.op_type))
        for inner in subgraphs(node):
            found.extend(
                called_by_nodes(inner.nodes)
                if isinstance(inner, GraphState)
                else called_by_protos(inner.node)
            )
    return found


def called_by_protos(nodes: Iterable[NodeProto]) -> list[tuple[str, str]]:
    """The same for nodes of protobuf."""
    found = []
    for node in nodes:
        if node.domain:
            found.append((node.domain, node.op_type))
        for inner in graphs_inside(node):
            found.extend(called_by_protos(inner.node))
    return found
