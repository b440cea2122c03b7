"""TensorProtos: written from the values of initializers, or left as stubs whose data is outside."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from ortable import dtypes
from ortable.ir import initializers

from .walk import graphs_inside

EXTERNAL_FILE = "weights"  # location written in a model that is not saved
_nested = itertools.count()


def fill_tensor(proto: TensorProto, value: Any, name: str = "") -> None:
    """Writes an initializer's value into an empty TensorProto."""
    if isinstance(value, initializers.Deferred):
        value = value.load()
    if isinstance(value, TensorProto):
        proto.CopyFrom(value)
        proto.name = name
        return
    array = initializers.to_numpy(value, name)
    dtype = dtypes.from_numpy(array.dtype)
    if dtype in dtypes.SUB_BYTE:
        proto.CopyFrom(numpy_helper.from_array(array, name))
        return
    proto.name = name
    proto.dims.extend(array.shape)
    proto.data_type = dtype
    if dtype == dtypes.string:
        proto.string_data.extend(
            x if isinstance(x, bytes) else str(x).encode() for x in array.ravel().tolist()
        )
    else:
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        proto.raw_data = array.tobytes()


def fill_stub(proto: TensorProto, name: str, value: Any, location: str = EXTERNAL_FILE) -> None:
    """A tensor that says its data is elsewhere; LargeModel.save writes where."""
    proto.name = name
    proto.dims.extend(initializers.shape_of(value))
    proto.data_type = initializers.dtype_of(value)
    proto.data_location = TensorProto.EXTERNAL
    entry = proto.external_data.add()
    entry.key, entry.value = "location", location


class ExternalTensors:
    """Tensors that a model leaves out: values of ``threshold`` bytes or more.

    ``tensors``: initializers of the main graph by name. ``nested``: those of subgraphs, Constant
    nodes and functions by the location in their stub, since names may occur twice.
    """

    __slots__ = ("nested", "tensors", "threshold")

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.tensors: dict[str, Any] = {}
        self.nested: dict[str, Any] = {}

    def should_externalize(self, value: Any) -> bool:
        """Return True for a value to leave out, unless it is in a file of its own already."""
        if isinstance(value, TensorProto) and value.data_location == TensorProto.EXTERNAL:
            return False
        # shapes and axes: ONNX Runtime reads them while it loads the model, before any file
        small = initializers.size_of(value) <= initializers.VALUE_LIMIT
        if small and initializers.dtype_of(value) == dtypes.int64:
            return False
        return initializers.nbytes_of(value) >= self.threshold

    def write_tensor(self, proto: TensorProto, name: str, value: Any, nested: bool = False) -> None:
        """Writes the tensor, or its stub."""
        if not self.should_externalize(value):
            fill_tensor(proto, value, name)
        elif nested:
            fill_nested(proto, name, value, self.nested)
        else:
            fill_stub(proto, name, value)
            self.tensors[name] = value

    def move_out(self, protos: Iterable[TensorProto]) -> None:
        """Moves the data of tensors that are written already out of them."""
        for proto in protos:
            if proto.data_type != TensorProto.STRING and self.should_externalize(proto):
                copy = TensorProto()
                copy.CopyFrom(proto)
                proto.Clear()
                fill_nested(proto, copy.name, copy, self.nested)


def fill_nested(proto: TensorProto, name: str, value: Any, nested: dict[str, Any]) -> None:
    """A stub with a location of its own, under which ``nested`` receives the value."""
    location = f"{EXTERNAL_FILE}#{next(_nested)}"
    fill_stub(proto, name, value, location)
    nested[location] = value


def location_of(tensor: TensorProto) -> str:
    """Where an external tensor is: a file name, or the location of a stub."""
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor of a model whose data is outside, in functions and subgraphs too."""
    for tensor in itertools.chain(model.graph.initializer, nested_tensors(model)):
        if tensor.data_location == TensorProto.EXTERNAL:
            yield tensor


def nested_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Tensors of a model that are no initializers of its main graph: those of Constant nodes, of
    subgraphs and of functions."""
    yield from tensors_of_nodes(model.graph.node)
    for function in model.functions:
        yield from tensors_of_nodes(function.node)


def tensors_of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    """Tensors of a subgraph: its initializers and those in its nodes."""
    yield from graph.initializer
    yield from tensors_of_nodes(graph.node)


def tensors_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    """Values of Constant nodes, and the tensors of subgraphs."""
    for node in nodes:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                yield attribute.t
        for graph in graphs_inside(node):
            yield from tensors_of_graph(graph)
