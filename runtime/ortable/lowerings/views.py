"""Lower views that torch defines through memory, such as as_strided, to a Gather.

For static sizes, the indices are computed during conversion. The memory layout of the input is not
part of a graph; it is read from the metadata of the FX node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ortable import dims, dtypes
from ortable.compat.torch import storage_identity
from ortable.dims import Dim
from ortable.errors import UnsupportedCase
from ortable.ir import Graph, ResultSpec
from ortable.prelude.facts import Bool, SymInt, inverse_perm, is_static, shape_of
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.shapes import iota
from ortable.prelude.values import as_vec, cast, consts, permuted, reshape_to, unsqueezed

__all__ = [
    "metadata_bool",
    "metadata_int",
]


def as_strided(
    graph: Graph,
    res: ResultSpec,
    self: str,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: Dim | None,
) -> str:
    """Lower aten::as_strided: element ``i`` is at ``storage_offset + sum(i * stride)``."""
    source, node = _memory_owner(graph, self)
    if storage_offset is None and source != self:
        storage_offset = dims.from_torch(_first_argument(graph).meta["val"].storage_offset())
    flat, _, start = _flatten_memory(graph, source, node)
    indices = _memory_indices(graph, source, size, stride, storage_offset, start)
    return reshape_to(graph, OpBuilder(graph).Gather(flat, indices), list(size))


def as_strided_scatter(
    graph: Graph,
    res: ResultSpec,
    self: str,
    src: str,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: Dim | None,
) -> str:
    """Lower aten::as_strided_scatter: write ``src`` to the elements that as_strided would read."""
    flat, order, start = _flatten_memory(graph, self, _first_argument(graph))
    indices = _memory_indices(graph, self, size, stride, storage_offset, start)
    total = dims.product_of(list(size))
    rows = reshape_to(graph, cast(graph, src, graph.get_type(self)), [total])
    parts = [flat, unsqueezed(graph, indices, [1]), rows]
    written = graph.make_node("ScatterND", parts)
    shape = shape_of(graph, self)
    transposed = reshape_to(graph, written, [shape[axis] for axis in order])
    return permuted(graph, transposed, inverse_perm(order))


def _first_argument(graph: Graph) -> Any:
    """Return the first argument of the converted FX node, None if it is unknown."""
    return next(iter(getattr(graph.origin, "args", ())), None)


def _memory_owner(graph: Graph, x: str) -> tuple[str, Any]:
    """Return the converted value that ``x`` is a view of, and its FX node.

    In eager, as_strided of ``base[1:]`` reads elements of ``base`` too. The result is ``x`` itself
    if it is no view, or a view of a tensor that has gaps, for example of an input.
    """
    node = _first_argument(graph)
    owner, storage = node, _identify_storage(node)
    while storage is not None and owner.args and _identify_storage(owner.args[0]) == storage:
        owner = owner.args[0]
    value = graph.ctx.values.get(owner)
    if owner is node or not isinstance(value, str):
        return x, node
    try:
        _memory_layout(list(shape_of(graph, value)), owner)
    except UnsupportedCase:
        return x, node
    return value, owner


def _identify_storage(node: Any) -> int | None:
    """Return the identity of the memory of an FX node's result, or of the first of its results."""
    value = getattr(node, "meta", {}).get("val")
    value = next(iter(value), None) if isinstance(value, (list, tuple)) else value
    return storage_identity(value) if isinstance(value, torch.Tensor) else None


def _flatten_memory(graph: Graph, x: str, node: Any) -> tuple[str, list[int], int]:
    """Return the elements (1-d) and the axes in memory order, and the storage offset of ``x``."""
    shape = list(shape_of(graph, x))
    order, start = _memory_layout(shape, node)
    return reshape_to(graph, permuted(graph, x, order), [dims.product_of(shape)]), order, start


def _memory_indices(
    graph: Graph,
    x: str,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: Dim | None,
    start: int,
) -> str:
    """Return the index in the memory of ``x`` of each element, as a vector.

    ``start`` is the storage offset of ``x``. The vector is a constant for static sizes.
    """
    offset = 0 if storage_offset is None else storage_offset - start
    values = [*shape_of(graph, x), *size, *stride, offset]
    outside = "aten::as_strided reads memory outside its input, which an ONNX graph cannot see"
    if isinstance(offset, int) and offset < 0:
        raise UnsupportedCase(outside)
    if not is_static(values):
        return _computed_indices(graph, size, stride, offset)
    indices = np.full([int(item) for item in size], int(offset), dtype=np.int64)  # type: ignore[arg-type]
    for axis, (count, step) in enumerate(zip(size, stride, strict=True)):
        indices += (np.arange(int(count)) * int(step)).reshape(  # type: ignore[arg-type]
            [-1 if item == axis else 1 for item in range(len(size))]
        )
    total = dims.product_of(shape_of(graph, x))
    if indices.size and not (indices.min() >= 0 and indices.max() < total):
        raise UnsupportedCase(outside)
    return consts(graph, indices.reshape(-1), dtypes.int64)


