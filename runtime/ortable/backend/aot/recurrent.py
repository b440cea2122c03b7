"""Recurrent networks in a graph of dynamo. AOTAutograd unrolls them in time for their gradients,
which takes four times as long as torch's own kernels, and loses the dropout between their layers
(torch 2.13). In comes the graph before AOTAutograd sees it; `entry` asks here who runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Node

from ortable.backend.autotune.graphs import in_eager
from ortable.backend.options import OrtOptions
from ortable.backend.partition.placement import list_placements, report_placements
from ortable.errors import UnsupportedCase
from ortable_generated.aten import traits

from .events import tell_compiled
from .records import record_of_torch, store

__all__ = ["refuse_lost_dropout", "trained_in_eager"]

_WHY = {
    "forward": "a recurrent network that trains: torch would unroll it in time for ONNX",
    "inference": "dropout between the layers of a recurrent network, which torch's tracing loses",
}


class _Call(NamedTuple):
    """A call of `torch._VF.lstm` or one of its kind, and what it does between its layers."""

    node: Node
    name: str
    layers: int
    dropout: float
    train: bool

    @property
    def drops(self) -> bool:
        return bool(self.dropout) and self.train and self.layers > 1


def trained_in_eager(
    graph_module: GraphModule, args: Sequence[Any], options: OrtOptions
) -> Callable[..., Any] | None:
    """The graph as torch runs it, with eager's backward, where a recurrent network in it trains or
    drops; None where there is none. What else stands in the graph runs in torch as well."""
    calls = [call for call in _calls(graph_module) if call.train]
    if not calls or options.raise_on:
        return None
    differentiated = torch.is_grad_enabled() and _requires_grad(graph_module, args)
    if not differentiated and not any(call.drops for call in calls):
        return None
    kind = "forward" if differentiated else "inference"
    placement = list_placements(graph_module, dict.fromkeys(graph_module.graph.nodes, _WHY[kind]))
    if options.verbose:
        print(f"[ortable] {kind}: no partition")
        print(report_placements(placement))
    store(options.storage, record_of_torch(kind, graph_module, placement))
    tell_compiled(kind, [], [], placement)
    return in_eager(graph_module)


def refuse_lost_dropout(graph_module: GraphModule) -> None:
    """Fails for a graph with dropout between the layers of a recurrent network, which AOTAutograd
    would lose.

    :raises UnsupportedCase: naming the operator, and what to write in its place
    """
    for call in _calls(graph_module):
        if call.drops:
            raise UnsupportedCase(
                f"{call.name} with dropout={call.dropout} between {call.layers} layers, in "
                "training: torch's own tracing loses this dropout. Use one module per layer and "
                "torch.nn.Dropout between them, or dropout=0."
            )


def _calls(graph_module: GraphModule) -> Iterator[_Call]:
    recurrent = {key.partition("::")[2].partition(".")[0] for key in traits.RECURRENT}
    for node in graph_module.graph.nodes:
        name = _name(node)
        if node.op == "call_function" and name in recurrent and len(node.args) >= 9:
            first = 3 if isinstance(node.args[3], bool) else 4  # packed sequences have one more
            _, layers, dropout, train = node.args[first : first + 4]
            yield _Call(node, name, layers, dropout, train)


def _name(node: Node) -> str:
    return getattr(node.target, "__name__", str(node.target))


def _requires_grad(graph_module: GraphModule, args: Sequence[Any]) -> bool:
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    return any(each.requires_grad for each in (*tensors, *graph_module.parameters()))
