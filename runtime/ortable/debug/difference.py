"""`ortable.first_difference`: the first result of a compiled or exported model that differs from
eager's, with the entry of the specs that made it. In come a model and the arguments of a call, out
comes a `Comparison`; called by users and by `ortable debug`.

Every graph that torch.compile makes of the call runs in eager, node by node, beside its ONNX graph,
and hands eager's results on: what comes behind a difference is compared all the same with what
eager computes, and the backward with the tensors that eager's forward saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from ortable.backend.aot.decompositions import get_decomposition_table, resolve_table
from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions
from ortable.compat.torch_explain import compiled_apart, innermost, own_profile
from ortable.errors import OrtableError
from ortable.exporter.request.options import ExportOptions
from ortable.interpreter.diagnostics.origin import module_path, source_line

from .arrays import describe, to_numpy
from .compare import AskedTolerance
from .comparing.alone import AGREES, Alone, Differs, shown_alone
from .comparing.decompositions import Decomposed, DecompositionWatch
from .comparing.diagnosis import case_of, cause_of, nodes_behind, texts_of
from .comparing.found import Found, operator_of, producer
from .comparing.graphs import Watch
from .comparing.places import place_of_decomposition
from .comparing.records import Comparison, Difference
from .comparing.whole import Outcome, outcome_of
from .explain_state import copied_arguments, model_untouched

__all__ = ["first_difference"]


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
) -> Comparison:
    """Runs `model(*args, **kwargs)` through torch.compile and in eager, and finds the first result
    that differs: FX node, entry of the specs with file and line, module, line of the model.

    The call runs on copies of the arguments; the model keeps its buffers, gradients, mode and
    random numbers, as with `ortable.explain`.

    Args:
        model: a module or a function, compiled or not, in the mode it is in.
        args: positional arguments of the call.
        kwargs: keyword arguments of the call.
        train: with gradients: forward graphs and backward graphs.
        dynamic: as `torch.compile` has it.
        options: those of `torch.compile(..., backend="ortable", options=options)`.
        atol, rtol: how far floats may differ, `atol + rtol * abs(eager's)`; by dtype unless given.

    Returns:
        What was compared, and the first difference; true where there is none.

    Raises:
        OptionError: an unknown option, or a wrong value.
        OrtableError: an operator that cannot be converted.
    """
    asked = AskedTolerance(atol, rtol)
    run = _Run(model, (tuple(args), dict(kwargs or {})), train, dynamic, options, asked)
    watch, outcome = run.compiled()
    if watch.found is not None:
        return watch.tally.comparison(_described(watch.found, watch, run))
    return watch.tally.comparison(_before_graphs(run, watch, outcome))


@dataclass(frozen=True)
class _Run:
    """A call of a model, which can be run in eager and compiled."""

    model: Any
    given: tuple[Any, Any]
    train: bool
    dynamic: bool | None
    options: Mapping[str, Any] | None
    tolerance: AskedTolerance

    def compiled(self) -> tuple[Watch, Outcome]:
        """The call graph by graph beside eager, and what it leaves behind with eager's values."""
        watch = Watch(self.tolerance)
        return watch, self.called(watch)

    def called(self, watch: Watch | DecompositionWatch | None, **changes: Any) -> Outcome:
        """What the call leaves behind in eager, or with graphs that `watch` compiles."""
        chosen = OrtOptions.from_mapping(self.options)
        chosen = replace(chosen, hints=False, autotune=False, tune=None, **changes)
        runner = watch.runner if isinstance(watch, Watch) else None
        function = innermost(self.model)
        call = copied_arguments(*self.given)

        def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
            assert watch is not None
            return compile_with_autograd(
                graph_module, example_inputs, chosen, runner, watch.compile_graph
            )

        with ExitStack() as stack:
            stack.enter_context(model_untouched(function, call, self.train))
            stack.enter_context(own_profile())
            stance = "force_eager" if watch is None else "default"
            stack.enter_context(torch.compiler.set_stance(stance))
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.set_grad_enabled(self.train))
            called = function
            if watch is not None:
                called = compiled_apart(function, backend, self.dynamic)
            return outcome_of(called, function, call, self.train)

    def table(self) -> Mapping[Any, Any]:
        """The decompositions of the compilation."""
        asked = resolve_table(OrtOptions.from_mapping(self.options).export_options)
        return get_decomposition_table() if asked is None else asked


