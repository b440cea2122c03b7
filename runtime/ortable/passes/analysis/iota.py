"""Results that count 0, 1, 2, ... along one axis, and grids of them. In come a graph and a name,
out goes the axis and how far it counts, or None. Called by rewrite words about indices."""

from __future__ import annotations

from ortable.dims import Dim, same
from ortable.inference.shape import normalize_axis
from ortable.ir import Graph, Node
from ortable.prelude.metadata import shape_or_none

from .constants import small_constant
from .memo import Transfer, Walk, by_operator

Iota = tuple[int, Dim]


def iota_of(graph: Graph, x: str) -> Iota | None:
    """The only axis along which a result counts 0, 1, 2, ..., and how far; None when it does
    something else, or nobody knows."""
    return _IOTA.of(graph, x)


def _range(walk: Walk[str, Iota | None], node: Node) -> Iota | None:
    graph = walk.graph
    length = shape_or_none(graph, node.outputs[0])
    bounds = [small_constant(graph, node.inputs[index]) for index in (0, 2)]
    if length is None or any(b is None or b.dtype.kind != "i" for b in bounds):
        return None
    counts = [int(b) for b in bounds if b is not None] == [0, 1]
    return (0, length[0]) if counts else None


def _expanded(walk: Walk[str, Iota | None], node: Node) -> Iota | None:
    """An Expand that does not stretch the axis."""
    before, after = _shapes(walk.graph, node)
    found = walk.fact(node.inputs[0])
    if found is None or before is None or after is None:
        return None
    index = found[0] + len(after) - len(before)
    return (index, found[1]) if same(before[found[0]], after[index]) else None


def _unsqueezed(walk: Walk[str, Iota | None], node: Node) -> Iota | None:
    _, after = _shapes(walk.graph, node)
    found, added = walk.fact(node.inputs[0]), small_constant(walk.graph, node.inputs[1])
    if found is None or added is None or after is None:
        return None
    new = {normalize_axis(int(axis), len(after)) for axis in added.reshape(-1)}
    return [index for index in range(len(after)) if index not in new][found[0]], found[1]


def _shapes(graph: Graph, node: Node) -> tuple[tuple[Dim, ...] | None, tuple[Dim, ...] | None]:
    return shape_or_none(graph, node.inputs[0]), shape_or_none(graph, node.outputs[0])


_TRANSFERS: dict[str, Transfer[Iota | None]] = {
    "Expand": _expanded,
    "Range": _range,
    "Unsqueeze": _unsqueezed,
}
_IOTA = by_operator(None, lambda graph, x: None, _TRANSFERS)
