"""Fill a `Graph` from a ModelProto without inserting casts or checking nodes against schemas.

Types and shapes are inferred; those that the model declares are used where inference finds none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto
from onnx.helper import get_attribute_value

from ortable import dims
from ortable.dims import Dim
from ortable.errors import BuilderError
from ortable.inference.shape import ValueInfo
from ortable.ir import constants, initializers, schemas, versions
from ortable.ir.node import Node
from ortable.ir.node_maker import attributes_to_inputs
from ortable.ir.proto.model_validation import check_readable
from ortable_generated.onnx.dispatch import INFER

if TYPE_CHECKING:
    from ortable.ir import Graph


def read_model(graph: Graph, model: ModelProto) -> None:
    """Fill an empty graph from a model, whose TensorProtos become the initializers.

    Raises:
        BuilderError: the model assigns a name twice, reads a name before it is assigned, has
            invalid sizes or data, or has too deeply nested subgraphs.
    """
    check_readable(model)
    if graph.ir_version is None:
        graph.ir_version = model.ir_version or None
    graph.name = model.graph.name or graph.name
    for function in model.functions:
        graph.functions[function.domain, function.name] = function
    graph_proto = model.graph
    declared = {info.name: info for info in (*graph_proto.value_info, *graph_proto.output)}
    for proto in graph_proto.input:
        info = _new_result(graph, proto.name)
        _read_type(graph, info, proto)
        _record_type(graph, proto)
        graph.inputs.append(info)
        graph.history.append(("make_tensor_input", proto.name))
        if info.shape is not None:
            graph.materializer.add_shape(info.name, info.shape, is_input=True)
    input_names = {info.name for info in graph.inputs}
    for tensor in graph_proto.initializer:
        _read_initializer(graph, tensor, tensor.name in input_names)
    for sparse in graph_proto.sparse_initializer:
        graph.sparse_initializers.append(sparse)
        info = _new_result(graph, sparse.values.name)
        info.dtype = int(sparse.values.data_type)
        info.shape, info.rank = tuple(sparse.dims), len(sparse.dims)
    for proto_node in graph_proto.node:
        _read_node(graph, proto_node, declared)
    for proto in graph_proto.output:
        result = graph.values.get(proto.name)
        if result is None:
            raise BuilderError(f"The model's output {proto.name!r} is not computed by any node.")
        _record_type(graph, proto)
        graph.outputs.append(result)
        graph.history.append(("make_tensor_output", proto.name))


def _new_result(graph: Graph, name: str) -> ValueInfo:
    if not name:
        raise BuilderError("The model has an input or initializer without a name.")
    if name in graph.values:
        raise BuilderError(f"The model has two results called {name!r}.")
    return graph.new_value(name)


def _read_initializer(graph: Graph, tensor: TensorProto, is_default: bool) -> None:
    name = tensor.name
    graph.initializers_dict[name] = tensor
    graph.history.append(("make_initializer", name))
    if is_default:
        return  # the default of an input is not constant: the caller may pass another value
    info = _new_result(graph, name)
    info.dtype, info.shape = int(tensor.data_type), tuple(tensor.dims)
    if min(info.shape, default=0) < 0:
        raise BuilderError(f"Initializer {name!r} has a negative size: {info.shape}.")
    info.rank = len(info.shape)
    graph.constant_names.add(name)
    info.constant = constants.LazyConstant(graph, name)
    if initializers.size_of(tensor) <= initializers.MAX_SMALL_ELEMENTS and initializers.is_readable(
        tensor
    ):
        info.constant = initializers.to_numpy(tensor)
        info.value = initializers.integer_value(info.constant)


def _read_node(graph: Graph, proto: NodeProto, declared: dict[str, ValueInfoProto]) -> None:
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    metadata = {entry.key: entry.value for entry in proto.metadata_props} or None
    node = Node(
        proto.op_type,
        list(proto.input),
        list(proto.output),
        domain,
        proto.name,
        {attribute.name: read_attribute(attribute) for attribute in proto.attribute},
        metadata,
    )
    if proto.name:
        graph.node_names.reserve(proto.name)
    for name in node.inputs:
        if name and name not in graph.values:
            raise BuilderError(
                f"Input {name!r} of node {node!r} is not computed by a node before it; "
                "the model's nodes must be in topological order."
            )
    for name in node.outputs:
        if name and name in graph.values:
            raise BuilderError(f"The model has two results called {name!r}.")
    graph.add_node(node, _infer_node(graph, node))
    if node.key == "Split" and node.inputs:
        _name_split_sizes(graph, node)
    for name in node.outputs:
        if name in declared:
            _read_type(graph, graph.values[name], declared[name])


def _name_split_sizes(graph: Graph, node: Node) -> None:
    """Set a symbolic size along the axis in outputs of a Split that have no shape yet.

    Their shapes are unknown if the sizes are not constant, as in mixtures of experts.
    """
    info, axis = graph.values.get(node.inputs[0]), node.attrs.get("axis", 0)
    shape = info.shape if info is not None else None
    if not shape or not isinstance(axis, int):
        return
    axis %= len(shape)
    for name in filter(None, node.outputs):
        if graph.values[name].shape is None:
            size = dims.make_symbol(graph.unique_name(f"{name}_dim_{axis}"))
            graph.set_shape(name, (*shape[:axis], size, *shape[axis + 1 :]))


def _infer_node(graph: Graph, node: Node) -> list[tuple[Any, Any, Any]]:
    """Infer the facts of a node's outputs; return unknown facts if the rule fails."""
    unknown_facts = [(None, None, None)] * len(node.outputs)
    rule = INFER.get(node.key)
    if rule is None or (node.domain, node.op_type) in graph.functions:
        return unknown_facts
    infos = [graph.values[name] if name else None for name in node.inputs]
    version = graph.domain_version(node.domain)
    infos = attributes_to_inputs(node, infos, version)
    try:
        facts = list(rule(infos, node.attrs, len(node.outputs), version))
        if version > versions.ORT_MAX_OPSET and not node.domain:
            facts = _apply_newer_types(node, infos, version, facts)
        if len(facts) != len(node.outputs):  # the node has too many or too few outputs
            return unknown_facts
    except Exception:  # rules raise any error for an invalid node
        return unknown_facts
    return facts


