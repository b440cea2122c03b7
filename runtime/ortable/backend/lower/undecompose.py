"""Puts together what AOTAutograd takes apart whatever its table of decompositions says: upsampling
by whole factors, which arrives as indices into the image and is one Resize in ONNX. In comes a
GraphModule, changed in place; called by `aot.build`.

A match compares the indices and weights themselves, computed from the graph, with those of the
operator: what is not exactly the same stays as it is.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

__all__ = ["undecompose"]

aten = torch.ops.aten
_OperatorCall = tuple[Any, tuple[Any, ...]]  # an operator and its arguments
# what torch computes indices and weights with
_CONSTANT = frozenset(
    {
        aten._to_copy.default,
        aten.add.Tensor,
        aten.arange.default,
        aten.arange.start,
        aten.arange.start_step,
        aten.clamp.default,
        aten.floor.default,
        aten.mul.Tensor,
        aten.sub.Tensor,
        aten.unsqueeze.default,
        aten.view.default,
    }
)


def undecompose(graph_module: GraphModule) -> int:
    """Replaces upsampled images in an ATen graph, in place; the number of replacements.

    Nodes that nothing reads any more stay: a caller takes what the results depend on.
    """
    if not any(node.target is aten._unsafe_index.Tensor for node in graph_module.graph.nodes):
        return 0
    constants = _Constants()
    count = 0
    for node in list(graph_module.graph.nodes):
        found = _bilinear(node, constants) or _nearest(node, constants)
        if found is not None:
            target, arguments = found
            with graph_module.graph.inserting_before(node):
                whole = graph_module.graph.call_function(target, arguments)
            whole.meta = dict(node.meta)
            node.replace_all_uses_with(whole)
            count += 1
    if count:
        graph_module.recompile()
    return count


class _Constants:
    """Values of nodes that depend on no argument of the graph."""

    def __init__(self) -> None:
        self._values: dict[Node, torch.Tensor | None] = {}

    def get(self, node: Any) -> torch.Tensor | None:
        """The value of a node; None when it depends on an argument or an operator that is no
        arithmetic of indices."""
        if not isinstance(node, Node):
            return None
        if node not in self._values:
            self._values[node] = self._compute(node)
        return self._values[node]

    def _compute(self, node: Node) -> torch.Tensor | None:
        value = node.meta.get("val")
        fixed = isinstance(value, torch.Tensor) and all(isinstance(n, int) for n in value.shape)
        if node.target not in _CONSTANT or not fixed:
            return None
        inputs = {each: self.get(each) for each in node.all_input_nodes}
        if any(each is None for each in inputs.values()):
            return None
        arguments = map_arg(node.args, lambda each: inputs[each])
        settings = map_arg(node.kwargs, lambda each: inputs[each])
        settings = {**settings, "device": "cpu"} if "device" in settings else settings
        return node.target(*arguments, **settings)  # type: ignore[operator, no-any-return]

    def is_row(self, node: Any, wanted: torch.Tensor) -> bool:
        """Whether a node has exactly these values along the last axis."""
        value = self.get(node)
        return value is not None and torch.equal(value, wanted)

    def is_column(self, node: Any, wanted: torch.Tensor) -> bool:
        """Whether a node has exactly these values along the last but one of two axes."""
        return self.is_row(node, wanted.unsqueeze(1))


def _factors(image: Node, result: Node) -> tuple[int, int] | None:
    """How often the rows and columns of a float32 `image` go into those of `result`."""
    small, large = image.meta.get("val"), result.meta.get("val")
    if not isinstance(small, torch.Tensor) or not isinstance(large, torch.Tensor):
        return None
    plain = small.dim() == large.dim() == 4 and small.dtype == large.dtype == torch.float32
    if not plain or not all(isinstance(n, int) for n in (*small.shape[2:], *large.shape[2:])):
        return None
    pairs = list(zip(small.shape[2:], large.shape[2:], strict=True))
    if any(not have or wanted % have for have, wanted in pairs):
        return None
    return pairs[0][1] // pairs[0][0], pairs[1][1] // pairs[1][0]


def _indexed_image(node: Any) -> tuple[Node, Any, Any] | None:
    """The parts of `image[:, :, rows, columns]`."""
    if not isinstance(node, Node) or node.target is not aten._unsafe_index.Tensor:
        return None
    image, indices = node.args
    if not isinstance(image, Node) or not isinstance(indices, list | tuple) or len(indices) != 4:
        return None
    return (image, indices[2], indices[3]) if indices[0] is indices[1] is None else None


def _lerp(node: Any) -> tuple[Any, Any, Any] | None:
    """The parts of `a + (b - a) * weight`."""
    if not _is_call(node, aten.add.Tensor) or not _is_call(node.args[1], aten.mul.Tensor):
        return None
    difference, weight = node.args[1].args
    if not _is_call(difference, aten.sub.Tensor) or difference.args[1] is not node.args[0]:
        return None
    return node.args[0], difference.args[0], weight


def _is_call(node: Any, target: Any) -> bool:
    """Whether a node calls `target` with two arguments and no `alpha`."""
    return (
        isinstance(node, Node) and node.target is target and len(node.args) == 2 and not node.kwargs
    )


def _nearest(node: Node, constants: _Constants) -> _OperatorCall | None:
    """`image[:, :, rows, columns]` that repeats every row and column."""
    indexed = _indexed_image(node)
    factors = _factors(indexed[0], node) if indexed is not None else None
    if indexed is None or factors is None or factors == (1, 1):
        return None
    image, rows, columns = indexed
    height, width = node.meta["val"].shape[2:]
    if not constants.is_column(rows, _iota(height) // factors[0]):
        return None
    if not constants.is_row(columns, _iota(width) // factors[1]):
        return None
    return aten.upsample_nearest2d.default, (image, [height, width])


def _bilinear(node: Node, constants: _Constants) -> _OperatorCall | None:
    """`lerp(lerp(a, b, x), lerp(c, d, x), y)` of four neighbours, by factors that are powers of
    two: for these, the coordinates of ONNX are torch's to the last bit."""
    vertical = _lerp(node)
    upper = _lerp(vertical[0]) if vertical is not None else None
    lower = _lerp(vertical[1]) if vertical is not None else None
    if vertical is None or upper is None or lower is None:
        return None
    corners = [_indexed_image(each) for each in (upper[0], upper[1], lower[0], lower[1])]
    if corners[0] is None:
        return None
    image = corners[0][0]
    factors = _factors(image, node)
    if factors is None or not all(each > 1 and each & (each - 1) == 0 for each in factors):
        return None
    height, width = image.meta["val"].shape[2:]
    *rows, down = _neighbours(height, factors[0])
    *columns, right = _neighbours(width, factors[1])
    for index, corner in enumerate(corners):
        if corner is None or corner[0] is not image:
            return None
        if not constants.is_column(corner[1], rows[index // 2]):
            return None
        if not constants.is_row(corner[2], columns[index % 2]):
            return None
    weights = constants.is_row(upper[2], right) and constants.is_row(lower[2], right)
    if not weights or not constants.is_column(vertical[2], down):
        return None
    sizes = [height * factors[0], width * factors[1]]
    return aten.upsample_bilinear2d.default, (image, sizes, False)


def _iota(size: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """0, 1, ... on the CPU, whatever torch's default device is."""
    return torch.arange(size, dtype=dtype, device="cpu")


def _neighbours(size: int, factor: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Index of the element before, of the one after, and the weight of the latter, for every index
    along an axis that is expanded by `factor`."""
    position = ((_iota(size * factor, torch.float32) + 0.5) / factor - 0.5).clamp(min=0)
    before = position.to(torch.int64)
    return before, (before + 1).clamp(max=size - 1), position - before
