"""Convert the arguments of converters, and check their results against FX metadata.

Types and shapes that the graph infers from the ONNX nodes of a converter must agree with those that
torch recorded in FX metadata; otherwise the converter is wrong.
"""

from __future__ import annotations

import keyword
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.fx import Node

from ortable.ir import Graph, editing
from ortable.ir.result import ResultSpec
from ortable.prelude.complex_value import ComplexValue, part_type

from .. import dims, dtypes
from ..errors import UnsupportedCase

# ONNX element types of the torch dtypes that ONNX supports.
ELEMENT_TYPES: dict[torch.dtype, int] = {}
for _name in dir(torch):
    _value = getattr(torch, _name)
    if isinstance(_value, torch.dtype) and _value not in ELEMENT_TYPES:
        try:
            ELEMENT_TYPES[_value] = dtypes.from_torch(_value)
        except ValueError:  # ONNX lacks some dtypes, such as torch's quantized ones
            continue
del _name, _value

# Types of arguments that `convert_argument` returns unchanged.
UNCONVERTED_TYPES = frozenset(
    {int, float, bool, str, complex, type(None), torch.device, torch.layout, torch.memory_format}
)
UNKNOWN: Any = object()
_QUANTIZED = frozenset({torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4})


def node_value(node: Node) -> Any:
    """Return a node's value in metadata (fake tensor, number, None, list, ...), or ``UNKNOWN``."""
    meta = node.meta
    if "val" in meta:
        return meta["val"]
    if "example_value" in meta:
        return meta["example_value"]
    return meta.get("tensor_meta", UNKNOWN)


