"""Inference rules of operators with graphs or tensors as attributes, and of DFT.

Each rule infers dtype, shape and value together:
``(inputs, attrs, n_outputs, opset) -> ((dtype, shape, value), ...)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dims
from ortable.dtypes import float32, int64, string

from .dtype import INDEX_TYPES, tensor_dtype
from .shape import Dim, Shape, all_known, normalize_axis
from .spatial import dft_shape
from .values import LIMIT
from .view import as_scalar

Inferred = tuple[int | None, Shape | None, Any]
Result = tuple[Inferred, ...]
_UNKNOWN: Inferred = (None, None, None)


def infer_if(inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int) -> Result:
    """Infer the results of If: the facts on which both branches agree."""
    then_results, else_results = (
        _graph_results(attrs.get("then_branch")),
        _graph_results(attrs.get("else_branch")),
    )
    if len(then_results) != n_outputs or len(else_results) != n_outputs:
        return (_UNKNOWN,) * n_outputs
    return tuple(_merge_branches(a, b) for a, b in zip(then_results, else_results, strict=True))


def _merge_branches(a: Inferred, b: Inferred) -> Inferred:
    shape = None
    if a[1] is not None and b[1] is not None and len(a[1]) == len(b[1]):
        # a size that differs between the branches has no name, so only equal shapes are kept
        shape = a[1] if a[1] == b[1] else None
    value = a[2] if a[2] is not None and a[2] == b[2] else None
    return (a[0] if a[0] == b[0] else None, shape, value)


def infer_loop(inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int) -> Result:
    """Infer the results of Loop: a carried result has the shape that body and start value share.

    Of a stacked result only the dtype is known, because the body may stop the loop early.
    """
    body_results = _graph_results(attrs.get("body"))[1:]
    carried_count = len(inputs) - 2
    if len(body_results) != n_outputs:
        return (_UNKNOWN,) * n_outputs
    results: list[Inferred] = []
    for position, (dtype, shape, _) in enumerate(body_results):
        if position < carried_count:
            start = inputs[2 + position]
            start_dtype = None if start is None else start.dtype
            start_shape = None if start is None else start.shape
            # without iterations the result is the start value
            results.append((dtype or start_dtype, shape if shape == start_shape else None, None))
        else:
            # each iteration appends one slice, and the number of iterations is unknown
            results.append((dtype, None, None))
    return tuple(results)


def infer_scan(inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int) -> Result:
    """Infer the results of Scan: states keep their shape, stacked results gain the scanned axis."""
    body_results = _graph_results(attrs.get("body"))
    scanned_count = int(attrs["num_scan_inputs"])
    state_count = len(inputs) - scanned_count
    if len(body_results) != n_outputs:
        return (_UNKNOWN,) * n_outputs
    scan_length = _scan_length(inputs[state_count:], attrs.get("scan_input_axes"))
    axes = attrs.get("scan_output_axes") or [0] * (n_outputs - state_count)
    results: list[Inferred] = []
    for position, (dtype, inner, _) in enumerate(body_results):
        shape = _visible_shape(inner, inputs)
        if position < state_count:
            start = inputs[position]
            results.append((dtype or start.dtype, start.shape, None))
        elif shape is None or scan_length is None:
            results.append((dtype, None, None))
        else:
            axis = normalize_axis(axes[position - state_count], len(shape) + 1)
            results.append((dtype, shape[:axis] + (scan_length,) + shape[axis:], None))
    return tuple(results)


def _visible_shape(shape: Shape | None, inputs: Sequence[Any]) -> Shape | None:
    """Return ``shape``, or None if it has a symbol that exists only in the body of the Scan."""
    if shape is None or all(type(d) is int for d in shape):
        return shape
    outer_symbols = {n for info in inputs for d in info.shape or () for n in dims.free_symbols(d)}
    return shape if all(dims.free_symbols(d) <= outer_symbols for d in shape) else None


def _scan_length(inputs: Sequence[Any], axes: Sequence[int] | None) -> Dim | None:
    for position, info in enumerate(inputs):
        if info.shape is not None:
            return info.shape[axes[position] if axes else 0]
    return None


def _graph_results(graph: Any) -> list[Inferred]:
    """Return dtype, shape and value of the outputs of a subgraph, a Graph or a GraphProto."""
    if graph is None:
        return []
    if hasattr(graph, "values"):
        return [_builder_result(graph, output) for output in graph.outputs]
    return [_proto_result(output) for output in graph.output]


def _builder_result(graph: Any, output: Any) -> Inferred:
    info = graph.values.get(output if isinstance(output, str) else output.name)
    return _UNKNOWN if info is None else (info.dtype, info.shape, info.value)


def _proto_result(output: Any) -> Inferred:
    if not output.type.HasField("tensor_type"):
        return _UNKNOWN
    tensor = output.type.tensor_type
    shape: Shape | None = None
    if tensor.HasField("shape"):
        # names are dropped, because equal names in two protos may be different dims
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        shape = all_known(sizes)
    return (tensor.elem_type or None, shape, None)


def infer_dft(inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int) -> Result:
    """Infer the result of DFT, whose axis is an attribute up to opset 19 and an input since 20."""
    signal = inputs[0]
    dft_length = inputs[1] if len(inputs) > 1 else None
    axis: Any = attrs.get("axis", 1)
    if opset >= 20:
        axis_input = inputs[2] if len(inputs) > 2 else None
        axis = -2 if axis_input is None else as_scalar(axis_input.value)
    shape = None
    if type(axis) is int:
        # () is an omitted length
        size = () if dft_length is None else dft_length.value
        shape = dft_shape(
            signal.shape, size, axis, attrs.get("inverse", 0), attrs.get("onesided", 0)
        )
    return ((signal.dtype, shape, None),)


def infer_constant(
    inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int
) -> Result:
    """Infer the result of Constant from the attribute that is present."""
    for name, (dtype, rank) in _CONSTANT_ATTRIBUTES.items():
        content = attrs.get(name)
        if content is not None:
            sizes = (len(content),) if rank else ()
            value = tuple(content) if rank else content
            stores_value = dtype == int64 and (not rank or len(content) <= LIMIT)
            return ((dtype, sizes, value if stores_value else None),)
    tensor = attrs.get("value")
    if tensor is None:
        return (_UNKNOWN,)
    shape = tuple(int(d) for d in (tensor.dims if hasattr(tensor, "dims") else tensor.shape))
    tensor_type = tensor_dtype(tensor)
    return ((tensor_type, shape, _tensor_content(tensor, tensor_type, shape)),)


_CONSTANT_ATTRIBUTES = {
    "value_float": (float32, 0),
    "value_floats": (float32, 1),
    "value_int": (int64, 0),
    "value_ints": (int64, 1),
    "value_string": (string, 0),
    "value_strings": (string, 1),
}


def _tensor_content(tensor: Any, dtype: int | None, shape: Shape) -> Any:
    if dtype not in INDEX_TYPES or len(shape) > 1 or dims.product_of(shape) > LIMIT:
        return None
    if hasattr(tensor, "dims"):
        from onnx import numpy_helper

        tensor = numpy_helper.to_array(tensor)
    content = tensor.tolist()
    return tuple(content) if shape else content
