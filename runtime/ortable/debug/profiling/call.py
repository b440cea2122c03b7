"""Implement `ortable.profile`, which measures where the time of a model call goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ortable.backend.options import OrtOptions
from ortable.compat.providers import CPU, check_providers
from ortable.compat.torch_explain import original_callable
from ortable.errors import OptionError

from .models import is_onnx_model, record_model
from .record import GraphRecord, Recording, record_call
from .report import (
    AROUND_TORCH,
    IN_AUTOGRAD,
    IN_PYTHON,
    IN_SESSION,
    NO_LINE,
    GraphTime,
    NodeTime,
    Profile,
    Row,
    Step,
    module_rows,
    rows_by,
)
from .time_attribution import (
    BACKWARD,
    KERNEL,
    OPERATOR,
    PARTITION_CALL,
    SESSION_RUN,
    TORCH,
    TORCH_PROVIDER,
    Span,
    TimeAttribution,
    attribute_time,
)

_TORCH_COMPILE_ONLY = "train and dynamic are for torch.compile: an exported model runs as it is."
_STEP_KINDS = {
    BACKWARD: "backward",
    TORCH: "torch",
    PARTITION_CALL: "partition",
    OPERATOR: "operator",
    SESSION_RUN: "session",
    KERNEL: "kernel",
}


def profile(
    model: Any,
    /,
    *args: Any,
    calls: int = 10,
    options: Mapping[str, Any] | None = None,
    train: bool = False,
    dynamic: bool | None = None,
    sizes: Mapping[str, int] | None = None,
    **kwargs: Any,
) -> Profile:
    """Measure where the time of `model(*args, **kwargs)` goes.

    The profile has times by module, source line, ATen operator and kernel, in microseconds per
    call. torch.compile compiles a module or a function; an exported model runs unchanged. Both run
    in new sessions, with the profiler of ONNX Runtime on. The user's compiled functions stay valid;
    buffers, gradients and attributes of the model and the random state are restored. Other writes
    of a forward are not undone. The first calls, which compile, are not measured.

    Args:
        model: a module or a function, compiled or not, in its current mode; or an OnnxProgram, a
            ModelProto, a LargeModel, or the path of an ONNX model.
        args: positional arguments of the call, or inputs of an ONNX model in order. Without
            arguments, an exported model runs on generated inputs: random floats, and ones.
        calls: the number of measured calls.
        options: options of `torch.compile(..., backend="ortable", options=options)`; for an
            exported model `providers` and `session_options`.
        train: run forward and backward, with gradients of ones.
        dynamic: the argument `dynamic` of `torch.compile`.
        sizes: sizes of named dimensions of generated inputs; other dynamic dimensions are 8.
        kwargs: keyword arguments of the call, or inputs of an ONNX model by name.

    Raises:
        OptionError: an option is unknown or has a wrong value, or `session_options` is no dict.
        ProviderError: a provider is missing, ONNX Runtime refuses a model, or its profile is full.
        InputError: the arguments do not fit the exported model.
        OrtableError: an operator cannot be converted.
    """
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise OptionError(f"calls is a number of calls, 1 or more, not {calls!r:.80}")
    if isinstance(model, ExportedProgram):
        raise OptionError("ortable.export(program) makes a program that can be profiled.")
    if is_onnx_model(model):
        if train or dynamic is not None:
            raise OptionError(_TORCH_COMPILE_ONLY)
        recording = record_model(model, args, kwargs, dict(options or {}), sizes or {}, calls)
        return _make_profile(recording.graphs[0].where, recording, None)
    if sizes:
        raise OptionError("sizes are for generated inputs of an exported model.")
    ort_options = OrtOptions.from_mapping(options)
    check_providers(ort_options.providers)
    function = original_callable(model)
    recording = record_call(
        function, (args, kwargs), ort_options, train=train, dynamic=dynamic, calls=calls
    )
    name = getattr(function, "__qualname__", "") or type(function).__qualname__
    return _make_profile(name, recording, function)


def _make_profile(name: str, recording: Recording, function: Any) -> Profile:
    attribution = attribute_time(recording)
    nodes, indices = _make_node_times(attribution)
    kernel_us = [0.0] * len(recording.graphs)
    for node in nodes:
        kernel_us[node.graph] += node.us
    graphs = tuple(
        GraphTime(
            graph.number,
            graph.kind,
            graph.where,
            kernel_us[index],
            attribution.sessions.get(index, 0.0) / 1000,
            attribution.torch.get(index, 0.0) / 1000,
        )
        for index, graph in enumerate(recording.graphs)
    )
    other_rows = [Row(IN_SESSION, sum(graph_time.session_us for graph_time in graphs))]
    if recording.torch:
        other_rows.append(Row(AROUND_TORCH, sum(graph_time.torch_us for graph_time in graphs)))
    if recording.backward:
        other_rows.append(Row(IN_AUTOGRAD, attribution.backward / 1000))
    other_rows.append(Row(IN_PYTHON, attribution.python / 1000))
    return Profile(
        model=name,
        calls=len(recording.calls),
        counted=attribution.calls,
        call_us=attribution.call / 1000,
        plain_us=attribution.plain / 1000,
        graphs=graphs,
        nodes=nodes,
        modules=module_rows(graphs, nodes, _module_classes(nodes, function)),
        lines=rows_by(nodes, lambda node: node.line or NO_LINE),
        operators=rows_by(nodes, lambda node: node.operator),
        kernels=rows_by(nodes, lambda node: f"{node.kernel} ({_short_provider(node.provider)})"),
        rest=tuple(other_rows),
        timeline=tuple(_make_step(span, attribution, indices) for span in attribution.timeline),
        timeline_us=(attribution.window[1] - attribution.window[0]) / 1000,
        notes=recording.notes + _make_notes(nodes, recording.graphs),
    )


def _make_node_times(attribution: TimeAttribution) -> tuple[tuple[NodeTime, ...], dict[Any, int]]:
    """Make the nodes in the order of their first runs; also return the index of each KernelKey."""
    nodes = tuple(
        NodeTime(
            key.graph,
            key.name,
            key.kernel,
            key.provider,
            key.origin.module,
            key.origin.operator,
            key.origin.line,
            time / 1000,
            runs,
            key.origin.results,
        )
        for key, (time, runs) in attribution.nodes.items()
    )
    return nodes, {key: index for index, key in enumerate(attribution.nodes)}


def _make_step(span: Span, attribution: TimeAttribution, indices: Mapping[Any, int]) -> Step:
    begin = (span.begin - attribution.window[0]) / 1000
    length = (span.end - span.begin) / 1000
    node = -1 if span.key is None else indices[span.key]
    return Step(_STEP_KINDS[span.rank], span.graph, span.thread, begin, length, node)


def _module_classes(nodes: Sequence[NodeTime], function: Any) -> dict[tuple[int, str], str]:
    """Map (graph index, module path) to the class name, for graphs of the root module's frame.

    In a graph of a submodule's frame, paths begin at the submodule. Such a graph is recognized by a
    path that is not in the root module, and is left out.
    """
    if not isinstance(function, torch.nn.Module):
        return {}
    class_names = {path: type(module).__name__ for path, module in function.named_modules()}
    paths: dict[int, set[str]] = {}
    for node in nodes:
        paths.setdefault(node.graph, set()).add(node.module)
    return {
        (graph_index, path): class_name
        for graph_index, graph_paths in paths.items()
        if graph_paths <= class_names.keys()
        for path, class_name in class_names.items()
    }


def _short_provider(provider: str) -> str:
    return provider.removesuffix("ExecutionProvider") or "unknown provider"


def _make_notes(nodes: Sequence[NodeTime], graphs: Sequence[GraphRecord]) -> tuple[str, ...]:
    notes = []
    if not graphs:
        notes.append("dynamo found nothing to compile: all code runs in Python")
    other_providers = sorted(
        {_short_provider(node.provider) for node in nodes} - {_short_provider(CPU), TORCH_PROVIDER}
    )
    if other_providers:
        notes.append(
            f"kernels of {', '.join(other_providers)} run asynchronously: their times are those of "
            "the host"
        )
    return tuple(notes)
