"""Compile a graph of dynamo to a callable: the list of steps, and the function that runs them.

Each feature is implemented in its own file and called only from the tables below. The steps run
while a graph is compiled, never during its calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from torch.fx import GraphModule

from ortable.backend.autotune.graphs import run_entirely_in_torch
from ortable.backend.execute.runner import is_distributed
from ortable.backend.lower.argument_marks import (
    argument_names,
    find_untracked_writes,
    mark_argument_names,
    mark_argument_strides,
    mark_untracked_writes,
    warn_of_frozen_peft_weights,
)
from ortable.backend.partition.absorb_small import (
    is_graph_break_fragment,
    mark_graph_break_fragment,
)
from ortable.compat.providers import check_providers

from . import (
    bisection_switches,
    candidates,
    decompositions,
    forward_only,
    recurrent,
    serialization,
    skip_aot_wrapper,
    torch_cache,
)
from .compilation import Compilation, Compiled
from .events import log_recompile
from .preserved_operators import preserve_operators
from .saved_values import partition_joint

# Reasons of steps in the tables below, if several steps have them or a line is too short for them.
_TORCH = "option autotune is 'torch'"
_RECURRENT = "torch's kernels train recurrent networks faster, with dropout between their layers"
_PEFT = "layers of PEFT write to their weights without a version change"
_NAMES = "models, errors and profiles name parameters"
_FRAGMENT = "a graph break cut off a small graph, which torch runs where it trains"
_FILE = "torch serializes the compiled function"


def _is_always(_: Compilation) -> bool:
    return True


@dataclass(frozen=True)
class CompileStep:
    """One step: `run` applies it if `when` holds; `why` explains it.

    `ortable.explain` reports the applied steps that have a condition, and the steps of `AROUND`
    that changed the callable.
    """

    name: str
    why: str
    run: Callable[..., Any]
    when: Callable[[Compilation], bool] = _is_always


def _check_providers(compilation: Compilation) -> None:
    if compilation.is_native:
        check_providers(compilation.options.providers)


def _note_untracked_writes(compilation: Compilation) -> None:
    compilation.untracked_writes = find_untracked_writes(compilation.graph_module)
    if compilation.untracked_writes and compilation.options.freeze in ("on", "trust"):
        warn_of_frozen_peft_weights()


def _note_graph_break(compilation: Compilation) -> None:
    is_local = compilation.is_native and not is_distributed()
    compilation.is_cut_off_by_graph_break = is_local and is_graph_break_fragment(
        compilation.graph_module
    )


def _compile_graph(compilation: Compilation, graph_module: GraphModule, _: Sequence[Any]) -> None:
    run = compilation.compile_graph(graph_module, compilation.options, compilation.runner)
    compilation.callables.append(run)


# `run(compilation)`. A result other than None is the compiled callable; later steps do not run.
BEFORE = (
    CompileStep(
        "search", "a bisection runs without caches and timings",
        bisection_switches.disable_caches, bisection_switches.is_bisection_running,
    ),
    CompileStep("providers", "a missing execution provider is an error at once", _check_providers),
    CompileStep(
        "decompositions", "the user has a table", decompositions.store_user_decompositions,
        lambda c: decompositions.user_decompositions(c.options) is not None,
    ),
    CompileStep(
        "files", _FILE,
        serialization.decide_serialization, serialization.is_serialization_requested,
    ),
    CompileStep("recompilation", "recompilations are logged", lambda c: log_recompile()),
    CompileStep(
        "autotune", _TORCH,
        lambda c: run_entirely_in_torch(c.graph_module), lambda c: c.options.autotune == "torch",
    ),
    CompileStep(
        "recurrent networks", _RECURRENT,
        recurrent.train_in_eager, recurrent.must_run_in_torch,
    ),
    CompileStep(
        "lost dropout", "AOTAutograd would lose it between recurrent layers",
        recurrent.refuse_lost_dropout, recurrent.has_lost_dropout,
    ),
    CompileStep("untracked writes", _PEFT, _note_untracked_writes),
    CompileStep(
        "argument names", _NAMES, lambda c: setattr(c, "names", argument_names(c.graph_module))
    ),
    CompileStep("graph breaks", _FRAGMENT, _note_graph_break),
)  # fmt: skip
# `run(compilation)` returns a context in which AOTAutograd traces.
TRACING = (
    CompileStep(
        "torch's cache",
        "later processes do not trace",
        torch_cache.use_torch_cache,
        torch_cache.is_used,
    ),
    CompileStep("whole operators", "one node is faster than many", lambda c: preserve_operators()),
)
# `run(compilation, graph, arguments)`, for each graph that AOTAutograd makes.
GRAPH = (
    CompileStep(
        "strides", "saved tensors may have other strides than the traced ones",
        lambda c, graph, args: mark_argument_strides(graph, args),
    ),
    CompileStep(
        "untracked writes", _PEFT,
        lambda c, graph, _: mark_untracked_writes(graph, c.untracked_writes),
        lambda c: bool(c.untracked_writes) and c.options.freeze == "auto",
    ),
    CompileStep("argument names", _NAMES, lambda c, graph, _: mark_argument_names(graph, c.names)),
    CompileStep(
        "graph breaks",
        _FRAGMENT,
        lambda c, graph, _: mark_graph_break_fragment(graph),
        lambda c: c.is_cut_off_by_graph_break,
    ),
    CompileStep(
        "compilation", "place, partition, convert, create sessions", _compile_graph
    ),
    CompileStep(
        "no wrapper", "AOTAutograd may do nothing in a call", skip_aot_wrapper.store_metadata
    ),
    CompileStep("forward only", "a backward may never run", forward_only.store_forward_graph),
)  # fmt: skip
# `run(compilation, call)` returns the callable that replaces `call`, or `call` itself.
AROUND = (
    CompileStep(
        "no wrapper", "AOTAutograd does nothing in a call", skip_aot_wrapper.remove_wrapper
    ),
    CompileStep(
        "files", _FILE,
        serialization.wrap_for_serialization, lambda c: c.serialization_mode is not None,
    ),
    CompileStep(
        "arguments", "they are passed one by one",
        skip_aot_wrapper.clear_boxed_mark, serialization.is_not_serialized,
    ),
    CompileStep(
        "torch", "no operator is worth a session, or torch runs all products",
        candidates.replace_with_torch, serialization.is_not_serialized,
    ),
    CompileStep(
        "forward only", "the calls show whether a backward runs",
        forward_only.watch_gradients, serialization.is_not_serialized,
    ),
    CompileStep(
        "autotune", "the calls show which of ONNX Runtime, torch and inductor is fastest",
        candidates.autotune_graph, serialization.is_not_serialized,
    ),
)  # fmt: skip


def compile_in_steps(compilation: Compilation) -> Compiled:
    """Run the steps for a graph of dynamo, and return the callable that replaces it."""
    for step in _select_steps(BEFORE, compilation):
        call = step.run(compilation)
        if call is not None:
            return call  # type: ignore[no-any-return]
    with ExitStack() as stack:
        for step in _select_steps(TRACING, compilation):
            stack.enter_context(step.run(compilation))
        call = compilation.wrapped = _trace_with_autograd(compilation)
    for step in AROUND:
        previous, call = call, step.run(compilation, call) if step.when(compilation) else call
        if call is not previous:
            compilation.applied_steps[step.name] = step.why
    compilation.release()
    return call


def _select_steps(steps: Sequence[CompileStep], compilation: Compilation) -> Iterator[CompileStep]:
    for step in steps:
        if step.when(compilation):
            if step.when is not _is_always:
                compilation.applied_steps[step.name] = step.why
            yield step


def _trace_with_autograd(compilation: Compilation) -> Compiled:
    """Let AOTAutograd make forward, backward or inference graphs, and compile each of them."""
    from ortable.compat.torch import aot_autograd

    def compile_traced(graph_module: GraphModule, arguments: Sequence[Any]) -> Compiled:
        for step in _select_steps(GRAPH, compilation):
            step.run(compilation, graph_module, arguments)
        return compilation.callables[-1]

    traced: Compiled = aot_autograd(
        fw_compiler=compilation.compiler(compile_traced),
        bw_compiler=compilation.compiler(compile_traced),
        inference_compiler=compilation.compiler(compile_traced),
        partition_fn=partition_joint,
        decompositions=decompositions.select_decompositions(compilation),
        keep_inference_input_mutations=True,  # the graph itself writes to its inputs
    )(compilation.graph_module, compilation.args)
    return traced
