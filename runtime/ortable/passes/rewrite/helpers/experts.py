"""Words of the rules about mixtures of experts: which products with gathered matrices pay as one
product an expert, and those products; matrices of experts that `weights=` rounds.

In come rows, matrices [experts, ...] and which expert a row takes, out go facts and results. Called
by rules of ort_experts and weights_experts."""

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
from .quantized_weights import called, owner_of, rounded_weight, rounding_of
from .shapes import known_rank

__all__ = [
    "are_places",
    "counts_of",
    "pays_by_expert",
    "rounded_expert",
    "rounds_expert",
    "rows_by_expert",
]

_NODE = 8192  # elements of gathered matrices that take as long as the nodes of one expert
_EXPERTS = 512  # more make a graph that takes longer to load than it saves


def are_places(graph: Graph, ids: Result) -> Bool:
    """Whether indices [S] count from the front, as those of a TopK do: none is negative."""
    if known_rank(graph, ids) != 1:
        return False
    least = lower_bound(graph, ids)
    if least is not None and least >= 0:
        return True
    ids = _viewed(graph, ids)
    node = graph.values[ids].producer
    return node is not None and node.key == "TopK" and node.outputs[1] == ids


def pays_by_expert(graph: Graph, weight: Result, ids: Result) -> Bool:
    """Whether float32 matrices [E, ...] are so large that a copy of one for each of the rows costs
    more than the nodes of E products. A number of rows that is not known is that of a prompt."""
    if not is_float32(graph, weight) or known_rank(graph, weight) != 3:
        return False
    if not graph.has_shape(weight) or not is_static(shape_of(graph, weight)):
        return False
    count, *sizes = shape_of(graph, weight)
    rows: Any = dim_of(graph, ids, 0)
    elements = dims.product_of(sizes) * (rows if isinstance(rows, int) else count)
    return 0 < count <= _EXPERTS and elements >= count * _NODE


def rows_by_expert(
    graph: Graph, x: Result, weight: Result, ids: Result, transposed: Bool
) -> Result:
    """Rows [S, K] (of any shape with these elements), each times the matrix of its expert, [S, N]:
    rows are sorted by expert, multiplied, and put back. ``transposed``: matrices are [E, N, K]."""
    make = graph.make_node
    count, rows = dim_of(graph, weight, 0), dim_of(graph, ids, 0)
    inner = dim_of(graph, weight, 2 if transposed else 1)
    many = as_vec(graph, rows)
    sizes = counts_of(graph, ids, count)  # type: ignore[arg-type]
    _, order = make("TopK", [ids, many], 2, axis=0, largest=0)
    _, back = make("TopK", [order, many], 2, axis=0, largest=0)
    given = make("Gather", [reshape_to(graph, _viewed(graph, x), [rows, inner]), order], axis=0)
    found = grouped_matmul(graph, given, sizes, weight, transposed)
    return make("Gather", [found, back], axis=0)


# -- which expert takes how many rows


def counts_of(graph: Graph, ids: Result, count: Int) -> Result:
    """How often each of the numbers from 0 up stands in ids [S]: [count] of int64."""
    each = consts(graph, list(range(count)), dtypes.int64)
    lines = reshape_to(graph, _viewed(graph, ids), [dim_of(graph, ids, 0), 1])
    taken = graph.make_node("Cast", [graph.make_node("Equal", [lines, each])], to=dtypes.int64)
    zero = consts(graph, [0], dtypes.int64)
    return graph.make_node("ReduceSum", [taken, zero], keepdims=0)


def _viewed(graph: Graph, x: Result) -> Result:
    """What a result is a view of, with the elements in the same order."""
    for _ in range(8):
        node = graph.values[x].producer
        if node is None or node.key not in KEEPS_ORDER:
            break
        x = node.inputs[0]
    return x


# -- matrices that are rounded


def rounds_expert(graph: Graph, w: Result, index: Result, transposed: Bool) -> Bool:
    """Whether ``weights=`` rounds the matrix at a constant index of stored float32 matrices
    [E, K, N], or [E, N, K] where a product reads it ``transposed``. Names are those of all matrices
    of the layer in the state_dict, or with the number of the expert: ``experts.down_proj.3``."""
    rounding, place = rounding_of(graph), small_constant(graph, index)
    if (
        owner_of(graph, w) is None
        or rounding is None
        or place is None
        or place.ndim
        or not is_float32(graph, w)
    ):
        return False
    shape = shape_of(graph, w)
    if len(shape) != 3 or not is_static(shape) or not 0 <= int(place) < shape[0]:
        return False
    inner = shape[2] if transposed else shape[1]
    large = inner >= rounding.options.group_size and min(shape) > 0
    return large and _chosen(rounding.options, called(w), f"{called(w)}.{int(place)}")


def rounded_expert(graph: Graph, w: Result, index: Result, transposed: Bool) -> Result:
    """Such a matrix [K, N] as DequantizeLinear of its codes."""
    owner, place = owner_of(graph, w), small_constant(graph, index)
    assert owner is not None and place is not None
    name = f"{called(w)}.{int(place)}"
    if name not in owner.initializers_dict:
        value = owner.initializers_dict[w]
        whole = value if initializers.is_torch(value) else initializers.to_numpy(value, w)
        name = owner.make_initializer(name, whole[int(place)])
    return rounded_weight(graph, name, transposed)


def _chosen(options: WeightOptions, *names: str) -> bool:
    """Whether options include one of the names and exclude none."""
    included, excluding = replace(options, exclude=()), replace(options, include=("*",))
    return any(map(included.chooses, names)) and all(map(excluding.chooses, names))
