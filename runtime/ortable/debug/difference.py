"""Implement `ortable.first_difference`: the first result that differs from eager, with its cause.

Each graph from torch.compile runs twice, in eager and as an ONNX graph, and returns eager's
results. So later graphs are compared on eager's values, and a backward graph on the tensors that
eager's forward saved.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from onnx import ModelProto

from ortable.backend.aot.decompositions import get_decomposition_table, user_decompositions
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions
from ortable.compat.torch_explain import original_callable
from ortable.errors import OptionError, OrtableError
from ortable.exporter.frontend.export_request import ExportOptions
from ortable.exporter.program import OnnxProgram
from ortable.exporter.reporting.numeric_diff import ToleranceOverride

from .comparing.call_effects import Call, CallEffects, describe_difference
from .comparing.diagnosis import (
    ReproSettings,
    describe_capture,
    describe_decomposition,
    describe_mismatch,
)
from .comparing.exports import compare_export, resolve_export
from .comparing.graphs import CallComparator, DecompositionComparator, DecompositionMismatch
from .comparing.minimizer import Differs, writable_options
from .comparing.records import Comparison, Difference
from .comparing.source_locations import locate_decomposition


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
    """Run `model(*args, **kwargs)` compiled and in eager, and find the first result that differs.

    The call runs several times, on copies of the arguments. Buffers, gradients, mode and random
    state of the model are restored, as by `ortable.explain`, and so are the parameters and the
    state of an optimizer that a function steps.

    Args:
        model: a module or a function, compiled or not, in its current mode; or the program that
            `ortable.export` returned, which is compared with the exported module.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.
        train: run with gradients, and compare forward and backward graphs.
        dynamic: the argument `dynamic` of `torch.compile`.
        options: options of `torch.compile(..., backend="ortable", options=options)`.
        atol: absolute tolerance for floats, in `atol + rtol * abs(eager's)`; by dtype unless given.
        rtol: relative tolerance for floats; by dtype unless given.
        exported: an export of `model`, as a program, a model or a path, to compare in place of the
            graphs of torch.compile.

    Returns:
        The comparison, with the first difference: its FX node, spec entry, module and line of the
        model. It is true if nothing differs.

    Raises:
        OptionError: an option is unknown or has a wrong value, or an option of torch.compile is
            given for an exported model.
        InputError: the arguments do not fit the exported model.
        OrtableError: an operator cannot be converted.
    """
    tolerance = ToleranceOverride(atol, rtol)
    if exported is not None or isinstance(model, OnnxProgram):
        _reject_options(train=train, dynamic=dynamic, options=options)
        conversion = resolve_export(model, args, kwargs, exported)
        return compare_export(conversion, tolerance)
    call = Call(original_callable(model), args, kwargs or {}, train, dynamic)
    run = _ComparisonRun(call, options, tolerance)
    comparator, effects = run.run_compiled()
    if comparator.mismatch is not None:
        return comparator.stats.make_comparison(
            describe_mismatch(comparator.mismatch, comparator, _make_repro_settings(run))
        )
    return comparator.stats.make_comparison(_find_capture_difference(run, comparator, effects))


def _reject_options(**options: Any) -> None:
    """Raise OptionError if options of torch.compile are given for an exported model."""
    names = [name for name, value in options.items() if value]
    if names:
        raise OptionError(
            f"{', '.join(names)}: an option of torch.compile; leave it out for an exported model"
        )


@dataclass(frozen=True)
class _ComparisonRun:
    """A call of a model, with compile options and the tolerance."""

    call: Call
    options: Mapping[str, Any] | None
    tolerance: ToleranceOverride

    def run_compiled(self) -> tuple[CallComparator, CallEffects]:
        """Compare each graph of the call with eager, and record the effects of the call."""
        comparator = CallComparator(self.tolerance)
        return comparator, self.run_with(comparator, comparator.make_runner)

    def run_with(
        self,
        comparator: CallComparator | DecompositionComparator,
        runner: Any = None,
        **changes: Any,
    ) -> CallEffects:
        """Record the effects of the call with graphs that `comparator` compiles."""
        ort_options = OrtOptions.from_mapping(self.options)
        ort_options = replace(
            ort_options, hints=False, autotune=False, torch_regions="eager", tune=None, **changes
        )

        def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
            return compile_with_autograd(
                graph_module, example_inputs, ort_options, runner, comparator.compile_graph
            )

        return self.call.record_compiled(backend)

    def decomposition_table(self) -> Mapping[Any, Any]:
        table = user_decompositions(OrtOptions.from_mapping(self.options))
        return get_decomposition_table() if table is None else table


def _find_capture_difference(
    run: _ComparisonRun, comparator: CallComparator, effects: CallEffects
) -> Difference | None:
    """Find a difference made before conversion, by a decomposition or by torch's graph capture."""
    for name, value in run.call.record_effects().items():
        if name not in effects or not isinstance(value, torch.Tensor):
            continue
        gap = comparator.compute_gap(value, effects[name])
        if gap is None:
            comparator.record_agreement(value)
            continue
        options = ExportOptions(decomposition_table={})
        decompositions = DecompositionComparator(run.decomposition_table(), comparator.compute_gap)
        run.run_with(decompositions, export_options=options)
        if decompositions.mismatch is not None:
            return _describe_decomposition(decompositions.mismatch, comparator, run)
        if comparator.uses_rng:
            comparator.stats.add_skipped(
                "the model draws random numbers in a different order than eager", [name]
            )
            return None
        return describe_capture(name, gap, "inference", "torch.compile")
    return None


def _describe_decomposition(
    mismatch: DecompositionMismatch, comparator: CallComparator, run: _ComparisonRun
) -> Difference:
    target: Any = mismatch.node.target
    location = locate_decomposition(target.name(), run.decomposition_table()[target])
    has_table = run.options is not None and run.options.get("export_options") is not None
    settings = (
        None if has_table else _make_repro_settings(run)
    )  # a table of functions cannot be written into a script
    return describe_decomposition(mismatch, location, comparator, settings)


def _make_repro_settings(run: _ComparisonRun) -> ReproSettings:
    """Make the settings of a repro script, with the options that can be written as source."""
    options = writable_options(run.options or {})
    complete = len(options) == len(run.options or {})
    return ReproSettings(_make_differs(replace(run, options=options)), options, complete=complete)


def _make_differs(run: _ComparisonRun) -> Differs:
    """Make a predicate: whether a function differs between eager and ortable."""

    def differs(function: Any, args: Sequence[Any], dynamic: bool) -> bool:
        inner_run = replace(run, call=Call(function, args, {}, dynamic=dynamic))
        try:
            comparator, effects = inner_run.run_compiled()
            return comparator.mismatch is not None or bool(
                describe_difference(inner_run.call.record_effects(), effects, run.tolerance)
            )
        except OrtableError:
            return False

    return differs
