"""Make local functions, and deduplicate them by comparing their bodies before serialization."""

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

_MAX_COMPARED = 4096  # torch tensors with more elements are compared by memory, not by content
_MIN_REFERENCED = 1 << 16  # constants of at least this many bytes are copied only when written


class FunctionTable:
    """Local functions of one model, deduplicated by fingerprint."""

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
        """Make ``body`` a local function named ``name``, or ``name_1`` etc. if the name is taken.

        Returns the name of the new function, or of an existing function with the same ``name``
        and ``domain`` and an equal body.
        """
        name_by_fingerprint = self._names.setdefault((domain, name), {})
        fingerprint = graph_fingerprint(body)
        existing = name_by_fingerprint.get(fingerprint)
        if existing is not None:
            return existing
        number = len(name_by_fingerprint)
        unique_name = f"{name}_{number}" if number else name
        while (domain, unique_name) in body.functions:
            number += 1
            unique_name = f"{name}_{number}"
        name_by_fingerprint[fingerprint] = unique_name
        module_path = (metadata or {}).get("module_path", "")
        proto = to_function(body, unique_name, domain, _MIN_REFERENCED, module_path)
        domains = {"", *(called_domain for called_domain, _ in called_by_nodes(body.nodes))}
        imports = [opset for opset in proto.opset_import if opset.domain in domains]
        del proto.opset_import[:]
        proto.opset_import.extend(imports)
        proto.doc_string = doc_string
        for key, text in (metadata or {}).items():
            proto.metadata_props.add(key=key, value=text)
        body.functions[domain, unique_name] = proto
        return unique_name


def graph_fingerprint(graph: GraphState, numbers: dict[str, int] | None = None) -> Hashable:
    """Compute a key that is equal for graphs that differ only in names and types of results.

    Types do not matter, because functions are not typed. ``numbers`` maps the results of enclosing
    graphs to the numbers that replace their names.
    """
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
        is_small = initializers.size_of(value) <= _MAX_COMPARED and initializers.is_readable(value)
        if is_small:
            return initializers.content_key(initializers.to_numpy(value))
        return initializers.storage_key(value) or id(value)
    if isinstance(value, TensorProto):
        return ("TensorProto", bytes(value.SerializeToString(deterministic=True)))
    if hasattr(value, "SerializeToString"):
        return (type(value).__name__, bytes(value.SerializeToString(deterministic=True)))
    return (type(value).__name__, repr(value))


def drop_unused_inputs(graph: GraphState) -> list[int]:
    """Remove unused inputs; return the former indices of the remaining inputs."""
    read = {info.name for info in graph.outputs}
    for node in graph.nodes:
        read.update(node.inputs)
        read |= captured_names(node)
    used = [index for index, info in enumerate(graph.inputs) if info.name in read]
    if len(used) < len(graph.inputs):
        graph.inputs[:] = [graph.inputs[index] for index in used]
    return used


def called_by_nodes(nodes: Iterable[Node]) -> list[tuple[str, str]]:
    """List the nodes outside ONNX's main domain, in subgraphs too, as (domain, operator)."""
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
    """Return the result of `called_by_nodes` for NodeProtos."""
    operators = []
    for node in nodes:
        if node.domain:
            operators.append((node.domain, node.op_type))
        for inner in graphs_inside(node):
            operators.extend(called_by_protos(inner.node))
    return operators
