"""Implement `ortable.bisect`: disable parts of a compilation until the model agrees with eager.

Then a binary search finds the first application of the last disabled part, such as a fired rule,
with which the model differs.
"""

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
from ortable.compat.bisector import Application, filter_applications
from ortable.compat.torch_explain import original_callable
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
from ortable.debug.explain_state import copy_arguments
from ortable.debug.run import ReferenceBackend
from ortable.errors import OrtableError, ProviderError
from ortable.exporter.reporting.numeric_diff import ToleranceOverride
from ortable.interpreter.diagnostics.origin import source_line
from ortable.ir.node import RewriteOrigin
from ortable.passes.rewrite import rule_selection
from ortable.passes.rewrite.rule import Rule

from .records import Bisection, Fault
from .stages import GRAPHS, OPERATORS, OPTIONS, Stage, State, Switches, drop_setting, make_advice

_SECOND_CALL = "call 2: "


@dataclass(frozen=True)
class RunResult:
    """The result of a run: its difference from eager, or its error, and the converted graphs."""

    difference: str = ""
    error: Exception | None = None
    graphs: tuple[CompiledGraph, ...] = ()

    @property
    def status(self) -> str:
        """Return "agrees", "differs", or the name of the class of the error."""
        if self.error is not None:
            return type(self.error).__name__
        return "differs" if self.difference else "agrees"

    @property
    def description(self) -> str:
        """Return the difference, or the error."""
        if self.error is not None:
            first_line = str(self.error).strip().partition("\n")[0]
            return f"raises {type(self.error).__name__}: {first_line}"
        return self.difference


@dataclass
class CallRunner:
    """Runs one model call in eager and through ortable.

    Attributes:
        call: the model call. A run calls the model twice, since stale weights show in the second.
        export: whether a run uses `ortable.export` instead of torch.compile.
        tolerance: the tolerance within which results agree.
        count: the number of runs so far.
    """

    call: Call
    export: bool = False
    tolerance: ToleranceOverride = field(default_factory=ToleranceOverride)
    count: int = 0
    _expected: CallEffects | None = None

    @property
    def expected_effects(self) -> CallEffects:
        """The effects of the call in eager, recorded at the first use."""
        if self._expected is None:
            self._expected = self.call.record_effects()
        return self._expected

    def run_compiled(
        self,
        options: Mapping[str, Any],
        switches: Switches | None = None,
        runner: Any = None,
    ) -> RunResult:
        """Run through ortable; `switches` disable parts and caches, None disables nothing."""
        graphs: list[CompiledGraph] = []
        if self.export:
            return self._run_compared(
                lambda: self.call.record_effects(lambda: self.export_model(options)), switches
            )
        backend = _make_backend(options, graphs, runner)
        return self._run_compared(lambda: self.call.record_compiled(backend), switches, graphs)

    def drop_second_call(self, result: RunResult) -> None:
        """Call the model once per run from now on, if the first call already differs."""
        if result.difference and not result.difference.startswith(_SECOND_CALL):
            self.call, self._expected = replace(self.call, times=1), None

    def run_torch_backend(self, backend: str) -> RunResult:
        """Run with one of torch's own backends."""
        return self._run_compared(lambda: self.call.record_compiled(backend))

    def _run_compared(
        self,
        run: Callable[[], CallEffects],
        switches: Switches | None = None,
        graphs: Sequence[CompiledGraph] = (),
    ) -> RunResult:
        expected = self.expected_effects
        self.count += 1
        switched = nullcontext() if switches is None else filter_applications(switches)
        try:
            with warnings.catch_warnings(), switched:
                warnings.simplefilter("ignore")
                got = run()
        except Exception as error:
            return RunResult(error=error, graphs=tuple(graphs))
        return RunResult(describe_difference(expected, got, self.tolerance), graphs=tuple(graphs))

    def export_model(self, options: Mapping[str, Any]) -> Any:
        """Export the model with copies of the arguments."""
        from ortable.exporter.to_onnx import export

        args, kwargs = copy_arguments(self.call.args, self.call.kwargs)
        return export(self.call.function, args, kwargs, **options)


