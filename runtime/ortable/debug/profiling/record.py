"""Calls of a compiled model with the profiler of ONNX Runtime on. In come a function, its arguments
and the backend's options, out comes a Recording: when each call began and ended, and what every
session wrote down. Called by `call`.

The sessions are made for the profile, apart from what the user has compiled, and end with it."""

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
from ortable.compat.torch_explain import OperatorClock, compiled_apart
from ortable.debug.explain_state import call_apart, copied_arguments, modules_of, run_call
from ortable.errors import OptionError, ProviderError
from ortable.interpreter.diagnostics.origin import module_path

Window = tuple[int, int]  # begin and end, in nanoseconds of time.time_ns
_MOST_EVENTS = 1_000_000  # what the profiler of ONNX Runtime keeps of a session
_MOST_WARM = 6  # calls before the first that counts
_WRITE_WHAT_THEY_OPTIMIZE = {CPU, CUDA}


@dataclass(frozen=True)
class TorchCall:
    """A call of an operator that torch runs: its module's path, and the line of the model."""

    operator: str
    module: str
    line: str


@dataclass(frozen=True)
class GraphRecord:
    """A graph that was compiled: the `number`-th of dynamo's, its kind, the frame it is of, and the
    calls of operators that torch runs, in the order of the graph."""

    number: int
    kind: str
    where: str
    torch: tuple[TorchCall, ...] = ()


@dataclass(frozen=True)
class SessionRecord:
    """What a session of a graph wrote: its events, whose times are microseconds after `start`,
    nanoseconds of the system's clock; the model it was made of, and the model that it made of it
    (None where it wrote none)."""

    graph: int
    start: int
    events: Sequence[Mapping[str, Any]]
    model: onnx.ModelProto
    optimized: onnx.ModelProto | None


@dataclass(frozen=True)
class Recording:
    """Calls with the profiler on, `plain` ones after it was turned off, in nanoseconds; in `torch`
    when a graph ran that torch runs a part of, in `parts` when one of its partitions was called,
    with the place of the graph in `graphs`; in `operators` what torch ran then, and when; in
    `backward` when autograd ran backward, of which `backward_graph` is what torch ran itself."""

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


def profile_settings(given: Any, providers: Sequence[Any], base: Path) -> dict[str, Any]:
    """Settings of a session that writes a profile, and the model that it optimized."""
    if given is not None and not isinstance(given, Mapping):
        raise OptionError(
            "session_options is an onnxruntime.SessionOptions, and the profile needs a session "
            "with settings of its own. Give a dict of settings."
        )
    settings = {**(given or {}), "enable_profiling": True, "profile_file_prefix": str(base)}
    if set(provider_names(providers)) <= _WRITE_WHAT_THEY_OPTIMIZE:
        settings |= {
            "optimized_model_filepath": str(base.with_suffix(".onnx")),
            "session.optimized_model_external_initializers_file_name": f"{base.name}.data",
            "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
        }
    return settings


def read_session(session: Any, graph: int, model: onnx.ModelProto, base: Path) -> SessionRecord:
    """Turns the profiler of a session off, and reads what it wrote."""
    start = int(session.get_profiling_start_time_ns())
    written = Path(session.end_profiling())
    events = json.loads(written.read_text(encoding="utf-8"))
    written.unlink()
    if len(events) >= _MOST_EVENTS:
        raise ProviderError(
            f"ONNX Runtime's profile of one session has room for {_MOST_EVENTS} events, and it is "
            "full: some kernels are missing. Profile fewer calls (calls=1), or a smaller input."
        )
    path = base.with_suffix(".onnx")
    optimized = onnx.load(str(path), load_external_data=False) if path.exists() else None
    return SessionRecord(graph, start, events, model, optimized)


def timed_calls(
    call: Callable[..., Any], count: int, prepare: Callable[[], tuple[Any, ...]] = tuple
) -> list[Window]:
    """When calls of a function begin and end."""
    found = []
    for _ in range(count):
        given = prepare()
        begin = time.time_ns()
        call(*given)
        found.append((begin, time.time_ns()))
    return found


