"""Helpers of the rules about mixtures of experts.

They decide whether one product per expert is faster than products with gathered matrices, build the
products per expert, and quantize expert matrices. Called by rules of ort_experts and
weights_experts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ortable import dims, dtypes
from ortable.ir import Graph, initializers
from ortable.passes.analysis.constants import small_constant
from ortable.passes.analysis.ranges import lower_bound
from ortable.passes.weight_quantization import WeightOptions
from ortable.prelude.facts import Bool, Int, Result, dim_of, is_static, shape_of
from ortable.prelude.groups import grouped_matmul
from ortable.prelude.values import as_vec, consts, reshape_to
from ortable_generated.onnx.traits import KEEPS_ORDER

from .numbers import is_float32
from .quantized_weights import owner_of, quantization_run_of, quantize_weight, weight_name
from .shapes import known_rank

__all__ = [
    "are_nonnegative",
    "can_quantize_expert",
    "counts_of",
    "pays_by_expert",
    "quantize_expert",
    "rows_by_expert",
]

# Gathering this many matrix elements takes as long as the nodes of one expert.
_ELEMENTS_PER_EXPERT = 8192
_MAX_EXPERTS = 512  # with more experts, loading the graph takes longer than the rewrite saves


def are_nonnegative(graph: Graph, ids: Result) -> Bool:
    """Whether indices [S] are never negative, for example those of a TopK."""
    if known_rank(graph, ids) != 1:
        return False
    least = lower_bound(graph, ids)
    if least is not None and least >= 0:
        return True
    ids = _skip_views(graph, ids)
    node = graph.values[ids].producer
    return node is not None and node.key == "TopK" and node.outputs[1] == ids


def pays_by_expert(graph: Graph, weight: Result, ids: Result) -> Bool:
    """Whether gathering a float32 matrix for each row is slower than a product per expert."""
    if not is_float32(graph, weight) or known_rank(graph, weight) != 3:
        return False
    if not graph.has_shape(weight) or not is_static(shape_of(graph, weight)):
        return False
    count, *sizes = shape_of(graph, weight)
    rows: Any = dim_of(graph, ids, 0)
    elements = dims.product_of(sizes) * (rows if isinstance(rows, int) else count)
    return 0 < count <= _MAX_EXPERTS and elements >= count * _ELEMENTS_PER_EXPERT


def rows_by_expert(
    graph: Graph, x: Result, weight: Result, ids: Result, transposed: Bool
) -> Result:
    """Multiply each of S rows by its expert's matrix; return [S, N].

    ``x`` has the elements of [S, K] in any shape. The rows are sorted by expert, multiplied, and
    put back in order. ``transposed``: the matrices are [E, N, K].
    """
    make = graph.make_node
    count, rows = dim_of(graph, weight, 0), dim_of(graph, ids, 0)
    inner = dim_of(graph, weight, 2 if transposed else 1)
    row_count = as_vec(graph, rows)
    sizes = counts_of(graph, ids, count)  # type: ignore[arg-type]
    _, order = make("TopK", [ids, row_count], 2, axis=0, largest=0)
    _, inverse_order = make("TopK", [order, row_count], 2, axis=0, largest=0)
    sorted_rows = make(
        "Gather", [reshape_to(graph, _skip_views(graph, x), [rows, inner]), order], axis=0
    )
    products = grouped_matmul(graph, sorted_rows, sizes, weight, transposed)
    return make("Gather", [products, inverse_order], axis=0)


# -- number of rows of each expert


def counts_of(graph: Graph, ids: Result, count: Int) -> Result:
    """Return how often each number from 0 to count - 1 occurs in ids [S]: int64 [count]."""
    numbers = consts(graph, list(range(count)), dtypes.int64)
    column = reshape_to(graph, _skip_views(graph, ids), [dim_of(graph, ids, 0), 1])
    matches = graph.make_node(
        "Cast", [graph.make_node("Equal", [column, numbers])], to=dtypes.int64
    )
    zero = consts(graph, [0], dtypes.int64)
    return graph.make_node("ReduceSum", [matches, zero], keepdims=0)


def _skip_views(graph: Graph, x: Result) -> Result:
    """Return the result of which ``x`` is a view that preserves the order of elements."""
    for _ in range(8):
        node = graph.values[x].producer
        if node is None or node.key not in KEEPS_ORDER:
            break
        x = node.inputs[0]
    return x


# -- quantized matrices


def can_quantize_expert(graph: Graph, w: Result, index: Result, transposed: Bool) -> Bool:
    """Whether ``weights=`` quantizes the matrix at a constant index of stacked float32 matrices.

    The stack is [E, K, N], or [E, N, K] if the product reads it ``transposed``. Name patterns match
    the state_dict name of the stack, or that name with the number of the expert, such as
    ``experts.down_proj.3``.
    """
    run, number = quantization_run_of(graph), small_constant(graph, index)
    if (
        owner_of(graph, w) is None
        or run is None
        or number is None
        or number.ndim
        or not is_float32(graph, w)
    ):
        return False
    shape = shape_of(graph, w)
    if len(shape) != 3 or not is_static(shape) or not 0 <= int(number) < shape[0]:
        return False
    inner = shape[2] if transposed else shape[1]
    is_large = inner >= run.options.codes_per_scale and min(shape) > 0
    return is_large and _is_selected(run.options, weight_name(w), f"{weight_name(w)}.{int(number)}")


def quantize_expert(graph: Graph, w: Result, index: Result, transposed: Bool) -> Result:
    """Return the matrix [K, N] of an expert as DequantizeLinear of its codes."""
    owner, number = owner_of(graph, w), small_constant(graph, index)
    assert owner is not None and number is not None
    name = f"{weight_name(w)}.{int(number)}"
    if name not in owner.initializers_dict:
        value = owner.initializers_dict[w]
        stacked = value if initializers.is_torch(value) else initializers.to_numpy(value, w)
        name = owner.make_initializer(name, stacked[int(number)])
    return quantize_weight(graph, name, transposed)


def _is_selected(options: WeightOptions, *names: str) -> bool:
    included_options, excluding_options = (
        replace(options, exclude=()),
        replace(options, include=("*",)),
    )
    return any(map(included_options.chooses, names)) and all(map(excluding_options.chooses, names))
