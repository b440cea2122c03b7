"""The first operator whose decomposition computes something else. The graphs are made once more
without decompositions, and each of their operators runs whole and decomposed on the same values.
In comes a table of decompositions, out comes what differs; called by `difference` where the graphs
that were converted agree, and the call itself does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.options import OrtOptions
from ortable.compat.torch import TorchDispatchMode, pytree
from ortable.exporter.account.gaps import Gap

from .records import GraphKind
from .values import leaves_memory

GapOf = Callable[[torch.Tensor, torch.Tensor], "Gap | None"]
Table = Mapping[Any, Callable[..., Any]]


@dataclass(frozen=True)
class Decomposed:
    """An operator that its decomposition computes otherwise: the graph it is in, its node, what
    the nodes before it computed, and the difference."""

    kind: GraphKind
    node: Node
    values: Mapping[Node, Any]
    gap: Gap


class DecompositionWatch:
    """Compiles graphs of AOTAutograd to what runs them in eager and looks at each operator."""

    def __init__(self, table: Table, gap: GapOf) -> None:
        self.table = table
        self.gap = gap
        self.found: Decomposed | None = None

    def compile_graph(self, graph: GraphModule, options: OrtOptions, run: Any) -> Any:
        """What AOTAutograd's compilers do here."""
        kind = AotGraph(graph).kind

        def call(args: list[Any]) -> list[Any]:
            given = list(args)
            args.clear()
            with torch.no_grad():
                if self.found is not None:
                    return list(graph(*given))
                return list(_Checking(graph, kind, self).run(*given))

        call._boxed_call = True  # type: ignore[attr-defined]
        return call


class _Checking(Interpreter):
    """Runs a graph, and every operator that has a decomposition a second time by that."""

    def __init__(self, module: GraphModule, kind: str, watch: DecompositionWatch) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.kind = kind
        self.watch = watch

    def run_node(self, n: Node) -> Any:
        watch = self.watch
        if watch.found is not None or not _is_checked(n, watch.table):
            return super().run_node(n)
        args, kwargs = pytree.tree_map_only(
            torch.Tensor, torch.Tensor.clone, self.fetch_args_kwargs_from_env(n)
        )
        expected = super().run_node(n)
        try:
            with _Decomposing(watch.table):
                got = n.target(*args, **kwargs)  # type: ignore[operator]
        except Exception:  # some need fake tensors, whose sizes they ask for
            return expected
        pairs = zip(pytree.tree_leaves(expected), pytree.tree_leaves(got), strict=False)
        for one, other in pairs:
            gap = watch.gap(one, other) if isinstance(one, torch.Tensor) else None
            if gap is not None:
                watch.found = Decomposed(self.kind, n, dict(self.env), gap)  # type: ignore[arg-type]
                break
        return expected


def _is_checked(node: Node, table: Table) -> bool:
    """Whether a node has a decomposition, and computes the same each time."""
    if node.op != "call_function" or node.target not in table or leaves_memory(node):
        return False
    return torch.Tag.nondeterministic_seeded not in getattr(node.target, "tags", ())


class _Decomposing(TorchDispatchMode):
    """While it is on, operators of a table run as what they decompose into."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs an operator."""
        function = self.table.get(func)
        if function is not None:
            with self:
                result = function(*args, **(kwargs or {}))
            if result is not NotImplemented:
                return result
        return func(*args, **(kwargs or {}))
