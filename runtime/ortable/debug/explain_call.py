"""Implement `explain`: describe what `torch.compile(model, backend="ortable")` makes of one call.

The compilation is isolated from the user's compilations. The call runs once, on copies of the
arguments: dynamo finds the graph after a graph break only when the graphs before it run. With
option autotune, the call runs until autotuning has chosen a runner for each graph.
"""

from __future__ import annotations

import itertools
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
import torch
from torch.fx import GraphModule

from ortable.backend.aot.build import compile_aot_graph
from ortable.backend.aot.compilation import Compilation
from ortable.backend.aot.events import Origin, current_origin
from ortable.backend.aot.pipeline import compile_in_steps
from ortable.backend.aot.records import CompileRecord
from ortable.backend.autotune.autotuner import Autotuner
from ortable.backend.autotune.graphs import AutotunedGraph
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph, Placement
from ortable.compat.providers import check_providers
from ortable.compat.torch import dynamo_config
from ortable.compat.torch_explain import (
    collect_graph_breaks,
    compile_isolated,
    original_callable,
)

from .explain_records import (
    Explanation,
    Fusion,
    GraphBreak,
    GraphExplanation,
    TorchOperator,
    find_fusions,
)
from .explain_state import copy_arguments, find_modules, isolated_call, run_call

_EXPLANATION_PATTERN = re.compile(
    r"Explanation:\s*(?P<why>.*?)(?=\n\s*(?:Hint:|Developer debug)|\Z)", re.S
)
_HINT_PATTERN = re.compile(r"Hint:\s*(?P<hint>.*?)(?=\n\s*(?:Hint:|Developer debug)|\n\n|\Z)", re.S)
_MAX_TUNING_SECONDS = 5.0  # for repeated calls with option autotune
_IGNORED_HINT = "Please report an issue"
_TENSOR_BRANCH = "a branch on the value of a tensor, which Python needs to continue"


