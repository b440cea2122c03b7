"""Views that torch defines through memory: as_strided, as a Gather of places computed while
converting.

What a graph lacks is the layout of the input in memory; the metadata of the FX node has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.errors import UnsupportedCase
from ortable.prelude import is_static, shape_of
from ortable.prelude_make import consts, permuted, reshape_to

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res


def as_strided(
    graph: GraphBuilder,
    res: Res,
    self: str,
    size: Sequence[Dim],
    stride: Sequence[Dim],
    storage_offset: Dim | None,
) -> str:
    """aten::as_strided: element ``i`` of the result stands at ``storage_offset + sum(i * stride)``.

    ``size`` and ``stride`` have one length, which is the rank of the result.

    Raises:
        UnsupportedCase: a size or stride is dynamic, or the result reads elements that the input
            does not hold, or the layout of the input is unknown.
    """
    shape = list(shape_of(graph, self))
    given = [*shape, *size, *stride, *([] if storage_offset is None else [storage_offset])]
    sizes = [int(each) for each in size if isinstance(each, int)]
    strides = [int(each) for each in stride if isinstance(each, int)]
    if not is_static(given) or not isinstance(storage_offset, int | None):
        raise UnsupportedCase(f"aten::as_strided needs static sizes and strides, these are {given}")
    layout, first = _layout(graph, shape)
    offset = 0 if storage_offset is None else storage_offset - first
    places = np.full(tuple(sizes), offset, dtype=np.int64)
    for axis, (count, step) in enumerate(zip(sizes, strides, strict=True)):
        places += (np.arange(count) * step).reshape(
            [-1 if each == axis else 1 for each in range(len(sizes))]
        )
    total = dims.prod(shape)
    if places.size and not (places.min() >= 0 and places.max() < total):
        raise UnsupportedCase(
            "aten::as_strided reads memory outside its input, which an ONNX graph cannot see"
        )
    # the elements in the order of memory
    flat = reshape_to(graph, permuted(graph, self, layout), [total])
    found = graph.make_node("Gather", [flat, consts(graph, places.reshape(-1), dtypes.int64)])
    return reshape_to(graph, found, sizes)


def resize(graph: GraphBuilder, res: Res, self: str, size: Sequence[Dim]) -> str:
    """aten::resize to no more elements than there are: the first ones in the order of memory.

    Raises:
        UnsupportedCase: more elements are wanted; torch leaves the new ones uninitialised.
    """
    shape = list(shape_of(graph, self))
    wanted, have = dims.prod(list(size)), dims.prod(shape)
    if isinstance(wanted, int) and isinstance(have, int) and wanted > have:
        raise UnsupportedCase(
            f"a tensor of {have} elements holds no more of them; torch leaves new ones uninitialised"
        )
    order, _ = _layout(graph, shape) if is_static(shape) else (list(range(len(shape))), 0)
    if dims.same(wanted, have) and order == list(range(len(shape))):
        return reshape_to(graph, self, list(size))
    strides: list[Dim] = []
    step: Dim = 1
    for each in reversed(size):
        strides.insert(0, step)
        step = step * each
    return as_strided(graph, res, self, list(size), strides, None)


def resize_as(graph: GraphBuilder, res: Res, self: str, the_template: str) -> str:
    """aten::resize_as: resize to the shape of another tensor."""
    return resize(graph, res, self, list(shape_of(graph, the_template)))


def _layout(graph: GraphBuilder, shape: list[Any]) -> tuple[list[int], int]:
    """The axes of the input in the order of memory, and where its first element stands."""
    node: Any = graph.origin
    value = None if node is None or not node.args else getattr(node.args[0], "meta", {}).get("val")
    if value is None:
        raise UnsupportedCase(
            "aten::as_strided of a tensor whose strides are unknown; give example inputs (args)"
        )
    strides = [int(each) for each in value.stride()]
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    dense = 1
    for axis in reversed(order):
        if shape[axis] == 1:
            continue
        if strides[axis] != dense and 0 not in shape:
            raise UnsupportedCase(
                f"aten::as_strided of a view with gaps or overlaps: {strides}, shape {shape}"
            )
        dense *= shape[axis]
    return order, int(value.storage_offset())
