"""Lower-case words of the spec language for codes whose scale is that of a block of elements."""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.errors import BuilderError, UnsupportedCase
from ortable.ir import Graph
from ortable.prelude.facts import Bool, Int, Ints, Result, SymInts, shape_of

__all__ = ["as_nibbles", "block_axes", "block_shape", "channel_axis", "is_grouped", "only_float32"]


def block_shape(graph: Graph, x: Result, block: SymInts, reduced: Bool = False) -> SymInts:
    """The shape in which each dimension of ``x`` that holds several blocks is two; ``reduced``:
    with 1 for what is inside a block."""
    sizes: list[dims.Dim] = []
    for size, step in zip(shape_of(graph, x), block, strict=True):
        if dims.same(size, step):
            sizes.append(1 if reduced else size)
        elif step == 1:
            sizes.append(size)
        else:
            sizes += [size // step, 1 if reduced else step]
    return sizes


def block_axes(graph: Graph, x: Result, block: SymInts) -> Ints:
    """The axes of ``block_shape`` that are inside a block."""
    axes: list[int] = []
    place = 0
    for size, step in zip(shape_of(graph, x), block, strict=True):
        if dims.same(size, step) or step == 1:
            if step != 1:
                axes.append(place)
            place += 1
        else:
            axes.append(place + 1)
            place += 2
    return axes


def channel_axis(graph: Graph, x: Result, block: SymInts) -> Int:
    """The axis whose elements have a block each, all others being whole; -1 if none is."""
    sizes = list(zip(shape_of(graph, x), block, strict=True))
    several = [axis for axis, (size, step) in enumerate(sizes) if not dims.same(size, step)]
    return several[0] if len(several) == 1 and sizes[several[0]][1] == 1 else -1


def is_grouped(graph: Graph, x: Result, block: SymInts) -> Bool:
    """True for a matrix whose rows hold blocks: what a blocked DequantizeLinear computes."""
    shape = shape_of(graph, x)
    last = block[-1]
    whole = isinstance(last, int) and isinstance(shape[-1], int) and shape[-1] % last == 0
    return len(shape) == 2 and block[0] == 1 and last != 1 and whole


def only_float32(graph: Graph, x: Result | None) -> Result:
    """The tensor whose range is looked at.

    Raises:
        UnsupportedCase: there is none, or it has another dtype.
    """
    if x is None or graph.get_type(x) != dtypes.float32:
        raise UnsupportedCase("the parameters of a quantization are chosen of float32 tensors only")
    return x


def as_nibbles(graph: Graph, codes: Result, zero: Result | None) -> Result:
    """Constant codes as int4 when they, and the zero points, are between -8 and 7; others stay."""
    for name in (codes, zero):
        value = _values(graph, name)
        if value is None or (value.size and (value.min() < -8 or value.max() > 7)):
            return codes
    packed = _values(graph, codes).astype(dtypes.to_numpy(dtypes.int4))  # type: ignore[union-attr]
    return graph.make_initializer(graph.unique_name(f"{codes}_int4"), packed)


def _values(graph: Graph, name: str | None) -> np.ndarray | None:
    if name is None:
        return np.zeros((), np.int8)
    try:
        return graph.get_constant(name) if graph.is_constant(name) else None
    except BuilderError:
        return None  # a tensor without data
