"""Write the values of initializers as TensorProtos, or as stubs whose data is external."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from ortable import dtypes
from ortable.ir import initializers

from .walk import graphs_inside

EXTERNAL_FILE = "weights"  # location in the stubs of a model that is not saved to a file
_stub_numbers = itertools.count()


def fill_tensor(proto: TensorProto, value: Any, name: str = "") -> None:
    """Write the value of an initializer into an empty TensorProto."""
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
            item if isinstance(item, bytes) else str(item).encode()
            for item in array.ravel().tolist()
        )
    else:
        if array.dtype.byteorder == ">":
            array = array.astype(array.dtype.newbyteorder("<"))
        if array.shape != (0,):  # OpenVINO reads raw data without bytes as a scalar
            proto.raw_data = array.tobytes()


def fill_stub(proto: TensorProto, name: str, value: Any, location: str = EXTERNAL_FILE) -> None:
    """Write a stub: name, shape and type of a tensor with external data.

    `LargeModel.save` writes another location to the file.
    """
    proto.name = name
    proto.dims.extend(initializers.shape_of(value))
    proto.data_type = initializers.dtype_of(value)
    proto.data_location = TensorProto.EXTERNAL
    entry = proto.external_data.add()
    entry.key, entry.value = "location", location


class ExternalTensors:
    """Tensors of at least ``threshold`` bytes, which the model refers to by stubs.

    Attributes:
        tensors: initializers of the main graph by name.
        nested: tensors of subgraphs, Constant nodes and functions by the location in their stub,
            because their names may be ambiguous.
    """

    __slots__ = ("nested", "tensors", "threshold")

    def __init__(self, threshold: int) -> None:
        self.threshold = threshold
        self.tensors: dict[str, Any] = {}
        self.nested: dict[str, Any] = {}

    def should_externalize(self, value: Any) -> bool:
        """Whether a value is to be stored outside of the model and is not external already."""
        if isinstance(value, TensorProto) and value.data_location == TensorProto.EXTERNAL:
            return False
        # ONNX Runtime needs shapes and axes while it loads the model, before it reads other files
        is_small = initializers.size_of(value) <= initializers.MAX_VALUE_ELEMENTS
        if is_small and initializers.dtype_of(value) == dtypes.int64:
            return False
        return initializers.nbytes_of(value) >= self.threshold

    def write_tensor(self, proto: TensorProto, name: str, value: Any, nested: bool = False) -> None:
        """Write a tensor, or, if it is to be external, add it to this object and write its stub."""
        if not self.should_externalize(value):
            fill_tensor(proto, value, name)
        elif nested:
            fill_nested_stub(proto, name, value, self.nested)
        else:
            fill_stub(proto, name, value)
            self.tensors[name] = value

    def move_out(self, protos: Iterable[TensorProto]) -> None:
        """Add the large tensors among ``protos`` to ``nested``, and turn the protos into stubs."""
        for proto in protos:
            if proto.data_type != TensorProto.STRING and self.should_externalize(proto):
                original = TensorProto()
                original.CopyFrom(proto)
                proto.Clear()
                fill_nested_stub(proto, original.name, original, self.nested)


def fill_nested_stub(proto: TensorProto, name: str, value: Any, nested: dict[str, Any]) -> None:
    """Write a stub with a unique location and add the value to ``nested`` under this location."""
    location = f"{EXTERNAL_FILE}#{next(_stub_numbers)}"
    fill_stub(proto, name, value, location)
    nested[location] = value


def location_of(tensor: TensorProto) -> str:
    """Return the location of an external tensor: a file name, or a key of `fill_nested_stub`."""
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")


def external_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the external tensors of a model, including those of functions and subgraphs."""
    for tensor in itertools.chain(model.graph.initializer, nested_tensors(model)):
        if tensor.data_location == TensorProto.EXTERNAL:
            yield tensor


def nested_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors of Constant nodes, subgraphs and functions of a model."""
    yield from tensors_of_nodes(model.graph.node)
    for function in model.functions:
        yield from tensors_of_nodes(function.node)


def tensors_of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield the initializers of a graph and the tensors of its nodes."""
    yield from graph.initializer
    yield from tensors_of_nodes(graph.node)


def tensors_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    """Yield the values of Constant nodes and the tensors of subgraphs."""
    for node in nodes:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                yield attribute.t
        for graph in graphs_inside(node):
            yield from tensors_of_graph(graph)
