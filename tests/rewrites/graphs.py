"""A graph under construction, read once, and what it computes at given sizes: terms for each
output. Called by `compare`, before and after a rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortable import dims
from ortable.builder import GraphBuilder

from .attention import FUSED
from .layers import LAYERS
from .operators import OPERATORS, Invalid, Node, Tensor, Unsupported, made
from .recurrence import RECURRENT
from .terms import Table

DEFINITIONS = {**OPERATORS, **LAYERS, **FUSED, **RECURRENT}


@dataclass(frozen=True)
class Input:
    """What is fed: its name, dtype and shape, dimensions as they are declared."""

    name: str
    dtype: int
    shape: tuple[Any, ...]


@dataclass(frozen=True)
class Graph:
    """Nodes in order, constants by name, inputs, and the names of the outputs."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, tuple[Any, int]]
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]


def read(builder: GraphBuilder) -> Graph:
    """The graph as it is now."""
    nodes = tuple(
        Node(node.key, tuple(node.inputs), tuple(node.outputs), dict(node.attrs), builder.target)
        for node in builder.nodes
    )
    constants = {
        name: (np.asarray(builder.get_constant(name)), builder.values[name].dtype)
        for name in builder.initializers_dict
    }
    inputs = tuple(Input(i.name, i.dtype, tuple(i.shape or ())) for i in builder.inputs)
    return Graph(nodes, constants, inputs, tuple(each.name for each in builder.outputs))


def run(
    table: Table,
    graph: Graph,
    sizes: Mapping[str, int],
    free: Iterable[str] = (),
) -> list[Tensor]:
    """Terms of the outputs. ``free``: constants that are taken for inputs, any number."""
    found: dict[str, Tensor] = {}
    for each in graph.inputs:
        shape = tuple(int(dims.evaluate_dim(size, sizes)) for size in each.shape)
        found[each.name] = _variables(table, each.name, shape, each.dtype)
    free = frozenset(free)
    for name, (array, dtype) in graph.constants.items():
        if name in free:
            found[name] = _variables(table, name, array.shape, dtype)
        else:
            found[name] = made(table, array, dtype)
    for node in graph.nodes:
        definition = DEFINITIONS.get(node.op)
        if definition is None:
            raise Unsupported(f"{node.op} has no definition here")
        given = [found[name] if name else None for name in node.inputs]
        while given and given[-1] is None:
            given.pop()
        try:
            made_here = definition(table, node, given)
        except (IndexError, ValueError) as error:  # inputs that are too few, or empty
            raise Invalid(f"{node.op}: {error}") from None
        results = made_here if isinstance(made_here, list) else [made_here]
        for name, result in zip(node.outputs, results, strict=False):
            if name:
                found[name] = result
    try:
        return [found[name] for name in graph.outputs]
    except KeyError as error:
        raise Invalid(f"no result {error}") from None


def _variables(table: Table, name: str, shape: tuple[int, ...], dtype: int) -> Tensor:
    if any(size < 0 for size in shape):
        raise Invalid("a negative size")
    count = int(np.prod(shape, dtype=np.int64))
    ids = [table.variable(name, place, dtype) for place in range(count)]
    return Tensor(np.array(ids, dtype=np.int64).reshape(shape), dtype)
