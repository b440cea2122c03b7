"""Record calls of a compiled model with the profiler of ONNX Runtime on, for `profile`.

The calls run in new sessions, isolated from the user's compilations and released at the end.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import torch
from torch.fx import GraphModule

from ortable.backend.aot.build import compile_aot_graph
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.aot.events import Origin, current_origin
from ortable.backend.execute.call import OrtBackend
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.lower.aot_graph import AotGraph
from ortable.backend.options import OrtOptions
from ortable.backend.partition.host_graph import PartitionedGraph
from ortable.backend.roles import CompiledGraph, Placement
from ortable.compat.providers import CPU, CUDA, provider_names
from ortable.compat.torch_explain import OperatorClock, compile_isolated
from ortable.debug.explain_state import copy_arguments, find_modules, isolated_call, run_call
from ortable.errors import OptionError, ProviderError
from ortable.interpreter.diagnostics.origin import module_path

Window = tuple[int, int]  # begin and end, in nanoseconds of time.time_ns
_MAX_EVENTS = 1_000_000  # the profiler of ONNX Runtime drops further events of a session
_MAX_WARMUP_CALLS = 6  # before the measured calls; fewer if nothing more is compiled
_PROVIDERS_THAT_WRITE_MODELS = {CPU, CUDA}


@dataclass(frozen=True)
class TorchCall:
    """A call of an operator that torch runs, with its module path and source line."""

    operator: str
    module: str
    line: str


@dataclass(frozen=True)
class GraphRecord:
    """A compiled graph: its number, its kind, its frame (`where`), and the calls that torch runs.

    Graphs of dynamo are numbered from 1; a forward and its backward have the same number. A
    record for the backward of several graphs has number 0. For an ONNX model, `where` is its name.
    """

    number: int
    kind: str
    where: str
    torch: tuple[TorchCall, ...] = ()


@dataclass(frozen=True)
class SessionRecord:
    """The profile of a session of the graph with index `graph`.

    `start` is a time of the system's clock in nanoseconds; times of `events` are microseconds after
    `start`. `model` is the model of the session. `optimized` is the optimized model that the
    session wrote, without large weights, or None.
    """

    graph: int
    start: int
    events: Sequence[Mapping[str, Any]]
    model: onnx.ModelProto
    optimized: onnx.ModelProto | None


@dataclass(frozen=True)
class Recording:
    """Recorded calls; times are nanoseconds.

    Attributes:
        calls: calls with the profiler on.
        plain: durations of calls with the profiler off.
        graphs: the compiled graphs.
        sessions: the profiles of the sessions.
        torch: runs of graphs that torch runs in part or entirely, each after its index in `graphs`.
        parts: calls of partitions, each after the index of its graph.
        operators: operators that torch ran: name, begin and end.
        backward: runs of `torch.autograd.backward`.
        backward_graph: index in `graphs` of the record for operators that torch ran in `backward`,
            but in no run of `torch`.
        notes: remarks for the user.
    """

    calls: Sequence[Window]
    plain: Sequence[int]
    graphs: Sequence[GraphRecord]
    sessions: Sequence[SessionRecord]
    torch: Sequence[tuple[int, Window]] = ()
    parts: Sequence[tuple[int, Window]] = ()
    operators: Sequence[tuple[str, int, int]] = ()
    backward: Sequence[Window] = ()
    backward_graph: int | None = None
    notes: tuple[str, ...] = ()


def profile_settings(session_options: Any, providers: Sequence[Any], base: Path) -> dict[str, Any]:
    """Make session settings for writing a profile and, where possible, the optimized model."""
    if session_options is not None and not isinstance(session_options, Mapping):
        raise OptionError(
            "session_options is an onnxruntime.SessionOptions, but the profile must add settings "
            "to the session. Give a dict of settings."
        )
    settings = {
        **(session_options or {}),
        "enable_profiling": True,
        "profile_file_prefix": str(base),
    }
    if set(provider_names(providers)) <= _PROVIDERS_THAT_WRITE_MODELS:
        # weights from 1 KiB on go to another file, which is not read
        settings |= {
            "optimized_model_filepath": str(base.with_suffix(".onnx")),
            "session.optimized_model_external_initializers_file_name": f"{base.name}.data",
            "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
        }
    return settings


def read_session(session: Any, graph: int, model: onnx.ModelProto, base: Path) -> SessionRecord:
    """Turn the profiler of a session off, read its profile and optimized model, remove the profile.

    Raises:
        ProviderError: the profile lacks events, since the session had too many.
    """
    start = int(session.get_profiling_start_time_ns())
    profile_path = Path(session.end_profiling())
    events = json.loads(profile_path.read_text(encoding="utf-8"))
    profile_path.unlink()
    if len(events) >= _MAX_EVENTS:
        raise ProviderError(
            f"ONNX Runtime's profile of a session is full: it has at most {_MAX_EVENTS} events, so "
            "kernels are missing. Profile fewer calls (calls=1), or a smaller input."
        )
    model_path = base.with_suffix(".onnx")
    optimized = (
        onnx.load(str(model_path), load_external_data=False) if model_path.exists() else None
    )
    return SessionRecord(graph, start, events, model, optimized)


def time_calls(
    call: Callable[..., Any], count: int, prepare: Callable[[], tuple[Any, ...]] = tuple
) -> list[Window]:
    """Call a function `count` times; return begin and end of each call.

    Before each call, outside of the measured time, `prepare` makes the arguments.
    """
    windows = []
    for _ in range(count):
        arguments = prepare()
        begin = time.time_ns()
        call(*arguments)
        windows.append((begin, time.time_ns()))
    return windows


def record_call(
    function: Any,
    call: tuple[Any, Any],
    options: OrtOptions,
    *,
    train: bool,
    dynamic: bool | None,
    calls: int,
) -> Recording:
    """Compile a function in isolation, call it, and read the profiles of its sessions.

    The function's modules are restored afterwards.
    """
    options, notes = _select_options(options)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        recorder = _ProfileRecorder(options, folder)
        stack.callback(recorder.release_sessions)
        stack.enter_context(isolated_call(function, copy_arguments(*call), train))
        compiled = compile_isolated(function, recorder.compile_dynamo_graph, dynamic)
        modules = find_modules(function)

        def prepare_call() -> tuple[Any, ...]:
            for module in modules if train else ():
                module.zero_grad(set_to_none=True)
            return compiled, copy_arguments(*call), train, recorder.run_backward

        if not run_call(*prepare_call()) and train:
            notes.append("no result requires gradients: nothing runs backward")
        compiled_count = -1
        for _ in range(_MAX_WARMUP_CALLS - 1):
            time_calls(run_call, 1, prepare_call)
            if compiled_count == (compiled_count := recorder.compiled_count):
                break  # the call compiled nothing
        recorder.measuring = True
        windows = time_calls(run_call, calls, prepare_call)
        recorder.measuring = False
        sessions = recorder.read_sessions()  # turns the profilers off
        plain = time_calls(run_call, calls, prepare_call)
        backward = recorder.add_backward_graph() if train else None
        return Recording(
            windows,
            [end - begin for begin, end in plain],
            list(recorder.graphs),
            sessions,
            recorder.torch_runs,
            recorder.partition_calls,
            recorder.operators,
            recorder.backwards,
            backward,
            tuple(notes),
        )


def _select_options(options: OrtOptions) -> tuple[OrtOptions, list[str]]:
    """Disable tuning, caching and hints; return the options, and notes for the user."""
    notes = []
    if options.tune is not None:
        notes.append("option tune is ignored: give the tuned settings as session_options")
    if options.autotune:
        notes.append("option autotune is ignored: all graphs run in ONNX Runtime")
    if options.torch_regions != "eager":
        notes.append("option torch_regions is ignored: torch runs each operator by itself")
    selected = replace(
        options, tune=None, autotune=False, torch_regions="eager", cache_dir=None, hints=False
    )
    profile_settings(options.session_options, CPU, Path())  # raises before anything is compiled
    return selected, notes


@dataclass(frozen=True)
class _Part:
    """What one session runs: a graph or a partition of it, the runner, and the session's files.

    `graph` is the index of the graph record, `base` the path prefix of the files.
    """

    graph: int
    run: OrtBackend
    base: Path


class _ProfileRecorder:
    """The torch.compile backend of one profile, which records the compiled graphs."""

    def __init__(self, options: OrtOptions, folder: Path) -> None:
        self._graph_storage: dict[str, Any] = {}  # receives the records of compiled graphs
        self._options, self._folder = replace(options, storage=self._graph_storage), folder
        self._user_storage = options.storage
        self._numbers = itertools.count()
        self._functions: list[Callable[..., Any]] = []
        self._parts: list[_Part] = []
        self.graphs: list[GraphRecord] = []
        self.torch_runs: list[tuple[int, Window]] = []
        self.partition_calls: list[tuple[int, Window]] = []
        self.operators: list[tuple[str, int, int]] = []
        self.backwards: list[Window] = []
        self.measuring = False  # if true, the operators that torch runs are timed
        self._clock: OperatorClock | None = None
        self._torch_graphs: list[int] = []  # indices of graphs that torch runs entirely

    @property
    def compiled_count(self) -> int:
        """The number of compiled functions, graphs and sessions."""
        return len(self._functions) + len(self.graphs) + len(self._list_sessions())

    def compile_dynamo_graph(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> Any:
        """Compile one graph of dynamo."""
        index, part_count = len(self._functions), len(self._parts)
        self._functions.append(graph_module)  # reserves the index; `compiled` replaces the graph

        def compile_graph(graph: GraphModule, options: OrtOptions, runner: Any) -> Any:
            return self._compile_aot_graph(index + 1, graph, options)

        origin = current_origin()
        compiled = compile_with_autograd(
            graph_module, example_inputs, self._options, compile_graph=compile_graph
        )
        self._pop_placements()
        if len(self._parts) == part_count:  # torch runs the whole graph
            self._torch_graphs.append(self._torch_graph_index(index + 1, origin))
            compiled = _with_timing(
                self._with_clock(compiled), self._torch_graphs[-1], self.torch_runs
            )
        self._functions[index] = compiled
        # torch keeps the returned function, which must not keep the sessions alive
        return lambda *args: self._functions[index](*args)

    def run_backward(self, results: Sequence[Any], gradients: Sequence[Any]) -> None:
        """Run autograd's backward, and record begin and end."""
        backward = (
            self._with_clock(torch.autograd.backward)
            if self._torch_graphs
            else torch.autograd.backward
        )
        begin = time.time_ns()
        backward(results, gradients)
        self.backwards.append((begin, time.time_ns()))

    def add_backward_graph(self) -> int | None:
        """Add a record for the backward of the graphs that torch runs entirely; return its index.

        Return None if torch runs no graph entirely.
        """
        if not self._torch_graphs:
            return None
        first_graph = self.graphs[self._torch_graphs[0]]
        record = GraphRecord(first_graph.number, "backward", first_graph.where)
        if len(self._torch_graphs) > 1:
            record = GraphRecord(0, "backward", "all graphs that torch runs")
        self.graphs.append(record)
        return len(self.graphs) - 1

    def release_sessions(self) -> None:
        """Release all sessions."""
        self._functions.clear()
        self._parts.clear()

    def read_sessions(self) -> list[SessionRecord]:
        """Turn the profilers of all sessions off, and read the profiles."""
        records = []
        for part, session in self._list_sessions():
            # option `weights` replaces the converted model
            model = part.run.weights.get("onnx") or part.run.compiled.model
            records.append(read_session(session, part.graph, model, part.base))
        return records

    def _list_sessions(self) -> list[tuple[_Part, Any]]:
        """Return each session once, after its part; a runner's session may have frozen weights."""
        sessions: dict[int, tuple[_Part, Any]] = {}
        for part in self._parts:
            frozen_sessions = [frozen.session for frozen in part.run.held]
            for session in (part.run.session, *frozen_sessions):
                if session is not None:
                    sessions.setdefault(id(session), (part, session))
        return list(sessions.values())

    def _with_clock(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function so that, in measured calls, the operators that torch runs are timed.

        The operators of a wrapped function inside another wrapped function are timed once.
        """

        def run(*args: Any) -> Any:
            if not self.measuring or self._clock is not None:
                return function(*args)
            self._clock = OperatorClock(self.operators)
            try:
                with self._clock:
                    return function(*args)
            finally:
                self._clock = None

        return run

    def _pop_placements(self) -> list[Placement]:
        """Return the operator calls that torch runs, of the graph that was compiled last.

        The records of the graph move to the user's storage.
        """
        records = self._graph_storage.pop("instance", ())
        if self._user_storage is not None and records:
            self._user_storage.setdefault("instance", []).extend(records)
        placements = records[0].placement if records else ()
        return [placement for placement in placements if placement.where == "torch"]

    def _torch_graph_index(self, number: int, origin: Origin | None) -> int:
        """Return the index of the record of a graph that torch runs entirely; add it if missing."""
        for index, graph in enumerate(self.graphs):
            if graph.number == number:
                return index
        self.graphs.append(GraphRecord(number, "torch", _format_origin(origin)))
        return len(self.graphs) - 1

    def _compile_aot_graph(self, number: int, graph: GraphModule, options: OrtOptions) -> Any:
        index = len(self.graphs)
        self.graphs.append(
            GraphRecord(number, AotGraph(graph).kind, _format_origin(current_origin()))
        )

        def make_runner(compiled: CompiledGraph, options: OrtOptions) -> Any:
            return self._make_runner(index, compiled, options)

        paths = {node.name: module_path(node)[0] for node in graph.graph.nodes}
        compiled_graph = compile_aot_graph(graph, options, make_runner)
        calls = tuple(
            TorchCall(placement.operator, paths.get(placement.node, ""), placement.line)
            for placement in self._pop_placements()
        )
        self.graphs[index] = replace(self.graphs[index], torch=calls)
        if not isinstance(compiled_graph, PartitionedGraph):
            return compiled_graph
        timed = _with_timing(self._with_clock(compiled_graph), index, self.torch_runs)
        return PartitionedGraph(timed, compiled_graph.partitions, compiled_graph.text)

    def _make_runner(self, graph: int, compiled: CompiledGraph, options: OrtOptions) -> Any:
        base = self._folder / f"{next(self._numbers)}"
        settings = profile_settings(options.session_options, options.providers or (), base)
        runner = run_with_onnxruntime(compiled, replace(options, session_options=settings))
        self._parts.append(_Part(graph, runner, base))
        return (
            _with_timing(runner, graph, self.partition_calls) if compiled.is_partition else runner
        )


def _with_timing(
    function: Callable[..., Any], graph: int, windows: list[tuple[int, Window]]
) -> Callable[..., Any]:
    """Wrap a function to append the graph index and the window of each run to `windows`.

    A run in which a function that it calls appends a window is that window, and appends none.
    """

    def run(*args: Any) -> Any:
        count = len(windows)
        begin = time.time_ns()
        try:
            return function(*args)
        finally:
            if len(windows) == count:
                windows.append((graph, (begin, time.time_ns())))

    return run


def _format_origin(origin: Origin | None) -> str:
    return "a function of torch" if origin is None else str(origin)
