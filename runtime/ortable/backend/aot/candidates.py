"""Choose what runs a graph of dynamo: the graphs that ortable compiled, eager or inductor.

By default the compiled graphs run, or eager if no operator has a session. Option `torch_regions`
lets inductor compile what torch runs, and option `autotune` measures all of them.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from ortable.backend.autotune.autotuner import Autotuner, SizeSource, StepAutotuner
from ortable.backend.autotune.decisions import Decisions
from ortable.backend.autotune.graphs import (
    AutotunedGraph,
    add_to_storage,
    has_operators_only,
    is_measurable,
    make_eager_callable,
    part_key,
    settle_seconds,
)
from ortable.backend.autotune.inductor import compile_with_inductor
from ortable.backend.autotune.trial import Candidate
from ortable.backend.execute.runner import is_distributed
from ortable.compat.bisector import is_searching
from ortable_generated.aten import traits

from .compilation import Compilation
from .events import graph_label

Run = Callable[..., Any]


def replace_with_torch(compilation: Compilation, run: Run) -> Run:
    """Return eager's or inductor's callable of a graph whose work torch does, otherwise `run`.

    A graph without a session runs in eager, whose backward is eager's, too. Inductor compiles it,
    and a graph whose products torch runs, if option `torch_regions` says so without measuring.
    """
    options, callables = compilation.options, compilation.callables
    if options.raise_on or is_searching("lowerings"):
        return run  # a test of failures or a bisection needs the compiled operators
    if _has_no_session(callables):
        run = make_eager_callable(compilation.graph_module)
    is_chosen = options.torch_regions == "inductor" and not options.autotune
    if is_chosen and _is_work_in_torch(callables) and not is_distributed():
        return compile_with_inductor(compilation.graph_module, compilation.args, options) or run
    return run


def autotune_graph(compilation: Compilation, run: Run) -> Run:
    """Return a callable that measures `run` against torch, or `run` if it is not measured.

    A graph is measured if it trains, or if AOTAutograd makes a single inference graph of it.
    """
    graph_module, args = compilation.graph_module, compilation.args
    callables, options = compilation.callables, compilation.options
    parts = [part.compiled for part in _ort_callables(callables)]
    trains = (
        any(part.kind != "inference" for part in parts) if parts else compilation.is_differentiated
    )
    is_single = len(callables) == 1 and len(parts) in (0, len(list(_flatten_callables(callables))))
    if not (trains or is_single) or not is_measurable(parts) or not _is_on_cpu(args):
        return run
    if not has_operators_only(graph_module):
        return run
    make_others = _make_other_candidates(compilation)
    if not make_others:
        return run
    keys = [part_key(part, options) for part in parts]
    label = graph_label("forward" if trains else "inference")
    tuned = (StepAutotuner if trains else Autotuner)(
        run,
        make_others,
        Decisions([*keys, _graph_digest(graph_module, args, make_others)], options.cache_dir),
        default="torch" if _has_no_session(callables) else "onnxruntime",
        sizes=list(_size_sources(args)),
        inner=lambda: [
            part.tuned for part in _ort_callables(callables) if isinstance(part, AutotunedGraph)
        ],
        settle=settle_seconds(trains),
        label=f"a step of {label}" if trains else label,
    )
    add_to_storage(tuned, options)
    return tuned.make_caller()


def _make_other_candidates(compilation: Compilation) -> dict[Candidate, Callable[[], Run]]:
    """Return functions that make the candidates of a graph next to the compiled callable.

    Option `autotune` measures graphs with sessions, and `torch_regions="auto"` graphs whose work
    torch does.
    """
    options, callables = compilation.options, compilation.callables
    has_session, with_inductor = not _has_no_session(callables), options.torch_regions != "eager"
    is_tuned = options.autotune is True and (has_session or with_inductor)
    if not is_tuned and not (options.torch_regions == "auto" and _is_work_in_torch(callables)):
        return {}
    make_others: dict[Candidate, Callable[[], Run]] = {}
    if has_session:
        make_others["torch"] = functools.partial(make_eager_callable, compilation.graph_module)
    if with_inductor:
        inductor_run = compile_with_inductor(compilation.graph_module, compilation.args, options)
        if inductor_run is not None:
            make_others["inductor"] = lambda: inductor_run
    return make_others


def _has_no_session(callables: Sequence[Any]) -> bool:
    """Whether torch runs all operators of all graphs."""
    return bool(callables) and all(getattr(run, "partitions", None) == () for run in callables)


def _is_work_in_torch(callables: Sequence[Any]) -> bool:
    """Whether graphs have no session, or torch runs all of their products and convolutions."""
    if _has_no_session(callables):
        return True
    if not all(hasattr(run, "partitions") for run in callables):
        return False
    placements = [
        record.where
        for run in callables
        for record in run.placement
        if record.operator in traits.COMPUTE_BOUND
    ]
    return bool(placements) and "onnx" not in placements


def _is_on_cpu(args: Sequence[Any]) -> bool:
    return all(arg.device.type == "cpu" for arg in args if isinstance(arg, torch.Tensor))


def _flatten_callables(callables: Sequence[Any]) -> Iterator[Any]:
    for run in callables:
        yield from getattr(run, "partitions", (run,))


def _ort_callables(callables: Sequence[Any]) -> Iterator[Any]:
    return (run for run in _flatten_callables(callables) if hasattr(run, "compiled"))


def _graph_digest(
    graph_module: GraphModule, args: Sequence[Any], make_others: Mapping[Candidate, Any]
) -> str:
    """Digest the code of a graph, the types and static sizes of its arguments, and its candidates.

    The number of threads counts, too: it is part of the keys of sessions, which a graph in torch
    does not have.
    """
    descriptions = [
        (str(arg.dtype), [size if isinstance(size, int) else None for size in arg.shape])
        if isinstance(arg, torch.Tensor)
        else type(arg).__name__
        for arg in args
    ]
    setting = f"{sorted(make_others)} {torch.get_num_threads()}"
    return hashlib.sha256(f"{graph_module.code} {descriptions} {setting}".encode()).hexdigest()


def _size_sources(args: Sequence[Any]) -> Iterator[SizeSource]:
    """Yield the position of each dynamic size among the arguments, once per size."""
    seen: set[str] = set()

    def is_new(size: Any) -> bool:
        text = str(size.node.expr) if isinstance(size, torch.SymInt) else ""
        is_unseen = bool(text) and text not in seen
        seen.add(text)
        return is_unseen

    for index, arg in enumerate(args):
        if is_new(arg):
            yield index, None
        elif isinstance(arg, torch.Tensor):
            yield from ((index, axis) for axis, size in enumerate(arg.shape) if is_new(size))
