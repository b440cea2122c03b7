"""Pointwise operators that the spec language cannot say, each named by an entry of specs/aten."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ortable import dtypes
from ortable.prelude_pointwise import const_like, largest_finite

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res


def nan_to_num(
    graph: GraphBuilder,
    res: Res,
    self: str,
    nan: float | None,
    posinf: float | None,
    neginf: float | None,
) -> str:
    """aten::nan_to_num: NaN and infinities replaced by numbers; ints have none, so they stay."""
    dtype = graph.get_type(self)
    if not dtypes.is_float_type(dtype):
        return self
    make, most = graph.make_node, largest_finite(dtype)
    limits = (
        (math.inf, most if posinf is None else posinf),
        (-math.inf, -most if neginf is None else neginf),
    )
    found = make("Where", [make("IsNaN", [self]), const_like(graph, nan or 0.0, self), self])
    for extreme, value in limits:
        reached = make("Equal", [self, const_like(graph, extreme, self)])
        found = make("Where", [reached, const_like(graph, value, self), found])
    return found
