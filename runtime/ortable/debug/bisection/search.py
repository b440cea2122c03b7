"""`ortable.bisect`: switches parts of a compilation off until the model agrees with eager, then
finds which application of the part makes it differ. In come a model and the arguments of a call,
out comes a `Bisection`; called by users and by `ortable debug`."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch.fx import Node

from ortable.backend.aot.build import compile_aot_graph
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph
from ortable.compat.bisector import Application, judged_by
from ortable.compat.torch_explain import innermost
from ortable.debug.comparing.call_effects import Call, CallEffects, describe_difference
from ortable.debug.comparing.source_locations import (
    SourceLocation,
    format_module,
    locate_decomposition,
    locate_entry,
    locate_function,
    locate_optimizer,
    locate_rule,
)
from ortable.debug.explain_state import copied_arguments
from ortable.debug.run import ReferenceBackend
from ortable.errors import OrtableError, ProviderError
from ortable.exporter.account.gaps import AskedTolerance
from ortable.interpreter.diagnostics.origin import source_line
from ortable.ir.node import Rewritten
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.rule import Rule

from .records import Bisection, Fault
from .stages import GRAPHS, OPERATORS, OPTIONS, Stage, State, Switches, advised, without_setting

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
    _expected: CallEffects | None = None

    @property
    def expected(self) -> CallEffects:
        """What eager leaves behind."""
        if self._expected is None:
            self._expected = self.call.record_effects()
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
            return self._result(
                lambda: self.call.record_effects(lambda: self.exported(options)), switches
            )
        backend = _backend(options, graphs, runner)
        return self._result(lambda: self.call.record_compiled(backend), switches, graphs)

    def shortened(self, result: RunResult) -> None:
        """From now on one call in a run, where that shows what a run of two showed."""
        if result.difference and not result.difference.startswith(_SECOND):
            self.call, self._expected = replace(self.call, times=1), None

    def by_torch(self, backend: str) -> RunResult:
        """A run by one of torch's own backends."""
        return self._result(lambda: self.call.record_compiled(backend))

    def _result(
        self,
        run: Callable[[], CallEffects],
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
        return RunResult(describe_difference(expected, got, self.tolerance), graphs=tuple(graphs))

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


_log = logging.getLogger(__name__)

_COUNTED = ("rewrites", "passes", "constants")  # these ask in every run whether they are off


def bisect(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    train: bool = False,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    export: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
) -> Bisection:
    """Finds which part of ortable, or of ONNX Runtime, makes `model(*args, **kwargs)` differ from
    eager: an entry of the specs, a rule, a pass, an optimizer, an option, a kept conversion.

    The model is compiled and called again and again, on copies of the arguments, with one part
    after the other switched off; when it agrees with eager, the applications of the last part are
    searched by halves. Buffers, gradients, mode and random numbers of the model are as before.

    Args:
        model: a module or a function, compiled or not, in the mode it is in.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.
        train: with gradients: forward and backward, and the gradients are compared.
        dynamic: as `torch.compile` has it.
        options: those of `torch.compile(..., backend="ortable", options=options)`; with `export`
            keyword arguments of `ortable.export`.
        export: the exported model, in place of the compiled one.
        atol, rtol: how far floats may differ, `atol + rtol * abs(eager's)`; by dtype unless given.

    Returns:
        What is wrong; true where the model agrees with eager.

    Raises:
        OptionError: an unknown option, or a wrong value.
        OrtableError: the model cannot be converted at all.
    """
    given = dict(options or {})
    if not export:
        OrtOptions.from_mapping(given)  # raises for what is wrong with them
    call = Call(
        innermost(model), args, kwargs or {}, train, dynamic,
        times=1 if export else 2, state=not export, parameters=False,
    )  # fmt: skip
    return _Search(Runs(call, export, AskedTolerance(atol, rtol)), given).found()


@dataclass(frozen=True)
class _Narrowed:
    """An application, and the runs with it and without it as the last one."""

    application: Application
    number: int
    of: int
    present: RunResult
    absent: RunResult


class _Search:
    """One search: its runs, the options of the user, and what was switched off so far."""

    def __init__(self, runs: Runs, options: Mapping[str, Any]) -> None:
        self.runs = runs
        self.options = options
        self.first = RunResult()
        self.kept: Mapping[Path, int] = {}  # files of `cache_dir` before the first run
        self.switched_off: list[str] = []

    def found(self) -> Bisection:
        """Runs the model as the user does, and without one part after the other."""
        self.kept = _kept_files(self.options)
        self.first = self.runs.compiled(self.options)
        compared = len(self.runs.expected)
        if self.first.kind == "agrees":
            return Bisection(None, compared, self.runs.count)
        error = self.first.error
        if isinstance(error, OrtableError) and not isinstance(error, ProviderError):
            raise error  # it says what is wrong, and where
        self.runs.shortened(self.first)
        fault = self._fault()
        difference = self._difference() if fault.kind == "entry" else None
        return Bisection(fault, compared, self.runs.count, tuple(self.switched_off), difference)

    def _fault(self) -> Fault:
        state, seen = State(self.options), Counter[str]()
        for stages in (OPTIONS, GRAPHS, OPERATORS):
            of_it = [each for each in stages if each.exports or not self.runs.export]
            together = self._all_of(of_it, state) if stages is GRAPHS else None
            if together is not None:
                state = together
                continue
            for stage in of_it:
                changed = stage.change(state)
                if changed is None or (stage.subsystem in _COUNTED and not seen[stage.subsystem]):
                    continue  # there is none: a run would show nothing
                outcome, counts = self._without(stage.name, changed)
                seen |= counts
                if outcome.kind == "agrees":
                    self.switched_off.append(stage.name)
                    return self._cured(self._narrowed(stage, state, counts[stage.subsystem]))
                if outcome.kind == self.first.kind:
                    state = changed
                    self.switched_off.append(stage.name)
        return self._elsewhere()

    def _all_of(self, stages: Sequence[Stage], state: State) -> State | None:
        """The state without any of the parts, where the model differs all the same: none of them
        need be tried alone."""
        changed = state
        for stage in stages:
            changed = stage.change(changed) or changed
        outcome, _ = self._without("what works on the graph", changed)
        if outcome.kind != self.first.kind:
            return None
        self.switched_off += [stage.name for stage in stages]
        return changed

    def _without(self, name: str, state: State) -> tuple[RunResult, Counter[str]]:
        outcome, switches = self._run(state)
        _log.info("without %s: %s", name, outcome.kind)
        return outcome, switches.counts

    def _run(
        self, state: State, searching: str = "", limit: int | None = None, runner: Any = None
    ) -> tuple[RunResult, Switches]:
        switches = Switches(state.off, searching, limit)
        return self.runs.compiled(state.options, switches, runner), switches

    # -- from a part to what is wrong in it

    def _narrowed(self, stage: Stage, state: State, count: int) -> Fault:
        before = self.first.text
        if stage.subsystem == "constants":
            return Fault("constants", "freeze", before=before)
        if stage.subsystem:
            return self._of_application(stage, state, count)
        if stage.kind == "cache":
            return self._of_cache()
        if stage.kind == "transform":
            return self._of_transform(state)
        if stage.option:
            return self._of_option(stage.option, state)
        return Fault("optimizer", "graph_optimization_level", before=before)

    def _of_application(self, stage: Stage, state: State, count: int) -> Fault:
        if stage.subsystem != "optimizers":  # with some of them off others come to nothing
            count = self._run(state, stage.subsystem)[1].counts[stage.subsystem]
        found = self._searched(stage.subsystem, state, count)
        if found is None:
            return Fault("unknown", stage.subsystem, before=self.first.text)
        about = found.application
        kind, name, case = stage.kind, about.name, 0
        if kind == "entry":
            case = _case_of(about, found.present.graphs)
            place = locate_entry(name, case)
            right, _ = self._run(
                state, "lowerings", found.number, lambda graph, options: ReferenceBackend(graph)
            )
            kind = "kernel" if right.kind == "agrees" else kind
        elif kind == "rule":
            place = _place_of_rule(about.subject)
        elif kind == "optimizer":
            place = locate_optimizer(name, about.file)
        elif kind == "decomposition":
            place = _place_of_decomposition(name, about.subject)
        else:
            place = locate_function(about.subject)
        return Fault(
            kind,  # type: ignore[arg-type]
            name,
            place.file,
            place.line,
            case,
            found.number,
            found.of,
            about.nodes,
            *_module_and_source(about.origin),
            found.present.text,
            found.absent.text,
        )

    def _searched(self, subsystem: str, state: State, of: int) -> _Narrowed | None:
        """The first of `of` applications with which the model differs, by halves; None where it
        differs with none of them, but with all."""
        low, high, about = 0, of, None
        present, absent = self.first, RunResult()
        while high > low and (about is None or high - low > 1):
            middle = (low + high) // 2 if high - low > 1 else high
            outcome, switches = self._run(state, subsystem, middle)
            _log.info("%d of %d %s: %s", middle, of, subsystem, outcome.kind)
            if outcome.kind == self.first.kind:
                high, present, about = middle, outcome, switches.last
            elif middle == high:
                return None
            else:
                low, absent = middle, outcome
        if about is None:
            return None
        return _Narrowed(about, high, of, present, absent)

    def _of_cache(self) -> Fault:
        """The kept conversions of the run that differed."""
        read = [
            str(path)
            for path, time in _kept_files(self.options).items()
            if self.kept.get(path, time) != time
        ]
        where = "disk" if read else "memory"
        more = tuple(read[1:])
        return Fault("cache", where, read[0] if read else "", nodes=more, before=self.first.text)

    def _of_transform(self, state: State) -> Fault:
        """The first function of the option with which the model differs."""
        given = self.options["pre_ort_model_transforms"]
        functions = [given] if callable(given) else list(given)
        number = 1
        while number < len(functions):
            options = {**state.options, "pre_ort_model_transforms": functions[:number]}
            if self._run(replace(state, options=options))[0].kind == self.first.kind:
                break
            number += 1
        function = functions[number - 1]
        place = locate_function(function)
        name = getattr(function, "__qualname__", type(function).__name__)
        before, of = self.first.text, len(functions)
        return Fault("transform", name, place.file, place.line, 0, number, of, before=before)

    def _of_option(self, name: str, state: State) -> Fault:
        """The option, or the one setting in it that heals."""
        value = state.options[name]
        said = name if name != "freeze" else f"freeze={value!r}"
        if isinstance(value, Mapping) and name in ("session_options", "run_options"):
            for setting in value:
                if self._run(without_setting(state, name, setting))[0].kind == "agrees":
                    return Fault("option", f"{name}[{setting!r}]", before=self.first.text)
        elif isinstance(value, str | int | float):
            said = f"{name}={value!r}"
        return Fault("option", said, before=self.first.text)

    # -- after

    def _cured(self, fault: Fault) -> Fault:
        """With what to do, tried out."""
        advice, options = advised(fault, self.options, self.runs.export)
        after = fault.after
        if options is not None:
            outcome = self.runs.compiled(options)
            after = outcome.text
            if outcome.kind != "agrees" and self.runs.count:
                advice += " Something else is wrong too: run the search again with that."
        return replace(fault, advice=advice, after=after)

    def _elsewhere(self) -> Fault:
        """Nothing healed: an entry in an export, torch's capture, or what runs the graphs."""
        before = self.first.text
        fault = Fault("unknown", "compiled call", before=before, after=before)
        found = self._difference() if self.runs.export else None
        if found is not None:
            name, case = found.operator, found.case
            place = locate_entry(name, case)
            fault = Fault(
                "entry", name, place.file, place.line, case, nodes=(found.node,),
                module=found.module, source=found.source, before=before, after="not tried",
            )  # fmt: skip
        for backend in ("eager", "aot_eager") if not self.runs.export else ():
            outcome = self.runs.by_torch(backend)
            if outcome.kind != "agrees":
                name = f'backend="{backend}"'
                fault = Fault("torch", name, before=before, after=outcome.text)
                break
        return replace(fault, advice=advised(fault, self.options, self.runs.export)[0])

    def _difference(self) -> Any:
        """What a comparison node by node says; None where it sees nothing, or cannot be made."""
        from ortable.debug.difference import first_difference

        call, tolerance = self.runs.call, self.runs.tolerance
        how: dict[str, Any] = {"atol": tolerance.atol, "rtol": tolerance.rtol}
        try:
            if self.runs.export:
                how["exported"] = self.runs.exported(self.options)
            else:
                how |= {"train": call.train, "dynamic": call.dynamic, "options": self.options}
            return first_difference(call.function, call.args, call.kwargs, **how).difference
        except Exception:  # the fault is told without it
            return None


def _kept_files(options: Mapping[str, Any]) -> dict[Path, int]:
    """The conversions in `cache_dir`, and when each was last used: a run that reads one says so."""
    folder = options.get("cache_dir")
    if folder is None or not Path(folder).is_dir():
        return {}
    return {path: path.stat().st_mtime_ns for path in sorted(Path(folder).iterdir())}


# -- where an application stands


def _place_of_rule(rule: Rule) -> SourceLocation:
    """Where a rule stands, in the package's files or in one of the user."""
    own = rule_selection.path_of(rule)
    return locate_rule(rule, () if own is None else (str(own),))


def _place_of_decomposition(name: str, function: Any) -> SourceLocation:
    """Where a decomposition stands: the function of the user, or what ortable says of torch's."""
    if getattr(inspect.unwrap(function), "__module__", "").partition(".")[0] == "torch":
        return locate_decomposition(name, function)
    return locate_function(function)


def _module_and_source(origin: Any) -> tuple[str, str]:
    """The module that an application is in, and the line of the model: of the FX node, or of the
    metadata of a model that was read, behind rewrites."""
    found = origin.find_original() if isinstance(origin, Rewritten) else origin
    if isinstance(found, dict):
        return str(found.get("module", "")), str(found.get("source", ""))
    if not isinstance(found, Node):
        return "", ""
    line = source_line(found)
    return format_module(found), f"{line.file}:{line.line}: {line.code}" if line else ""


def _case_of(about: Application, graphs: Sequence[CompiledGraph]) -> int:
    """Which case of its entry converted the node, from 1; 0 for an entry with one case."""
    for graph in graphs:
        for name in about.nodes:
            key, _, number = graph.cases.get(name, "").partition("/")
            if key == about.name and number.isdigit():
                return int(number)
    return 0