def record_call(
    function: Any,
    call: tuple[Any, Any],
    options: OrtOptions,
    *,
    train: bool,
    dynamic: bool | None,
    calls: int,
) -> Recording:
    """Compiles a function apart from what is compiled of it elsewhere, calls it, and reads the
    profiles of its sessions. The function's modules are afterwards as they were.
    """
    options, notes = _profiled_options(options)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        watch = _Watch(options, folder)
        stack.callback(watch.forget)
        stack.enter_context(call_apart(function, copied_arguments(*call), train))
        compiled = compiled_apart(function, watch.backend, dynamic)
        modules = modules_of(function)

        def prepare() -> tuple[Any, ...]:
            for module in modules if train else ():
                module.zero_grad(set_to_none=True)
            return compiled, copied_arguments(*call), train, watch.backward_of

        if not run_call(*prepare()) and train:
            notes.append("no result requires gradients: nothing runs backward")
        seen = -1
        for _ in range(_MOST_WARM - 1):
            timed_calls(run_call, 1, prepare)
            if seen == (seen := watch.made):
                break
        watch.measuring = True
        windows = timed_calls(run_call, calls, prepare)
        watch.measuring = False
        sessions = watch.read()
        plain = timed_calls(run_call, calls, prepare)
        backward = watch.backward_graph() if train else None
        return Recording(
            windows,
            [end - begin for begin, end in plain],
            list(watch.graphs),
            sessions,
            watch.spans,
            watch.calls,
            watch.operators,
            watch.backwards,
            backward,
            tuple(notes),
        )


def _profiled_options(options: OrtOptions) -> tuple[OrtOptions, list[str]]:
    """The options without what times graphs itself or finds compiled ones, and what that means."""
    notes = []
    if options.tune is not None:
        notes.append("option tune is left out: give the settings that it found as session_options")
    if options.autotune:
        notes.append("option autotune is left out: what ONNX Runtime runs is profiled")
    chosen = replace(options, tune=None, autotune=False, cache_dir=None, hints=False)
    profile_settings(options.session_options, CPU, Path())  # refused before anything is compiled
    return chosen, notes


@dataclass(frozen=True)
class _Part:
    """A graph, or a partition of one, and what runs it."""

    graph: int
    run: OrtBackend
    base: Path