def _computed_indices(graph: Graph, size: Sequence[Dim], stride: Sequence[Dim], offset: Dim) -> str:
    """Return the indices for dynamic sizes; ONNX Runtime reports an index that is out of range."""
    indices = as_vec(graph, offset)
    for count, step in zip(size, stride, strict=True):
        offsets = iota(graph, 0, count, step)
        indices = OpBuilder(graph).Add(unsqueezed(graph, indices, [1]), offsets)
        indices = reshape_to(graph, indices, [-1])
    return indices


# The axes of the result from outermost to innermost in memory, by torch.memory_format.
_AXES_IN_MEMORY = {"channels_last": (0, 2, 3, 1), "channels_last_3d": (0, 2, 3, 4, 1)}


def lower_resize(
    graph: Graph, res: ResultSpec, self: str, size: Sequence[Dim], memory_format: Any = None
) -> str:
    """Lower aten::resize: take the first elements in memory order; the input must have enough.

    They fill the memory of the result, which has the order of ``memory_format``.
    """
    format_name = str(memory_format).removeprefix("torch.")
    if format_name == "preserve_format":
        raise UnsupportedCase("the memory format of another tensor")
    shape = list(shape_of(graph, self))
    requested, available = dims.product_of(list(size)), dims.product_of(shape)
    if isinstance(requested, int) and isinstance(available, int) and requested > available:
        raise UnsupportedCase(
            f"a tensor of {available} elements holds no more; torch leaves new ones uninitialised"
        )
    order, _ = _memory_layout(shape, _first_argument(graph))
    in_memory = _AXES_IN_MEMORY.get(format_name, range(len(size)))
    is_in_order = order == list(range(len(shape))) and format_name not in _AXES_IN_MEMORY
    if dims.always_equal(requested, available) and is_in_order:
        return reshape_to(graph, self, list(size))
    strides: list[Dim] = [1] * len(size)
    step: Dim = 1
    for axis in reversed(in_memory):
        strides[axis] = step
        step = step * size[axis]
    return as_strided(graph, res, self, list(size), strides, None)


def resize_as(
    graph: Graph, res: ResultSpec, self: str, the_template: str, memory_format: Any = None
) -> str:
    """Lower aten::resize_as: resize to the shape of another tensor."""
    return lower_resize(graph, res, self, list(shape_of(graph, the_template)), memory_format)


def _memory_layout(shape: list[Any], node: Any) -> tuple[list[int], int]:
    """Return the axes of the result of ``node`` in memory order, and its storage offset."""
    value = getattr(node, "meta", {}).get("val")
    if value is None:
        raise UnsupportedCase(
            "aten::as_strided of a tensor whose strides are unknown; give example inputs (args)"
        )
    if not is_static(shape):
        if not value.is_contiguous() or not isinstance(value.storage_offset(), int):
            raise UnsupportedCase(
                "aten::as_strided of a dynamic shape that is not contiguous: make its sizes static",
                tuple(shape),
            )
        return list(range(len(shape))), int(value.storage_offset())
    strides = [int(stride) for stride in value.stride()]
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    dense_stride = 1
    for axis in reversed(order):
        if shape[axis] == 1:
            continue
        if strides[axis] != dense_stride and 0 not in shape:
            raise UnsupportedCase(
                f"aten::as_strided of a view with gaps or overlaps: {strides}, shape {shape}"
            )
        dense_stride *= shape[axis]
    return order, int(value.storage_offset())


def metadata_int(graph: Graph) -> SymInt:
    """Return the number that the metadata of the converted FX node has as its result."""
    result = getattr(graph.origin, "meta", {}).get("val")
    if result is None:
        raise UnsupportedCase(
            "the memory layout of the elements is unknown; give example inputs (args)"
        )
    return dims.from_torch(result)


def metadata_bool(graph: Graph) -> Bool:
    """Return the bool that the metadata of the converted FX node has as its result."""
    result = getattr(graph.origin, "meta", {}).get("val")
    if not isinstance(result, bool):
        raise UnsupportedCase(
            "the memory layout of the elements is unknown; give example inputs (args)"
        )
    return result
