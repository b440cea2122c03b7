"""What the nodes of an FX graph compute in torch. In come a graph and the arguments of one call,
out come tensors by node; called by `graphs`, `exports` and the debug backend."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from ortable.backend.lower.aot_graph import writes_argument
from ortable.compat.torch import OpOverload
from ortable.interpreter.outputs import flatten_output
from ortable_generated.aten import traits

UNKNOWN: Any = object()


class Recorder(Interpreter):
    """Runs an FX graph and keeps the tensors that some nodes compute, or all values (`env`) where
    `wanted` is None. Those that follow from random numbers which only the converted graph knows how
    to use are unknown, unless they are given."""

    def __init__(
        self,
        graph_module: GraphModule,
        wanted: Collection[str] | None,
        given: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(graph_module, garbage_collect_values=wanted is not None)
        self.wanted = wanted or ()
        self.given = given or {}
        self.values: dict[str, torch.Tensor] = {}

    def results(self, args: Sequence[Any]) -> list[Any]:
        """What the graph returns; the arguments are left alone."""
        with torch.no_grad():
            return self.run(*copied(args))  # type: ignore[no-any-return]

    def run_node(self, n: Node) -> Any:
        if n.op == "output":
            return [self.env[x] if isinstance(x, Node) else x for x in flatten_output(n.args[0])]
        if any(self.env.get(node) is UNKNOWN for node in n.all_input_nodes):
            return self.given.get(n.name, UNKNOWN)
        if writes_argument(n):  # at the end: views of the argument are kept as they were read
            return self.env[n.args[1]] if isinstance(n.args[1], Node) else n.args[1]
        value = self._of_drawn(n) if "drawn" in n.kwargs else super().run_node(n)
        if isinstance(value, torch.Tensor) and not leaves_memory(n):
            if n.name in self.wanted:
                self.values[n.name] = value
            for part in ("real", "imag") if value.is_complex() else ():
                if f"{n.name}.{part}" in self.wanted:
                    self.values[f"{n.name}.{part}"] = getattr(value.resolve_conj(), part)
        return value

    def _of_drawn(self, n: Node) -> Any:
        """The value of a random operator whose numbers torch drew outside of this graph."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if n.target is not torch.ops.aten.native_dropout.default:
            return self.given.get(n.name, UNKNOWN)
        x, p, mask = args[0], args[1], kwargs["drawn"].bool()
        return x * mask.to(x.dtype) * (1.0 / (1.0 - p)), mask


def values_in(
    module: GraphModule, args: Sequence[Any], given: Mapping[str, torch.Tensor]
) -> dict[Node, Any]:
    """What every node of a graph computes in torch; the arguments are left alone."""
    recorder = Recorder(module, None, given)
    recorder.results(args)
    return dict(recorder.env)


def leaves_memory(node: Node) -> bool:
    """Whether torch leaves the result uninitialised: it has no value to compare."""
    target = node.target
    return isinstance(target, OpOverload) and target.name() in traits.UNINITIALIZED


def copied(args: Sequence[Any]) -> list[Any]:
    """The arguments of a graph, which the copies may be written into."""
    return [each.clone() if isinstance(each, torch.Tensor) else each for each in args]
