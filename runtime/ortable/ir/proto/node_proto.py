"""Write graphs, nodes and types of values as protobuf, and choose the names of nodes."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from ortable.dims import SymDim
from ortable.errors import BuilderError
from ortable.inference import ValueInfo
from ortable.ir import initializers
from ortable.ir.captures import inner_graphs
from ortable.ir.node import REWRITES_KEY, Node, RewriteOrigin, fx_node_name
from ortable.ir.schemas import find_schema
from ortable.ir.state import GraphState

from .tensor_proto import ExternalTensors, fill_tensor, tensors_of_graph, tensors_of_nodes


def fill_graph(
    graph: GraphState,
    proto: GraphProto,
    external: ExternalTensors | None = None,
    value_info: bool = False,
) -> None:
    """Write a graph into an empty GraphProto; large tensors go to ``external`` if it is given.

    With ``value_info``, types of intermediate results are written, but not those in subgraphs.
    """
    proto.name = graph.name
    for info in graph.inputs:
        _fill_value(graph, proto.input.add(), info)
    for info in graph.outputs:
        _fill_value(graph, proto.output.add(), info)
    nested = graph.parent is not None
    for name, value in graph.initializers_dict.items():
        if external is None:
            fill_tensor(proto.initializer.add(), value, name)
        else:
            external.write_tensor(proto.initializer.add(), name, value, nested)
    proto.sparse_initializer.extend(graph.sparse_initializers)
    writer = NodeWriter(graph, external)
    for node in graph.nodes:
        writer.write_node(node, proto.node.add())
    if value_info:
        typed_names = {info.name for info in (*graph.inputs, *graph.outputs)}
        for node in graph.nodes:
            for name in node.outputs:
                if name and name not in typed_names and graph.values[name].dtype:
                    _fill_value(graph, proto.value_info.add(), graph.values[name])


def _fill_value(graph: GraphState, proto: ValueInfoProto, info: ValueInfo) -> None:
    proto.name = info.name
    declared = graph.declared_types.get(info.name)
    if isinstance(declared, TypeProto):
        proto.type.CopyFrom(declared)
        return
    if not info.dtype:
        return
    tensor = proto.type.tensor_type
    tensor.elem_type = info.dtype
    shape = info.shape if declared is None else declared
    if shape is None:
        return
    tensor.shape.SetInParent()  # so that rank 0 has a shape field
    for size in shape:
        dim = tensor.shape.dim.add()
        if not isinstance(size, int | str | None):
            size = graph.to_dim(size)
        if isinstance(size, int):
            dim.dim_value = size
        elif size is not None:
            dim.dim_param = str(size)


class NodeWriter:
    """Writes nodes; caches the metadata of each origin and the attribute types of each operator."""

    def __init__(self, graph: GraphState, external: ExternalTensors | None = None) -> None:
        self.graph = graph
        self.external = external
        self.metadata: dict[int, list[tuple[str, str]]] = {}
        self.attribute_types: dict[tuple[str, str], Mapping[str, int]] = {}

    def write_node(self, node: Node, proto: NodeProto) -> None:
        """Write a node into an empty NodeProto."""
        proto.op_type = node.op_type
        if node.name:
            proto.name = node.name
        if node.domain:
            proto.domain = node.domain
        if node.inputs:
            proto.input.extend(node.inputs)
        proto.output.extend(node.outputs)
        if node.attrs:
            types = self._find_attribute_types(node)
            for name, value in node.attrs.items():
                try:
                    external = self.external
                    _fill_attribute(proto.attribute.add(), name, value, types.get(name), external)
                except (TypeError, ValueError) as error:
                    if isinstance(error, BuilderError) and isinstance(value, GraphState):
                        raise
                    raise _attribute_error(node, name, types.get(name), error) from None
            if self.external is not None and node.op_type == "Constant":
                self.external.move_out(tensors_of_nodes([proto]))
        if node.origin is not None:
            self._write_metadata(node.origin, proto)

    def _find_attribute_types(self, node: Node) -> Mapping[str, int]:
        key = (node.domain, node.op_type)
        types = self.attribute_types.get(key)
        if types is None:
            schema = None
            if key not in self.graph.functions:
                version = self.graph.opsets.get(node.domain, 1)
                schema = find_schema(node.op_type, node.domain, version)
            types = self.attribute_types[key] = {} if schema is None else schema.attributes
        return types

    def _write_metadata(self, origin: Any, proto: NodeProto) -> None:
        entries = self.metadata.get(id(origin))
        if entries is None:
            metadata: Mapping[str, str] = {}
            source = origin.find_original() if isinstance(origin, RewriteOrigin) else origin
            if isinstance(source, dict):
                metadata = source
            elif self.graph.origin_metadata is not None and source is not None:
                metadata = self.graph.origin_metadata(source) or {}
            if isinstance(origin, RewriteOrigin):
                metadata = {**metadata, REWRITES_KEY: origin.rule_chain()}
            entries = self.metadata[id(origin)] = [(k, str(v)) for k, v in metadata.items()]
        for key, value in entries:
            entry = proto.metadata_props.add()
            entry.key = key
            entry.value = value


def node_proto(graph: GraphState, node: Node) -> NodeProto:
    """Return a node as a NodeProto that contains its tensors."""
    proto = NodeProto()
    NodeWriter(graph).write_node(node, proto)
    return proto


_FLOAT, _INT, _STRING = AttributeProto.FLOAT, AttributeProto.INT, AttributeProto.STRING
_TENSOR, _GRAPH = AttributeProto.TENSOR, AttributeProto.GRAPH
_TOO_LARGE = float.fromhex("0x1.ffffffp127")  # float32 rounds this and larger numbers to infinity
_FLOATS, _INTS, _STRINGS = AttributeProto.FLOATS, AttributeProto.INTS, AttributeProto.STRINGS


def _fill_attribute(
    proto: AttributeProto,
    name: str,
    value: Any,
    attribute_type: int | None,
    external: ExternalTensors | None,
) -> None:
    """Write an attribute of type ``attribute_type``; None infers the type from the value."""
    if isinstance(value, AttributeProto):
        proto.CopyFrom(value)
        proto.name = name
        return
    if attribute_type is None:
        attribute_type = _infer_attribute_type(value)
    proto.name = name
    proto.type = attribute_type  # type: ignore[assignment]
    if attribute_type == _INT:
        proto.i = _to_int(value)
    elif attribute_type == _FLOAT:
        proto.f = _to_float(value)
    elif attribute_type == _INTS:
        proto.ints.extend([_to_int(item) for item in value])
    elif attribute_type == _STRING:
        proto.s = _to_bytes(value)
    elif attribute_type == _TENSOR:
        fill_tensor(proto.t, initializers.normalize_value(value), _tensor_name(value))
    elif attribute_type == _GRAPH:
        _fill_graph_attribute(proto.g, value, external)
    elif attribute_type == _FLOATS:
        proto.floats.extend([_to_float(item) for item in value])
    elif attribute_type == _STRINGS:
        if isinstance(value, str | bytes):  # iteration would split it into characters
            raise BuilderError(f"{value!r} is a string, but a list of strings is required")
        proto.strings.extend([_to_bytes(item) for item in value])
    else:
        _fill_other_attribute(proto, value, attribute_type, external)


def _attribute_error(
    node: Node, name: str, attribute_type: int | None, error: Exception
) -> BuilderError:
    """Make an error about an attribute; for an error of Python, add the type that is expected."""
    expected = ""
    if attribute_type is not None and not isinstance(error, BuilderError):
        expected = f" must be {AttributeProto.AttributeType.Name(attribute_type)}"  # type: ignore[arg-type]
    return BuilderError(
        f"Attribute {name}={node.attrs[name]!r} of node {node!r}{expected}: {error}"
    )


def _tensor_name(value: Any) -> str:
    return value.name if isinstance(value, TensorProto) else ""


def _fill_graph_attribute(proto: GraphProto, value: Any, external: ExternalTensors | None) -> None:
    if isinstance(value, GraphState):
        fill_graph(value, proto, external)
        return
    if not isinstance(value, GraphProto):
        raise TypeError(f"{value!r} is not a graph")
    proto.CopyFrom(value)
    if external is not None:
        external.move_out(tensors_of_graph(proto))


def _fill_other_attribute(
    proto: AttributeProto, value: Any, attribute_type: int, external: ExternalTensors | None
) -> None:
    if attribute_type == AttributeProto.TENSORS:
        for item in value:
            fill_tensor(proto.tensors.add(), initializers.normalize_value(item), _tensor_name(item))
    elif attribute_type == AttributeProto.GRAPHS:
        for item in value:
            _fill_graph_attribute(proto.graphs.add(), item, external)
    elif attribute_type == AttributeProto.SPARSE_TENSOR:
        proto.sparse_tensor.CopyFrom(value)
    elif attribute_type == AttributeProto.TYPE_PROTO:
        proto.tp.CopyFrom(value)
    else:
        raise BuilderError(f"attribute type {attribute_type} is not supported")


def _to_int(value: Any) -> int:
    if type(value) is int:
        return value
    if isinstance(value, SymDim):
        raise BuilderError(
            f"{value} is a symbolic dimension, but an attribute must be a static integer"
        )
    if isinstance(value, np.bool_):
        return int(value)
    try:
        return operator.index(value)
    except TypeError:  # int() is not used, because it truncates 1.5
        raise BuilderError(f"{value!r} is not an integer") from None


def _to_float(value: Any) -> float:
    if isinstance(value, SymDim):
        raise BuilderError(
            f"{value} is a symbolic dimension, but an attribute must be a static number"
        )
    if isinstance(value, str | bytes):
        raise BuilderError(f"{value!r} is not a number")
    number = float(value)
    if abs(number) >= _TOO_LARGE and not math.isinf(number):
        raise BuilderError(f"{value!r} is too large for an attribute, which is a float32")
    return number


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise BuilderError(f"{value!r} is not a string")
    return value.encode()


def _infer_attribute_type(value: Any) -> int:
    """Infer the attribute type of a value for which there is no schema."""
    if isinstance(value, (bool, int, np.integer, np.bool_)):
        return _INT
    if isinstance(value, (float, np.floating)):
        return _FLOAT
    if isinstance(value, (str, bytes)):
        return _STRING
    if isinstance(value, (np.ndarray, TensorProto)) or initializers.is_torch(value):
        return _TENSOR
    if isinstance(value, (GraphProto, GraphState)):
        return _GRAPH
    if isinstance(value, TypeProto):
        return AttributeProto.TYPE_PROTO
    if isinstance(value, SparseTensorProto):
        return AttributeProto.SPARSE_TENSOR
    if isinstance(value, Sequence):
        return _infer_list_type(value)
    raise BuilderError(f"an attribute cannot be a {type(value).__name__}")


def _infer_list_type(values: Sequence[Any]) -> int:
    types = {_infer_attribute_type(value) for value in values}
    if not types:
        raise BuilderError("the attribute type of an empty list is unknown; give an AttributeProto")
    if types == {_INT, _FLOAT}:
        types = {_FLOAT}
    list_types: dict[int, int] = {
        _INT: _INTS,
        _FLOAT: _FLOATS,
        _STRING: _STRINGS,
        _TENSOR: AttributeProto.TENSORS,
        _GRAPH: AttributeProto.GRAPHS,
    }
    if len(types) > 1:
        raise BuilderError("the elements of the list have different types")
    if not types <= set(list_types):
        raise BuilderError(
            "the value of an attribute cannot be a list of lists, types or sparse tensors; "
            "give an AttributeProto for types or sparse tensors"
        )
    return list_types[types.pop()]


def name_nodes(graph: GraphState, module_path: str = "") -> None:
    """Name the nodes that were made for FX nodes, in the graph and its subgraphs.

    The name is "<module path>/<first named result>", such as "encoder.layer.0/relu"; the name of
    the FX node replaces a result that is an output of the graph. Names that callers of `make_node`
    chose do not change. ``module_path`` is omitted at the start of names.
    """
    read_metadata = graph.origin_metadata
    output_names = {info.name for info in graph.outputs}
    for node in graph.nodes:
        for inner in inner_graphs(node) if node.attrs else ():
            name_nodes(inner, module_path)
        origin = (
            node.origin.find_original() if isinstance(node.origin, RewriteOrigin) else node.origin
        )
        source = None if origin is None else fx_node_name(origin)
        if source is None or not _has_automatic_name(node):
            continue
        if isinstance(origin, dict):
            metadata = origin
        else:
            metadata = {} if read_metadata is None else read_metadata(origin)
        label = next((name for name in node.outputs if name), source)
        if label in output_names:
            label = source
        node_path = metadata.get("module_path", "")
        if module_path and node_path.startswith(module_path):
            node_path = node_path[len(module_path) :].lstrip(".")
        node.name = graph.node_names.make_unique(f"{node_path}/{label}" if node_path else label)


def _has_automatic_name(node: Node) -> bool:
    suffix = node.name.removeprefix(node.op_type)
    return not suffix or (suffix.isdecimal() and suffix != node.name)
