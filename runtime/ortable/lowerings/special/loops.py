"""A Loop that ends when all elements have converged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ortable import dtypes
from ortable.ir import Graph
from ortable.prelude.op_builder import OpBuilder
from ortable.prelude.values import cast, const

Step = Callable[["Graph", list[str]], tuple[list[str], str]]


def while_any(
    graph: Graph,
    name: str,
    states: Sequence[str],
    step: Step,
    limit: int = np.iinfo(np.int64).max,
) -> list[str]:
    """Run a Loop over ``states`` for at least one and at most ``limit`` trips.

    ``step(body, names)`` returns the next states, of the same shapes, and a bool tensor that is
    True where an element needs one more trip. ``name`` names the subgraph and the states in it.
    """
    body = graph.subgraph(name)
    body.make_tensor_input(graph.unique_name("round"), dtypes.int64, ())
    body.make_tensor_input(graph.unique_name("going"), dtypes.boolean, ())
    names = [graph.unique_name(name) for _ in states]
    for state, like in zip(names, states, strict=True):
        shape = graph.get_shape(like) if graph.has_shape(like) else None
        body.make_tensor_input(state, graph.get_type(like), shape)
    result, needs_trip = step(body, names)
    # unlike a maximum, the sum of an empty tensor is defined
    count = OpBuilder(body).ReduceSum(cast(body, needs_trip, dtypes.int64), keepdims=0)
    continues = OpBuilder(body).Greater(count, 0)
    for state in (continues, *result):
        body.make_tensor_output(state)
    results = OpBuilder(graph).Loop(
        const(graph, limit, dtypes.int64), "", *states, outputs=len(states), body=body
    )
    return [results] if isinstance(results, str) else list(results)
