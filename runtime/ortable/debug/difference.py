"""`ortable.first_difference`: the first result of a compiled or exported model that differs from
eager's, with the entry of the specs that made it. In come a model and the arguments of a call, out
comes a `Comparison`; called by users and by `ortable debug`.

Every graph that torch.compile makes of the call runs in eager, node by node, beside its ONNX graph,
and hands eager's results on: what comes behind a difference is compared all the same with what
eager computes, and the backward with the tensors that eager's forward saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch.fx import Node

from ortable.backend.aot.entry import compile_with_autograd
from ortable.backend.options import OrtOptions
from ortable.compat.torch_explain import compiled_apart, innermost, own_profile
from ortable.errors import OrtableError
from ortable.interpreter.diagnostics.origin import module_path, source_line

from .arrays import describe, to_numpy
from .compare import AskedTolerance
from .comparing.alone import AGREES, Alone, Differs, shown_alone
from .comparing.diagnosis import Cause, case_of, cause_of, nodes_behind, texts_of
from .comparing.found import Found, operator_of, producer
from .comparing.graphs import Watch
from .comparing.records import Comparison, Difference
from .explain_state import copied_arguments, model_untouched, run_call

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
    watch, _ = _watched(model, (tuple(args), dict(kwargs or {})), train, dynamic, options, asked)
    if watch.found is None:
        return watch.tally.comparison(None)
    return watch.tally.comparison(_described(watch.found, watch, options or {}))


def _watched(
    model: Any,
    given: tuple[Any, Any],
    train: bool,
    dynamic: bool | None,
    options: Mapping[str, Any] | None,
    tolerance: AskedTolerance,
) -> tuple[Watch, Any]:
    """One call of the model, graph by graph beside eager, and what it returned."""
    chosen = replace(OrtOptions.from_mapping(options), hints=False, autotune=False, tune=None)
    function = innermost(model)
    call = copied_arguments(*given)
    watch = Watch(tolerance)
    with ExitStack() as stack:
        stack.enter_context(model_untouched(function, call, train))
        stack.enter_context(own_profile())
        stack.enter_context(torch.compiler.set_stance("default"))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.set_grad_enabled(train))

        def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Any:
            return compile_with_autograd(
                graph_module, example_inputs, chosen, watch.runner, watch.compile_graph
            )

        returned = run_call(compiled_apart(function, backend, dynamic), call, train)
    return watch, returned


def _differ(watch: Watch, options: Mapping[str, Any]) -> Differs:
    """Whether a function differs between eager and ortable, compiled with the same options."""

    def differ(function: Any, args: Sequence[Any], dynamic: bool) -> bool:
        try:
            inner, _ = _watched(
                function, (tuple(args), {}), False, dynamic, options, watch.tolerance
            )
        except OrtableError:
            return False
        return inner.found is not None

    return differ


def _described(found: Found, watch: Watch, options: Mapping[str, Any]) -> Difference:
    """What differs, in the words of a reader, with its cause and a script."""
    cause = cause_of(found, watch)
    node = producer(found.node)
    values = found.source.torch_values(_given(found))
    kind = found.source.kind
    source = source_line(node)
    alone = shown_alone(
        found.node,
        values,
        _differ(watch, options),
        about=f"Found in the {kind} graph, FX node '{found.node.name}'"
        + (f", {source}" if source else ""),
        options=options,
        tolerance=tuple(watch.tolerance.of(found.expected.dtype)),  # type: ignore[arg-type]
    )
    if cause.culprit == "entry" and alone.why == AGREES:
        cause = replace(cause, culprit="accumulated")
    return difference_of(found, cause, alone, values)


def _given(found: Found) -> dict[str, torch.Tensor]:
    names = found.converted.fx_names
    return {names[name]: value for name, value in found.agreed.items() if name in names}


def difference_of(
    found: Found, cause: Cause, alone: Alone, values: Mapping[Node, Any]
) -> Difference:
    """The record of a difference."""
    node = producer(found.node)
    module, kind = module_path(node)
    place = cause.place
    nodes = nodes_behind(found.converted.model, found.result, found.agreed) if found.result else []
    return Difference(
        graph=found.source.kind,
        node=found.node.name,
        operator=operator_of(found.node),
        culprit=cause.culprit,
        name=cause.name,
        spec_file=place.file if place is not None else "",
        spec_line=place.line if place is not None else 0,
        case=case_of(found),
        module=f"{module or '(root)'} ({kind})" if module or kind else "",
        source=str(source_line(node) or ""),
        what=found.gap.what,
        largest=found.gap.largest,
        eager=describe(to_numpy(found.expected)),
        onnx=describe(to_numpy(found.got)),
        arguments=tuple(_arguments(node, values)),
        computed_by=texts_of(nodes),
        script=alone.script,
        tensors=alone.tensors or {},
    )


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
