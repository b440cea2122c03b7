"""`explain`: what `torch.compile(model, backend="ortable")` makes of one call. In come a model and
the arguments of a call, out comes an Explanation; called by users and by the shell.

The call is compiled apart from what the user has compiled, and run once, on copies of the
arguments, because dynamo finds the graphs behind a break only by running what comes before. With
option autotune it runs until it is decided what runs each graph."""

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
from ortable.backend.autotune.graphs import TunedGraph
from ortable.backend.autotune.tuned import Tuned
from ortable.backend.execute.runner import run_with_onnxruntime
from ortable.backend.options import OrtOptions
from ortable.backend.roles import CompiledGraph, Placement
from ortable.compat.providers import check_providers
from ortable.compat.torch_explain import (
    breaks_collected,
    compiled_apart,
    innermost,
)

from .explain_records import (
    Explanation,
    Fusion,
    GraphBreak,
    GraphExplanation,
    TorchOperator,
    fusions_of,
)
from .explain_state import call_apart, copied_arguments, modules_of, run_call

_EXPLANATION = re.compile(r"Explanation:\s*(?P<why>.*?)(?=\n\s*(?:Hint:|Developer debug)|\Z)", re.S)
_HINT = re.compile(r"Hint:\s*(?P<hint>.*?)(?=\n\s*(?:Hint:|Developer debug)|\n\n|\Z)", re.S)
_MEASURED = 5.0  # seconds of calls, with option autotune
_NO_HINT = "Please report an issue"
_JUMP = "a branch on the value of a tensor: Python must know it to go on"


