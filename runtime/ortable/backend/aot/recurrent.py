"""Handle recurrent networks in a graph of dynamo.

AOTAutograd unrolls these networks in time for their gradients, and the unrolled operators take four
times as long as torch's own kernels. It also loses the dropout between their layers (torch 2.13).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from torch.fx import GraphModule, Node

from ortable.backend.autotune.graphs import make_eager_callable
from ortable.backend.partition.placement import list_placements, report_placements
from ortable.errors import UnsupportedCase
from ortable_generated.aten import traits

from .compilation import Compilation
from .events import log_compiled
from .records import append_record, make_torch_record

_REASONS_BY_KIND = {
    "forward": "a recurrent network in training, which torch would unroll in time for ONNX",
    "inference": "dropout between the layers of a recurrent network, which torch's tracing loses",
}


class _RecurrentCall(NamedTuple):
    """A call of `torch._VF.lstm` or a similar function, and its dropout between layers."""

    node: Node
    name: str
    layers: int
    dropout: float
    train: bool

    @property
    def has_dropout(self) -> bool:
        return bool(self.dropout) and self.train and self.layers > 1


def must_run_in_torch(compilation: Compilation) -> bool:
    """Whether torch must run a graph because its recurrent network trains or applies dropout."""
    calls = [call for call in _find_recurrent_calls(compilation.graph_module) if call.train]
    if not calls or compilation.options.raise_on or compilation.serialization_mode is not None:
        return False
    return compilation.is_differentiated or any(call.has_dropout for call in calls)


def train_in_eager(compilation: Compilation) -> Callable[..., Any]:
    """Return the graph as torch runs it, with eager's backward."""
    graph_module, options = compilation.graph_module, compilation.options
    kind = "forward" if compilation.is_differentiated else "inference"
    placement = list_placements(
        graph_module, dict.fromkeys(graph_module.graph.nodes, _REASONS_BY_KIND[kind])
    )
    if options.verbose:
        print(f"[ortable] {kind}: no partition")
        print(report_placements(placement))
    append_record(options.storage, make_torch_record(kind, graph_module, placement))
    log_compiled(kind, [], [], placement)
    return make_eager_callable(graph_module)


def has_lost_dropout(compilation: Compilation) -> bool:
    """Whether a recurrent network applies dropout between its layers."""
    return any(call.has_dropout for call in _find_recurrent_calls(compilation.graph_module))


def refuse_lost_dropout(compilation: Compilation) -> None:
    """Raise for the recurrent call whose dropout AOTAutograd would lose."""
    call = next(
        call for call in _find_recurrent_calls(compilation.graph_module) if call.has_dropout
    )
    raise UnsupportedCase(
        f"{call.name} with dropout={call.dropout} between {call.layers} layers, in training: "
        "torch's own tracing loses this dropout. Use one module per layer and torch.nn.Dropout "
        "between them, or dropout=0."
    )


def _find_recurrent_calls(graph_module: GraphModule) -> Iterator[_RecurrentCall]:
    recurrent_names = {key.partition("::")[2].partition(".")[0] for key in traits.RECURRENT}
    for node in graph_module.graph.nodes:
        name = getattr(node.target, "__name__", str(node.target))
        if node.op == "call_function" and name in recurrent_names and len(node.args) >= 9:
            position = 3 if isinstance(node.args[3], bool) else 4  # 4 for packed sequences
            _, layers, dropout, train = node.args[position : position + 4]
            yield _RecurrentCall(node, name, layers, dropout, train)
