"""Check whether zero points fit into the dtype of a kernel, and convert them.

Used by converters of quantized operators and by `lowerings.quantize`.
"""

from __future__ import annotations

import numpy as np

from ortable import dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph

from .facts import Bool, Dtype, Ints, Result, dtype_max, dtype_min
from .values import cast, reshape_to

__all__ = [
    "fits",
    "one_scale",
    "zero_codes",
]


def fits(graph: Graph, zero: Result | None, dtype: Dtype) -> Bool:
    """Whether zero points are known to be values of ``dtype``.

    An ONNX operator of that dtype then subtracts the zero points as torch does. The result is True
    for None, constants, clipped values and results of DynamicQuantizeLinear in the range.
    """
    if zero is None:
        return True
    array = constant_array(graph, zero)
    if array is not None:
        return _all_in_range(array, dtype)
    name = source_before_cast(graph, zero)
    node = graph.values[name].producer
    if node is None:
        return False
    if node.op_type == "DynamicQuantizeLinear":
        return dtype == dtypes.uint8
    names = node.inputs[1:3] if node.op_type == "Clip" else _clip_bounds(graph, name)
    bounds = [constant_array(graph, bound) for bound in names]
    return len(bounds) == 2 and all(b is not None and _all_in_range(b, dtype) for b in bounds)


def _clip_bounds(graph: Graph, name: str) -> list[str]:
    """Return the bounds to which `larger_of` and `smaller_of` clamp int64 values, or none."""
    bounds: list[str] = []
    for index in (2, 1):  # Where(Less(x, high), x, high), then Where(Less(x, low), low, x)
        node = graph.values[name].producer
        condition = (
            graph.values[node.inputs[0]].producer if node and node.op_type == "Where" else None
        )
        if node is None or condition is None or condition.op_type != "Less":
            return []
        name, bound = node.inputs[3 - index], node.inputs[index]
        if condition.inputs != [name, bound]:
            return []
        bounds.append(bound)
    return bounds


def zero_codes(
    graph: Graph, zero: Result | None, dtype: Dtype, shape: Ints | None = None
) -> Result | None:
    """Convert zero points that ``fits`` accepts to ``dtype``, and optionally to another shape."""
    if zero is None:
        return None
    array = constant_array(graph, zero)
    if array is not None:
        codes = array.astype(dtypes.to_numpy(dtype))
        return graph.make_initializer("", codes if shape is None else codes.reshape(shape))
    result = cast(graph, source_before_cast(graph, zero), dtype)
    return result if shape is None else reshape_to(graph, result, shape)


def one_scale(graph: Graph, scale: Result) -> Result:
    """Return a scale of one element as 0-d float32.

    If the scale is the result of a Cast from float32 to float64, the input of the Cast is used.
    """
    source = source_before_cast(graph, scale)
    return cast(graph, reshape_to(graph, source, []), dtypes.float32)


def source_before_cast(graph: Graph, name: str) -> str:
    """Return the source of ``name``, looking through a Reshape from 0-d and a lossless Cast."""
    node = graph.values[name].producer
    if node is not None and node.op_type == "Reshape" and graph.get_rank(node.inputs[0]) == 0:
        name = node.inputs[0]
        node = graph.values[name].producer
    if node is None or node.op_type != "Cast":
        return name
    source_dtype = graph.values[node.inputs[0]].dtype
    exact_sources = {dtypes.float64: (dtypes.float32,), dtypes.int64: (dtypes.uint8, dtypes.int8)}
    return node.inputs[0] if source_dtype in exact_sources.get(node.attrs["to"], ()) else name


def constant_array(graph: Graph, name: str) -> np.ndarray | None:
    """Return the value of a constant that has data, None for other results."""
    try:
        return graph.get_constant(name) if graph.is_constant(name) else None
    except BuilderError:
        return None  # a fake tensor without data


def _all_in_range(values: np.ndarray, dtype: Dtype) -> bool:
    in_range = (values >= dtype_min(dtype)) & (values <= dtype_max(dtype))
    return bool(np.all(in_range & (values == np.rint(values))))