def explain(
    model: Any,
    /,
    *args: Any,
    options: Mapping[str, Any] | None = None,
    train: bool = False,
    dynamic: bool | None = None,
    **kwargs: Any,
) -> Explanation:
    """Tells what ortable makes of `model(*args, **kwargs)`: graphs and why they break, operators,
    ONNX nodes, what ONNX Runtime fuses, what torch runs, frozen weights, seconds.

    The call runs once, compiled, on copies of the arguments.  The model keeps its buffers,
    gradients and attributes, what is compiled of it stays compiled, and random numbers go on
    where they were; what a forward writes elsewhere, into its parameters or into globals, stays
    written. An operator that cannot be converted is told in place of an error.

    Args:
        model: a module or a function, compiled or not, in the mode it is in.
        args: positional arguments of the call.
        options: those of `torch.compile(..., backend="ortable", options=options)`.
        train: with gradients: forward graphs and backward graphs.
        dynamic: as `torch.compile` has it.
        kwargs: keyword arguments of the call.

    Raises:
        OptionError: an unknown option, or a wrong value.
        ProviderError: a provider is missing, or ONNX Runtime refuses a model.
    """
    # hints are notes here, and what cannot be converted is a row
    chosen = replace(OrtOptions.from_mapping(options), hints=False, fallback="eager")
    check_providers(chosen.providers)
    function = innermost(model)
    call = copied_arguments(args, kwargs)
    with ExitStack() as stack:
        watch = _Watch(chosen, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.callback(watch.forget)
        stack.enter_context(call_apart(function, call, train))
        compiled = compiled_apart(function, watch.backend, dynamic)
        with breaks_collected() as breaks:
            notes = _run(compiled, call, train)
            if chosen.autotune is True:
                _measure(compiled, (args, kwargs), train, watch.tuned)
        graphs = watch.explained()
        notes += [f"autotune: {each}" for each in watch.tuned]
    notes += _notes(function, train, graphs)
    return Explanation(watch.graph_count, graphs, _breaks(breaks), tuple(notes))


def _run(compiled: Callable[..., Any], call: tuple[Any, Any], train: bool) -> list[str]:
    """One call, and what to say of it."""
    if run_call(compiled, call, train) or not train:
        return []
    return ["no result requires gradients: nothing runs backward"]


def _measure(
    compiled: Callable[..., Any], given: tuple[Any, Any], train: bool, tuned: Sequence[Tuned]
) -> None:
    """More calls, each on copies of its own, until it is decided what runs each graph."""
    end = time.monotonic() + _MEASURED
    while any(each.is_open for each in tuned) and time.monotonic() < end:
        _run(compiled, copied_arguments(*given), train)


def _notes(function: Any, train: bool, graphs: Sequence[GraphExplanation]) -> list[str]:
    notes = []
    training = any(module.training for module in modules_of(function))
    if training and not train:
        notes.append("the model is in training mode: model.eval() comes before inference")
    if train and not training and modules_of(function):
        notes.append("the model is in evaluation mode: model.train() comes before training")
    if not graphs:
        notes.append("dynamo found nothing to compile (TORCH_LOGS=dynamo tells more)")
    return notes


@dataclass(frozen=True)
class _Compiled:
    """A graph of AOTAutograd that was compiled: where it came from, its records, what runs it, and
    the steps of its compilation, which are noted until that ends."""

    number: int
    origin: Origin | None
    kind: str
    records: Sequence[CompileRecord]
    callables: Sequence[Any]
    steps: Mapping[str, str]


class _Watch:
    """The backend of one explanation, and what it saw."""

    def __init__(self, options: OrtOptions, folder: Path) -> None:
        self.tuned: list[Tuned] = []
        self._whole: dict[str, Any] = {"autotune": self.tuned}  # takes records of whole graphs
        self._storage = options.storage
        self._options = replace(options, storage=self._whole)
        self._folder = folder
        self._files: dict[int, Path] = {}
        self._numbers = itertools.count()
        self._graphs: list[_Compiled] = []
        self._functions: list[Callable[..., Any]] = []
        self.graph_count = 0

    def backend(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> Any:
        """What torch.compile calls for each graph of dynamo."""
        self.graph_count += 1
        number = self.graph_count

        def compile_graph(graph: GraphModule, options: OrtOptions, runner: Any) -> Any:
            return self._compile(number, graph, options, runner, compilation.ran)

        compilation = Compilation(
            graph_module, example_inputs, self._options, self._runner, compile_graph
        )
        made = compile_in_steps(compilation)
        for record in self._whole.pop("instance", ()):  # left to torch before AOTAutograd saw it
            origin = current_origin()
            self._keep(_Compiled(number, origin, record.kind, [record], (), compilation.ran))
        index = len(self._functions)
        self._functions.append(made)
        # torch keeps what it is given: not the sessions
        return lambda *args: self._functions[index](*args)

    def forget(self) -> None:
        """Lets all sessions go."""
        self._functions.clear()
        self._graphs.clear()

    def _compile(
        self,
        number: int,
        graph: GraphModule,
        options: OrtOptions,
        runner: Any,
        steps: Mapping[str, str],
    ) -> Any:
        """Compiles a graph, and keeps its records."""
        storage: dict[str, Any] = {"autotune": self.tuned}
        made = compile_aot_graph(graph, replace(options, storage=storage), runner)
        if (error := getattr(made, "error", None)) is not None:
            raise error
        records: list[CompileRecord] = storage["instance"]
        callables = [
            each.tuned.ours if isinstance(each, TunedGraph) else each
            for each in getattr(made, "partitions", (made,))
        ]
        kind = records[0].kind
        self._keep(_Compiled(number, current_origin(), kind, records, callables, steps))
        return made

    def _keep(self, graph: _Compiled) -> None:
        self._graphs.append(graph)
        if self._storage is not None:
            self._storage.setdefault("instance", []).extend(graph.records)

    def _runner(self, compiled: CompiledGraph, options: OrtOptions) -> Any:
        """What runs a graph, with a session that writes what it optimized."""
        settings = options.session_options
        path = self._folder / f"{next(self._numbers)}.onnx"
        if settings is None or isinstance(settings, Mapping):
            more = {
                "optimized_model_filepath": str(path),
                "session.optimized_model_external_initializers_file_name": f"{path.stem}.data",
                "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
            }
            options = replace(options, session_options={**more, **(settings or {})})
        made = run_with_onnxruntime(compiled, options)
        self._files[id(made)] = path
        return made

    def explained(self) -> tuple[GraphExplanation, ...]:
        """All graphs, in the order of dynamo's, while the folder is there."""
        order = sorted(self._graphs, key=lambda each: (each.number, each.kind == "backward"))
        return tuple(map(self._explained, order))

    def _explained(self, graph: _Compiled) -> GraphExplanation:
        models = [record.onnx for record in graph.records if record.onnx is not None]
        optimized = self._optimized(graph, models)
        held = [frozen for run in graph.callables for frozen in getattr(run, "held", ())]
        weights = {id(w): w for frozen in held for w in frozen.tensors}
        told = [r.frozen for r in graph.records if isinstance(r.frozen, str)]
        seconds: Counter[str] = Counter()
        for record in graph.records:
            seconds.update(record.timings)
        seconds.update({"session": sum(frozen.cost for frozen in held)} if held else {})
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
            operators=Counter(each.operator for each in placement),
            cases={node: case for record in graph.records for node, case in record.cases.items()},
            nodes=sum((_counted(model) for model in models), Counter()),
            session_nodes=None if optimized is None else optimized[0],
            fusions=() if optimized is None else tuple(optimized[1]),
            removed={} if optimized is None else optimized[2],
            torch=_in_torch(placement),
            providers=tuple(dict.fromkeys(p for r in graph.records for p in r.providers)),
            frozen=len(weights),
            frozen_bytes=sum(weight.nbytes for weight in weights.values()),
            not_frozen="" if weights or not told else told[0],
            cache=tuple(record.cache for record in graph.records if record.onnx is not None),
            seconds=seconds,
            rewrites=rewrites,
            refused=refused,
            steps=dict(graph.steps),
            onnx=tuple(models),
        )

    def _optimized(
        self, graph: _Compiled, models: Sequence[Any]
    ) -> tuple[Counter[str], list[Fusion], Counter[str]] | None:
        """Operators of the nodes that run, what became of what, and what is gone; None where a
        session wrote nothing: it has no node, or settings that are not ours."""
        nodes: Counter[str] = Counter()
        fusions: list[Fusion] = []
        gone: Counter[str] = Counter()
        for run, model in zip(graph.callables, models, strict=True):
            path = self._files.get(id(run))
            if not model.graph.node:
                continue
            if path is None or not path.exists():
                return None
            after = onnx.load(str(path), load_external_data=False)
            nodes += _counted(after)
            more, removed = fusions_of(model, after)
            fusions += more
            gone += removed
        return nodes, fusions, gone


def _counted(model: Any) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def _in_torch(placement: Sequence[Placement]) -> tuple[TorchOperator, ...]:
    """What torch runs, calls with the same reason together."""
    groups: dict[tuple[str, str, bool, str], list[str]] = {}
    for each in placement:
        if each.where == "torch":
            key = each.operator, each.why, each.by == "fallback", each.draft
            groups.setdefault(key, []).append(each.line)
    return tuple(
        TorchOperator(name, len(lines), why, tuple(dict.fromkeys(filter(None, lines))), by, draft)
        for (name, why, by, draft), lines in groups.items()
    )


def _breaks(found: Sequence[tuple[str, Sequence[Any]]]) -> tuple[GraphBreak, ...]:
    """Graph breaks in words; the same one several times is one."""
    counts: Counter[GraphBreak] = Counter(_break(reason, frames) for reason, frames in found)
    return tuple(replace(each, times=times) for each, times in counts.items())


def _break(reason: str, frames: Sequence[Any]) -> GraphBreak:
    what, *_ = reason.strip().splitlines() or ["unknown"]
    if what.startswith("generic_jump"):
        what = _JUMP
    why = _EXPLANATION.search(reason)
    hints = (" ".join(match["hint"].split()) for match in _HINT.finditer(reason))
    own = [f for f in frames if not f.filename.startswith(str(Path(torch.__file__).parent))]
    place = (own or list(frames) or [None])[-1]
    return GraphBreak(
        what=what.strip(),
        why=" ".join(why["why"].split()) if why else "",
        hints=tuple(hint for hint in hints if not hint.startswith(_NO_HINT)),
        function=place.name if place is not None else "",
        file=place.filename if place is not None else "",
        line=(place.lineno or 0) if place is not None else 0,
        code=(place.line or "").strip() if place is not None else "",
    )
