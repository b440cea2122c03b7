"""Read a graph under construction, and compute the terms of its outputs at given sizes.

`proofs` calls it before and after a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ortable import dims
from ortable.builder import GraphBuilder

from .attention import FUSED
from .layers import LAYERS
from .operators import OPERATORS, Invalid, Node, Tensor, Unsupported, const
from .recurrence import RECURRENT
from .terms import Table

DEFINITIONS = {**OPERATORS, **LAYERS, **FUSED, **RECURRENT}


@dataclass(frozen=True)
class Input:
    """A graph input: name, dtype and declared dimensions."""

    name: str
    dtype: int
    shape: tuple[Any, ...]


@dataclass(frozen=True)
class Graph:
    """A graph: ordered nodes, constants by name, inputs, and output names."""

    nodes: tuple[Node, ...]
    constants: Mapping[str, tuple[Any, int]]
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]


def read_graph(builder: GraphBuilder) -> Graph:
    """Return a copy of the current graph."""
    nodes = tuple(
        Node(node.key, tuple(node.inputs), tuple(node.outputs), dict(node.attrs), builder.target)
        for node in builder.nodes
    )
    constants = {
        name: (np.asarray(builder.get_constant(name)), builder.values[name].dtype)
        for name in builder.initializers_dict
    }
    inputs = tuple(Input(info.name, info.dtype, tuple(info.shape or ())) for info in builder.inputs)
    return Graph(nodes, constants, inputs, tuple(output.name for output in builder.outputs))


def compute_terms(
    table: Table,
    graph: Graph,
    sizes: Mapping[str, int],
    free: Iterable[str] = (),
) -> list[Tensor]:
    """Return the terms of the outputs.

    `free` names constants that are treated as inputs, so that their values are arbitrary.
    """
    tensors: dict[str, Tensor] = {}
    for info in graph.inputs:
        shape = tuple(int(dims.evaluate_dim(size, sizes)) for size in info.shape)
        tensors[info.name] = _make_variables(table, info.name, shape, info.dtype)
    free = frozenset(free)
    for name, (array, dtype) in graph.constants.items():
        if name in free:
            tensors[name] = _make_variables(table, name, array.shape, dtype)
        else:
            tensors[name] = const(table, array, dtype)
    for node in graph.nodes:
        definition = DEFINITIONS.get(node.op)
        if definition is None:
            raise Unsupported(f"{node.op} has no definition here")
        inputs = [tensors[name] if name else None for name in node.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        try:
            outcome = definition(table, node, inputs)
        except (IndexError, ValueError) as error:  # too few inputs, or empty ones
            raise Invalid(f"{node.op}: {error}") from None
        results = outcome if isinstance(outcome, list) else [outcome]
        for name, result in zip(node.outputs, results, strict=False):
            if name:
                tensors[name] = result
    try:
        return [tensors[name] for name in graph.outputs]
    except KeyError as error:
        raise Invalid(f"no result {error}") from None


def _make_variables(table: Table, name: str, shape: tuple[int, ...], dtype: int) -> Tensor:
    if any(size < 0 for size in shape):
        raise Invalid("negative size")
    count = int(np.prod(shape, dtype=np.int64))
    ids = [table.variable(name, index, dtype) for index in range(count)]
    return Tensor(np.array(ids, dtype=np.int64).reshape(shape), dtype)
