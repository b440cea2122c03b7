"""What a converter is given and what it returns. In: the arguments of an FX node as result names,
numbers, dimensions and ONNX types, and what torch says about its results. Out: the comparison of
these with what the graph inferred from the ONNX nodes: the two must agree, or the converter is
wrong."""

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

# Every torch dtype that ONNX can name, looked up once.
ELEMENT_TYPES: dict[torch.dtype, int] = {}
for _name in dir(torch):
    _value = getattr(torch, _name)
    if isinstance(_value, torch.dtype) and _value not in ELEMENT_TYPES:
        try:
            ELEMENT_TYPES[_value] = dtypes.from_torch(_value)
        except ValueError:  # torch has types, such as the quantized ones, that ONNX lacks
            continue
del _name, _value

PLAIN = frozenset(
    {int, float, bool, str, complex, type(None), torch.device, torch.layout, torch.memory_format}
)
UNKNOWN: Any = object()
_QUANTIZED = frozenset({torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4})


def node_value(node: Node) -> Any:
    """What FX knows of the value of ``node``: a fake tensor, a number, None, a container of these;
    else ``UNKNOWN``."""
    meta = node.meta
    if "val" in meta:
        return meta["val"]
    if "example_value" in meta:
        return meta["example_value"]
    return meta.get("tensor_meta", UNKNOWN)


