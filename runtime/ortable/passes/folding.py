"""Constant folding: replace nodes whose inputs are constants by initializers."""

from __future__ import annotations

import numpy as np

from ortable import dims, dtypes
from ortable.errors import BuilderError
from ortable.ir import Graph, constants, editing, initializers
from ortable.ir.captures import inner_graphs
from ortable.ir.casts import HALF_DTYPES
from ortable.ir.node import Node, RewriteOrigin
from ortable_generated.onnx.traits import KEEPS_WEIGHTS

_NO_LIMIT = float("inf")
_QUANTIZED = frozenset(
    {
        dtypes.int8,
        dtypes.uint8,
        dtypes.float8e4m3fn,
        dtypes.float8e4m3fnuz,
        dtypes.float8e5m2,
        dtypes.float8e5m2fnuz,
        *dtypes.SUB_BYTE,
    }
)


def constant_folding(graph: Graph, max_bytes: int, weights: bool = False) -> int:
    """Replace nodes whose inputs are constants by initializers of at most ``max_bytes``.

    With ``weights``, the size of results of nodes that rewrite rules created is not limited.
    The pass skips random operators, nodes whose results would store a weight twice, and nodes whose
    results would store quantized weights as floats. `remove_unused` removes the results that only
    folded nodes read.
    """
    folded = 0
    removed: list[Node] = []
    unfoldable: set[str] = set()
    outputs = {info.name for info in graph.outputs}
    for node in graph.nodes:
        for inner in inner_graphs(node) if node.attrs else ():
            folded += constant_folding(inner, max_bytes, weights)
        limit = _NO_LIMIT if weights and isinstance(node.origin, RewriteOrigin) else max_bytes
        if _duplicates_weight(graph, node) or not unfoldable.isdisjoint(node.inputs):
            unfoldable.update(node.outputs)
            unfoldable.discard("")
        elif outputs.isdisjoint(node.outputs) and _can_fold(graph, node, limit):
            try:
                arrays = [constants.get_constant(graph, n) if n else None for n in node.outputs]
            except BuilderError:
                continue  # ONNX's reference evaluator does not implement the operator
            if all(a is None or a.nbytes <= limit for a in arrays):
                for name, array in zip(node.outputs, arrays, strict=True):
                    if name and array is not None:
                        _replace_by_initializer(graph, name, array)
                removed.append(node)
    if removed:
        editing.remove_nodes(graph, removed)
    if folded or removed:
        editing.invalidate_history(graph)
    return folded + len(removed)


def _duplicates_weight(graph: Graph, node: Node) -> bool:
    """Whether folding the node would store a weight twice.

    Folding would if an input is a weight of 8 bits or less and the result is larger than the
    largest input, or as large and the weight has other uses, if it widens a weight of half
    precision, or if it transposes a weight (`weight_transposes` handles those that can be folded).
    """
    if graph.initializers_dict.keys().isdisjoint(node.inputs):
        return False
    if node.key in KEEPS_WEIGHTS:
        return True
    for name in node.inputs:
        value = graph.initializers_dict.get(name)
        dtype = None if value is None else initializers.dtype_of(value)
        if dtype in _QUANTIZED:
            # a QuantizeLinear of a float weight has a small zero point of 8 bits
            weights = graph.initializers_dict.keys() & node.inputs
            largest = max(_bytes_of(graph, weight) for weight in weights)
            sizes = [_bytes_of(graph, output) for output in node.outputs]
            is_shared = len(graph.uses(name)) > 1
            return initializers.size_of(value) > 1 and any(
                size > largest or (is_shared and size == largest) for size in sizes
            )
        if dtype in HALF_DTYPES:  # small constants may be stored as float32 too
            size = initializers.size_of(value)
            if size > initializers.MAX_SMALL_ELEMENTS:
                stored_bytes = size * dtypes.ITEMSIZE[dtype]
                return any(_bytes_of(graph, output) > stored_bytes for output in node.outputs)
    return False


def _bytes_of(graph: Graph, name: str) -> float:
    """Return the size of a result in bytes; infinity if the size is unknown."""
    info = graph.values.get(name) if name else None
    if info is None or info.shape is None:
        return 0 if not name else float("inf")
    size = dims.product_of(info.shape)
    if not isinstance(size, int):
        return float("inf")
    return size * dtypes.ITEMSIZE.get(info.dtype or 0, 1)


def _can_fold(graph: Graph, node: Node, max_bytes: float) -> bool:
    if not graph.constant_names.issuperset(filter(None, node.outputs)):
        return False
    for name in node.outputs:
        info = graph.values.get(name) if name else None
        size = 1 if info is None or info.shape is None else dims.product_of(info.shape)
        if info is None or not isinstance(size, int):
            continue
        if size * dtypes.ITEMSIZE.get(info.dtype or 0, 1) > max_bytes:
            return False
    return True


def _replace_by_initializer(graph: Graph, name: str, array: np.ndarray) -> None:
    info = graph.values[name]
    graph.initializers_dict[name] = array
    graph.computed_constants.pop(name, None)
    info.producer = None
    info.shape, info.rank = array.shape, array.ndim
    info.dtype = info.dtype or dtypes.from_numpy(array.dtype)
    if array.size <= initializers.MAX_SMALL_ELEMENTS:
        info.constant = array
        if info.value is None:
            info.value = initializers.integer_value(array)
