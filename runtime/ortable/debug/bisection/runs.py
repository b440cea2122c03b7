"""One run of a model, in eager or compiled, with parts switched off: what differs from eager. In
come a call of a model and options, out comes a `RunResult`; called by `search`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from ortable.backend.aot.build import compile_aot_graph
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.compat.bisector import judged_by
from ortable.debug.comparing.outcome import Call, Outcome, differing
from ortable.debug.explain_state import copied_arguments
from ortable.exporter.account.gaps import AskedTolerance

from .stages import Switches

_SECOND = "call 2: "


@dataclass(frozen=True)
class RunResult:
    """What a run showed: `difference` from eager in words, empty where it agrees; `error` where it
    was not run to its end; the graphs that were converted."""

    difference: str = ""
    error: Exception | None = None
    graphs: tuple[CompiledGraph, ...] = ()

    @property
    def kind(self) -> str:
        """What two runs have in common: that they agree, that they differ, or their error."""
        if self.error is not None:
            return type(self.error).__name__
        return "differs" if self.difference else "agrees"

    @property
    def text(self) -> str:
        """The difference, or the error."""
        if self.error is not None:
            first = str(self.error).strip().partition("\n")[0]
            return f"raises {type(self.error).__name__}: {first}"
        return self.difference


@dataclass
class Runs:
    """The runs of one call of a model.

    ``call``: what runs, twice: the second call finds weights that should have been read again;
    ``export``: through `ortable.export` in place of torch.compile; ``count``: how many runs there
    were.
    """

    call: Call
    export: bool = False
    tolerance: AskedTolerance = field(default_factory=AskedTolerance)
    count: int = 0
    _expected: Outcome | None = None

    @property
    def expected(self) -> Outcome:
        """What eager leaves behind."""
        if self._expected is None:
            self._expected = self.call.outcome()
        return self._expected

    def compiled(
        self,
        options: Mapping[str, Any],
        switches: Switches | None = None,
        runner: Any = None,
    ) -> RunResult:
        """A run by ortable; without switches as the user runs it, caches included."""
        graphs: list[CompiledGraph] = []
        if self.export:
            return self._result(lambda: self.call.outcome(lambda: self.exported(options)), switches)
        backend = _backend(options, graphs, runner)
        return self._result(lambda: self.call.compiled_by(backend), switches, graphs)

    def shortened(self, result: RunResult) -> None:
        """From now on one call in a run, where that shows what a run of two showed."""
        if result.difference and not result.difference.startswith(_SECOND):
            self.call, self._expected = replace(self.call, times=1), None

    def by_torch(self, backend: str) -> RunResult:
        """A run by one of torch's own backends."""
        return self._result(lambda: self.call.compiled_by(backend))

    def _result(
        self,
        run: Callable[[], Outcome],
        switches: Switches | None = None,
        graphs: Sequence[CompiledGraph] = (),
    ) -> RunResult:
        expected = self.expected
        self.count += 1
        judged = nullcontext() if switches is None else judged_by(switches)
        try:
            with warnings.catch_warnings(), judged:
                warnings.simplefilter("ignore")
                got = run()
        except Exception as error:
            return RunResult(error=error, graphs=tuple(graphs))
        return RunResult(differing(expected, got, self.tolerance), graphs=tuple(graphs))

    def exported(self, options: Mapping[str, Any]) -> Any:
        """The exported model."""
        from ortable.exporter.to_onnx import export

        args, kwargs = copied_arguments(self.call.args, self.call.kwargs)
        return export(self.call.function, args, kwargs, **options)


def _backend(options: Mapping[str, Any], graphs: list[CompiledGraph], runner: Any) -> Any:
    """ortable for torch.compile, which adds the graphs that it converts to a list."""
    chosen = replace(
        OrtOptions.from_mapping(options), hints=False, verbose=0, dump_prefix=None, storage=None
    )

    def compile_graph(graph: Any, given: OrtOptions, run: Any) -> Any:
        made = compile_aot_graph(graph, given, run)
        parts = getattr(made, "partitions", None) or {"": made}
        each = parts.values() if isinstance(parts, Mapping) else parts
        graphs.extend(one.compiled for one in each if hasattr(one, "compiled"))
        return made

    def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
        return compile_with_autograd(graph_module, example_inputs, chosen, runner, compile_graph)

    return backend
