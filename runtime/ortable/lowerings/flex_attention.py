"""flex_attention: the functions that change single scores are traced over all of them, by torch's
own definition of the operator, and the graph of ATen operators that this gives is converted."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ortable.errors import UnsupportedCase
from ortable.ir import Graph

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

    from ortable.ir import Graph, Res


def flex_attention(
    graph: Graph,
    res: Res,
    query: Any,
    key: Any,
    value: Any,
    score_mod: GraphModule,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: Any,
    score_mod_other_buffers: Sequence[Any] = (),
    mask_mod_other_buffers: Sequence[Any] = (),
) -> list[Any]:
    """The attention, the logarithm of the sums (base 2) and the largest scores; None for what
    nobody reads. The blocks of the mask only save time: its function says what is masked.

    Raises UnsupportedCase when torch cannot trace the functions.
    """
    node: Any = graph.origin
    traced = _traced(node, score_mod, block_mask[-1], scale)
    operands = [query, key, value, *score_mod_other_buffers, *mask_mod_other_buffers]
    found = iter(graph.ctx.convert_into(graph, traced, operands))
    used = _used(node)
    return [next(found) if place in used else None for place in range(3)]


def _used(node: Node) -> set[int]:
    """The results of a node that somebody reads."""
    return {int(user.args[1]) for user in node.users if user.users}  # type: ignore[arg-type]


def _traced(node: Node, score_mod: Any, mask_mod: Any, scale: float) -> GraphModule:
    import torch
    from torch._higher_order_ops.flex_attention import math_attention
    from torch.fx.experimental.proxy_tensor import make_fx

    buffers = [tuple(given) for given in (*node.args[7:], (), ())[:2]]  # type: ignore[arg-type]
    split = len(buffers[0])
    used = sorted(_used(node))

    def written_out(query: Any, key: Any, value: Any, *others: Any) -> list[Any]:
        results = math_attention(
            query, key, value, score_mod, (mask_mod,), scale, {}, others[:split], others[split:]
        )
        return [results[place] for place in used]

    fakes = [each.meta["val"] for each in (*node.args[:3], *buffers[0], *buffers[1])]  # type: ignore[union-attr]
    environment = getattr(fakes[0].fake_mode, "shape_env", None)
    quiet = environment.suppress_guards() if environment is not None else contextlib.nullcontext()
    try:
        with torch.no_grad(), fakes[0].fake_mode, quiet:
            return make_fx(written_out)(*fakes)
    except Exception as error:  # the functions are the user's
        raise UnsupportedCase(
            "the score or mask function of flex_attention cannot be traced over all scores: "
            f"{type(error).__name__}: {error}"
        ) from error
