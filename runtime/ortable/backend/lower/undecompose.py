"""Puts together what AOTAutograd takes apart whatever its table of decompositions says.

Bilinear upsampling by whole factors arrives as indices into the image and is one Resize in ONNX; a
match compares the indices and weights themselves, computed from the graph, with those of the
operator. One-dimensional max pooling, differences of neighbors and rrelu in evaluation arrive as
operators that take several times longer than they do.

`linear` without bias, and `matmul`, of more than two dimensions arrive as view, mm, view: one
MatMul does that without the two Reshapes, and fusions of attention and of gates see it. For
inference graphs only: what trains saves the flat matrices for the backward. `linear` with a bias
stays flat: Gemm adds the bias, and ONNX Runtime would make Reshape, Gemm, Reshape of a MatMul
and an Add."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ortable import dims

from .inputs import shape_of

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
    """Replaces decomposed operators in an ATen graph, in place; the number of replacements."""
    constants = _Constants()
    count = 0
    for node in list(graph_module.graph.nodes):
        match = _MATCHERS.get(node.target) if node.op == "call_function" else None
        found = match(node, constants) if match is not None else None
        if found is not None:
            target, arguments = found
            with graph_module.graph.inserting_before(node):
                whole = graph_module.graph.call_function(target, arguments)
            whole.meta = dict(node.meta)
            node.replace_all_uses_with(whole)
            _erase(node)
            count += 1
    if count:
        graph_module.recompile()
    return count


def _erase(node: Node) -> None:
    """Erase a node that nothing reads, and what only it read."""
    inputs = node.all_input_nodes
    node.graph.erase_node(node)
    for each in inputs:
        if not each.users and each.op == "call_function":
            _erase(each)


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


def _difference(node: Node, constants: _Constants) -> _OperatorCall | None:
    """`x[1:] - x[:-1]` along one axis."""
    if not _is_call(node, aten.sub.Tensor) or not all(isinstance(x, Node) for x in node.args):
        return None
    later, earlier = (_slice(each) for each in node.args)
    if later is None or earlier is None or later[:2] != earlier[:2]:
        return None
    x, dim = later[:2]
    last = x.meta["val"].shape[dim]
    if (later[2], earlier[2]) != ((1, last), (0, last - 1)):
        return None
    return aten.diff.default, (x, 1, dim)


def _slice(node: Any) -> tuple[Node, int, tuple[int, int]] | None:
    """The source, axis and bounds of a slice with a step of 1 along an axis of known size."""
    if node.target is not aten.slice.Tensor or len(node.args) != 4 or node.kwargs:
        return None
    x, dim, *bounds = node.args
    size = x.meta["val"].shape[dim]
    if not all(isinstance(number, int) for number in (size, *bounds)):
        return None
    start, end, _ = slice(*bounds).indices(size)
    return x, dim % x.meta["val"].dim(), (start, end)


def _max_pool1d(node: Node, constants: _Constants) -> _OperatorCall | None:
    """Two-dimensional pooling of one row, without its indices."""
    pieces: Any = node.args[0]
    if node.args[1:] != (-2,) or not _is_first_result(pieces, aten.max_pool2d_with_indices.default):
        return None
    row, *settings = pieces.args[0].args
    if row.target is not aten.unsqueeze.default or row.args[1:] != (-2,):
        return None
    windows = [each for each in settings if not isinstance(each, bool)]
    if not all(isinstance(each, list | tuple) for each in windows):
        return None
    heights = [window[0] if window else 1 for window in windows]
    if heights != [1, 1, 0, 1][: len(heights)] or not row.meta["val"].is_floating_point():
        return None
    widths = (each if isinstance(each, bool) else list(each[1:]) for each in settings)
    return aten.max_pool1d.default, (row.args[0], *widths)


def _rrelu(node: Node, constants: _Constants) -> _OperatorCall | None:
    """The result of rrelu in evaluation, which reads no noise."""
    if not _is_first_result(node, aten.rrelu_with_noise_functional.default):
        return None
    call: Any = node.args[0]
    x, _, *bounds = call.args
    if len(bounds) > 2 and bounds[2] is not False:
        return None
    return aten.rrelu.default, (x, *bounds[:2])


def _is_first_result(node: Any, target: Any) -> bool:
    """Whether a node is the first result of a call, whose others nothing reads."""
    if node.target is not operator.getitem or node.args[1] != 0:
        return False
    return node.args[0].target is target and list(node.args[0].users) == [node]


def _iota(size: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """0, 1, ... on the CPU, whatever torch's default device is."""
    return torch.arange(size, dtype=dtype, device="cpu")


def _neighbours(size: int, factor: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Index of the element before, of the one after, and the weight of the latter, for every index
    along an axis that is expanded by `factor`."""
    position = ((_iota(size * factor, torch.float32) + 0.5) / factor - 0.5).clamp(min=0)
    before = position.to(torch.int64)
    return before, (before + 1).clamp(max=size - 1), position - before


_MATCHERS: dict[Any, Callable[[Node, _Constants], _OperatorCall | None]] = {
    aten.add.Tensor: _bilinear,
    aten.squeeze.dim: _max_pool1d,
    aten.sub.Tensor: _difference,
    operator.getitem: _rrelu,
}

_VIEWS = (aten.view.default, aten._unsafe_view.default)
_TRANSPOSES = (aten.t.default, aten.permute.default)  # the latter swaps the axes of a matrix


def join_products(graph_module: GraphModule) -> int:
    """Replaces view, mm, view by one operator, in place; the number of replacements."""
    graph = graph_module.graph
    count = 0
    for node in graph.find_nodes(op="call_function", target=aten.mm.default, sort=False):
        result = _only_reader(node)
        factor = _unflattened(node.args[0], result) if result is not None else None
        if factor is None:
            continue
        assert result is not None
        weight = _transposed(node.args[1])
        with graph.inserting_before(result):
            if weight is None:
                whole = graph.call_function(aten.matmul.default, (factor, node.args[1]))
            else:
                whole = graph.call_function(aten.linear.default, (factor, weight))
        whole.meta = dict(result.meta)
        result.replace_all_uses_with(whole)
        graph.erase_node(result)
        graph.erase_node(node)
        count += 1
    if count:
        graph_module.recompile()
    return count


def _only_reader(node: Node) -> Node | None:
    """The view that alone reads a product."""
    readers = list(node.users)
    return readers[0] if len(readers) == 1 and readers[0].target in _VIEWS else None


def _unflattened(rows: Any, result: Node) -> Node | None:
    """The tensor of which `rows` are the last axis, where `result` has its leading axes again."""
    if not isinstance(rows, Node) or rows.target not in _VIEWS:
        return None
    factor = rows.args[0]
    assert isinstance(factor, Node)
    full, flat, wanted = (shape_of(each.meta["val"]) for each in (factor, rows, result))
    whole = len(full) == len(wanted) > 2 and dims.always_equal(full[-1], flat[-1])
    kept = whole and all(map(dims.always_equal, full[:-1], wanted[:-1]))
    return factor if kept else None


def _transposed(matrix: Any) -> Node | None:
    """The weight that a factor transposes."""
    if not isinstance(matrix, Node) or matrix.target not in _TRANSPOSES:
        return None
    weight, *order = matrix.args
    return weight if order in ([], [[1, 0]]) else None  # type: ignore[return-value]
