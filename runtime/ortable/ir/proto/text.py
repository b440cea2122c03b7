"""Print ONNX objects as short text: one line per input, initializer, node and output.

A node that reads a result of the node in the previous line is indented one step further. Users,
the command line and TORCH_TRACE print models with `pretty_onnx`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
)

from ortable import dtypes
from ortable.errors import BuilderError, escape_control_characters
from ortable.ir.initializers import proto_to_numpy

from .model_validation import check_readable, load_model, parse_model

if TYPE_CHECKING:
    from .large_model import LargeModel

    Printable: TypeAlias = (
        ModelProto | LargeModel | GraphProto | FunctionProto | NodeProto | ValueInfoProto
        | AttributeProto | TensorProto | str | os.PathLike[str] | bytes
    )  # fmt: skip

_DOC_LENGTH = 55  # characters of a shortened doc string
_MAX_VALUES = 10  # shortened text omits the values of larger tensors


def pretty_onnx(
    onx: Printable, *, with_attributes: bool = True, shorten: bool = True, indent: str = "  "
) -> str:
    """Format a model, or a part of a model, as text.

    Args:
        onx: a ModelProto, a LargeModel, the path or the bytes of a model, or a GraphProto,
            FunctionProto, NodeProto, ValueInfoProto, AttributeProto or TensorProto.
        with_attributes: print the attributes of nodes.
        shorten: omit the values of tensors of more than 10 elements, and print at most 55
            characters of a doc string.
        indent: the text of one step of indentation.

    Raises:
        BuilderError: the model has names that are not UTF-8, or too deeply nested subgraphs.
        InputError: the file is not an ONNX model.
        TypeError: ``onx`` has another type.
    """
    writer = _TextWriter(with_attributes, shorten, indent)
    if isinstance(onx, str | os.PathLike):
        onx = load_model(onx)
    elif isinstance(onx, bytes):
        onx = parse_model(onx, "bytes")
    elif hasattr(onx, "proto") and isinstance(onx.proto, ModelProto):
        onx = onx.proto
    if isinstance(onx, ModelProto | GraphProto | FunctionProto | NodeProto):
        check_readable(onx)
    return escape_control_characters(_text_of(writer, onx))


def _text_of(writer: _TextWriter, onx: Any) -> str:
    if isinstance(onx, ModelProto):
        return "\n".join(writer.model_lines(onx))
    if isinstance(onx, GraphProto):
        return "\n".join(writer.graph_lines(onx))
    if isinstance(onx, FunctionProto):
        return "\n".join(writer.function_lines(onx))
    if isinstance(onx, NodeProto):
        return writer.node_line(onx)
    if isinstance(onx, ValueInfoProto):
        return f"{onx.name}: {_type_text(onx.type)}"
    if isinstance(onx, TensorProto):
        return writer.tensor_line("tensor", onx)
    if isinstance(onx, AttributeProto):
        return writer.attribute_text(onx)
    raise TypeError(f"pretty_onnx cannot render an object of type {type(onx).__name__}.")


def _dtype_text(elem_type: int) -> str:
    return f"dtype('{dtypes.name(elem_type)}')"


def _shape_list(tensor_type: TypeProto.Tensor) -> list[int | str] | None:
    if not tensor_type.HasField("shape"):
        return None
    return [
        dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or "?")
        for dim in tensor_type.shape.dim
    ]


def _type_text(proto: TypeProto) -> str:
    type_case = proto.WhichOneof("value")
    if type_case == "tensor_type":
        tensor = proto.tensor_type
        if not tensor.elem_type:
            return f"type=None shape={_shape_list(tensor)}"
        return f"type={_dtype_text(tensor.elem_type)} shape={_shape_list(tensor)}"
    if type_case == "sequence_type":
        return f"sequence({_type_text(proto.sequence_type.elem_type)})"
    if type_case == "optional_type":
        return f"optional({_type_text(proto.optional_type.elem_type)})"
    return f"type={type_case}"


def _float_text(value: float) -> str:
    """Format a float32 with two decimals if they represent it exactly, else in full: ``0.001``."""
    shortened = f"{value:.2f}"
    return shortened if np.float32(shortened) == np.float32(value) else str(np.float32(value))


class _TextWriter:
    """Formats the parts of a model with the options of one call."""

    def __init__(self, with_attributes: bool, shorten: bool, indent: str) -> None:
        self.with_attributes = with_attributes
        self.shorten = shorten
        self.indent = indent

    def model_lines(self, model: ModelProto) -> list[str]:
        lines = _opset_lines(model.opset_import)
        if model.doc_string:
            lines.append(f"doc_string: {self._doc_text(model.doc_string)}")
        lines += self.graph_lines(model.graph)
        for function in model.functions:
            lines += self.function_lines(function)
        return lines

    def graph_lines(self, graph: GraphProto) -> list[str]:
        lines = [f"input: name={value.name!r} {_type_text(value.type)}" for value in graph.input]
        lines += [self.tensor_line("init", tensor) for tensor in graph.initializer]
        lines += [self._sparse_line(tensor) for tensor in graph.sparse_initializer]
        lines += self._node_lines(graph.node)
        lines += [f"output: name={value.name!r} {_type_text(value.type)}" for value in graph.output]
        return lines

    def function_lines(self, function: FunctionProto) -> list[str]:
        lines = [f"----- function name={function.name} domain={function.domain}"]
        if function.doc_string:
            lines.append(f"----- doc_string: {self._doc_text(function.doc_string)}")
        lines += _opset_lines(function.opset_import)
        lines += [f"input: {name!r}" for name in function.input]
        lines += [f"attribute: {name!r}" for name in function.attribute]
        lines += self._node_lines(function.node)
        lines += [f"output: name={name!r} type=? shape=?" for name in function.output]
        return lines

    def _doc_text(self, text: str) -> str:
        text = " ".join(text.split())
        if self.shorten and len(text) > _DOC_LENGTH:
            return text[:_DOC_LENGTH] + "..."
        return text

    def tensor_line(self, label: str, tensor: TensorProto) -> str:
        shape = tuple(tensor.dims)
        head = f"{label}: name={tensor.name!r} type={_dtype_text(tensor.data_type)} shape={shape}"
        if tensor.data_location == TensorProto.EXTERNAL:
            return f"{head} -- external"
        if self.shorten and math.prod(shape) > _MAX_VALUES:
            return head
        try:
            values = proto_to_numpy(tensor).ravel()
        except BuilderError as error:  # the text of an invalid model shows its errors
            return f"{head} -- {error}"
        return f"{head} -- {' '.join(repr(values).split())}"

    def _sparse_line(self, tensor: SparseTensorProto) -> str:
        dtype_text = _dtype_text(tensor.values.data_type)
        return (
            f"sparse_init: name={tensor.values.name!r} type={dtype_text} shape={tuple(tensor.dims)}"
        )

    def _node_lines(self, nodes: Iterable[NodeProto]) -> list[str]:
        lines: list[str] = []
        depth = 0
        previous_results: set[str] = set()
        for node in nodes:
            depth = depth + 1 if previous_results.intersection(node.input) else 0
            lines.append(self.indent * depth + self.node_line(node))
            for att in node.attribute:
                for graph in _attribute_graphs(att):
                    head = f"----- subgraph of {node.op_type}, attribute {att.name}"
                    lines.append(f"{self.indent * (depth + 1)}{head}")
                    lines += [self.indent * (depth + 1) + line for line in self.graph_lines(graph)]
            previous_results = {name for name in node.output if name}
        return lines

    def node_line(self, node: NodeProto) -> str:
        name = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        parts = list(node.input)
        if self.with_attributes:
            parts += [self.attribute_text(att) for att in node.attribute]
        return f"{name}({', '.join(parts)}) -> {', '.join(node.output)}"

    def attribute_text(self, att: AttributeProto) -> str:
        return f"{att.name}={self._attribute_value(att)}"

    def _attribute_value(self, att: AttributeProto) -> str:
        if att.ref_attr_name:
            return f"@{att.ref_attr_name}"
        if att.type == AttributeProto.INT:
            return str(att.i)
        if att.type == AttributeProto.FLOAT:
            return _float_text(att.f)
        if att.type == AttributeProto.STRING:
            return repr(att.s.decode("utf-8", "backslashreplace"))
        if att.type == AttributeProto.INTS:
            return f"[{','.join(str(i) for i in att.ints)}]"
        if att.type == AttributeProto.FLOATS:
            return f"[{','.join(_float_text(f) for f in att.floats)}]"
        if att.type == AttributeProto.STRINGS:
            return repr([s.decode("utf-8", "backslashreplace") for s in att.strings])
        if att.type == AttributeProto.TENSOR:
            return self._tensor_value(att.t)
        if att.type == AttributeProto.GRAPH:
            return f"graph[{len(att.g.node)}]"
        return f"<{AttributeProto.AttributeType.Name(att.type).lower()}>"

    def _tensor_value(self, tensor: TensorProto) -> str:
        head = f"{dtypes.name(tensor.data_type)}{tuple(tensor.dims)}"
        is_external = tensor.data_location == TensorProto.EXTERNAL
        if is_external or (self.shorten and math.prod(tensor.dims) > _MAX_VALUES):
            return head
        try:
            return " ".join(repr(proto_to_numpy(tensor)).split())
        except BuilderError as error:  # the text of an invalid model shows its errors
            return f"{head} -- {error}"


def _opset_lines(opsets: Sequence[Any]) -> list[str]:
    return [f"opset: domain={opset.domain!r} version={opset.version!r}" for opset in opsets]


def _attribute_graphs(att: AttributeProto) -> list[GraphProto]:
    if att.type == AttributeProto.GRAPH:
        return [att.g]
    return list(att.graphs) if att.type == AttributeProto.GRAPHS else []