def convert_argument(value: Any, values: Mapping[Node, Any], rename: dims.Names | None) -> Any:
    """Convert nodes to their values, dtypes to ONNX types, and SymInts to dimensions.

    ``values`` has the converted values of nodes, ``rename`` maps torch's symbols to names of
    dimensions. Containers are converted by item, other values returned unchanged.
    """
    value_type = value.__class__
    if value_type is Node:
        return values[value]
    if value_type in UNCONVERTED_TYPES:
        return value
    if isinstance(value, (list, tuple)):
        items = [convert_argument(item, values, rename) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if value_type is torch.dtype:
        return ELEMENT_TYPES.get(value, value)
    if value_type is torch.SymInt:
        return dims.from_torch(value, rename)
    if value_type is slice:
        return slice(
            convert_argument(value.start, values, rename),
            convert_argument(value.stop, values, rename),
            convert_argument(value.step, values, rename),
        )
    if isinstance(value, dict):
        return {key: convert_argument(item, values, rename) for key, item in value.items()}
    return value


def convert_arguments(
    node: Node, values: Mapping[Node, Any], rename: dims.Names | None
) -> tuple[list[Any], dict[str, Any]]:
    """Convert the arguments of a node; ``_`` is appended to keywords of Python such as ``from``."""
    args = [convert_argument(arg, values, rename) for arg in node.args]
    kwargs = {
        (name + "_" if keyword.iskeyword(name) else name): convert_argument(arg, values, rename)
        for name, arg in node.kwargs.items()
    }
    return args, kwargs


def contains_result(values: Sequence[Any]) -> bool:
    """Whether any converted value is a result, or a list or tuple that contains one.

    Every string counts as the name of a result.
    """
    return any(
        isinstance(value, (str, ComplexValue))
        or (isinstance(value, (list, tuple)) and contains_result(value))
        for value in values
    )


def is_tensor_like(value: Any) -> bool:
    """Whether a value is a tensor or the ``TensorMetadata`` of shape propagation."""
    return isinstance(value, torch.Tensor) or (hasattr(value, "dtype") and hasattr(value, "shape"))


def tensor_type(value: Any, rename: dims.Names | None) -> tuple[int, tuple[Any, ...]]:
    """Return the ONNX element type and the shape of a fake tensor; reject quantized tensors."""
    dtype = ELEMENT_TYPES.get(value.dtype)
    if dtype is None:
        if value.dtype in _QUANTIZED:
            raise UnsupportedCase(
                f"a quantized tensor ({value.dtype}) contains its scale and zero point; use PT2E "
                "quantization, whose graphs pass quantized values, scales and zero points as "
                "separate tensors (quantized_decomposed)"
            )
        dtype = dtypes.from_torch(value.dtype)
    return dtype, tuple(
        size if size.__class__ is int else dims.from_torch(size, rename) for size in value.shape
    )


def check_dense(tensor: Any) -> None:
    """Raise UnsupportedCase if an input or weight is nested or has another layout than strided."""
    layout = getattr(tensor, "layout", torch.strided)
    if layout is not torch.strided or getattr(tensor, "is_nested", False):
        layout_name = "torch.nested" if layout is torch.strided else str(layout)
        raise UnsupportedCase(
            f"a tensor of the layout {layout_name}: ortable converts dense tensors only; make it "
            "dense before the conversion (`to_dense`, `torch.nested.to_padded_tensor`)"
        )


def check_weight(tensor: Any) -> None:
    """Raise if an initializer cannot represent a weight, because of its layout or dtype."""
    if isinstance(tensor, torch.Tensor):
        check_dense(tensor)
        if tensor.dtype not in ELEMENT_TYPES:
            tensor_type(tensor, None)


def make_result_spec(graph: Graph, node: Node, value: Any, rename: dims.Names | None) -> ResultSpec:
    """Make the result spec of a node from its metadata.

    A single result has the name of the FX node, items of a list have that name and their index.
    Unused items, and items that are not tensors, have the name ``""``.
    """
    if is_tensor_like(value):
        result_dtype, result_shape = tensor_type(value, rename)
        return ResultSpec((graph.unique_name(node.name),), (result_dtype,), (result_shape,))
    if not isinstance(value, (list, tuple)):
        return ResultSpec((graph.unique_name(node.name),), (None,), (None,))
    used = used_results(node, len(value))
    names: list[str] = []
    types: list[int | None] = []
    shapes: list[tuple[Any, ...] | None] = []
    for index, item in enumerate(value):
        item_type: Any = tensor_type(item, rename) if is_tensor_like(item) else (None, None)
        dtype, shape = item_type
        names.append(graph.unique_name(f"{node.name}_{index}") if used[index] and dtype else "")
        types.append(dtype)
        shapes.append(shape)
    return ResultSpec(names, types, shapes)


def make_spec_from_rule(
    graph: Graph,
    node: Node,
    rule: Callable[..., Any] | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> ResultSpec:
    """Make a result spec for a node that has no metadata.

    ``rule``, the generated rule of the operator, infers the types and shapes. If it is None, the
    spec has one result of unknown type and shape.
    """
    entries = list(rule(graph, *args, **kwargs)) if rule is not None else [(None, None)]
    if len(entries) == 1:
        names = [graph.unique_name(node.name)]
    else:
        used = used_results(node, len(entries))
        names = [
            graph.unique_name(f"{node.name}_{index}") if is_used else ""
            for index, is_used in enumerate(used)
        ]
    return ResultSpec(names, [entry[0] for entry in entries], [entry[1] for entry in entries])


def has_only_empty_results(res: ResultSpec) -> bool:
    """Whether all results are tensors of static shape without elements."""
    for shape in res.shapes:
        if shape is None or 0 not in shape or any(size.__class__ is not int for size in shape):
            return False
    return bool(res.shapes)


def make_empty(graph: Graph, res: ResultSpec, several: bool) -> Any:
    """Make constants without elements for the results; with ``several``, return them as a list.

    They replace the operator, because some ONNX kernels reject sizes of 0, and some operators of
    torch have special shape rules for them.
    """
    constants: list[Any] = []
    for name, dtype, shape in zip(res.outputs, res.dtypes, res.shapes, strict=True):
        if not name or dtype is None or shape is None:
            constants.append(None)
            continue
        constant = graph.make_initializer("", np.empty(shape, dtypes.to_numpy(part_type(dtype))))
        constants.append(
            ComplexValue(constant, constant, dtype) if dtypes.is_complex_type(dtype) else constant
        )
    return constants if several else constants[0]


def rename_to_torch_names(
    graph: Graph, node: Node, res: ResultSpec, returned: Any, start: int
) -> Any:
    """Rename results to the names in ``res``, and return them with the new names.

    Only results of the converter's nodes (``graph.nodes[start:]``) are renamed, and of these only
    the ones whose names start with the name of the FX node and a dot.
    """
    if returned.__class__ is str:
        torch_name = res.outputs[0]
        return (
            returned
            if returned == torch_name
            else _rename_result(graph, node, torch_name, returned, start)
        )
    if returned.__class__ in (tuple, list) and len(returned) == len(res.outputs):
        named = [
            _rename_result(graph, node, torch_name, name, start) if name.__class__ is str else name
            for torch_name, name in zip(res.outputs, returned, strict=True)
        ]
        return tuple(named) if returned.__class__ is tuple else named
    return returned


def _rename_result(graph: Graph, node: Node, torch_name: str, name: str, start: int) -> str:
    if name == torch_name or not torch_name or not name.startswith(f"{node.name}."):
        return name  # right already, unused, of an earlier node, or chosen by the converter
    if not graph.is_own(name) or torch_name in graph.values:
        return name
    producer = graph.values[name].producer
    if producer is None or producer not in graph.nodes[start:]:
        return name
    editing.rename_recent_result(graph, name, torch_name, start)
    return torch_name


def used_results(node: Node, count: int) -> list[bool]:
    """Return for each result of a node whether it is used.

    If a user is not ``getitem`` with a static index, all are assumed to be used.
    """
    used = [False] * count
    for user in node.users:
        if user.target is not operator.getitem or user.args[0] is not node:
            return [True] * count
        index = user.args[1]
        if not isinstance(index, int):
            return [True] * count
        used[index] = used[index] or bool(user.users)
    return used


def bind_symint(graph: Graph, value: Any, rename: dims.Names | None, returned: Any) -> Any:
    """Convert a SymInt that a node computes (``item()``) to a dimension, and return that.

    If ``returned`` is a result, its value is set to the dimension, after a Cast if it is not int64.
    A symbolic dimension can then be computed from this result.
    """
    dim = dims.from_torch(value, rename)
    if isinstance(returned, str):
        if graph.get_type(returned) != dtypes.int64:
            returned = graph.make_node("Cast", [returned], to=dtypes.int64)
        graph.set_value_shape(returned, (dim,) if graph.get_rank(returned) else dim)
    return dim


def check_and_complete(
    graph: Graph, name: str, dtype: int | None, shape: tuple[Any, ...] | None
) -> str | None:
    """Compare a result with torch's type and shape, and complete what the graph records.

    ``dtype`` and ``shape`` are torch's, None if unknown. They replace an unknown type, an unknown
    shape and symbolic sizes. A symbolic size differs from another size only if no values of the
    symbols make them equal. Returns a description of the difference, or None.
    """
    info = graph.values.get(name)
    if info is None:
        return f"the converter returned '{name}', which is not a result of the graph"
    if dtype is not None and info.dtype != dtype:
        if info.dtype:
            return _describe_difference(dtypes.name(info.dtype), dtypes.name(dtype))
        graph.set_type(name, dtype)
    if shape is None or info.shape == shape:
        return None
    inferred = info.shape
    if inferred is None:
        if info.rank is not None and info.rank != len(shape):
            return _describe_difference(
                f"rank {info.rank}", f"rank {len(shape)} ({shape_text(shape)})"
            )
    elif len(inferred) != len(shape) or any(map(_dims_differ, inferred, shape)):
        return _describe_difference(f"shape {shape_text(inferred)}", f"shape {shape_text(shape)}")
    graph.set_shape(name, shape)
    return None


def _dims_differ(inferred: Any, expected: Any) -> bool:
    return inferred is not expected and dims.always_differ(inferred, expected)


def _describe_difference(computed: str, expected: str) -> str:
    return f"the ONNX graph computes {computed}, torch computes {expected}"


def shape_text(shape: Sequence[Any] | None) -> str:
    """Format a shape as ``5x3``, ``batchx3``, ``scalar`` (rank 0) or ``?`` (None)."""
    if shape is None:
        return "?"
    return "x".join(str(size) for size in shape) or "scalar"


def describe_value(value: Any) -> str:
    """Format FX metadata as ``float32[5x3]``, ``s0``, ``None`` or ``(float32[2], ...)``."""
    if value is UNKNOWN:
        return "?"
    if is_tensor_like(value):
        return (
            f"{str(value.dtype).removeprefix('torch.')}["
            f"{'x'.join(str(dim) for dim in value.shape)}]"
        )
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(describe_value(item) for item in value) + ")"
    return str(value)