def _before_graphs(run: _Run, watch: Watch, outcome: Outcome) -> Difference | None:
    """What differs between eager and the graphs that were to be converted: decompositions."""
    expected = run.called(None)
    for name, value in expected.items():
        if name not in outcome:
            continue
        gap = watch.gap(value, outcome[name])
        if gap is None:
            watch.agree(value)
            continue
        options = ExportOptions(decomposition_table={})
        decompositions = DecompositionWatch(run.table(), watch.gap)
        run.called(decompositions, export_options=options)
        if decompositions.found is not None:
            return _decomposed(decompositions.found, watch, run)
        if watch.draws:
            watch.tally.leave("the model draws random numbers, in another order than eager", [name])
            return None
        return Difference(
            "inference", name, "", "capture", "torch.compile", "", 0, 0, "", "",
            gap.what, gap.largest, describe(to_numpy(value)), describe(to_numpy(outcome[name])),
        )  # fmt: skip
    return None


def _decomposed(found: Decomposed, watch: Watch, run: _Run) -> Difference:
    """An operator that its decomposition computes otherwise."""
    node = found.node
    target: Any = node.target
    place = place_of_decomposition(target.name(), run.table()[target])
    own = run.options is not None and run.options.get("export_options") is not None
    alone = Alone() if own else _alone(node, found.values, found.expected, found.kind, watch, run)
    return Difference(
        graph=found.kind,
        culprit="decomposition",
        name=target.name(),
        spec_file=place.file,
        spec_line=place.line,
        case=0,
        what=found.gap.what,
        largest=found.gap.largest,
        eager=describe(to_numpy(found.expected)),
        onnx=describe(to_numpy(found.got)),
        script=alone.script,
        tensors=alone.tensors or {},
        **_of_node(node, found.values),
    )


def _differ(run: _Run) -> Differs:
    """Whether a function differs between eager and ortable, compiled with the same options."""

    def differ(function: Any, args: Sequence[Any], dynamic: bool) -> bool:
        inner = replace(run, model=function, given=(tuple(args), {}), train=False, dynamic=dynamic)
        try:
            watch, outcome = inner.compiled()
            if watch.found is not None:
                return True
            expected = inner.called(None)
        except OrtableError:
            return False
        pairs = ((value, outcome[name]) for name, value in expected.items() if name in outcome)
        return any(watch.gap(*pair) is not None for pair in pairs)

    return differ


def _alone(
    node: Node,
    values: Mapping[Node, Any],
    expected: torch.Tensor,
    kind: str,
    watch: Watch,
    run: _Run,
) -> Alone:
    """A script of the operator of a node."""
    source = source_line(producer(node))
    return shown_alone(
        node,
        values,
        _differ(run),
        about=f"Found in the {kind} graph, FX node '{node.name}'"
        + (f", {source}" if source else ""),
        options=run.options or {},
        tolerance=tuple(watch.tolerance.of(expected.dtype)),  # type: ignore[arg-type]
    )


def _described(found: Found, watch: Watch, run: _Run) -> Difference:
    """What differs, in the words of a reader, with its cause and a script."""
    cause = cause_of(found, watch)
    names = found.converted.fx_names
    given = {names[name]: value for name, value in found.agreed.items() if name in names}
    values = found.source.torch_values(given)
    alone = _alone(found.node, values, found.expected, found.source.kind, watch, run)
    if cause.culprit == "entry" and alone.why == AGREES:
        cause = replace(cause, culprit="accumulated")
    place = cause.place
    model = found.converted.model
    nodes = nodes_behind(model, found.result, found.agreed) if found.result else []
    return Difference(
        graph=found.source.kind,
        culprit=cause.culprit,
        name=cause.name,
        spec_file=place.file if place is not None else "",
        spec_line=place.line if place is not None else 0,
        case=case_of(found),
        what=found.gap.what,
        largest=found.gap.largest,
        eager=describe(to_numpy(found.expected)),
        onnx=describe(to_numpy(found.got)),
        computed_by=texts_of(nodes),
        script=alone.script,
        tensors=alone.tensors or {},
        **_of_node(found.node, values),
    )


def _of_node(node: Node, values: Mapping[Node, Any]) -> dict[str, Any]:
    """What a difference says of its FX node."""
    made = producer(node)
    module, kind = module_path(made)
    return {
        "node": node.name,
        "operator": operator_of(node),
        "module": f"{module or '(root)'} ({kind})" if module or kind else "",
        "source": str(source_line(made) or ""),
        "arguments": tuple(_arguments(made, values)),
    }


def _arguments(node: Node, values: Mapping[Node, Any]) -> Iterator[str]:
    """The arguments of the operator in short."""
    for name, value in (*((f"{i}", v) for i, v in enumerate(node.args)), *node.kwargs.items()):
        known = values.get(value, value) if isinstance(value, Node) else value
        if isinstance(known, torch.Tensor):
            yield f"{getattr(value, 'name', name)}: {describe(to_numpy(known))}"
        elif isinstance(value, Node):
            yield f"{value.name}: {known}"
        else:
            yield f"{value}"
