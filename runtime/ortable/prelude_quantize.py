"""Lower-case words of the spec language for quantization, and for numbers as float32 has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ortable.prelude import Bool, Float, Int, Result, Results
from ortable.prelude_make import cast, const
from ortable.prelude_nn import wide_dtype

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder as Graph


def fake_quantized(
    graph: Graph, x: Result, factor: Result, zero: Result, low: Int, high: Int, narrow: Bool = False
) -> Results:
    """``x`` as codes between ``low`` and ``high`` and back, and where no code was clipped.

    ``narrow``: the way back is computed in the dtype of ``factor``, whatever that of ``x``.
    """
    make, kind = graph.make_node, wide_dtype(graph.get_type(x))
    inverse = cast(graph, make("Div", [const(graph, 1, graph.get_type(factor)), factor]), kind)
    zero, back = cast(graph, zero, kind), graph.get_type(factor) if narrow else kind
    bounds = [const(graph, low, kind), const(graph, high, kind)]
    rounded = make("Round", [make("Mul", [cast(graph, x, kind), inverse])])
    codes = make("Add", [rounded, zero])
    shifted = make("Sub", [make("Clip", [codes, *bounds]), zero])
    found = make("Mul", [cast(graph, shifted, back), cast(graph, factor, back)])
    found = cast(graph, found, graph.get_type(x))
    outside = make("Or", [make("Less", [codes, bounds[0]]), make("Greater", [codes, bounds[1]])])
    return [found, make("Not", [outside])]


def float32_below(value: Float) -> Float:
    """The greatest float32 that is not greater than a number."""
    near = np.float32(value)
    return float(near if float(near) <= value else np.nextafter(near, np.float32(-np.inf)))
