"""Helpers about shapes: known sizes, broadcasting, axes, and sizes that are results.

Facts hold for all values of the symbols: `2*(n//2)` is not `n`. Called by rules of all files.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortable import dims
from ortable.inference.shape import Shape
from ortable.ir import Graph
from ortable.passes.analysis.constants import small_constant
from ortable.prelude.facts import Bool, Int, Ints, Opaque, Result, Results, SymInts
from ortable.prelude.metadata import shape_or_none

__all__ = [
    "broadcasts_into",
    "broadcasts_to",
    "expands_to",
    "has_shape",
    "is_one_element",
    "joined_run",
    "known_rank",
    "one_axis",
    "producer_of",
    "replaced_inputs",
    "run_of",
    "same_shape",
    "shape_run",
    "with_inputs",
]


# -- known sizes


def same_shape(graph: Graph, a: Result, b: Result) -> Bool:
    """Whether two results have equal shapes for all values of their symbols."""
    return graph.has_shape(b) and has_shape(graph, a, graph.get_shape(b))


def has_shape(graph: Graph, x: Result, sizes: SymInts) -> Bool:
    """Whether a result has these sizes for all values of their symbols."""
    if not graph.has_shape(x) or graph.get_rank(x) != len(sizes):
        return False
    return all(map(dims.always_equal, graph.get_shape(x), sizes))


def known_rank(graph: Graph, x: Result) -> Int:
    """Return the rank of a result; -1 if it is not known."""
    return graph.get_rank(x) if graph.has_rank(x) else -1


def is_one_element(graph: Graph, x: Result, like: Result) -> Bool:
    """Whether ``x`` has one element and broadcasts with ``like`` to the shape of ``like``."""
    shape, like_shape = shape_or_none(graph, x), shape_or_none(graph, like)
    if shape is None or like_shape is None or len(shape) > len(like_shape):
        return False
    return all(dims.always_equal(size, 1) for size in shape)


# -- axes


def one_axis(graph: Graph, axes: Result, x: Result) -> Int:
    """Return the axis, counted from the front, if a constant holds a single axis; else -1."""
    axis_values = small_constant(graph, axes)
    if axis_values is None or axis_values.size != 1 or not graph.has_rank(x):
        return -1
    return int(axis_values.reshape(-1)[0]) % max(graph.get_rank(x), 1)


# -- broadcasting


def broadcasts_into(graph: Graph, x: Result, y: Result) -> Bool:
    """Whether broadcasting ``x`` and ``y`` gives the shape of ``y``."""
    shape, target = shape_or_none(graph, x), shape_or_none(graph, y)
    if shape is None or target is None or len(shape) > len(target):
        return False
    pairs = zip(shape, target[len(target) - len(shape) :], strict=True)
    return all(dims.always_equal(size, 1) or dims.always_equal(size, full) for size, full in pairs)


def broadcasts_to(graph: Graph, y: Result, xs: Results) -> Bool:
    """Whether ``xs`` as the inputs of the node of ``y`` broadcast to the shape of ``y``."""
    shapes = [shape_or_none(graph, x) for x in xs]
    target = shape_or_none(graph, y)
    if target is None or any(shape is None for shape in shapes):
        return False
    inputs: list[Shape] = [shape for shape in shapes if shape is not None]
    node = graph.values[y].producer
    if node.key == "MatMul":
        first, second = inputs
        if min(len(first), len(second)) < 2 or not dims.always_equal(first[-1], second[-2]):
            return False
        if not (
            dims.always_equal(first[-2], target[-2]) and dims.always_equal(second[-1], target[-1])
        ):
            return False
        inputs, target = [shape[:-2] for shape in inputs], target[:-2]
    return _broadcast_gives(inputs, target)


def _broadcast_gives(shapes: Sequence[Shape], target: Shape) -> bool:
    """Whether shapes broadcast to ``target`` for all values of their symbols.

    At least one shape must have the target size on each axis. A size that is not known to be 1 or
    the target size is not evidence, though the operator would fail for other sizes.
    """
    if max(map(len, shapes), default=0) != len(target):
        return False
    for index in range(1, len(target) + 1):
        sizes = [shape[-index] for shape in shapes if len(shape) >= index]
        if not any(dims.always_equal(size, target[-index]) for size in sizes):
            return False
    return True


def expands_to(graph: Graph, x: Result, shape: Result, y: Result) -> Bool:
    """Whether Expand of ``x`` to ``shape`` has the shape of ``y``."""
    input_shape, target = shape_or_none(graph, x), shape_or_none(graph, y)
    sizes = graph.values[shape].value
    if input_shape is None or target is None or not isinstance(sizes, tuple):
        return False
    return _broadcast_gives([input_shape, sizes], target)


# -- copies of nodes


def producer_of(graph: Graph, y: Result) -> Opaque:
    """Return the node that produces a result."""
    return graph.values[y].producer


def replaced_inputs(graph: Graph, y: Result, old: Result, new: Result) -> Results:
    """Return the inputs of the node that produces ``y``, with ``new`` in place of ``old``."""
    return [new if name == old else name for name in graph.values[y].producer.inputs]


def with_inputs(graph: Graph, node: Opaque, inputs: Results, keepdims: Int | None = None) -> Result:
    """Make a node with the operator and the attributes of ``node`` and other inputs."""
    attributes = node.attrs if keepdims is None else {**node.attrs, "keepdims": keepdims}
    return graph.make_node(node.op_type, inputs, domain=node.domain, **attributes)


# -- runs: adjacent sizes of one result


def shape_run(graph: Graph, x: Result, start: Int, end: Int | None, indices: Ints) -> Ints:
    """Return start and end of a Shape that equals ``indices`` of Shape [start:end], else []."""
    rank = graph.values[x].rank
    if rank is None or not indices:
        return []
    axes = range(rank)[slice(start, end)]
    if not all(-len(axes) <= index < len(axes) for index in indices):
        return []
    selected_axes = [axes[index] for index in indices]
    first, end = selected_axes[0], selected_axes[-1] + 1
    return [first, end] if selected_axes == list(range(first, end)) else []


def joined_run(graph: Graph, xs: Results) -> Opaque:
    """Return source, start and end of a Shape that equals ``xs`` concatenated, else []."""
    source, first_axis, next_axis = "", 0, 0
    for x in xs:
        node = graph.values[x].producer
        rank = None if node is None or node.key != "Shape" else graph.values[node.inputs[0]].rank
        if node is None or rank is None:
            return []
        axes = range(rank)[slice(node.attrs.get("start", 0), node.attrs.get("end"))]
        if not source:
            source, first_axis, next_axis = node.inputs[0], axes.start, axes.start
        if node.inputs[0] != source or axes.start != next_axis or not len(axes):
            return []
        next_axis = axes.stop
    return [source, first_axis, next_axis] if len(xs) > 1 else []


def run_of(graph: Graph, x: Result, sizes: Result) -> Ints:
    """Return start and end of a Shape of ``x`` that equals the content of ``sizes``, else []."""
    content, shape = graph.values[sizes].value, shape_or_none(graph, x)
    if not isinstance(content, tuple) or shape is None or all(type(d) is int for d in content):
        return []
    for start in range(len(shape) - len(content) + 1):
        if all(map(dims.always_equal, content, shape[start:])):
            return [start, start + len(content)]
    return []