def _make_backend(options: Mapping[str, Any], graphs: list[CompiledGraph], runner: Any) -> Any:
    """Make a backend for torch.compile that appends the converted graphs to `graphs`."""
    ort_options = replace(
        OrtOptions.from_mapping(options), hints=False, verbose=0, dump_prefix=None, storage=None
    )

    def compile_graph(graph: Any, graph_options: OrtOptions, run: Any) -> Any:
        compiled = compile_aot_graph(graph, graph_options, run)
        parts = getattr(compiled, "partitions", None) or {"": compiled}
        callables = parts.values() if isinstance(parts, Mapping) else parts
        graphs.extend(part.compiled for part in callables if hasattr(part, "compiled"))
        return compiled

    def compile_dynamo_graph(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
        return compile_with_autograd(
            graph_module, example_inputs, ort_options, runner, compile_graph
        )

    return compile_dynamo_graph


_log = logging.getLogger(__name__)

_COUNTED_SUBSYSTEMS = ("rewrites", "passes", "constants")  # every run counts their applications


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
    """Find which part of ortable or ONNX Runtime makes `model(*args, **kwargs)` differ from eager.

    The part is a spec entry, a rule, a pass, an optimizer, an option, or a cached conversion. The
    search compiles and calls the model repeatedly, on copies of the arguments, and disables one
    part after another. Once the model agrees with eager, a binary search finds the application of
    the last disabled part. Buffers, gradients, mode and random state of the model are restored.

    Args:
        model: a module or a function, compiled or not, in its current mode.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.
        train: run forward and backward, and compare the gradients too.
        dynamic: the argument `dynamic` of `torch.compile`.
        options: options of `torch.compile(..., backend="ortable", options=options)`; with `export`
            keyword arguments of `ortable.export`.
        export: check the exported model in place of the compiled one.
        atol: absolute tolerance for floats, in `atol + rtol * abs(eager's)`; by dtype unless given.
        rtol: relative tolerance for floats; by dtype unless given.

    Returns:
        The result, with the faulty part, its location and advice; true if the model agrees with
        eager.

    Raises:
        OptionError: an option is unknown or has a wrong value.
        OrtableError: the model cannot be converted at all.
    """
    call_options = dict(options or {})
    if not export:
        OrtOptions.from_mapping(call_options)  # validates the options
    call = Call(
        original_callable(model), args, kwargs or {}, train, dynamic,
        times=1 if export else 2, state=not export, parameters=False,
    )  # fmt: skip
    return _Search(
        CallRunner(call, export, ToleranceOverride(atol, rtol)), call_options
    ).run_search()


@dataclass(frozen=True)
class _Culprit:
    """An application that makes the model differ, its number among `of`, and both results.

    `present` is the result with the application as the last enabled one, `absent` without it.
    """

    application: Application
    number: int
    of: int
    present: RunResult
    absent: RunResult


class _Search:
    """One search: its runs, the user's options, and the parts that are disabled so far."""

    def __init__(self, runs: CallRunner, options: Mapping[str, Any]) -> None:
        self.runs = runs
        self.options = options
        self.baseline = RunResult()
        self.initial_cache: Mapping[Path, int] = {}  # files of `cache_dir` before the first run
        self.switched_off: list[str] = []

    def run_search(self) -> Bisection:
        """Run the model with the user's options, and then with one part after another disabled."""
        self.initial_cache = _cache_files(self.options)
        self.baseline = self.runs.run_compiled(self.options)
        compared = len(self.runs.expected_effects)
        if self.baseline.status == "agrees":
            return Bisection(None, compared, self.runs.count)
        error = self.baseline.error
        if isinstance(error, OrtableError) and not isinstance(error, ProviderError):
            raise error
        self.runs.drop_second_call(self.baseline)
        fault = self._find_fault()
        difference = self._find_difference() if fault.kind == "entry" else None
        return Bisection(fault, compared, self.runs.count, tuple(self.switched_off), difference)

    def _find_fault(self) -> Fault:
        state, seen = State(self.options), Counter[str]()
        for stages in (OPTIONS, GRAPHS, OPERATORS):
            active_stages = [
                candidate
                for candidate in stages
                if candidate.applies_to_exports or not self.runs.export
            ]
            disabled = self._disable_all(active_stages, state) if stages is GRAPHS else None
            if disabled is not None:
                state = disabled
                continue
            for stage in active_stages:
                changed = stage.change(state)
                if changed is None or (
                    stage.subsystem in _COUNTED_SUBSYSTEMS and not seen[stage.subsystem]
                ):
                    continue  # the stage has nothing to disable
                result, counts = self._run_without(stage.name, changed)
                seen |= counts
                if result.status == "agrees":
                    self.switched_off.append(stage.name)
                    return self._add_advice(
                        self._narrow_stage(stage, state, counts[stage.subsystem])
                    )
                if result.status == self.baseline.status:
                    state = changed
                    self.switched_off.append(stage.name)
        return self._find_other_fault()

    def _disable_all(self, stages: Sequence[Stage], state: State) -> State | None:
        """Disable all stages at once; return None unless the model still differs without them."""
        changed = state
        for stage in stages:
            changed = stage.change(changed) or changed
        result, _ = self._run_without("all changes of the graph", changed)
        if result.status != self.baseline.status:
            return None
        self.switched_off += [stage.name for stage in stages]
        return changed

    def _run_without(self, name: str, state: State) -> tuple[RunResult, Counter[str]]:
        result, switches = self._run_state(state)
        _log.info("without %s: %s", name, result.status)
        return result, switches.counts

    def _run_state(
        self, state: State, searching: str = "", limit: int | None = None, runner: Any = None
    ) -> tuple[RunResult, Switches]:
        switches = Switches(state.off, searching, limit)
        return self.runs.run_compiled(state.options, switches, runner), switches

    # -- from a stage to a fault

    def _narrow_stage(self, stage: Stage, state: State, count: int) -> Fault:
        before = self.baseline.description
        if stage.subsystem == "constants":
            return Fault("constants", "freeze", before=before)
        if stage.subsystem:
            return self._find_application_fault(stage, state, count)
        if stage.kind == "cache":
            return self._make_cache_fault()
        if stage.kind == "transform":
            return self._find_transform_fault(state)
        if stage.option:
            return self._find_option_fault(stage.option, state)
        return Fault("optimizer", "graph_optimization_level", before=before)

    def _find_application_fault(self, stage: Stage, state: State, count: int) -> Fault:
        if stage.subsystem != "optimizers":  # recount, since applications depend on one another
            count = self._run_state(state, stage.subsystem)[1].counts[stage.subsystem]
        culprit = self._search_applications(stage.subsystem, state, count)
        if culprit is None:
            return Fault("unknown", stage.subsystem, before=self.baseline.description)
        application = culprit.application
        kind, name, case = stage.kind, application.name, 0
        if kind == "entry":
            case = _find_case_number(application, culprit.present.graphs)
            location = locate_entry(name, case)
            reference_run, _ = self._run_state(
                state, "lowerings", culprit.number, lambda graph, options: ReferenceBackend(graph)
            )
            kind = "kernel" if reference_run.status == "agrees" else kind
        elif kind == "rule":
            location = _locate_rule(application.subject)
        elif kind == "optimizer":
            location = locate_optimizer(name, application.file)
        elif kind == "decomposition":
            location = _locate_decomposition(name, application.subject)
        else:
            location = locate_function(application.subject)
        return Fault(
            kind,  # type: ignore[arg-type]
            name,
            location.file,
            location.line,
            case,
            culprit.number,
            culprit.of,
            application.nodes,
            *_module_and_source(application.origin),
            culprit.present.description,
            culprit.absent.description,
        )

    def _search_applications(self, subsystem: str, state: State, of: int) -> _Culprit | None:
        """Find the first of `of` applications with which the model differs, by binary search.

        Return None if the model does not differ even with all `of` applications enabled.
        """
        low, high, application = 0, of, None
        present, absent = self.baseline, RunResult()
        while high > low and (application is None or high - low > 1):
            middle = (low + high) // 2 if high - low > 1 else high
            result, switches = self._run_state(state, subsystem, middle)
            _log.info("%d of %d %s: %s", middle, of, subsystem, result.status)
            if result.status == self.baseline.status:
                high, present, application = middle, result, switches.last
            elif middle == high:
                return None
            else:
                low, absent = middle, result
        if application is None:
            return None
        return _Culprit(application, high, of, present, absent)

    def _make_cache_fault(self) -> Fault:
        """Blame the cached conversions that the first run read from files, or those in memory."""
        read = [
            str(path)
            for path, time in _cache_files(self.options).items()
            if self.initial_cache.get(path, time) != time
        ]
        kind = "disk" if read else "memory"
        others = tuple(read[1:])
        return Fault(
            "cache", kind, read[0] if read else "", nodes=others, before=self.baseline.description
        )

    def _find_transform_fault(self, state: State) -> Fault:
        """Find the first function of the option with which the model differs."""
        value = self.options["pre_ort_model_transforms"]
        functions = [value] if callable(value) else list(value)
        number = 1
        while number < len(functions):
            options = {**state.options, "pre_ort_model_transforms": functions[:number]}
            if self._run_state(replace(state, options=options))[0].status == self.baseline.status:
                break
            number += 1
        function = functions[number - 1]
        location = locate_function(function)
        name = getattr(function, "__qualname__", type(function).__name__)
        before, of = self.baseline.description, len(functions)
        return Fault("transform", name, location.file, location.line, 0, number, of, before=before)

    def _find_option_fault(self, name: str, state: State) -> Fault:
        """Name the option, or the setting in a dict option, without which the model agrees."""
        value = state.options[name]
        text = name if name != "freeze" else f"freeze={value!r}"
        if isinstance(value, Mapping) and name in ("session_options", "run_options"):
            for setting in value:
                if self._run_state(drop_setting(state, name, setting))[0].status == "agrees":
                    return Fault("option", f"{name}[{setting!r}]", before=self.baseline.description)
        elif isinstance(value, str | int | float):
            text = f"{name}={value!r}"
        return Fault("option", text, before=self.baseline.description)

    # -- advice and other faults

    def _add_advice(self, fault: Fault) -> Fault:
        """Add advice to a fault, and run the model with the options of the advice."""
        advice, options = make_advice(fault, self.options, self.runs.export)
        after = fault.after
        if options is not None:
            result = self.runs.run_compiled(options)
            after = result.description
            if result.status != "agrees" and self.runs.count:
                advice += " The model has another fault: run the search again with this change."
        return replace(fault, advice=advice, after=after)

    def _find_other_fault(self) -> Fault:
        """Blame an entry of an export, torch's capture, or the code that runs the graphs."""
        before = self.baseline.description
        fault = Fault("unknown", "compiled call", before=before, after=before)
        mismatch = self._find_difference() if self.runs.export else None
        if mismatch is not None:
            name, case = mismatch.operator, mismatch.case
            location = locate_entry(name, case)
            fault = Fault(
                "entry", name, location.file, location.line, case, nodes=(mismatch.node,),
                module=mismatch.module, source=mismatch.source, before=before, after="not tried",
            )  # fmt: skip
        for backend in ("eager", "aot_eager") if not self.runs.export else ():
            result = self.runs.run_torch_backend(backend)
            if result.status != "agrees":
                name = f'backend="{backend}"'
                fault = Fault("torch", name, before=before, after=result.description)
                break
        return replace(fault, advice=make_advice(fault, self.options, self.runs.export)[0])

    def _find_difference(self) -> Any:
        """Compare node by node; return None if nothing differs or the comparison fails."""
        from ortable.debug.difference import first_difference

        call, tolerance = self.runs.call, self.runs.tolerance
        arguments: dict[str, Any] = {"atol": tolerance.atol, "rtol": tolerance.rtol}
        try:
            if self.runs.export:
                arguments["exported"] = self.runs.export_model(self.options)
            else:
                arguments |= {"train": call.train, "dynamic": call.dynamic, "options": self.options}
            return first_difference(call.function, call.args, call.kwargs, **arguments).difference
        except Exception:  # the fault is then reported without a difference
            return None


def _cache_files(options: Mapping[str, Any]) -> dict[Path, int]:
    """Return the files in `cache_dir` with their modification times, which reads update."""
    folder = options.get("cache_dir")
    if folder is None or not Path(folder).is_dir():
        return {}
    return {path: path.stat().st_mtime_ns for path in sorted(Path(folder).iterdir())}


# -- locations of applications


def _locate_rule(rule: Rule) -> SourceLocation:
    """Locate a rule in the package's files or the user's."""
    path = rule_selection.find_user_file(rule)
    return locate_rule(rule, () if path is None else (str(path),))


def _locate_decomposition(name: str, function: Any) -> SourceLocation:
    """Locate a decomposition: the user's function, or ortable's entry for torch's."""
    if getattr(inspect.unwrap(function), "__module__", "").partition(".")[0] == "torch":
        return locate_decomposition(name, function)
    return locate_function(function)


def _module_and_source(origin: Any) -> tuple[str, str]:
    """Return the module and the source line that an FX node or its metadata names."""
    original = origin.find_original() if isinstance(origin, RewriteOrigin) else origin
    if isinstance(original, dict):
        return str(original.get("module_path", "")), str(original.get("source", ""))
    if not isinstance(original, Node):
        return "", ""
    line = source_line(original)
    return format_module(original), f"{line.file}:{line.line}: {line.code}" if line else ""


def _find_case_number(application: Application, graphs: Sequence[CompiledGraph]) -> int:
    """Return the case that converted the node, from 1; 0 for an entry with one case."""
    for graph in graphs:
        for name in application.nodes:
            key, _, number = graph.cases.get(name, "").partition("/")
            if key == application.name and number.isdigit():
                return int(number)
    return 0
