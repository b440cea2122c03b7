"""Build the scene of a model.

Each node becomes a box in the group of its module, weights and constants become rows of the boxes
that read them, and subgraphs and calls of local functions become groups.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    shape_inference,
)

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.ir.initializers import proto_to_numpy
from ortable.ir.proto.model_validation import MAX_NODES, check_readable, count_expanded_nodes
from ortable.ir.proto.walk import free_names, graphs_inside
from ortable.ir.schemas import find_schema

from .modules import (
    CLASSES_KEY,
    PathStep,
    Placer,
    make_class_lookup,
    steps_from_node,
    steps_from_path,
)
from .scene import Box, Constant, Edge, Group, Item, Row, Scene, boxes_of

_MAX_CALL_DEPTH = 64  # deeper nested calls of functions are drawn as nodes
_MAX_INLINED_NODES = 10_000  # after this number of nodes, calls of functions are drawn as nodes
_DTYPES = ("to", "dtype")  # attributes whose number is an element type
_MAX_CHARACTERS = 36  # longer values are shortened
_MAX_INTEGERS = 6  # constants of at most this number of integers are shown by value
_MAX_INFERRED_BYTES = 1 << 29  # types of larger models are not inferred


@dataclass(frozen=True)
class _Result:
    """A result of a box, or an input of the model.

    ``depth`` is the number of graphs that enclose the graph of the box, ``size`` the number of
    elements of an input, and ``output`` the position of the result among those of the box.
    """

    box: Box
    name: str
    type: str
    depth: int
    size: int = 0
    output: int = 0


_Values = MutableMapping[str, Constant | _Result]


def read_scene(model: ModelProto | GraphProto) -> Scene:
    """Build the scene of a model, including its subgraphs and functions."""
    check_readable(model)
    reader = _Reader(model if isinstance(model, ModelProto) else ModelProto(graph=model))
    return reader.build_scene()


class _Reader:
    """Builds the scene of one model; shared by the readers of its graphs."""

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        properties = {entry.key: entry.value for entry in model.metadata_props}
        self.kind_of = make_class_lookup(properties.get(CLASSES_KEY, ""))
        self.functions = {
            (function.domain, function.name, function.overload): function
            for function in model.functions
        }
        self.opsets = {entry.domain: entry.version for entry in model.opset_import}
        self.edges: list[Edge] = []
        self.rows: dict[Item, Constant] = {}  # model inputs that are drawn as weights
        self.count = 0  # number of boxes of nodes
        self.calls: list[object] = []  # stack of the functions and subgraphs being read

    def find_function(self, node: NodeProto) -> FunctionProto | None:
        """Return the function that a node calls, if it is to be drawn inline.

        Recursive and deeply nested calls, and calls after `_MAX_INLINED_NODES` nodes, are drawn as
        nodes.
        """
        key = (node.domain, node.op_type, node.overload)
        is_over_limit = len(self.calls) >= _MAX_CALL_DEPTH or self.count >= _MAX_INLINED_NODES
        return None if is_over_limit or key in self.calls else self.functions.get(key)

    def build_scene(self) -> Scene:
        graph = _with_types(self.model).graph
        root = Group("model", graph.name or "model")
        _GraphReader(self, graph, root, {}, 0).read_graph()
        only_rows = self.rows.keys() - {edge.source for edge in self.edges}
        root.items = [item for item in root.items if item not in only_rows]
        return Scene(root, self.edges)


def _with_types(model: ModelProto) -> ModelProto:
    """Return the model with types of intermediate results, which onnx infers if there are none.

    Large and invalid models are returned without types.
    """
    if model.graph.value_info or not model.opset_import or model.ByteSize() > _MAX_INFERRED_BYTES:
        return model
    if count_expanded_nodes(model) > MAX_NODES:  # onnx infers each call and might never return
        return model
    try:
        return shape_inference.infer_shapes(model)
    except Exception:  # invalid models and unknown operators are drawn without types
        return model


@dataclass
class _GraphReader:
    """Reads the nodes of a graph or function.

    ``values`` maps names to constants and results, ``outer`` those of enclosing graphs or of the
    arguments of a call. ``depth`` is the number of enclosing graphs. In a call for ``layer.1`` of a
    function that was made from ``layer.0``, ``defining_path`` is ``layer.0``, with which the paths
    of the function's nodes begin, and ``calling_path`` is ``layer.1``, which replaces it.
    """

    reader: _Reader
    graph: GraphProto | FunctionProto
    group: Group
    outer: _Values
    depth: int
    defining_path: str = ""
    calling_path: str = ""

    def __post_init__(self) -> None:
        self.values: _Values = ChainMap({}, self.outer)
        self.types: dict[str, str] = {}
        self.placer = Placer(self.group)

    def read_graph(self) -> list[Box]:
        """Read a graph with its inputs and outputs; return the boxes of the inputs."""
        graph = self.graph
        assert isinstance(graph, GraphProto)
        for value in (*graph.value_info, *graph.input, *graph.output):
            self.types[value.name] = _type_text(value.type)
        for tensor in graph.initializer:
            self.values[tensor.name] = _make_constant(tensor, tensor.name)
        for sparse in graph.sparse_initializer:
            text = f"sparse {_tensor_type_text(sparse.values.data_type, sparse.dims)}"
            self.values[sparse.values.name] = Constant(sparse.values.name, text)
        initialized = {tensor.name for tensor in graph.initializer}
        inputs = [self._add_input(value) for value in graph.input if value.name not in initialized]
        self.add_nodes(graph.node)
        for value in graph.output:
            text = self.types[value.name]
            box = Box("output", value.name, text)
            self.group.add(box)
            self._add_edges(box, [value.name])
        return inputs

    def _add_input(self, value: ValueInfoProto) -> Box:
        text = self.types[value.name]
        box = Box("input", value.name, text, outputs=(text,), results=(value.name,))
        self.group.add(box)
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        self.values[value.name] = _Result(box, value.name, text, self.depth, math.prod(dims))
        return box

    def add_nodes(self, nodes: Sequence[NodeProto]) -> None:
        """Add boxes or groups for nodes, in order."""
        for node in nodes:
            constant = _constant_of(node)
            if constant is not None:
                self.values[node.output[0]] = constant
                continue
            metadata = {entry.key: entry.value for entry in node.metadata_props}
            function = self.reader.find_function(node)
            if function is not None:
                self.reader.calls.append((node.domain, node.op_type, node.overload))
                self._add_call(node, function, metadata)
                self.reader.calls.pop()
            else:
                self._add_node(node, metadata)

    def _module_steps(self, node: NodeProto, metadata: Mapping[str, str]) -> tuple[PathStep, ...]:
        """Return the modules that contain a node, without those that contain the whole graph."""
        find_class, module_path = self.reader.kind_of, self.defining_path
        steps = steps_from_node(node, metadata, find_class)
        if module_path:
            inner_path = metadata.get("module_path", "").removeprefix(f"{module_path}.")
            is_inside = metadata.get("module_path", "").startswith(f"{module_path}.")
            steps = steps_from_path(
                inner_path if is_inside else "", lambda path: find_class(f"{module_path}.{path}")
            )
        if self.calling_path:
            steps = tuple(step._replace(path=f"{self.calling_path}.{step.path}") for step in steps)
        group_prefix = f"{self.group.path}."
        return tuple(step for step in steps if not group_prefix.startswith(f"{step.path}."))

    def _add_node(self, node: NodeProto, metadata: dict[str, str]) -> None:
        captured = (name for graph in graphs_inside(node) for name in free_names(graph))
        reads = [name for name in (*node.input, *captured) if name]
        group = self.placer.find_group(self._module_steps(node, metadata), reads, node.output)
        prefix = f"{self.calling_path}/" if self.calling_path else ""
        box = Box(
            "node",
            node.op_type,
            node.domain,
            node.name,
            tuple(_attribute_rows(node)),
            outputs=tuple(self.types.get(name, "") for name in node.output),
            results=tuple(name and f"{prefix}{name}" for name in node.output),
            about=metadata,
        )
        self.reader.count += 1
        group.add(box)
        self._add_edges(box, node.input, node)
        for output, name in enumerate(node.output):
            if name:
                type_text = self.types.get(name, "")
                self.values[name] = _Result(box, name, type_text, self.depth, output=output)
        for name, graph in _inner_graphs(node):
            self._add_body(box, name, graph, group)

    def _add_body(self, box: Box, name: str, graph: GraphProto, outer: Group) -> None:
        """Add a group for a subgraph of a node, next to the box of the node."""
        group = Group("body", f"{box.title}: {name}", path=outer.path)
        outer.add(group)
        edge_count = len(self.reader.edges)
        self.reader.calls.append(name)
        reader = _GraphReader(
            self.reader,
            graph,
            group,
            self.values,
            self.depth + 1,
            self.defining_path,
            self.calling_path,
        )
        starts = reader.read_graph()
        self.reader.calls.pop()
        if not starts:  # a branch has no inputs; use the first box without an edge in the branch
            fed_boxes = {edge.target for edge in self.reader.edges[edge_count:] if not edge.inner}
            starts = [item for item in boxes_of(group) if item not in fed_boxes][:1]
        self.reader.edges += [Edge(box, start, "runs", inner=True) for start in starts]

    def _add_call(
        self, node: NodeProto, function: FunctionProto, metadata: Mapping[str, str]
    ) -> None:
        """Add a group with the nodes of a local function for ``node``, which calls it."""
        *outer_steps, module_step = self._module_steps(node, metadata) or (
            PathStep(function.name, self.group.path),
        )
        group = self.placer.find_group(tuple(outer_steps), filter(None, node.input), node.output)
        class_path = metadata.get("module_type") or module_step.kind or function.name
        class_name = class_path.rpartition(".")[2]
        call = Group("function", module_step.name, class_name, module_step.path)
        group.add(call)
        module_path = next(
            (entry.value for entry in function.metadata_props if entry.key == "module_path"), ""
        )
        arguments = {
            formal: self.values[name]
            for formal, name in zip(function.input, node.input, strict=False)
            if name in self.values
        }
        function_reader = _GraphReader(
            self.reader, function, call, arguments, self.depth, module_path, module_step.path
        )
        function_reader.types = {
            value.name: _type_text(value.type) for value in function.value_info
        }
        for formal, name in zip(function.output, node.output, strict=False):
            if name in self.types:
                function_reader.types[formal] = self.types[name]
        function_reader.add_nodes(function.node)
        for formal, name in zip(function.output, node.output, strict=False):
            value = function_reader.values.get(formal)
            if name and value is not None:
                self.values[name] = value

    def _add_edges(self, box: Box, names: Sequence[str], node: NodeProto | None = None) -> None:
        """Add edges to a box for the results that it reads, and rows for constants and weights."""
        rows = []
        for index, name in enumerate(names):
            value = self.values.get(name) if name else None
            if isinstance(value, Constant):
                formal = "" if node is None else self._formal_name(node, index)
                assert box.group is not None
                rows.append(_constant_row(value, formal, box.group.path, index))
                box.parameters += value.size
            elif value is not None and node is not None and _is_weight(value, box):
                constant = Constant(value.name, f"{value.type} input")
                constant = self.reader.rows.setdefault(value.box, constant)
                rows.append(Row(value.name.rpartition(".")[2], constant.type, constant, index))
                box.parameters += value.size
            elif value is not None:
                is_inner = value.depth < self.depth
                edge = Edge(value.box, box, value.name, value.type, is_inner, value.output, index)
                self.reader.edges.append(edge)
        box.weights = tuple(rows)

    def _formal_name(self, node: NodeProto, index: int) -> str:
        """Return the formal name of an input; empty if ONNX does not define the operator."""
        try:
            schema = find_schema(node.op_type, node.domain, self.reader.opsets.get(node.domain, 1))
        except BuilderError:
            return ""
        return schema.formal_input(index).name if schema is not None and schema.inputs else ""


def _is_weight(value: _Result, box: Box) -> bool:
    """Whether a result is an input whose name begins with the module path of the box."""
    path = box.group.path if box.group is not None else ""
    return value.box.role == "input" and bool(path) and value.name.startswith(f"{path}.")


def _constant_row(value: Constant, formal: str, path: str, index: int) -> Row:
    """Return a row with the value of a small constant, or the name and type of a weight."""
    if value.value:
        return Row(formal or value.name, value.value, value, index)
    name = value.name.removeprefix(f"{path}.") if path else value.name
    return Row(name, value.type, value, index)


def _constant_of(node: NodeProto) -> Constant | None:
    """Return the constant of a Constant node; None for other nodes."""
    is_constant = node.op_type == "Constant" and node.domain in ("", "ai.onnx")
    if not is_constant or not node.attribute or not node.output:
        return None
    (attribute, *_) = node.attribute
    if attribute.ref_attr_name or attribute.name == "sparse_value":
        return Constant(node.output[0], _attribute_text(attribute))
    if attribute.type == AttributeProto.TENSOR:
        return _make_constant(attribute.t, node.output[0])
    return Constant(node.output[0], "", _attribute_text(attribute))


def _make_constant(tensor: TensorProto, name: str) -> Constant:
    text = _tensor_type_text(tensor.data_type, tensor.dims)
    return Constant(name, text, _tensor_value_text(tensor), math.prod(tensor.dims))


def _attribute_rows(node: NodeProto) -> Iterator[Row]:
    for attribute in node.attribute:
        if attribute.type not in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
            yield Row(attribute.name, _attribute_text(attribute))


def _inner_graphs(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """Yield the subgraphs of a node, each with a name."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for index, graph in enumerate(attribute.graphs):
            yield f"{attribute.name} {index}", graph


