"""Rules of operators that hold graphs or whole tensors (If, Loop, Scan, Constant): dtype, shape and
value together.
Each has the signature of an inference rule: ``(inputs, attrs, n_outputs, opset) -> ((dtype, shape,
value), ...)``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ortable import dims
from ortable.dtypes import float32, int64, string

from .dtype import INDEX_TYPES, tensor_dtype
from .shape import Dim, Shape, all_known, normalize_axis
from .spatial import dft
from .values import LIMIT
from .view import scalar

Known = tuple[int | None, Shape | None, Any]
Result = tuple[Known, ...]
_NOTHING: Known = (None, None, None)


def infer_if(inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int) -> Result:
    """If: what both branches say of a result."""
    yes, no = _results(attrs.get("then_branch")), _results(attrs.get("else_branch"))
    if len(yes) != n_outputs or len(no) != n_outputs:
        return (_NOTHING,) * n_outputs
    return tuple(_common(a, b) for a, b in zip(yes, no, strict=True))


def _common(a: Known, b: Known) -> Known:
    shape = None
    if a[1] is not None and b[1] is not None and len(a[1]) == len(b[1]):
        # the branches are different run-time values: only dims that are the same are known
        shape = a[1] if a[1] == b[1] else None
    value = a[2] if a[2] is not None and a[2] == b[2] else None
    return (a[0] if a[0] == b[0] else None, shape, value)


def infer_loop(inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int) -> Result:
    """Loop: carried results as body and start agree on, stacked results with the trip count in
    front when it is known.

    The trip count of a loop whose body may stop it is not known.
    """
    body = _results(attrs.get("body"))[1:]
    carried = len(inputs) - 2
    if len(body) != n_outputs:
        return (_NOTHING,) * n_outputs
    found: list[Known] = []
    for position, (dtype, shape, _) in enumerate(body):
        if position < carried:
            start = inputs[2 + position]
            given = None if start is None else start.dtype
            known = None if start is None else start.shape
            # after no trip at all the result is the start
            found.append((dtype or given, shape if shape == known else None, None))
        else:
            # each trip is one slice; its dims may differ from trip to trip only in an illegal model
            found.append((dtype, None, None))
    return tuple(found)


def infer_scan(inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int) -> Result:
    """Scan: states keep their shape, stacked results gain the length of the scanned axis."""
    body = _results(attrs.get("body"))
    scanned = int(attrs["num_scan_inputs"])
    states = len(inputs) - scanned
    if len(body) != n_outputs:
        return (_NOTHING,) * n_outputs
    size = _scan_length(inputs[states:], attrs.get("scan_input_axes"))
    axes = attrs.get("scan_output_axes") or [0] * (n_outputs - states)
    found: list[Known] = []
    for position, (dtype, inner, _) in enumerate(body):
        shape = _visible(inner, inputs)
        if position < states:
            start = inputs[position]
            found.append((dtype or start.dtype, start.shape, None))
        elif shape is None or size is None:
            found.append((dtype, None, None))
        else:
            axis = normalize_axis(axes[position - states], len(shape) + 1)
            found.append((dtype, shape[:axis] + (size,) + shape[axis:], None))
    return tuple(found)


def _visible(shape: Shape | None, inputs: Sequence[Any]) -> Shape | None:
    """``shape`` when its symbols also stand in the inputs: a symbol of the body alone means
    nothing outside."""
    if shape is None or all(type(d) is int for d in shape):
        return shape
    known = {n for info in inputs for d in info.shape or () for n in dims.symbols(d)}
    return shape if all(dims.symbols(d) <= known for d in shape) else None


def _scan_length(inputs: Sequence[Any], axes: Sequence[int] | None) -> Dim | None:
    for position, info in enumerate(inputs):
        if info.shape is not None:
            return info.shape[axes[position] if axes else 0]
    return None


def _results(graph: Any) -> list[Known]:
    """dtype, shape and value of the outputs of a child graph: a builder (names and ``values``) or
    a GraphProto."""
    if graph is None:
        return []
    if hasattr(graph, "values"):
        return [_of_builder(graph, output) for output in graph.outputs]
    return [_of_proto(output) for output in graph.output]


def _of_builder(graph: Any, output: Any) -> Known:
    info = graph.values.get(output if isinstance(output, str) else output.name)
    return _NOTHING if info is None else (info.dtype, info.shape, info.value)


def _of_proto(output: Any) -> Known:
    if not output.type.HasField("tensor_type"):
        return _NOTHING
    tensor = output.type.tensor_type
    shape: Shape | None = None
    if tensor.HasField("shape"):
        # a name in a proto is only a name: it means the same dim as another graph's only by luck
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        shape = all_known(sizes)
    return (tensor.elem_type or None, shape, None)


def infer_dft(inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int) -> Result:
    """DFT: its axis is an attribute (default 1) up to opset 19, an input (default -2) from 20
    on."""
    signal = inputs[0]
    wanted = inputs[1] if len(inputs) > 1 else None
    axis: Any = attrs.get("axis", 1)
    if opset >= 20:
        third = inputs[2] if len(inputs) > 2 else None
        axis = -2 if third is None else scalar(third.value)
    shape = None
    if type(axis) is int:
        size = () if wanted is None else wanted.value
        shape = dft(signal.shape, size, axis, attrs.get("inverse", 0), attrs.get("onesided", 0))
    return ((signal.dtype, shape, None),)


def infer_constant(
    inputs: Sequence[Any], attrs: dict[str, Any], n_outputs: int, opset: int
) -> Result:
    """Constant: whichever of its attributes is given."""
    for name, (dtype, rank) in _CONSTANTS.items():
        content = attrs.get(name)
        if content is not None:
            sizes = (len(content),) if rank else ()
            value = tuple(content) if rank else content
            known = dtype == int64 and (not rank or len(content) <= LIMIT)
            return ((dtype, sizes, value if known else None),)
    tensor = attrs.get("value")
    if tensor is None:
        return (_NOTHING,)
    shape = tuple(int(d) for d in (tensor.dims if hasattr(tensor, "dims") else tensor.shape))
    found = tensor_dtype(tensor)
    return ((found, shape, _content(tensor, found, shape)),)


_CONSTANTS = {
    "value_float": (float32, 0),
    "value_floats": (float32, 1),
    "value_int": (int64, 0),
    "value_ints": (int64, 1),
    "value_string": (string, 0),
    "value_strings": (string, 1),
}


def _content(tensor: Any, dtype: int | None, shape: Shape) -> Any:
    if dtype not in INDEX_TYPES or len(shape) > 1 or dims.prod(shape) > LIMIT:
        return None
    if hasattr(tensor, "dims"):
        from onnx import numpy_helper

        tensor = numpy_helper.to_array(tensor)
    content = tensor.tolist()
    return tuple(content) if shape else content
