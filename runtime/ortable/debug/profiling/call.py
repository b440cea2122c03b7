"""`profile`: where the time of a call goes. In come a model and the arguments of a call, out comes
a Profile; called by users and by the shell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram

from ortable.backend.options import OrtOptions
from ortable.compat.providers import CPU, check_providers
from ortable.compat.torch_explain import innermost
from ortable.errors import OptionError

from .account import (
    BACKWARD,
    IN_TORCH,
    KERNEL,
    OPERATOR,
    PART,
    RUN,
    TORCH,
    Accounts,
    Span,
    accounts_of,
)
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

_OF_TORCH = "train and dynamic are for torch.compile: an exported model runs as it is."
_WHAT = {
    BACKWARD: "backward",
    TORCH: "torch",
    PART: "partition",
    OPERATOR: "operator",
    RUN: "session",
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
    """Tells where the time of `model(*args, **kwargs)` goes: by module, source line, ATen operator
    and kernel, in microseconds a call.

    A module or a function is compiled by torch.compile with ortable, an exported model runs as it
    is; either in sessions of the profile's own, with the profiler of ONNX Runtime on. What is
    compiled elsewhere, the model's buffers, gradients and attributes, and random numbers stay as
    they are; what a forward writes elsewhere stays written. The first calls, which compile, do not
    count.

    Args:
        model: a module or a function, compiled or not, in the mode it is in; or an OnnxProgram, a
            ModelProto, a LargeModel, or the path of an ONNX model.
        args: positional arguments of the call; inputs of an ONNX model, in order. An exported model
            runs without any, too: inputs of random numbers and ones are made.
        calls: how many calls are measured.
        options: those of `torch.compile(..., backend="ortable", options=options)`; of an exported
            model `providers` and `session_options`.
        train: with gradients, of ones: forward and backward graphs.
        dynamic: as `torch.compile` has it.
        sizes: dimensions of the inputs that are made, by name; others that vary are 8.
        kwargs: keyword arguments of the call, inputs of an ONNX model by name.

    Raises:
        OptionError: an unknown option, a wrong value, or `session_options` that is an object.
        ProviderError: a provider is missing, ONNX Runtime refuses a model, or its profile is full.
        InputError: an exported model cannot be called like this.
        OrtableError: an operator cannot be converted.
    """
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 1:
        raise OptionError(f"calls is a number of calls, 1 or more, not {calls!r:.80}")
    if isinstance(model, ExportedProgram):
        raise OptionError("ortable.export(program) makes a program that can be profiled.")
    if is_onnx_model(model):
        if train or dynamic is not None:
            raise OptionError(_OF_TORCH)
        recording = record_model(model, args, kwargs, dict(options or {}), sizes or {}, calls)
        return _profile(recording.graphs[0].where, recording, None)
    if sizes:
        raise OptionError("sizes are for inputs that are made, of an exported model.")
    chosen = OrtOptions.from_mapping(options)
    check_providers(chosen.providers)
    function = innermost(model)
    recording = record_call(
        function, (args, kwargs), chosen, train=train, dynamic=dynamic, calls=calls
    )
    name = getattr(function, "__qualname__", "") or type(function).__qualname__
    return _profile(name, recording, function)


def _profile(name: str, recording: Recording, function: Any) -> Profile:
    accounts = accounts_of(recording)
    nodes, places = _nodes(accounts)
    in_kernels = [0.0] * len(recording.graphs)
    for node in nodes:
        in_kernels[node.graph] += node.us
    graphs = tuple(
        GraphTime(
            graph.number,
            graph.kind,
            graph.where,
            in_kernels[index],
            accounts.sessions.get(index, 0.0) / 1000,
            accounts.torch.get(index, 0.0) / 1000,
        )
        for index, graph in enumerate(recording.graphs)
    )
    rest = [Row(IN_SESSION, sum(g.session_us for g in graphs))]
    if recording.torch:
        rest.append(Row(AROUND_TORCH, sum(g.torch_us for g in graphs)))
    if recording.backward:
        rest.append(Row(IN_AUTOGRAD, accounts.backward / 1000))
    rest.append(Row(IN_PYTHON, accounts.python / 1000))
    return Profile(
        model=name,
        calls=len(recording.calls),
        counted=accounts.calls,
        call_us=accounts.call / 1000,
        plain_us=accounts.plain / 1000,
        graphs=graphs,
        nodes=nodes,
        modules=module_rows(graphs, nodes, _kinds(nodes, function)),
        lines=rows_by(nodes, lambda node: node.line or NO_LINE),
        operators=rows_by(nodes, lambda node: node.operator),
        kernels=rows_by(nodes, lambda node: f"{node.kernel} ({_short(node.provider)})"),
        rest=tuple(rest),
        timeline=tuple(_step(span, accounts, places) for span in accounts.timeline),
        timeline_us=(accounts.window[1] - accounts.window[0]) / 1000,
        notes=recording.notes + _notes(nodes, recording.graphs),
    )


def _nodes(accounts: Accounts) -> tuple[tuple[NodeTime, ...], dict[Any, int]]:
    """The nodes in the order in which they ran first, and the places of their keys."""
    made = tuple(
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
        for key, (time, runs) in accounts.nodes.items()
    )
    return made, {key: place for place, key in enumerate(accounts.nodes)}


def _step(span: Span, accounts: Accounts, places: Mapping[Any, int]) -> Step:
    begin = (span.begin - accounts.window[0]) / 1000
    length = (span.end - span.begin) / 1000
    node = -1 if span.key is None else places[span.key]
    return Step(_WHAT[span.rank], span.graph, span.thread, begin, length, node)


def _kinds(nodes: Sequence[NodeTime], function: Any) -> dict[tuple[int, str], str]:
    """Classes of the modules of those graphs whose modules are the function's: others are graphs of
    a module's own frame, whose paths start there."""
    if not isinstance(function, torch.nn.Module):
        return {}
    named = {path: type(each).__name__ for path, each in function.named_modules()}
    paths: dict[int, set[str]] = {}
    for node in nodes:
        paths.setdefault(node.graph, set()).add(node.module)
    return {
        (number, path): kind
        for number, found in paths.items()
        if found <= named.keys()
        for path, kind in named.items()
    }


def _short(provider: str) -> str:
    return provider.removesuffix("ExecutionProvider") or "no provider is told"


def _notes(nodes: Sequence[NodeTime], graphs: Sequence[GraphRecord]) -> tuple[str, ...]:
    notes = []
    if not graphs:
        notes.append("dynamo found nothing to compile: all of it is Python")
    others = sorted({_short(node.provider) for node in nodes} - {_short(CPU), IN_TORCH})
    if others:
        notes.append(
            f"kernels of {', '.join(others)} run behind the host: their times are those of the host"
        )
    return tuple(notes)
