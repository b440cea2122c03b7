"""Find constants that rules may replace by stored values computed from them."""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.ir import Graph, initializers
from ortable.ir.constants import is_constant
from ortable_generated.onnx.traits import KEEPS_WEIGHTS

from .constants import small_constant
from .dataflow import Analysis, Traversal

_MAX_COPIED = 4096  # elements of a constant that may be stored once for each reader
_TYPES = (dtypes.float32, dtypes.float64, dtypes.int64)


def is_weight(graph: Graph, x: str) -> bool:
    """Whether a rule may replace a constant by a stored constant computed from it.

    The constant and all constants it derives from are float32, float64 or int64, and a large
    constant has a single reader.
    """
    main_graph = graph
    while main_graph.parent is not None:
        main_graph = main_graph.parent  # type: ignore[assignment]
    return bool(main_graph.stores_weights) and _WEIGHT.fact_of(graph, x)


def _can_store(traversal: Traversal[str, bool], x: str) -> bool:
    graph = traversal.graph
    if not is_constant(graph, x) or not graph.has_type(x) or not graph.has_shape(x):
        return False
    size = dims.product_of(graph.get_shape(x))
    if type(size) is not int or graph.get_type(x) not in _TYPES:
        return False
    if size > _MAX_COPIED and len(graph.uses(x)) > 1:
        return False
    stored = graph.initializers_dict.get(x)
    if stored is not None:
        return initializers.is_readable(stored)
    producer = graph.values[x].producer
    if producer is None:
        return small_constant(graph, x) is not None
    if producer.key in KEEPS_WEIGHTS:
        return False  # constant folding keeps such nodes, so the original weight stays stored
    return all(traversal.find_fact(name) for name in producer.inputs if name)


_WEIGHT = Analysis(False, _can_store)
