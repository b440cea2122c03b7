"""Recompose operators that AOTAutograd decomposes regardless of its decomposition table.

Bilinear upsampling by powers of two is traced as indices into the image and is one Resize in ONNX;
the matcher computes the indices and weights of the traced graph and compares them with those of the
operator. One-dimensional max pooling, differences of neighbors and rrelu in evaluation are traced
as operators that take several times longer.

`linear` without bias, and `matmul`, of more than two dimensions are traced as view, mm, view: one
MatMul avoids the two Reshapes, and fusions of attention and of gates match it. This applies to
inference graphs only, because training saves the flat matrices for the backward. `linear` with a
bias stays flat: Gemm adds the bias, and ONNX Runtime would replace a MatMul and an Add by Reshape,
Gemm, Reshape.
"""

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
# the operators with which torch computes indices and weights of upsampling
_FOLDABLE_OPERATORS = frozenset(
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


def recompose_operators(graph_module: GraphModule) -> int:
    """Replace decomposed operators in an ATen graph, and return the number of replacements."""
    constants = _Constants()
    count = 0
    for node in list(graph_module.graph.nodes):
        match = _MATCHERS.get(node.target) if node.op == "call_function" else None
        call = match(node, constants) if match is not None else None
        if call is not None:
            target, arguments = call
            with graph_module.graph.inserting_before(node):
                replacement = graph_module.graph.call_function(target, arguments)
            replacement.meta = dict(node.meta)
            node.replace_all_uses_with(replacement)
            _erase_unused(node)
            count += 1
    if count:
        graph_module.recompile()
    return count


def _erase_unused(node: Node) -> None:
    inputs = node.all_input_nodes
    node.graph.erase_node(node)
    for node_input in inputs:
        if not node_input.users and node_input.op == "call_function":
            _erase_unused(node_input)


class _Constants:
    """Values of nodes that depend on no argument of the graph."""

    def __init__(self) -> None:
        self._values: dict[Node, torch.Tensor | None] = {}

    def value_of(self, node: Any) -> torch.Tensor | None:
        """Return the value of a node; None unless `_FOLDABLE_OPERATORS` of static shape make it."""
        if not isinstance(node, Node):
            return None
        if node not in self._values:
            self._values[node] = self._compute_value(node)
        return self._values[node]

    def _compute_value(self, node: Node) -> torch.Tensor | None:
        value = node.meta.get("val")
        is_static = isinstance(value, torch.Tensor) and all(
            isinstance(dim, int) for dim in value.shape
        )
        if node.target not in _FOLDABLE_OPERATORS or not is_static:
            return None
        inputs = {argument: self.value_of(argument) for argument in node.all_input_nodes}
        if any(argument is None for argument in inputs.values()):
            return None
        arguments = map_arg(node.args, lambda argument: inputs[argument])
        kwargs = map_arg(node.kwargs, lambda argument: inputs[argument])
        kwargs = {**kwargs, "device": "cpu"} if "device" in kwargs else kwargs
        return node.target(*arguments, **kwargs)  # type: ignore[operator, no-any-return]

    def is_row(self, node: Any, expected: torch.Tensor) -> bool:
        """Whether the value of a node is exactly `expected`, in shape as well."""
        value = self.value_of(node)
        return value is not None and torch.equal(value, expected)

    def is_column(self, node: Any, expected: torch.Tensor) -> bool:
        """Whether the value of a node is the vector `expected` as a column, `[n, 1]`."""
        return self.is_row(node, expected.unsqueeze(1))


def _scale_factors(image: Node, result: Node) -> tuple[int, int] | None:
    """Return the factors by which a float32 image is upsampled; None if they are not integers."""
    small, large = image.meta.get("val"), result.meta.get("val")
    if not isinstance(small, torch.Tensor) or not isinstance(large, torch.Tensor):
        return None
    valid = small.dim() == large.dim() == 4 and small.dtype == large.dtype == torch.float32
    if not valid or not all(isinstance(dim, int) for dim in (*small.shape[2:], *large.shape[2:])):
        return None
    pairs = list(zip(small.shape[2:], large.shape[2:], strict=True))
    if any(not small_size or large_size % small_size for small_size, large_size in pairs):
        return None
    return pairs[0][1] // pairs[0][0], pairs[1][1] // pairs[1][0]


def _match_image_index(node: Any) -> tuple[Node, Any, Any] | None:
    """Match `image[:, :, rows, columns]`, and return the image, the rows and the columns."""
    if not isinstance(node, Node) or node.target is not aten._unsafe_index.Tensor:
        return None
    image, indices = node.args
    if not isinstance(image, Node) or not isinstance(indices, list | tuple) or len(indices) != 4:
        return None
    return (image, indices[2], indices[3]) if indices[0] is indices[1] is None else None


def _match_lerp(node: Any) -> tuple[Any, Any, Any] | None:
    """Match `a + (b - a) * weight`, and return `a`, `b` and `weight`."""
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


def _match_bilinear(node: Node, constants: _Constants) -> _OperatorCall | None:
    """Match `lerp(lerp(a, b, x), lerp(c, d, x), y)` of four neighbors.

    The factors must be powers of two: only then do ONNX and torch compute exactly the same
    coordinates.
    """
    vertical = _match_lerp(node)
    upper = _match_lerp(vertical[0]) if vertical is not None else None
    lower = _match_lerp(vertical[1]) if vertical is not None else None
    if vertical is None or upper is None or lower is None:
        return None
    corners = [_match_image_index(corner) for corner in (upper[0], upper[1], lower[0], lower[1])]
    if corners[0] is None:
        return None
    image = corners[0][0]
    factors = _scale_factors(image, node)
    if factors is None or not all(factor > 1 and factor & (factor - 1) == 0 for factor in factors):
        return None
    height, width = image.meta["val"].shape[2:]
    *rows, y_weights = _interpolation_points(height, factors[0])
    *columns, x_weights = _interpolation_points(width, factors[1])
    for index, corner in enumerate(corners):
        if corner is None or corner[0] is not image:
            return None
        if not constants.is_column(corner[1], rows[index // 2]):
            return None
        if not constants.is_row(corner[2], columns[index % 2]):
            return None
    matches_x = constants.is_row(upper[2], x_weights) and constants.is_row(lower[2], x_weights)
    if not matches_x or not constants.is_column(vertical[2], y_weights):
        return None
    sizes = [height * factors[0], width * factors[1]]
    return aten.upsample_bilinear2d.default, (image, sizes, False)


def _match_diff(node: Node, constants: _Constants) -> _OperatorCall | None:
    """Match `x[1:] - x[:-1]` along one axis."""
    if not _is_call(node, aten.sub.Tensor) or not all(isinstance(arg, Node) for arg in node.args):
        return None
    later, earlier = (_match_slice(operand) for operand in node.args)
    if later is None or earlier is None or later[:2] != earlier[:2]:
        return None
    x, dim = later[:2]
    size = x.meta["val"].shape[dim]
    if (later[2], earlier[2]) != ((1, size), (0, size - 1)):
        return None
    return aten.diff.default, (x, 1, dim)


def _match_slice(node: Any) -> tuple[Node, int, tuple[int, int]] | None:
    """Match a slice of step 1 along an axis of static size; return its source, axis and bounds."""
    if node.target is not aten.slice.Tensor or len(node.args) != 4 or node.kwargs:
        return None
    x, dim, *bounds = node.args
    size = x.meta["val"].shape[dim]
    if not all(isinstance(number, int) for number in (size, *bounds)):
        return None
    start, end, _ = slice(*bounds).indices(size)
    return x, dim % x.meta["val"].dim(), (start, end)


def _match_max_pool1d(node: Node, constants: _Constants) -> _OperatorCall | None:
    """Match `squeeze(max_pool2d(unsqueeze(x, -2)), -2)` without uses of the indices."""
    pooling: Any = node.args[0]
    if node.args[1:] != (-2,) or not _is_first_result(
        pooling, aten.max_pool2d_with_indices.default
    ):
        return None
    row, *settings = pooling.args[0].args
    if row.target is not aten.unsqueeze.default or row.args[1:] != (-2,):
        return None
    # kernel size, stride, padding and dilation; the bool is `ceil_mode`
    windows = [setting for setting in settings if not isinstance(setting, bool)]
    if not all(isinstance(setting, list | tuple) for setting in windows):
        return None
    # an empty stride means the kernel size
    heights = [window[0] if window else 1 for window in windows]
    if heights != [1, 1, 0, 1][: len(heights)] or not row.meta["val"].is_floating_point():
        return None
    widths = (setting if isinstance(setting, bool) else list(setting[1:]) for setting in settings)
    return aten.max_pool1d.default, (row.args[0], *widths)


def _match_rrelu(node: Node, constants: _Constants) -> _OperatorCall | None:
    """Match the result of rrelu in evaluation, whose noise is unused."""
    if not _is_first_result(node, aten.rrelu_with_noise_functional.default):
        return None
    call: Any = node.args[0]
    x, _, *bounds = call.args
    if len(bounds) > 2 and bounds[2] is not False:
        return None
    return aten.rrelu.default, (x, *bounds[:2])


def _is_first_result(node: Any, target: Any) -> bool:
    """Whether a node is the first result of a call whose other results are unused."""
    if node.target is not operator.getitem or node.args[1] != 0:
        return False
    return node.args[0].target is target and list(node.args[0].users) == [node]


def _arange_on_cpu(size: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    """Return 0, 1, ... on the CPU, regardless of torch's default device."""
    return torch.arange(size, dtype=dtype, device="cpu")


def _interpolation_points(
    size: int, factor: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the interpolation points along an axis that is upsampled by `factor`.

    For every index of the result, these are the indices of the source elements before and after it,
    and the weight of the element after it.
    """
    position = ((_arange_on_cpu(size * factor, torch.float32) + 0.5) / factor - 0.5).clamp(min=0)
    before = position.to(torch.int64)
    return before, (before + 1).clamp(max=size - 1), position - before


_MATCHERS: dict[Any, Callable[[Node, _Constants], _OperatorCall | None]] = {
    aten.add.Tensor: _match_bilinear,
    aten.squeeze.dim: _match_max_pool1d,
    aten.sub.Tensor: _match_diff,
    operator.getitem: _match_rrelu,
}

_VIEWS = (aten.view.default, aten._unsafe_view.default)
_TRANSPOSES = (aten.t.default, aten.permute.default)  # permute of a matrix must swap its axes


def fuse_batched_matmul(graph_module: GraphModule) -> int:
    """Replace view, mm, view by matmul or linear, in place; return the number of replacements."""
    graph = graph_module.graph
    count = 0
    for node in graph.find_nodes(op="call_function", target=aten.mm.default, sort=False):
        result = _sole_view_reader(node)
        operand = _batched_operand(node.args[0], result) if result is not None else None
        if operand is None:
            continue
        assert result is not None
        weight = _transposed_weight(node.args[1])
        with graph.inserting_before(result):
            if weight is None:
                replacement = graph.call_function(aten.matmul.default, (operand, node.args[1]))
            else:
                replacement = graph.call_function(aten.linear.default, (operand, weight))
        replacement.meta = dict(result.meta)
        result.replace_all_uses_with(replacement)
        graph.erase_node(result)
        graph.erase_node(node)
        count += 1
    if count:
        graph_module.recompile()
    return count


def _sole_view_reader(node: Node) -> Node | None:
    readers = list(node.users)
    return readers[0] if len(readers) == 1 and readers[0].target in _VIEWS else None


def _batched_operand(rows: Any, result: Node) -> Node | None:
    """Return the tensor that `rows` views as a matrix, if `result` restores its leading axes.

    `[2, 5, 8]` is viewed as `[10, 8]`, and the product `[10, 3]` as `[2, 5, 3]`.
    """
    if not isinstance(rows, Node) or rows.target not in _VIEWS:
        return None
    operand = rows.args[0]
    assert isinstance(operand, Node)
    shape, rows_shape, result_shape = (
        shape_of(node.meta["val"]) for node in (operand, rows, result)
    )
    same_rank = len(shape) == len(result_shape) > 2 and dims.always_equal(shape[-1], rows_shape[-1])
    same_shape = same_rank and all(map(dims.always_equal, shape[:-1], result_shape[:-1]))
    return operand if same_shape else None


def _transposed_weight(matrix: Any) -> Node | None:
    if not isinstance(matrix, Node) or matrix.target not in _TRANSPOSES:
        return None
    weight, *order = matrix.args
    return weight if order in ([], [[1, 0]]) else None  # type: ignore[return-value]