class _Watch:
    """The backend of one profile, and what it made."""

    def __init__(self, options: OrtOptions, folder: Path) -> None:
        self._told: dict[str, Any] = {}  # takes the records of graphs
        self._options, self._folder = replace(options, storage=self._told), folder
        self._storage = options.storage
        self._numbers = itertools.count()
        self._functions: list[Callable[..., Any]] = []
        self._parts: list[_Part] = []
        self.graphs: list[GraphRecord] = []
        self.spans: list[tuple[int, Window]] = []
        self.calls: list[tuple[int, Window]] = []
        self.operators: list[tuple[str, int, int]] = []
        self.backwards: list[Window] = []
        self.measuring = (
            False  # in these calls nothing is compiled, and torch's operators are timed
        )
        self._clock: OperatorClock | None = None
        self._whole: list[int] = []  # graphs that torch runs, and their backward

    @property
    def made(self) -> int:
        """How much was compiled, sessions too."""
        return len(self._functions) + len(self.graphs) + len(self._sessions())

    def backend(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> Any:
        """What torch.compile calls for each graph of dynamo."""
        index, before = len(self._functions), len(self._parts)
        self._functions.append(graph_module)  # its place: backward graphs are compiled later

        def compile_graph(graph: GraphModule, options: OrtOptions, runner: Any) -> Any:
            return self._compile(index + 1, graph, options)

        origin = current_origin()
        made = compile_with_autograd(
            graph_module, example_inputs, self._options, compile_graph=compile_graph
        )
        self._placements()
        if len(self._parts) == before:  # torch runs all of it
            self._whole.append(self._in_torch(index + 1, origin))
            made = _timed(self._clocked(made), self._whole[-1], self.spans)
        self._functions[index] = made
        # torch keeps what it is given: not the sessions
        return lambda *args: self._functions[index](*args)

    def backward_of(self, results: Sequence[Any], gradients: Sequence[Any]) -> None:
        """What runs autograd, and notes when."""
        run = self._clocked(torch.autograd.backward) if self._whole else torch.autograd.backward
        begin = time.time_ns()
        run(results, gradients)
        self.backwards.append((begin, time.time_ns()))

    def backward_graph(self) -> int | None:
        """The place of a record for the backward of what torch runs whole; None where there is
        no such graph."""
        if not self._whole:
            return None
        first = self.graphs[self._whole[0]]
        made = GraphRecord(first.number, "backward", first.where)
        if len(self._whole) > 1:
            made = GraphRecord(0, "backward", "all graphs that torch runs")
        self.graphs.append(made)
        return len(self.graphs) - 1

    def forget(self) -> None:
        """Lets all sessions go."""
        self._functions.clear()
        self._parts.clear()

    def read(self) -> list[SessionRecord]:
        """What the sessions wrote; their profilers are off afterwards."""
        found = []
        for part, session in self._sessions():
            model = part.run.weights.get("onnx") or part.run.compiled.model
            found.append(read_session(session, part.graph, model, part.base))
        return found

    def _sessions(self) -> list[tuple[_Part, Any]]:
        """Every session once, with its part."""
        found: dict[int, tuple[_Part, Any]] = {}
        for part in self._parts:
            held = [frozen.session for frozen in part.run.held]
            for session in (part.run.session, *held):
                if session is not None:
                    found.setdefault(id(session), (part, session))
        return list(found.values())

    def _clocked(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, in which torch's operators are timed while calls are measured."""

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

    def _placements(self) -> list[Placement]:
        """The operators that torch runs, of the graph that was compiled last; the user's storage
        gets its records."""
        records = self._told.pop("instance", ())
        if self._storage is not None and records:
            self._storage.setdefault("instance", []).extend(records)
        found = records[0].placement if records else ()
        return [each for each in found if each.where == "torch"]

    def _in_torch(self, number: int, origin: Origin | None) -> int:
        """The place of the record of a graph of which nothing was converted."""
        for index, graph in enumerate(self.graphs):
            if graph.number == number:
                return index
        self.graphs.append(GraphRecord(number, "torch", _place(origin)))
        return len(self.graphs) - 1

    def _compile(self, number: int, graph: GraphModule, options: OrtOptions) -> Any:
        index = len(self.graphs)
        self.graphs.append(GraphRecord(number, AotGraph(graph).kind, _place(current_origin())))

        def runner(compiled: CompiledGraph, options: OrtOptions) -> Any:
            return self._run(index, compiled, options)

        paths = {node.name: module_path(node)[0] for node in graph.graph.nodes}
        made = compile_aot_graph(graph, options, runner)
        calls = tuple(
            TorchCall(each.operator, paths.get(each.node, ""), each.line)
            for each in self._placements()
        )
        self.graphs[index] = replace(self.graphs[index], torch=calls)
        if not isinstance(made, PartitionedGraph):
            return made
        timed = _timed(self._clocked(made), index, self.spans)
        return PartitionedGraph(timed, made.partitions, made.text)

    def _run(self, graph: int, compiled: CompiledGraph, options: OrtOptions) -> Any:
        base = self._folder / f"{next(self._numbers)}"
        settings = profile_settings(options.session_options, options.providers or (), base)
        made = run_with_onnxruntime(compiled, replace(options, session_options=settings))
        self._parts.append(_Part(graph, made, base))
        return _timed(made, graph, self.calls) if compiled.is_partition else made


def _timed(
    function: Callable[..., Any], graph: int, spans: list[tuple[int, Window]]
) -> Callable[..., Any]:
    """The function, which notes when it runs."""

    def run(*args: Any) -> Any:
        begin = time.time_ns()
        try:
            return function(*args)
        finally:
            spans.append((graph, (begin, time.time_ns())))

    return run


def _place(origin: Origin | None) -> str:
    return "a function of torch" if origin is None else str(origin)