def explain(
    model: Any,
    /,
    *args: Any,
    options: Mapping[str, Any] | None = None,
    train: bool = False,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Explanation:
    """Describe how ortable compiles `model(*args, **kwargs)`.

    The result lists graphs and graph breaks, operators, ONNX nodes, fusions by ONNX Runtime,
    operators that torch runs, frozen weights, and compilation times.

    The call runs once, compiled, on copies of the arguments. Buffers, gradients and attributes of
    the model and the random state are restored, and the user's compiled functions stay valid. Other
    writes of a forward, into its parameters or into globals, are not undone. An operator that
    cannot be converted is reported and raises no error.

    Args:
        model: a module or a function, compiled or not, in its current mode.
        args: positional arguments of the call.
        options: options of `torch.compile(..., backend="ortable", options=options)`.
        train: run with gradients, and describe forward and backward graphs.
        dynamic: the argument `dynamic` of `torch.compile`.
        kwargs: keyword arguments of the call.

    Raises:
        OptionError: an option is unknown or has a wrong value.
        ProviderError: a provider is missing, or ONNX Runtime refuses a model.
    """
    # the result has notes instead of hints, and lists an unsupported operator without an error
    ort_options = replace(OrtOptions.from_mapping(options), hints=False, fallback="eager")
    check_providers(ort_options.providers)
    function = original_callable(model)
    call = copy_arguments(args, kwargs)
    with ExitStack() as stack:
        recorder = _GraphRecorder(
            ort_options, Path(stack.enter_context(tempfile.TemporaryDirectory()))
        )
        stack.callback(recorder.release_sessions)
        stack.enter_context(isolated_call(function, call, train))
        compiled = compile_isolated(function, recorder.compile_dynamo_graph, dynamic)
        with collect_graph_breaks() as breaks:
            notes = _run_once(compiled, call, train)
            if ort_options.autotune is True or ort_options.torch_regions == "auto":
                _run_autotuning(compiled, (args, kwargs), train, recorder.tuned)
        graphs = recorder.explain_graphs()
        notes += [f"autotune: {tuned}" for tuned in recorder.tuned]
    notes += _make_notes(function, train, graphs)
    return Explanation(recorder.graph_count, graphs, _merge_breaks(breaks), tuple(notes))


def _run_once(compiled: Callable[..., Any], call: tuple[Any, Any], train: bool) -> list[str]:
    """Run one call, and return notes about it."""
    if run_call(compiled, call, train) or not train:
        return []
    return ["no result requires gradients: nothing runs backward"]


def _run_autotuning(
    compiled: Callable[..., Any],
    arguments: tuple[Any, Any],
    train: bool,
    tuned: Sequence[Autotuner],
) -> None:
    """Repeat the call on fresh copies until autotuning has chosen a runner for each graph."""
    end = time.monotonic() + _MAX_TUNING_SECONDS
    while any(graph.is_open for graph in tuned) and time.monotonic() < end:
        _run_once(compiled, copy_arguments(*arguments), train)


def _make_notes(function: Any, train: bool, graphs: Sequence[GraphExplanation]) -> list[str]:
    notes = []
    training = any(module.training for module in find_modules(function))
    if training and not train:
        notes.append("the model is in training mode: call model.eval() before inference")
    if train and not training and find_modules(function):
        notes.append("the model is in evaluation mode: call model.train() before training")
    if not graphs:
        notes.append("dynamo found nothing to compile (TORCH_LOGS=dynamo logs the reasons)")
    recurrent = {
        type(module).__name__
        for module in find_modules(function)
        if isinstance(module, torch.nn.RNNBase)
    }
    if recurrent and not dynamo_config.allow_rnn:
        notes.append(
            f"torch.compile skips the forward that calls nn.{' or nn.'.join(sorted(recurrent))}, "
            "unless torch._dynamo.config.allow_rnn = True is set before the first call"
        )
    return notes


@dataclass(frozen=True)
class _CompiledGraph:
    """A compiled AOTAutograd graph; a running compilation may still add to `steps`."""

    number: int
    origin: Origin | None
    kind: str
    records: Sequence[CompileRecord]
    callables: Sequence[Any]
    steps: Mapping[str, str]


class _GraphRecorder:
    """The torch.compile backend of one explanation, which records the graphs."""

    def __init__(self, options: OrtOptions, folder: Path) -> None:
        self.tuned: list[Autotuner] = []
        self._graph_storage: dict[str, Any] = {
            "autotune": self.tuned
        }  # receives the records of graphs that run in torch
        self._storage = options.storage
        self._options = replace(options, storage=self._graph_storage)
        self._folder = folder
        self._files: dict[int, Path] = {}
        self._numbers = itertools.count()
        self._graphs: list[_CompiledGraph] = []
        self._functions: list[Callable[..., Any]] = []
        self.graph_count = 0

    def compile_dynamo_graph(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> Any:
        """Compile one graph of dynamo."""
        self.graph_count += 1
        number = self.graph_count

        def compile_graph(graph: GraphModule, options: OrtOptions, runner: Any) -> Any:
            return self._compile_aot_graph(
                number, graph, options, runner, compilation.applied_steps
            )

        compilation = Compilation(
            graph_module, example_inputs, self._options, self._make_runner, compile_graph
        )
        compiled = compile_in_steps(compilation)
        for record in self._graph_storage.pop(
            "instance", ()
        ):  # records of graphs that were left to torch before AOTAutograd
            origin = current_origin()
            self._add_graph(
                _CompiledGraph(number, origin, record.kind, [record], (), compilation.applied_steps)
            )
        index = len(self._functions)
        self._functions.append(compiled)
        # torch keeps the returned function, which must not keep the sessions alive
        return lambda *args: self._functions[index](*args)

    def release_sessions(self) -> None:
        """Release all sessions."""
        self._functions.clear()
        self._graphs.clear()

    def _compile_aot_graph(
        self,
        number: int,
        graph: GraphModule,
        options: OrtOptions,
        runner: Any,
        steps: Mapping[str, str],
    ) -> Any:
        storage: dict[str, Any] = {"autotune": self.tuned}
        compiled = compile_aot_graph(graph, replace(options, storage=storage), runner)
        if (error := getattr(compiled, "error", None)) is not None:
            raise error
        records: list[CompileRecord] = storage["instance"]
        callables = [
            part.tuned.ort_run if isinstance(part, AutotunedGraph) else part
            for part in getattr(compiled, "partitions", (compiled,))
        ]
        kind = records[0].kind
        self._add_graph(_CompiledGraph(number, current_origin(), kind, records, callables, steps))
        return compiled

    def _add_graph(self, graph: _CompiledGraph) -> None:
        self._graphs.append(graph)
        if self._storage is not None:
            self._storage.setdefault("instance", []).extend(graph.records)

    def _make_runner(self, compiled: CompiledGraph, options: OrtOptions) -> Any:
        """Make the runner of a graph, with a session that writes its optimized model to a file."""
        settings = options.session_options
        path = self._folder / f"{next(self._numbers)}.onnx"
        if settings is None or isinstance(settings, Mapping):
            session_settings = {
                "optimized_model_filepath": str(path),
                "session.optimized_model_external_initializers_file_name": f"{path.stem}.data",
                "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
            }
            options = replace(options, session_options={**session_settings, **(settings or {})})
        runner = run_with_onnxruntime(compiled, options)
        self._files[id(runner)] = path
        return runner

    def explain_graphs(self) -> tuple[GraphExplanation, ...]:
        """Describe all graphs in dynamo's order; the folder of models must still exist."""
        order = sorted(self._graphs, key=lambda graph: (graph.number, graph.kind == "backward"))
        return tuple(map(self._explain_graph, order))

    def _explain_graph(self, graph: _CompiledGraph) -> GraphExplanation:
        models = [record.onnx for record in graph.records if record.onnx is not None]
        optimized = self._read_optimized(graph, models)
        frozen_sets = [frozen for run in graph.callables for frozen in getattr(run, "held", ())]
        weights = {id(w): w for frozen in frozen_sets for w in frozen.tensors}
        freeze_failures = [r.frozen for r in graph.records if isinstance(r.frozen, str)]
        seconds: Counter[str] = Counter()
        for record in graph.records:
            seconds.update(record.timings)
        seconds.update(
            {"session": sum(frozen.cost for frozen in frozen_sets)} if frozen_sets else {}
        )
        placement = graph.records[0].placement
        rewrites: Counter[str] = Counter()
        refused: dict[str, Counter[str]] = {}
        for record in graph.records:
            rewrites.update(record.rewrites)
            for rule, reasons in record.refused.items():
                refused.setdefault(rule, Counter()).update(reasons)
        origin = graph.origin or Origin("", "", 0)
        return GraphExplanation(
            number=graph.number,
            kind=graph.kind,
            function=origin.function,
            file=origin.file,
            line=origin.line,
            operators=Counter(row.operator for row in placement),
            cases={node: case for record in graph.records for node, case in record.cases.items()},
            nodes=sum((_count_operators(model) for model in models), Counter()),
            session_nodes=None if optimized is None else optimized[0],
            fusions=() if optimized is None else tuple(optimized[1]),
            removed={} if optimized is None else optimized[2],
            torch=_group_torch_operators(placement),
            providers=tuple(dict.fromkeys(p for r in graph.records for p in r.providers)),
            cpu_nodes=sum((Counter(record.cpu_nodes) for record in graph.records), Counter()),
            frozen=len(weights),
            frozen_bytes=sum(weight.nbytes for weight in weights.values()),
            not_frozen="" if weights or not freeze_failures else freeze_failures[0],
            cache=tuple(record.cache for record in graph.records if record.onnx is not None),
            seconds=seconds,
            rewrites=rewrites,
            refused=refused,
            steps=dict(graph.steps),
            onnx=tuple(models),
        )

    def _read_optimized(
        self, graph: _CompiledGraph, models: Sequence[Any]
    ) -> tuple[Counter[str], list[Fusion], Counter[str]] | None:
        """Return counts of the nodes that run, the fusions, and counts of removed nodes.

        Return None if a session wrote no optimized model, as with the user's own SessionOptions.
        """
        nodes: Counter[str] = Counter()
        fusions: list[Fusion] = []
        removed_nodes: Counter[str] = Counter()
        for runner, model in zip(graph.callables, models, strict=True):
            path = self._files.get(id(runner))
            if not model.graph.node:
                continue
            if path is None or not path.exists():
                return None
            optimized_model = onnx.load(str(path), load_external_data=False)
            nodes += _count_operators(optimized_model)
            model_fusions, model_removed = find_fusions(model, optimized_model)
            fusions += model_fusions
            removed_nodes += model_removed
        return nodes, fusions, removed_nodes


def _count_operators(model: Any) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def _group_torch_operators(placement: Sequence[Placement]) -> tuple[TorchOperator, ...]:
    """Group the calls that torch runs by operator and reason."""
    groups: dict[tuple[str, str, bool, str], list[str]] = {}
    for row in placement:
        if row.where == "torch":
            key = row.operator, row.why, row.by == "fallback", row.draft
            groups.setdefault(key, []).append(row.line)
    return tuple(
        TorchOperator(name, len(lines), why, tuple(dict.fromkeys(filter(None, lines))), by, draft)
        for (name, why, by, draft), lines in groups.items()
    )


def _merge_breaks(reasons: Sequence[tuple[str, Sequence[Any]]]) -> tuple[GraphBreak, ...]:
    """Convert graph breaks to records, and merge equal records."""
    counts: Counter[GraphBreak] = Counter(
        _parse_break(reason, frames) for reason, frames in reasons
    )
    return tuple(replace(graph_break, times=times) for graph_break, times in counts.items())


def _parse_break(reason: str, frames: Sequence[Any]) -> GraphBreak:
    summary, *_ = reason.strip().splitlines() or ["unknown"]
    if summary.startswith("generic_jump"):
        summary = _TENSOR_BRANCH
    explanation = _EXPLANATION_PATTERN.search(reason)
    hints = (" ".join(match["hint"].split()) for match in _HINT_PATTERN.finditer(reason))
    user_frames = [f for f in frames if not f.filename.startswith(str(Path(torch.__file__).parent))]
    frame = (user_frames or list(frames) or [None])[-1]
    return GraphBreak(
        what=summary.strip(),
        why=" ".join(explanation["why"].split()) if explanation else "",
        hints=tuple(hint for hint in hints if not hint.startswith(_IGNORED_HINT)),
        function=frame.name if frame is not None else "",
        file=frame.filename if frame is not None else "",
        line=(frame.lineno or 0) if frame is not None else 0,
        code=(frame.line or "").strip() if frame is not None else "",
    )
