"""Local functions, deduplicated by comparing bodies as Python values before protobuf is written."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto

from . import initializers
from .captures import captured_names, find_subgraphs
from .graph import Graph
from .node import Node
from .proto.walk import graphs_inside
from .proto.write_model import to_function
from .state import GraphState

_MAX_COMPARED = 4096  # elements up to which weights are compared by content, not by their memory
_MIN_REFERENCED = 1 << 16  # bytes from which constants are copied only when the model is written


class FunctionTable:
    """The functions of one model, keyed by what they compute."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], dict[Hashable, str]] = {}

    def add_body(
        self,
        body: Graph,
        name: str,
        domain: str,
        doc_string: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> str:
        """Make ``body`` a function called ``name``, or ``name_1`` when the name is taken.

        Returns the name of the function: an existing one when it computes the same.
        """
        by_key = self._names.setdefault((domain, name), {})
        key = graph_fingerprint(body)
        existing = by_key.get(key)
        if existing is not None:
            return existing
        number = len(by_key)
        unique = f"{name}_{number}" if number else name
        while (domain, unique) in body.functions:
            number += 1
            unique = f"{name}_{number}"
        by_key[key] = unique
        within = (metadata or {}).get("module_path", "")
        proto = to_function(body, unique, domain, _MIN_REFERENCED, within)
        domains = {"", *(called for called, _ in called_by_nodes(body.nodes))}
        imports = [opset for opset in proto.opset_import if opset.domain in domains]
        del proto.opset_import[:]
        proto.opset_import.extend(imports)
        proto.doc_string = doc_string
        for entry, text in (metadata or {}).items():
            proto.metadata_props.add(key=entry, value=text)
        body.functions[domain, unique] = proto
        return unique


def graph_fingerprint(graph: GraphState, numbers: dict[str, int] | None = None) -> Hashable:
    """Compute a key that is equal for bodies that compute the same, whatever their names."""
    numbers = {"": 0} if numbers is None else numbers

    def number_of(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    inputs = tuple(number_of(info.name) for info in graph.inputs)
    constants = tuple(
        (number_of(name), _value_key(value)) for name, value in graph.initializers_dict.items()
    )
    nodes = tuple(
        (
            node.domain,
            node.op_type,
            tuple(map(number_of, node.inputs)),
            tuple((key, _value_key(value, numbers)) for key, value in node.attrs.items()),
            tuple(map(number_of, node.outputs)),
        )
        for node in graph.nodes
    )
    return inputs, constants, nodes, tuple(number_of(info.name) for info in graph.outputs)


def _value_key(value: Any, numbers: dict[str, int] | None = None) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(_value_key(item, numbers) for item in value)
    if isinstance(value, GraphState):
        return graph_fingerprint(value, numbers)
    if isinstance(value, np.ndarray):
        return initializers.content_key(value)
    if initializers.is_torch(value):
        small = initializers.size_of(value) <= _MAX_COMPARED and initializers.is_readable(value)
        if small:
            return initializers.content_key(initializers.to_numpy(value))
        return initializers.storage_key(value) or id(value)
    if isinstance(value, TensorProto):
        return ("TensorProto", bytes(value.SerializeToString(deterministic=True)))
    if hasattr(value, "SerializeToString"):
        return (type(value).__name__, bytes(value.SerializeToString(deterministic=True)))
    return (type(value).__name__, repr(value))


def drop_unused_inputs(graph: GraphState) -> list[int]:
    """Remove the inputs that nothing reads; return the indices of the others."""
    read = {info.name for info in graph.outputs}
    for node in graph.nodes:
        read.update(node.inputs)
        read |= captured_names(node)
    used = [index for index, info in enumerate(graph.inputs) if info.name in read]
    if len(used) < len(graph.inputs):
        graph.inputs[:] = [graph.inputs[index] for index in used]
    return used


def called_by_nodes(nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """List operators of other domains than ONNX's as (domain, name), in subgraphs too."""
    operators = []
    for node in nodes:
        if node.domain:
            operators.append((node.domain, node.op_type))
        for inner in find_subgraphs(node):
            operators.extend(
                called_by_nodes(inner.nodes)
                if isinstance(inner, GraphState)
                else called_by_protos(inner.node)
            )
    return operators


def called_by_protos(nodes: Iterable[NodeProto]) -> list[tuple[str, str]]:
    """Do the same for NodeProtos."""
    operators = []
    for node in nodes:
        if node.domain:
            operators.append((node.domain, node.op_type))
        for inner in graphs_inside(node):
            operators.extend(called_by_protos(inner.node))
    return operators
