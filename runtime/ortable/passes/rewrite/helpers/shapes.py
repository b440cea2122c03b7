"""Words about shapes: what is known of them, what broadcasting gives, axes, and sizes that are
results. They answer for all values of the symbols: `2*(n//2)` is not `n`. In come a graph and
results; out go facts. Called by rules of all files."""

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


# -- what is known


def same_shape(graph: Graph, a: Result, b: Result) -> Bool:
    """Whether two results have equal shapes for all values of their symbols."""
    return graph.has_shape(b) and has_shape(graph, a, graph.get_shape(b))


def has_shape(graph: Graph, x: Result, sizes: SymInts) -> Bool:
    """Whether a result is known to have these sizes, for all values of their symbols."""
    if not graph.has_shape(x) or graph.get_rank(x) != len(sizes):
        return False
    return all(map(dims.always_equal, graph.get_shape(x), sizes))


def known_rank(graph: Graph, x: Result) -> Int:
    """The rank of a result; -1 when it is not known."""
    return graph.get_rank(x) if graph.has_rank(x) else -1


def is_one_element(graph: Graph, x: Result, like: Result) -> Bool:
    """Whether a result has one element and no more axes than ``like``, so that no operator gives
    more than ``like`` for it."""
    shape, wide = shape_or_none(graph, x), shape_or_none(graph, like)
    if shape is None or wide is None or len(shape) > len(wide):
        return False
    return all(dims.always_equal(size, 1) for size in shape)


# -- axes


def one_axis(graph: Graph, axes: Result, x: Result) -> Int:
    """The axis, counted from the front, if a constant names a single one; -1 otherwise."""
    named = small_constant(graph, axes)
    if named is None or named.size != 1 or not graph.has_rank(x):
        return -1
    return int(named.reshape(-1)[0]) % max(graph.get_rank(x), 1)


# -- broadcasting


def broadcasts_into(graph: Graph, x: Result, y: Result) -> Bool:
    """Whether broadcasting ``x`` and ``y`` gives the shape of ``y``."""
    shape, wide = shape_or_none(graph, x), shape_or_none(graph, y)
    if shape is None or wide is None or len(shape) > len(wide):
        return False
    pairs = zip(shape, wide[len(wide) - len(shape) :], strict=True)
    return all(dims.always_equal(size, 1) or dims.always_equal(size, full) for size, full in pairs)


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
        if min(len(first), len(second)) < 2 or not dims.always_equal(first[-1], second[-2]):
            return False
        if not (
            dims.always_equal(first[-2], wanted[-2]) and dims.always_equal(second[-1], wanted[-1])
        ):
            return False
        known, wanted = [shape[:-2] for shape in known], wanted[:-2]
    return _gives(known, wanted)


def _gives(shapes: Sequence[Shape], wanted: Shape) -> bool:
    """Whether shapes broadcast to a known one for all values of their symbols. A size that only
    has to be 1 or the wanted one for the operator to be legal is no proof."""
    if max(map(len, shapes), default=0) != len(wanted):
        return False
    for index in range(1, len(wanted) + 1):
        sizes = [shape[-index] for shape in shapes if len(shape) >= index]
        if not any(dims.always_equal(size, wanted[-index]) for size in sizes):
            return False
    return True


def expands_to(graph: Graph, x: Result, shape: Result, y: Result) -> Bool:
    """Whether Expand gives ``x`` the shape of ``y`` when it is told ``shape``."""
    own, wanted = shape_or_none(graph, x), shape_or_none(graph, y)
    told = graph.values[shape].value
    if own is None or wanted is None or not isinstance(told, tuple):
        return False
    return _gives([own, told], wanted)


# -- nodes made again


def producer_of(graph: Graph, y: Result) -> Opaque:
    """The node that makes a result."""
    return graph.values[y].producer


def replaced_inputs(graph: Graph, y: Result, old: Result, new: Result) -> Results:
    """What the node that makes ``y`` reads, with another result in the place of one."""
    return [new if name == old else name for name in graph.values[y].producer.inputs]


def with_inputs(graph: Graph, node: Opaque, inputs: Results, keepdims: Int | None = None) -> Result:
    """The operator of a node, with its attributes, on other inputs."""
    attributes = node.attrs if keepdims is None else {**node.attrs, "keepdims": keepdims}
    return graph.make_node(node.op_type, inputs, domain=node.domain, **attributes)


# -- sizes of one result, side by side


def shape_run(graph: Graph, x: Result, start: Int, end: Int | None, indices: Ints) -> Ints:
    """The bounds that Shape takes to give these of the sizes that it gives from ``start`` to
    ``end``; [] when they do not stand side by side."""
    rank = graph.values[x].rank
    if rank is None or not indices:
        return []
    axes = range(rank)[slice(start, end)]
    if not all(-len(axes) <= index < len(axes) for index in indices):
        return []
    found = [axes[index] for index in indices]
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
        if all(map(dims.always_equal, wanted, shape[start:])):
            return [start, start + len(wanted)]
    return []