# -- format types and values


def _type_text(proto: TypeProto) -> str:
    """Format a type, as in ``float32[batch, 3]``; empty if nothing is known."""
    type_case = proto.WhichOneof("value")
    if type_case == "tensor_type":
        tensor = proto.tensor_type
        if not tensor.elem_type:
            return ""
        if not tensor.HasField("shape"):
            return dtypes.name(tensor.elem_type)
        dims = [
            dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or "?")
            for dim in tensor.shape.dim
        ]
        return _tensor_type_text(tensor.elem_type, dims)
    if type_case == "sequence_type":
        return f"sequence of {_type_text(proto.sequence_type.elem_type)}"
    if type_case == "optional_type":
        return f"optional {_type_text(proto.optional_type.elem_type)}"
    return ""


def _tensor_type_text(dtype: int, dims: Iterable[int | str]) -> str:
    """Format a tensor type, as in ``float32[3, 4]``."""
    return f"{dtypes.name(dtype)}[{', '.join(map(str, dims))}]"


def _tensor_value_text(tensor: TensorProto) -> str:
    """Format a scalar or a vector of a few integers; empty for other and external tensors."""
    if tensor.data_location == TensorProto.EXTERNAL or tensor.data_type == TensorProto.STRING:
        return ""
    count = math.prod(tensor.dims)
    limit = _MAX_INTEGERS if not dtypes.is_float_type(tensor.data_type) else 1
    if count > limit or len(tensor.dims) > 1:
        return ""
    try:
        values = proto_to_numpy(tensor)
    except BuilderError:
        return ""
    return _shorten_text(_values_text(values.tolist()))


