"""Results of a graph from what was computed and from the arguments: views, sizes, writes into
arguments. In come a CompiledGraph and the tensors of one call, out comes what a caller gets; called
by `run`. The fast backend does the same in generated source (`backend.execute.call_source`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ortable.backend.execute.results import SymbolValues, own
from ortable.backend.roles import CompiledGraph, OutputRole, OutputRoleKind, ViewStep


class GraphResults:
    """Turns what the evaluator computed, and the arguments, into the results of the graph."""

    def __init__(self, compiled: CompiledGraph) -> None:
        self.roles = compiled.outputs
        self.n_results = compiled.n_results
        self.mutations = compiled.mutations
        self.checks = compiled.checks
        self.sources = tuple(compiled.sources.values())

    def __call__(self, args: Sequence[Any], fetched: Sequence[Any]) -> list[Any]:
        """`fetched` holds torch tensors, in the order of `CompiledGraph.fetches`."""
        for check in self.checks:
            if not fetched[check.fetch].item():
                raise RuntimeError(check.message)
        values = SymbolValues(args, self.sources)
        results: list[Any] = []
        for role in self.roles:
            results.append(self._result(role, args, fetched, results, values))
        if self.mutations:
            for mutation in self.mutations:
                args[mutation.source].copy_(results[mutation.result])
            del results[self.n_results :]
        return results

    def _result(
        self,
        role: OutputRole,
        args: Sequence[Any],
        fetched: Sequence[Any],
        results: Sequence[Any],
        values: SymbolValues,
    ) -> Any:
        kind = role.kind
        if kind is OutputRoleKind.TENSOR:
            return fetched[role.fetch]
        if kind is OutputRoleKind.INPUT:
            return args[role.source]
        if kind is OutputRoleKind.VIEW:
            base = fetched[role.fetch] if role.fetch >= 0 else args[role.source]
            view = _apply_steps(base, role.steps, values)
            return own(view) if role.alone else view
        if kind is OutputRoleKind.NONE:
            return None
        if kind is OutputRoleKind.DIMENSION:
            return int(fetched[role.fetch]) if role.fetch >= 0 else values(role.value)
        if kind is OutputRoleKind.DUPLICATE:
            return results[role.source]
        if kind is OutputRoleKind.NUMBER:
            return fetched[role.fetch].item()
        return role.value


def _apply_steps(tensor: Any, steps: Sequence[ViewStep], values: Callable[[Any], Any]) -> Any:
    """Applies view steps to a tensor; `values` turns symbolic dimensions into ints."""
    for step in steps:
        if step.symbolic:
            tensor = step.op(tensor, *values(step.args), **values(step.kwargs))
        else:
            tensor = step.op(tensor, *step.args, **step.kwargs)
    return tensor
