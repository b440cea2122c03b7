"""Words of the spec language for losses, bags of embeddings, cells of recurrent networks."""

from __future__ import annotations

import math

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.facts import (
    Bool,
    Float,
    Int,
    Ints,
    Result,
    Results,
    SymInt,
    dim_of,
    rank_of,
    shape_of,
    static,
)
from ortable.prelude.shapes import counting
from ortable.prelude.sums import length_over, magnitude_over, marks_over, summed_over
from ortable.prelude.values import cast, const, consts, permuted, reshape_to, unsqueezed

from .nn import any_true, loss_reduced, reduced_extreme
from .products import matrix_product

__all__ = [
    "at_class",
    "gate_parts",
    "leaky",
    "multilabel_margin",
    "power_norm",
    "projected",
    "stirling",
]


def power_norm(graph: Graph, x: Result, power: Float, axes: Ints, keepdim: Bool) -> Result:
    """The p-norm of a float result over ``axes``."""
    make, kind = graph.make_node, graph.get_type(x)
    if power in (1, 2):
        word = magnitude_over if power == 1 else length_over
        return word(graph, x, axes, keepdim)
    if power == 0:
        marks = marks_over(graph, cast(graph, x, dtypes.boolean), axes, keepdim)
        return cast(graph, marks, kind)
    if abs(power) == math.inf:
        return reduced_extreme(graph, make("Abs", [x]), axes, keepdim, power > 0)
    raised = make("Pow", [make("Abs", [x]), const(graph, power, kind)])
    total = summed_over(graph, raised, axes, keepdim)
    return make("Pow", [total, const(graph, 1 / power, kind)])


def at_class(graph: Graph, target: Result, classes: SymInt) -> Result:
    """A bool result with one more axis, True where the class is the one that ``target`` names."""
    numbers = counting(graph, 0, classes, 1)
    wide = unsqueezed(graph, cast(graph, target, dtypes.int64), [rank_of(graph, target)])
    return graph.make_node("Equal", [wide, numbers])


def multilabel_margin(graph: Graph, x: Result, target: Result, reduction: Int) -> Results:
    """[loss, 1 where a class is a target]: the targets of a row end at the first negative one;
    every class that is none costs 1 - (x[target] - x[class]), if that is positive."""
    make, kind, rank = graph.make_node, graph.get_type(x), rank_of(graph, x)
    rows = dim_of(graph, x, 0) if rank > 1 else 1
    count = dim_of(graph, x, -1) if rank else 1
    values, places = (reshape_to(graph, each, [rows, count]) for each in (x, target))
    kept = _before_end(graph, places)
    column = unsqueezed(graph, kept, [2])
    hits = make("And", [at_class(graph, places, count), column])
    chosen = any_true(graph, hits, [1], False)
    safe = make("Where", [kept, places, const(graph, 0, dtypes.int64)])
    own = unsqueezed(graph, make("GatherElements", [values, safe], axis=1), [2])
    one, zero = const(graph, 1, kind), const(graph, 0, kind)
    gap = make("Add", [make("Sub", [one, own]), unsqueezed(graph, values, [1])])
    counts = make("And", [column, unsqueezed(graph, make("Not", [chosen]), [1])])
    counts = make("And", [counts, make("Greater", [gap, zero])])
    lost = summed_over(graph, make("Where", [counts, gap, zero]), [1, 2], False)
    loss = loss_reduced(graph, make("Div", [lost, const(graph, count, kind)]), reduction)
    return [loss, reshape_to(graph, cast(graph, chosen, kind), list(shape_of(graph, target)))]


def _before_end(graph: Graph, target: str) -> str:
    """True along the last of two axes until the first negative element."""
    make, zero = graph.make_node, const(graph, 0, dtypes.int64)
    ends = cast(graph, make("Less", [target, zero]), dtypes.int64)
    return make("Equal", [make("CumSum", [ends, const(graph, 1, dtypes.int64)]), zero])


def projected(graph: Graph, x: Result, weight: Result, bias: Result | None) -> Result:
    """``x`` times the transposed weight, plus the bias: the linear map of a layer."""
    found = matrix_product(graph, x, permuted(graph, weight, [1, 0]))
    return found if bias is None else graph.make_node("Add", [found, bias])


def gate_parts(graph: Graph, x: Result, count: Int) -> Results:
    """The last axis in ``count`` parts: the gates of a cell."""
    axis = rank_of(graph, x) - 1
    size = static(dim_of(graph, x, axis)) // count
    sizes = consts(graph, [size] * count, dtypes.int64)
    return list(graph.make_node("Split", [x, sizes], count, axis=axis))


def stirling(graph: Graph, x: Result) -> Result:
    """Stirling's approximation of log(x!): x log(x) - x + log(2 pi x) / 2; 0 up to 1."""
    make, kind = graph.make_node, graph.get_type(x)
    main = make("Sub", [make("Mul", [x, make("Log", [x])]), x])
    turned = make("Log", [make("Mul", [x, const(graph, 2 * math.pi, kind)])])
    found = make("Add", [main, make("Mul", [turned, const(graph, 0.5, kind)])])
    small = make("LessOrEqual", [x, const(graph, 1, kind)])
    return make("Where", [small, const(graph, 0, kind), found])


def leaky(graph: Graph, x: Result, slope: Float) -> Result:
    """``x`` where it is positive, else ``x`` times the slope."""
    kind = graph.get_type(x)
    if kind != dtypes.float64:
        return graph.make_node("LeakyRelu", [x], alpha=slope)
    positive = graph.make_node("Greater", [x, const(graph, 0, kind)])
    low = graph.make_node("Mul", [x, const(graph, slope, kind)])
    return graph.make_node("Where", [positive, x, low])