def _attribute_text(attribute: AttributeProto) -> str:
    """Format the value of an attribute."""
    if attribute.ref_attr_name:
        return f"attribute {attribute.ref_attr_name} of the call"
    if attribute.type == AttributeProto.TENSOR:
        tensor = attribute.t
        return _tensor_value_text(tensor) or _tensor_type_text(tensor.data_type, tensor.dims)
    if attribute.type == AttributeProto.STRING:
        return _shorten_text(attribute.s.decode(errors="replace"))
    if attribute.type == AttributeProto.STRINGS:
        return _shorten_text(", ".join(text.decode(errors="replace") for text in attribute.strings))
    if attribute.type == AttributeProto.FLOAT:
        return _values_text(attribute.f)
    if attribute.type == AttributeProto.INT:
        return dtypes.name(attribute.i) if attribute.name in _DTYPES else str(attribute.i)
    if attribute.type == AttributeProto.TYPE_PROTO:
        return _type_text(attribute.tp)
    return _shorten_text(_values_text([*attribute.ints, *attribute.floats]))


def _values_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_values_text, value))}]"
    if isinstance(value, float):
        return f"{value:.5g}"
    return str(value)


def _shorten_text(text: str) -> str:
    text = " ".join(text.split())
    return (
        text
        if len(text) <= _MAX_CHARACTERS
        else f"{text[: _MAX_CHARACTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
    )
