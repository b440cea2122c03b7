"""`ortable.first_difference`: the first result of a compiled or exported model that differs from
eager's, with the entry of the specs that made it. In come a model and the arguments of a call, out
comes a `Comparison`; called by users and by `ortable debug`.

Every graph that torch.compile makes of the call runs in eager, node by node, beside its ONNX graph,
and hands eager's results on: what comes behind a difference is compared all the same with what
eager computes, and the backward with the tensors that eager's forward saved."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from onnx import ModelProto

from ortable.backend.aot.decompositions import get_decomposition_table, users_table
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions
from ortable.compat.torch_explain import innermost
from ortable.errors import OptionError, OrtableError
from ortable.exporter.account.gaps import AskedTolerance
from ortable.exporter.program import OnnxProgram
from ortable.exporter.request.program import ExportOptions

from .comparing.alone import Differs, writable
from .comparing.diagnosis import Way, captured, decomposed, described
from .comparing.exports import compared_export, parts_of_export
from .comparing.graphs import Decomposed, DecompositionWatch, Watch
from .comparing.outcome import Call, Outcome, differing
from .comparing.places import place_of_decomposition
from .comparing.records import Comparison, Difference


def first_difference(
    model: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    train: bool = False,
    dynamic: bool | None = None,
    options: Mapping[str, Any] | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    exported: OnnxProgram | ModelProto | str | os.PathLike[str] | None = None,
) -> Comparison:
    """Runs `model(*args, **kwargs)` through torch.compile and in eager, and finds the first result
    that differs: FX node, entry of the specs with file and line, module, line of the model.

    The call runs on copies of the arguments, a few times; the model keeps its buffers, gradients,
    mode and random numbers, as with `ortable.explain`, and an optimizer that a function steps keeps
    its parameters and its state.

    Args:
        model: a module or a function, compiled or not, in the mode it is in; or what
            `ortable.export` returned, which is then compared with the module that it was made of.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.
        train: with gradients: forward graphs and backward graphs.
        dynamic: as `torch.compile` has it.
        options: those of `torch.compile(..., backend="ortable", options=options)`.
        atol, rtol: how far floats may differ, `atol + rtol * abs(eager's)`; by dtype unless given.
        exported: what was exported of `model`, as a program, a model or the path of one: it is
            compared in place of what torch.compile makes.

    Returns:
        What was compared, and the first difference; true where there is none.

    Raises:
        OptionError: an unknown option, a wrong value, or one of torch.compile for an exported
            model.
        InputError: an exported model does not take such arguments.
        OrtableError: an operator that cannot be converted.
    """
    asked = AskedTolerance(atol, rtol)
    if exported is not None or isinstance(model, OnnxProgram):
        _refuse(train=train, dynamic=dynamic, options=options)
        parts = parts_of_export(model, args, kwargs, exported)
        return compared_export(parts, asked)
    call = Call(innermost(model), args, kwargs or {}, train, dynamic)
    run = _Run(call, options, asked)
    watch, outcome = run.compiled()
    if watch.found is not None:
        return watch.tally.comparison(described(watch.found, watch, _way(run)))
    return watch.tally.comparison(_before_graphs(run, watch, outcome))


def _refuse(**given: Any) -> None:
    """Options of torch.compile are none of an exported model."""
    names = [name for name, value in given.items() if value]
    if names:
        raise OptionError(
            f"{', '.join(names)}: of torch.compile, and what is compared was exported; leave it out"
        )


@dataclass(frozen=True)
class _Run:
    """A call of a model, and the options that it is compiled with."""

    call: Call
    options: Mapping[str, Any] | None
    tolerance: AskedTolerance

    def compiled(self) -> tuple[Watch, Outcome]:
        """The call graph by graph beside eager, and what it leaves behind with eager's values."""
        watch = Watch(self.tolerance)
        return watch, self.watched(watch, watch.runner)

    def watched(
        self, watch: Watch | DecompositionWatch, runner: Any = None, **changes: Any
    ) -> Outcome:
        """What the call leaves behind with graphs that `watch` compiles."""
        chosen = OrtOptions.from_mapping(self.options)
        chosen = replace(chosen, hints=False, autotune=False, tune=None, **changes)

        def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
            return compile_with_autograd(
                graph_module, example_inputs, chosen, runner, watch.compile_graph
            )

        return self.call.compiled_by(backend)

    def table(self) -> Mapping[Any, Any]:
        """The decompositions of the compilation."""
        asked = users_table(OrtOptions.from_mapping(self.options))
        return get_decomposition_table() if asked is None else asked


def _before_graphs(run: _Run, watch: Watch, outcome: Outcome) -> Difference | None:
    """What differs between eager and the graphs that were to be converted: decompositions."""
    for name, value in run.call.outcome().items():
        if name not in outcome or not isinstance(value, torch.Tensor):
            continue
        gap = watch.gap(value, outcome[name])
        if gap is None:
            watch.agree(value)
            continue
        options = ExportOptions(decomposition_table={})
        decompositions = DecompositionWatch(run.table(), watch.gap)
        run.watched(decompositions, export_options=options)
        if decompositions.found is not None:
            return _decomposed(decompositions.found, watch, run)
        if watch.draws:
            watch.tally.leave("the model draws random numbers, in another order than eager", [name])
            return None
        return captured(name, gap, "inference", "torch.compile")
    return None


def _decomposed(found: Decomposed, watch: Watch, run: _Run) -> Difference:
    """An operator that its decomposition computes otherwise."""
    target: Any = found.node.target
    place = place_of_decomposition(target.name(), run.table()[target])
    own = run.options is not None and run.options.get("export_options") is not None
    way = None if own else _way(run)  # a table of functions cannot be written into a script
    return decomposed(found, place, watch, way)


def _way(run: _Run) -> Way:
    """How a script compiles its operator: with the options that can be written."""
    options = writable(run.options or {})
    complete = len(options) == len(run.options or {})
    return Way(_differ(replace(run, options=options)), options, complete=complete)


def _differ(run: _Run) -> Differs:
    """Whether a function differs between eager and ortable, compiled with the same options."""

    def differ(function: Any, args: Sequence[Any], dynamic: bool) -> bool:
        inner = replace(run, call=Call(function, args, {}, dynamic=dynamic))
        try:
            watch, outcome = inner.compiled()
            return watch.found is not None or bool(
                differing(inner.call.outcome(), outcome, run.tolerance)
            )
        except OrtableError:
            return False

    return differ
