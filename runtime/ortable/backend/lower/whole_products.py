"""Puts together products with a matrix that AOTAutograd takes apart: `linear` without bias, and
`matmul`, of more than two dimensions arrive as view, mm, view. One MatMul does that without the two
Reshapes, and fusions of attention and of gates see it. In comes a GraphModule, changed in place;
called by `aot.build` for inference graphs: what trains saves the flat matrices for the backward.

`linear` with a bias stays flat: Gemm adds the bias, and ONNX Runtime would make Reshape, Gemm,
Reshape of a MatMul and an Add.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from ortable import dims
from ortable.backend.lower.inputs import shape_of

__all__ = ["join_products"]

aten = torch.ops.aten
_VIEWS = (aten.view.default, aten._unsafe_view.default)
_TRANSPOSES = (aten.t.default, aten.permute.default)  # the latter swaps the axes of a matrix


def join_products(graph_module: GraphModule) -> int:
    """Replaces view, mm, view by one operator, in place; the number of replacements."""
    graph = graph_module.graph
    count = 0
    for node in graph.find_nodes(op="call_function", target=aten.mm.default, sort=False):
        result = _only_reader(node)
        factor = _unflattened(node.args[0], result) if result is not None else None
        if factor is None:
            continue
        assert result is not None
        weight = _transposed(node.args[1])
        with graph.inserting_before(result):
            if weight is None:
                whole = graph.call_function(aten.matmul.default, (factor, node.args[1]))
            else:
                whole = graph.call_function(aten.linear.default, (factor, weight))
        whole.meta = dict(result.meta)
        result.replace_all_uses_with(whole)
        graph.erase_node(result)
        graph.erase_node(node)
        count += 1
    if count:
        graph_module.recompile()
    return count


def _only_reader(node: Node) -> Node | None:
    """The view that alone reads a product."""
    readers = list(node.users)
    return readers[0] if len(readers) == 1 and readers[0].target in _VIEWS else None


def _unflattened(rows: Any, result: Node) -> Node | None:
    """The tensor of which `rows` are the last axis, where `result` has its leading axes again."""
    if not isinstance(rows, Node) or rows.target not in _VIEWS:
        return None
    factor = rows.args[0]
    assert isinstance(factor, Node)
    full, flat, wanted = (shape_of(each.meta["val"]) for each in (factor, rows, result))
    whole = len(full) == len(wanted) > 2 and dims.same(full[-1], flat[-1])
    kept = whole and all(map(dims.same, full[:-1], wanted[:-1]))
    return factor if kept else None


def _transposed(matrix: Any) -> Node | None:
    """The weight that a factor transposes."""
    if not isinstance(matrix, Node) or matrix.target not in _TRANSPOSES:
        return None
    weight, *order = matrix.args
    return weight if order in ([], [[1, 0]]) else None  # type: ignore[return-value]
