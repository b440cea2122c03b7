"""Lower-case words of rewrites about sizes and places as results: which are known, which sizes of
a tensor stand side by side, what broadcasting gives, which elements indices take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortable import dims, dtypes
from ortable.dims import Dim
from ortable.inference.shape import Shape, normalize_axis
from ortable.ir import Graph
from ortable.ir.node import Node
from ortable.passes.rewrite.matcher import small_constant
from ortable.prelude.facts import Bool, Dtype, Int, Ints, Opaque, Result, Results
from ortable.prelude.metadata import shape_or_none

__all__ = [
    "as_scalar_index",
    "as_vector_index",
    "broadcasts_to",
    "counts_all",
    "inputs_with",
    "int_constant",
    "is_axis",
    "joined_run",
    "known_ints",
    "known_kind",
    "node_again",
    "node_of",
    "places_of",
    "places_of_places",
    "run_of",
    "shape_run",
    "stretches_to",
]

# -- what is known --------------------------------------------------------------------------------


def known_ints(graph: Graph, x: Result) -> Opaque:
    """The content of an integer result as an array, where it is known before the model runs."""
    info = graph.values[x]
    if info.dtype not in (dtypes.int64, dtypes.int32) or info.value is None:
        return None
    items = info.value if isinstance(info.value, tuple) else (info.value,)
    if info.shape is None or not all(type(item) is int for item in items):
        return None
    limits = np.iinfo(dtypes.to_numpy(info.dtype))
    if not all(limits.min <= item <= limits.max for item in items):
        return None  # it wraps around there
    array = np.array(items, dtype=dtypes.to_numpy(info.dtype))
    if not isinstance(info.value, tuple):
        array = array.reshape(())
    return array if array.shape == tuple(info.shape) else None


def known_kind(graph: Graph, x: Result) -> Dtype:
    """The dtype of a result; 0 when it is not known."""
    return graph.values[x].dtype or 0


def int_constant(graph: Graph, value: Opaque, dtype: Dtype) -> Result:
    """An array of integers as a constant."""
    return graph.make_initializer("", value.astype(dtypes.to_numpy(dtype)))


# -- sizes of one tensor --------------------------------------------------------------------------


def shape_run(graph: Graph, x: Result, start: Int, end: Int | None, places: Ints) -> Ints:
    """The bounds that Shape takes to give these of the sizes that it gives from ``start`` to
    ``end``; [] when they do not stand side by side."""
    rank = graph.values[x].rank
    if rank is None or not places:
        return []
    axes = range(rank)[slice(start, end)]
    if not all(-len(axes) <= place < len(axes) for place in places):
        return []
    found = [axes[place] for place in places]
    return [found[0], found[-1] + 1] if found == list(range(found[0], found[-1] + 1)) else []


def joined_run(graph: Graph, xs: Results) -> Opaque:
    """A result and the bounds that Shape takes to give what these results, joined, hold; [] when
    they are not the sizes of one result in order."""
    source, low, high = "", 0, 0
    for x in xs:
        node = graph.values[x].producer
        rank = None if node is None or node.key != "Shape" else graph.values[node.inputs[0]].rank
        if node is None or rank is None:
            return []
        axes = range(rank)[slice(node.attrs.get("start", 0), node.attrs.get("end"))]
        if not source:
            source, low, high = node.inputs[0], axes.start, axes.start
        if node.inputs[0] != source or axes.start != high or not len(axes):
            return []
        high = axes.stop
    return [source, low, high] if len(xs) > 1 else []


def run_of(graph: Graph, x: Result, sizes: Result) -> Ints:
    """The bounds that Shape takes of ``x`` to give the known content of ``sizes``; [] when ``x``
    has no such dimensions side by side, or all of them are known."""
    wanted, shape = graph.values[sizes].value, shape_or_none(graph, x)
    if not isinstance(wanted, tuple) or shape is None or all(type(d) is int for d in wanted):
        return []
    for start in range(len(shape) - len(wanted) + 1):
        if all(map(dims.same, wanted, shape[start:])):
            return [start, start + len(wanted)]
    return []


# -- broadcasting ---------------------------------------------------------------------------------


def node_of(graph: Graph, y: Result) -> Opaque:
    """The node that makes a result."""
    return graph.values[y].producer


def inputs_with(graph: Graph, y: Result, old: Result, new: Result) -> Results:
    """What the node that makes ``y`` reads, with another result in the place of one."""
    return [new if name == old else name for name in graph.values[y].producer.inputs]


def node_again(graph: Graph, node: Opaque, inputs: Results) -> Result:
    """The operator of a node, with its attributes, on other inputs."""
    return graph.make_node(node.op_type, inputs, domain=node.domain, **node.attrs)


def broadcasts_to(graph: Graph, y: Result, xs: Results) -> Bool:
    """Whether results in the place of its inputs give ``y`` its shape, by broadcasting alone."""
    shapes = [shape_or_none(graph, x) for x in xs]
    wanted = shape_or_none(graph, y)
    if wanted is None or any(shape is None for shape in shapes):
        return False
    known: list[Shape] = [shape for shape in shapes if shape is not None]
    node = graph.values[y].producer
    if node.key == "MatMul":
        first, second = known
        if min(len(first), len(second)) < 2 or not dims.same(first[-1], second[-2]):
            return False
        if not (dims.same(first[-2], wanted[-2]) and dims.same(second[-1], wanted[-1])):
            return False
        known, wanted = [shape[:-2] for shape in known], wanted[:-2]
    return _gives(known, wanted)


def _gives(shapes: Sequence[Shape], wanted: Shape) -> bool:
    """Whether shapes broadcast to a known one for all values of their symbols. A size that only
    has to be 1 or the wanted one for the operator to be legal is no proof."""
    if max(map(len, shapes), default=0) != len(wanted):
        return False
    for place in range(1, len(wanted) + 1):
        sizes = [shape[-place] for shape in shapes if len(shape) >= place]
        if not any(dims.same(size, wanted[-place]) for size in sizes):
            return False
    return True


def stretches_to(graph: Graph, x: Result, shape: Result, y: Result) -> Bool:
    """Whether Expand gives ``x`` the shape of ``y`` when it is told ``shape``."""
    own, wanted = shape_or_none(graph, x), shape_or_none(graph, y)
    told = graph.values[shape].value
    if own is None or wanted is None or not isinstance(told, tuple):
        return False
    return _gives([own, told], wanted)


# -- places ---------------------------------------------------------------------------------------


def is_axis(graph: Graph, y: Result, axes: Ints, axis: Int) -> Bool:
    """Whether ``axes`` of ``y`` is one axis, this one."""
    rank = graph.values[y].rank
    return (
        axes is not None
        and len(axes) == 1
        and rank is not None
        and normalize_axis(axes[0], rank) == axis
    )


def as_scalar_index(graph: Graph, index: Result) -> Result:
    """A constant vector of one index as a scalar one."""
    return graph.make_initializer("", graph.get_constant(index).reshape(()))


def as_vector_index(graph: Graph, index: Result) -> Result:
    """A constant scalar index as a vector of one."""
    return graph.make_initializer("", graph.get_constant(index).reshape(1))


def places_of_places(
    graph: Graph, x: Result, axis: Int, first: Result, again: Int, second: Result
) -> Opaque:
    """The places that are taken when places are taken among constant places along one axis; None
    when it is not that."""
    rank = graph.values[x].rank
    outer, inner = small_constant(graph, first), small_constant(graph, second)
    if rank is None or outer is None or inner is None or outer.ndim != 1 or not outer.size:
        return None
    if normalize_axis(axis, rank) != normalize_axis(again, rank):
        return None
    if inner.size and not (-outer.size <= inner.min() and inner.max() < outer.size):
        return None
    return outer[inner]


def places_of(graph: Graph, places: Opaque) -> Result:
    """Places as a constant."""
    return graph.make_initializer("", np.asarray(places))


def counts_all(graph: Graph, x: Result, indices: Result) -> Bool:
    """Whether the indices of a GatherND are those of every element of the leading axes of ``x``,
    in order, and no other ones."""
    shape, grid = shape_or_none(graph, x), shape_or_none(graph, indices)
    if shape is None or grid is None or not grid or not isinstance(grid[-1], int):
        return False
    array = small_constant(graph, indices)
    if array is not None:
        return _is_grid(array, shape)
    node = graph.values[indices].producer
    if node is None or node.key != "Concat" or len(node.inputs) != grid[-1]:
        return False
    if normalize_axis(node.attrs["axis"], len(grid)) != len(grid) - 1:
        return False
    axes: list[int] = []
    for place, name in enumerate(node.inputs):
        found = _ramp(graph, name)
        if found is None or not dims.same(found[1], shape[place]):
            return False
        axes.append(found[0])
    rest = [size for axis, size in enumerate(grid[:-1]) if axis not in axes]
    in_order = axes == sorted(set(axes)) and max(axes) < len(grid) - 1
    return in_order and all(isinstance(size, int) and size == 1 for size in rest)


def _is_grid(array: np.ndarray, shape: Shape) -> bool:
    sizes = [size for size in shape[: array.shape[-1]] if isinstance(size, int)]
    if len(sizes) < array.shape[-1]:
        return False
    rows = array.reshape(-1, array.shape[-1])
    if len(rows) != dims.prod(sizes):
        return False
    wanted = np.stack(np.unravel_index(np.arange(len(rows)), sizes), -1) if len(rows) else rows
    return bool((rows == wanted).all())


def _ramp(graph: Graph, name: str) -> tuple[int, Dim] | None:
    """The only axis along which a result counts 0, 1, 2, ..., and how far; None when it does
    something else."""
    views: list[Node] = []
    node = graph.values[name].producer
    while node is not None and node.key in ("Unsqueeze", "Expand") and len(views) < 16:
        views.append(node)
        node = graph.values[node.inputs[0]].producer
    if node is None or node.key != "Range":
        return None
    length = shape_or_none(graph, node.outputs[0])
    bounds = [small_constant(graph, each) for each in (node.inputs[0], node.inputs[2])]
    if length is None or any(b is None or b.dtype.kind != "i" for b in bounds):
        return None
    if [int(b) for b in bounds if b is not None] != [0, 1]:
        return None
    axis: int | None = 0
    for view in reversed(views):
        axis = None if axis is None else _moved(graph, view, axis)
    return None if axis is None else (axis, length[0])


def _moved(graph: Graph, view: Node, axis: int) -> int | None:
    """Where an axis stands after an Unsqueeze, or an Expand that does not stretch it."""
    before, after = (shape_or_none(graph, each) for each in (view.inputs[0], view.outputs[0]))
    if before is None or after is None:
        return None
    if view.key == "Expand":
        place = axis + len(after) - len(before)
        return place if dims.same(before[axis], after[place]) else None
    added = small_constant(graph, view.inputs[1])
    if added is None:
        return None
    new = {normalize_axis(int(each), len(after)) for each in added.reshape(-1)}
    return [place for place in range(len(after)) if place not in new][axis]