def convert_argument(
    value: Any, values: Mapping[Node, Any], rename: Mapping[str, str] | None
) -> Any:
    """One argument: nodes become what they were converted to, torch dtypes become ONNX types,
    containers are rebuilt."""
    kind = value.__class__
    if kind is Node:
        return values[value]
    if kind in PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        items = [convert_argument(item, values, rename) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if kind is torch.dtype:
        return ELEMENT_TYPES.get(value, value)
    if kind is torch.SymInt:
        return dims.from_torch(value, rename)
    if kind is slice:
        return slice(
            convert_argument(value.start, values, rename),
            convert_argument(value.stop, values, rename),
            convert_argument(value.step, values, rename),
        )
    if isinstance(value, dict):
        return {key: convert_argument(item, values, rename) for key, item in value.items()}
    return value


def convert_arguments(
    node: Node, values: Mapping[Node, Any], rename: Mapping[str, str] | None
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments and keyword arguments of ``node`` for a converter; ``from`` is called ``from_``
    there."""
    args = [convert_argument(arg, values, rename) for arg in node.args]
    kwargs = {
        (name + "_" if keyword.iskeyword(name) else name): convert_argument(arg, values, rename)
        for name, arg in node.kwargs.items()
    }
    return args, kwargs


def contains_result(values: Sequence[Any]) -> bool:
    """True when a converted argument is, or holds, the name of a result."""
    return any(
        isinstance(value, (str, ComplexValue))
        or (isinstance(value, (list, tuple)) and contains_result(value))
        for value in values
    )


def is_tensor_like(value: Any) -> bool:
    """True for tensors and for the ``TensorMetadata`` that shape propagation leaves."""
    return isinstance(value, torch.Tensor) or (hasattr(value, "dtype") and hasattr(value, "shape"))


def tensor_type(value: Any, rename: Mapping[str, str] | None) -> tuple[int, tuple[Any, ...]]:
    """Element type and shape of a fake tensor.

    Raises BuilderError for a dtype that ONNX lacks, UnsupportedCase for torch's quantized ones.
    """
    dtype = ELEMENT_TYPES.get(value.dtype)
    if dtype is None:
        if value.dtype in _QUANTIZED:
            raise UnsupportedCase(
                f"a quantized tensor ({value.dtype}) holds its scale inside; use quantization "
                "through torch.export, which keeps codes and scales apart (quantized_decomposed)"
            )
        dtype = dtypes.from_torch(value.dtype)
    return dtype, tuple(
        d if d.__class__ is int else dims.from_torch(d, rename) for d in value.shape
    )


def check_dense(tensor: Any) -> None:
    """Raise UnsupportedCase for an input or a weight that is sparse, nested or packed: its elements
    do not lie as its shape says."""
    layout = getattr(tensor, "layout", torch.strided)
    if layout is not torch.strided or getattr(tensor, "is_nested", False):
        kind = "torch.nested" if layout is torch.strided else str(layout)
        raise UnsupportedCase(
            f"a tensor of the layout {kind}: an ONNX model holds and takes dense tensors; make it "
            "one before (`to_dense`, `torch.nested.to_padded_tensor`)"
        )


def check_weight(tensor: Any) -> None:
    """Raise for a weight that no initializer can hold, as for an input of its kind."""
    if isinstance(tensor, torch.Tensor):
        check_dense(tensor)
        if tensor.dtype not in ELEMENT_TYPES:
            tensor_type(tensor, None)


def record_of(graph: Graph, node: Node, value: Any, rename: Mapping[str, str] | None) -> ResultSpec:
    """The record of the results of ``node``, from what FX knows of its value.

    A result has the name of the FX node (with its number when there are several); one that nobody
    reads, or that is no tensor, has the name ``""``.
    """
    if is_tensor_like(value):
        single, sizes = tensor_type(value, rename)
        return ResultSpec((graph.unique_name(node.name),), (single,), (sizes,))
    if not isinstance(value, (list, tuple)):
        return ResultSpec((graph.unique_name(node.name),), (None,), (None,))
    used = used_results(node, len(value))
    names: list[str] = []
    types: list[int | None] = []
    shapes: list[tuple[Any, ...] | None] = []
    for index, item in enumerate(value):
        dtype_and_shape: Any = tensor_type(item, rename) if is_tensor_like(item) else (None, None)
        dtype, shape = dtype_and_shape
        names.append(graph.unique_name(f"{node.name}_{index}") if used[index] and dtype else "")
        types.append(dtype)
        shapes.append(shape)
    return ResultSpec(names, types, shapes)


def record_from_rule(
    graph: Graph,
    node: Node,
    rule: Callable[..., Any] | None,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> ResultSpec:
    """The record of a node without metadata: what the generated rule says, unknown where it says
    nothing."""
    entries = list(rule(graph, *args, **kwargs)) if rule is not None else [(None, None)]
    if len(entries) == 1:
        names = [graph.unique_name(node.name)]
    else:
        used = used_results(node, len(entries))
        names = [
            graph.unique_name(f"{node.name}_{i}") if flag else "" for i, flag in enumerate(used)
        ]
    return ResultSpec(names, [entry[0] for entry in entries], [entry[1] for entry in entries])


def are_empty(res: ResultSpec) -> bool:
    """Whether torch gives tensors without elements, of known sizes, and nothing else."""
    for shape in res.shapes:
        if shape is None or 0 not in shape or any(size.__class__ is not int for size in shape):
            return False
    return bool(res.shapes)


def make_empty(graph: Graph, res: ResultSpec, several: bool) -> Any:
    """Constants without elements. Nothing is computed for them: kernels refuse sizes of 0 that
    torch takes, and torch's own rules of shapes have exceptions there."""
    constants: list[Any] = []
    for name, dtype, shape in zip(res.outputs, res.dtypes, res.shapes, strict=True):
        if not name or dtype is None or shape is None:
            constants.append(None)
            continue
        part = graph.make_initializer("", np.empty(shape, dtypes.to_numpy(part_type(dtype))))
        constants.append(ComplexValue(part, part, dtype) if dtypes.is_complex_type(dtype) else part)
    return constants if several else constants[0]


def use_torch_names(graph: Graph, node: Node, res: ResultSpec, returned: Any, first: int) -> Any:
    """What a converter returned; results that it made (in the nodes from place ``first`` on) have
    the names that torch has for them: lowerings name only what they return directly."""
    if returned.__class__ is str:
        torch_name = res.outputs[0]
        return (
            returned
            if returned == torch_name
            else _rename_result(graph, node, torch_name, returned, first)
        )
    if returned.__class__ in (tuple, list) and len(returned) == len(res.outputs):
        named = [
            _rename_result(graph, node, torch_name, name, first) if name.__class__ is str else name
            for torch_name, name in zip(res.outputs, returned, strict=True)
        ]
        return tuple(named) if returned.__class__ is tuple else named
    return returned


def _rename_result(graph: Graph, node: Node, torch_name: str, name: str, first: int) -> str:
    if name == torch_name or not torch_name or not name.startswith(f"{node.name}."):
        return name  # it has a name of its own, that of an earlier node for instance
    if not graph.is_own(name) or torch_name in graph.values:
        return name
    producer = graph.values[name].producer
    if producer is None or producer not in graph.nodes[first:]:
        return name
    editing.rename_new(graph, name, torch_name, first)
    return torch_name


def used_results(node: Node, count: int) -> list[bool]:
    """Which of the ``count`` results of ``node`` somebody reads; all of them when one user is not a
    plain getitem."""
    used = [False] * count
    for user in node.users:
        if user.target is not operator.getitem or user.args[0] is not node:
            return [True] * count
        index = user.args[1]
        if not isinstance(index, int):
            return [True] * count
        used[index] = used[index] or bool(user.users)
    return used


def adopted_integer(
    graph: Graph, value: Any, rename: Mapping[str, str] | None, returned: Any
) -> Any:
    """An integer that the graph computes (``item()``), as a dimension: its symbol is read from the
    result that holds it."""
    dim = dims.from_torch(value, rename)
    if isinstance(returned, str):
        if graph.get_type(returned) != dtypes.int64:
            returned = graph.make_node("Cast", [returned], to=dtypes.int64)
        graph.set_value_shape(returned, (dim,) if graph.get_rank(returned) else dim)
    return dim


def check_and_complete(
    graph: Graph, name: str, dtype: int | None, shape: tuple[Any, ...] | None
) -> str | None:
    """Compare result ``name`` with torch's type and shape, then tell the graph what torch knows
    better.

    Returns the difference in words, or None. Symbolic dimensions differ only when provably so.
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
                f"rank {info.rank}", f"rank {len(shape)} ({text_of(shape)})"
            )
    elif len(inferred) != len(shape) or any(map(_dims_differ, inferred, shape)):
        return _describe_difference(f"shape {text_of(inferred)}", f"shape {text_of(shape)}")
    graph.set_shape(name, shape)
    return None


def _dims_differ(a: Any, b: Any) -> bool:
    return a is not b and dims.always_differ(a, b)


def _describe_difference(computed: str, expected: str) -> str:
    return f"the ONNX graph computes {computed}, torch computes {expected}"


def text_of(shape: Sequence[Any] | None) -> str:
    """A shape for people: ``5x3``, ``batchx3``, ``scalar``, ``?``."""
    if shape is None:
        return "?"
    return "x".join(str(d) for d in shape) or "scalar"


def describe_value(value: Any) -> str:
    """FX metadata for people: ``float32[5x3]``, ``s0``, ``None``, ``(float32[2], ...)``."""
    if value is UNKNOWN:
        return "?"
    if is_tensor_like(value):
        return f"{str(value.dtype).removeprefix('torch.')}[{'x'.join(str(d) for d in value.shape)}]"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(describe_value(item) for item in value) + ")"
    return str(value)
