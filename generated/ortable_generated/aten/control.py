# Generated from specs/aten/control.yaml by codegen. Do not edit: change the spec, then run `make codegen`.
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ortable.lowerings.control_flow import cond

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res


def hop_cond(graph: GraphBuilder, res: Res, pred: Any, true_fn: Any, false_fn: Any, operands: Any) -> Any:
    """Higher-order operator cond(pred, true_fn, false_fn, operands)"""
    return cond(graph, res, pred, true_fn, false_fn, operands)
