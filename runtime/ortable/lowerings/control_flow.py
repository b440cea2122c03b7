"""Control flow: branches become child graphs through the callback that the interpreter puts on the
builder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ortable import dtypes
from ortable.errors import UnsupportedCase
from ortable.prelude_make import consts

if TYPE_CHECKING:
    from ortable.builder import GraphBuilder, Res


def cond(
    graph: GraphBuilder, res: Res, pred: Any, true_fn: Any, false_fn: Any, operands: Sequence[Any]
) -> list[str]:
    """torch.cond as ONNX If; the branches see the operands as results of the outer graph."""
    if isinstance(pred, bool):
        raise UnsupportedCase(
            "cond on a Python bool: torch.export keeps the taken branch when it is known"
        )
    if graph.get_rank(pred):
        pred = graph.make_node("Reshape", [pred, consts(graph, [], dtypes.int64)])
    branches = [
        graph.convert_subgraph(branch, list(operands), name=name)
        for branch, name in ((true_fn, "then_branch"), (false_fn, "else_branch"))
    ]
    found = graph.make_node(
        "If", [pred], len(res), then_branch=branches[0], else_branch=branches[1]
    )
    return [found] if isinstance(found, str) else list(found)