def _apply_newer_types(
    node: Node, infos: list[ValueInfo | None], version: int, facts: list[tuple[Any, Any, Any]]
) -> list[tuple[Any, Any, Any]]:
    """Replace inferred types by those of the schema, for opsets newer than `ORT_MAX_OPSET`.

    For example, Celu supports more types than float32 since opset 28.
    """
    schema = schemas.find_schema(node.op_type, "", version)
    if schema is None:
        return facts
    types = [0 if info is None else info.dtype for info in infos]
    schema_types = [schemas.output_type(schema, index, types) for index in range(len(facts))]
    return [
        (dtype or inferred, shape, value)
        for dtype, (inferred, shape, value) in zip(schema_types, facts, strict=True)
    ]


def read_attribute(proto: AttributeProto) -> Any:
    """Return the Python value of an attribute, or the proto if there is no equivalent value.

    The latter holds for empty lists, which do not determine the type, for references to attributes
    of a function, and for lists of sparse tensors or of types.
    """
    if proto.ref_attr_name:
        return proto
    value = get_attribute_value(proto)
    if proto.type == AttributeProto.STRING:
        return _decode_text(value)
    if proto.type == AttributeProto.STRINGS:
        texts = [_decode_text(item) for item in value]
        return texts or proto
    if proto.type in (AttributeProto.FLOATS, AttributeProto.INTS):
        return list(value) or proto
    if proto.type in (AttributeProto.GRAPHS, AttributeProto.TENSORS):
        return list(value) or proto
    if proto.type in (AttributeProto.SPARSE_TENSORS, AttributeProto.TYPE_PROTOS):
        return proto
    return value


def _decode_text(value: bytes) -> Any:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _read_type(graph: Graph, info: ValueInfo, proto: ValueInfoProto) -> None:
    """Set type and shape to the declared ones where inference found none."""
    if not proto.HasField("type"):
        return
    if not proto.type.HasField("tensor_type"):
        return  # no dense tensor, such as a sequence; only `_record_type` supports it
    tensor = proto.type.tensor_type
    if tensor.elem_type and not info.dtype:
        info.dtype = tensor.elem_type
    if not tensor.HasField("shape"):
        return
    sizes = tensor.shape.dim
    if info.rank is None:
        info.rank = len(sizes)
    if info.shape is None and info.rank == len(sizes):
        info.shape = tuple(_read_dim(graph, info.name, axis, dim) for axis, dim in enumerate(sizes))


def _record_type(graph: Graph, proto: ValueInfoProto) -> None:
    """Record the declared type of an input or output, so that it is written unchanged."""
    if proto.HasField("type"):
        graph.declared_types[proto.name] = _copy_type(proto.type)


def _copy_type(proto: TypeProto) -> TypeProto:
    copy = TypeProto()
    copy.CopyFrom(proto)
    return copy


def _read_dim(graph: Graph, name: str, axis: int, proto: Any) -> Dim:
    if proto.HasField("dim_value") and proto.dim_value >= 0:  # some exporters write -1 for unknown
        return int(proto.dim_value)
    if proto.dim_param:
        return dims.make_symbol(proto.dim_param)
    return dims.make_symbol(graph.unique_name(f"{name}_dim_{axis}"))
