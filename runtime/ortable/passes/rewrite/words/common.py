"""Lower-case words of rewrites: questions about results while a graph is rewritten. No nodes.

Codegen reads the annotations, as in ortable/prelude/py. A word answers False or None where the
graph does not know.
"""

from __future__ import annotations

from ortable import dims, dtypes
from ortable.ir import Graph
from ortable.passes.rewrite.matcher import small_constant
from ortable.prelude.facts import Bool, Float, Int, Ints, Result, Results

__all__ = [
    "for_cpu",
    "ints_of",
    "is_float32",
    "known_rank",
    "number_of",
    "same_dim",
    "same_dtype",
    "same_shape",
]


def number_of(graph: Graph, x: Result) -> Float:
    """The value of a constant of one element; NaN for any other result, so that no comparison with
    it is true."""
    one = graph.has_shape(x) and all(n == 1 for n in graph.get_shape(x))
    array = small_constant(graph, x) if one else None
    if array is None or array.size != 1 or array.dtype.kind not in "fiub":
        return float("nan")
    return array.reshape(-1)[0].item()


def ints_of(graph: Graph, x: Result) -> Ints:
    """The integers of a constant of rank 0 or 1; None for any other result."""
    array = small_constant(graph, x)
    if array is None or array.ndim > 1 or array.dtype.kind not in "iu":
        return None
    return [int(each) for each in array.reshape(-1)]


def same_dim(a: Int, b: Int) -> Bool:
    """Whether two sizes are equal for all values of their symbols."""
    return dims.same(a, b)


def same_shape(graph: Graph, a: Result, b: Result) -> Bool:
    """Whether two results have equal shapes for all values of their symbols."""
    if not (graph.has_shape(a) and graph.has_shape(b)):
        return False
    first, second = graph.get_shape(a), graph.get_shape(b)
    return len(first) == len(second) and all(map(dims.same, first, second))


def same_dtype(graph: Graph, xs: Results) -> Bool:
    """Whether results have one type, which is known."""
    found = {graph.get_type(x) if graph.has_type(x) else 0 for x in xs}
    return len(found) == 1 and 0 not in found


def is_float32(graph: Graph, x: Result) -> Bool:
    """Whether a result is of float32, the type that most fused kernels of ONNX Runtime have."""
    return graph.has_type(x) and graph.get_type(x) == dtypes.float32


def known_rank(graph: Graph, x: Result) -> Int:
    """The rank of a result; -1 when it is not known."""
    return graph.get_rank(x) if graph.has_rank(x) else -1


def for_cpu(graph: Graph) -> Bool:
    """Whether the graph is built for ONNX Runtime's CPU provider, whose kernels a rule may count
    on."""
    return graph.target == "onnxruntime" and bool(graph.kernel_table)
