"""The way from a graph of dynamo to what torch calls in its place, as lists of steps in the order
in which they run, and the one function that runs them. Each feature is in a file of its own, and
its rows here are all that calls it. Steps run while a graph is compiled, never in its calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from ortable.backend.autotune.graphs import pinned, tune_whole
from ortable.backend.execute.runner import is_one_of_several_processes
from ortable.backend.lower.argument_marks import (
    argument_names,
    find_untracked_writes,
    mark_argument_names,
    mark_argument_strides,
    mark_untracked_writes,
    warn_of_constants,
)
from ortable.backend.partition.absorb_small import is_cut_off, mark_cut_off
from ortable.compat.providers import check_providers

from . import decompositions, forward_only, keep, recurrent, search, skip_aot_wrapper, torch_cache
from .compilation import Compilation, Compiled
from .events import tell_recompiled
from .saved_values import partition
from .whole_operators import keep_whole

_TORCH = "option autotune is 'torch'"
_RECURRENT = "torch's kernels train recurrent networks faster, and drop between their layers"
_PEFT = "layers of PEFT write their weights without a trace"
_NAMES = "models, errors and profiles name parameters"
_FRAGMENT = "a graph break cuts it off: a small one is left to torch where it trains"
_FILE = "torch writes it into a file"


def _always(_: Compilation) -> bool:
    return True


@dataclass(frozen=True)
class Step:
    """One step: `run` does it where `when` says so, and `why` says to people what for.

    `ortable.explain` tells of a step that has a condition, and of one around the callable where it
    changed that.
    """

    name: str
    why: str
    run: Callable[..., Any]
    when: Callable[[Compilation], bool] = _always


def _check_providers(compilation: Compilation) -> None:
    if compilation.is_native:
        check_providers(compilation.options.providers)


def _note_untracked_writes(compilation: Compilation) -> None:
    compilation.written = find_untracked_writes(compilation.graph_module)
    if compilation.written and compilation.options.freeze in ("on", "trust"):
        warn_of_constants()


def _note_break(compilation: Compilation) -> None:
    alone = compilation.is_native and not is_one_of_several_processes()
    compilation.cut_off = alone and is_cut_off(compilation.graph_module)


def _compile(compilation: Compilation, graph_module: GraphModule, _: Sequence[Any]) -> None:
    made = compilation.compile_graph(graph_module, compilation.options, compilation.runner)
    compilation.made.append(made)


# `run(compilation)`. What it returns, but for None, is called in place of the graph at once.
BEFORE = (
    Step("search", "a fault is searched: no caches, no timings", search.restrict, search.is_on),
    Step("providers", "what ONNX Runtime lacks is an error at once", _check_providers),
    Step(
        "decompositions", "the user has a table", decompositions.note,
        lambda c: decompositions.users_table(c.options) is not None,
    ),
    Step("files", _FILE, keep.check, keep.is_asked),
    Step("recompilation", "the log tells of it", lambda c: tell_recompiled()),
    Step(
        "autotune", _TORCH,
        lambda c: pinned(c.graph_module), lambda c: c.options.autotune == "torch",
    ),
    Step("recurrent networks", _RECURRENT, recurrent.train_in_eager, recurrent.is_trained),
    Step(
        "lost dropout", "AOTAutograd would lose it between recurrent layers",
        recurrent.refuse_lost_dropout, recurrent.drops,
    ),
    Step("untracked writes", _PEFT, _note_untracked_writes),
    Step(
        "argument names", _NAMES, lambda c: setattr(c, "names", argument_names(c.graph_module))
    ),
    Step("graph breaks", _FRAGMENT, _note_break),
)  # fmt: skip
# `run(compilation)`: a context in which AOTAutograd traces.
TRACING = (
    Step("torch's cache", "later processes do not trace", torch_cache.cached, torch_cache.is_used),
    Step("whole operators", "one node costs less than many", lambda c: keep_whole()),
)
# `run(compilation, graph, arguments)`, for each graph that AOTAutograd makes.
GRAPH = (
    Step(
        "strides", "what a forward saves may lie otherwise than it was traced",
        lambda c, graph, args: mark_argument_strides(graph, args),
    ),
    Step(
        "untracked writes", _PEFT,
        lambda c, graph, _: mark_untracked_writes(graph, c.written),
        lambda c: bool(c.written) and c.options.freeze == "auto",
    ),
    Step("argument names", _NAMES, lambda c, graph, _: mark_argument_names(graph, c.names)),
    Step(
        "graph breaks", _FRAGMENT, lambda c, graph, _: mark_cut_off(graph), lambda c: c.cut_off
    ),
    Step("compilation", "it is placed, partitioned, converted, given to a session", _compile),
    Step("no wrapper", "AOTAutograd may do nothing in a call", skip_aot_wrapper.note),
    Step("forward only", "perhaps no backward comes", forward_only.note),
)  # fmt: skip
# `run(compilation, call)`: what is called in place of `call`, or the same.
AROUND = (
    Step("no wrapper", "AOTAutograd does nothing in a call", skip_aot_wrapper.without_wrapper),
    Step("files", _FILE, keep.keep_for_processes, lambda c: c.kept is not None),
    Step("arguments", "they are given one by one", skip_aot_wrapper.unboxed, keep.stays),
    Step("torch", "nothing in it is worth a session", forward_only.left_to_torch, keep.stays),
    Step("forward only", "calls show whether a backward comes", forward_only.watched, keep.stays),
    Step(
        "autotune", "calls show whether ONNX Runtime or torch is faster",
        lambda c, call: tune_whole(call, c.graph_module, c.args, c.made, c.options), keep.stays,
    ),
)  # fmt: skip


def compile_in_steps(compilation: Compilation) -> Compiled:
    """Run the steps for a graph of dynamo, and return what torch calls in its place."""
    for step in _chosen(BEFORE, compilation):
        call = step.run(compilation)
        if call is not None:
            return call  # type: ignore[no-any-return]
    with ExitStack() as stack:
        for step in _chosen(TRACING, compilation):
            stack.enter_context(step.run(compilation))
        call = compilation.wrapped = _trace(compilation)
    for step in AROUND:
        before, call = call, step.run(compilation, call) if step.when(compilation) else call
        if call is not before:
            compilation.ran[step.name] = step.why
    compilation.let_go()
    return call


def _chosen(steps: Sequence[Step], compilation: Compilation) -> Iterator[Step]:
    for step in steps:
        if step.when(compilation):
            if step.when is not _always:
                compilation.ran[step.name] = step.why
            yield step


def _trace(compilation: Compilation) -> Compiled:
    """Have AOTAutograd make forward, backward or inference graphs, and compile each."""
    from ortable.compat.torch import aot_autograd

    def compile_it(graph_module: GraphModule, arguments: Sequence[Any]) -> Compiled:
        for step in _chosen(GRAPH, compilation):
            step.run(compilation, graph_module, arguments)
        return compilation.made[-1]

    traced: Compiled = aot_autograd(
        fw_compiler=compilation.compiler(compile_it),
        bw_compiler=compilation.compiler(compile_it),
        inference_compiler=compilation.compiler(compile_it),
        partition_fn=partition,
        decompositions=decompositions.table_of(compilation),
        keep_inference_input_mutations=True,  # what a graph writes into, its call writes into
    )(compilation.graph_module, compilation.args)
    return traced
